"""`work_precision`: which method to use for a wanted error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from holonax.errors import InputError
from holonax.inputs.checks import positive
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.simulation.simulate import simulate
from holonax.studies.orders import strong_orders
from holonax.studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_REPEATS = 3
_SECONDS = 0.1  # a timed run lasts at least this long, so that starting it does not count


class Row(NamedTuple):
    """One method at one step size: strong error of q, and what a path cost."""

    method: str
    h: float
    error: float
    half_width: float
    steps: int
    seconds: float  # per path


@final
@dataclass(frozen=True)
class WorkPrecision:
    """Error against work for several methods on one noise; `studies` are the strong studies behind the errors."""

    methods: tuple[str, ...]
    rows: tuple[Row, ...]
    studies: tuple[Study, ...]

    def seconds_for(self, method: Method | str, error: float) -> float:
        """Time per path that `method` needs for a strong error of q.

        The number of steps follows from the line in log-log through its errors, extended beyond the levels if need be;
        a step costs what it does at the finest level, where a run is long against its overhead.
        """
        error = positive("error", error)
        rows = [row for row in self.rows if row.method == str(method)]
        if not rows:
            raise InputError(f"{method} is not in the study, which has {', '.join(self.methods)}")
        slope, offset = np.polyfit(np.log([row.error for row in rows]), np.log([row.steps for row in rows]), 1)
        return float(np.exp(offset + slope * np.log(error)) * rows[-1].seconds / rows[-1].steps)

    def times_cheaper(self, method: Method | str, than: Method | str, error: float) -> float:
        """How many times less time `method` needs than another for the same strong error."""
        return self.seconds_for(than, error) / self.seconds_for(method, error)

    def table(self) -> str:
        """All rows as text."""
        lines = [f"{'method':<38} {'h':>10} {'error of q':>12} {'steps':>8} {'ms per path':>12}"]
        for row in self.rows:
            cost = f"{row.steps:8d} {1e3 * row.seconds:12.4f}"
            lines.append(f"{row.method:<38} {row.h:10.3g} {row.error:12.3e} {cost}")
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Two panels: error against steps and against time per path."""
        from holonax.studies.figures import work_precision_figure

        return work_precision_figure(self)


def work_precision(
    system: System,
    methods: Sequence[Method],
    start: State,
    *,
    t1: float,
    h: Sequence[float],
    paths: int,
    seed: int = 0,
    reference: Method | None = None,
    refine: int = 16,
    progress: bool = True,
) -> WorkPrecision:
    """Strong error of q against path-steps and time, for several methods on one noise.

    The errors are those of `strong_order`; the times are medians of three runs of `simulate` on this machine, with as
    many paths as take a tenth of a second, compilation not counted.
    """
    options: dict[str, Any] = {"t1": t1, "seed": seed, "progress": progress}
    studies = strong_orders(system, methods, start, h=h, paths=paths, reference=reference, refine=refine, **options)
    rows = []
    for method, study in zip(methods, studies, strict=True):
        curve = study["q"]
        for size, error, width in zip(curve.h, curve.error, curve.half_width, strict=True):
            seconds = _seconds_per_path(partial(simulate, system, method, start, h=float(size), **options))
            rows.append(Row(str(method), float(size), float(error), float(width), round(t1 / size), seconds))
    return WorkPrecision(tuple(map(str, methods)), tuple(rows), tuple(studies))


def _seconds_per_path(run: Callable[..., Any]) -> float:
    def seconds(paths: int) -> float:
        begin = time.perf_counter()
        run(paths=paths, save_every=None)
        return time.perf_counter() - begin

    paths = 64
    seconds(paths)  # compiles
    while seconds(paths) < _SECONDS:
        paths *= 4
    return float(np.median([seconds(paths) for _ in range(_REPEATS)])) / paths
