"""What `simulate` returns, and how it tells of itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from holonax.errors import InputError, StoreError
from holonax.exports.formats import write_trajectory
from holonax.exports.trajectory import trajectory_of
from holonax.inputs.checks import at_least
from holonax.mechanics.closures import remembered
from holonax.mechanics.rank import is_near_singular, most_dependent
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.numerics.newton import Status
from holonax.report.numbers import how_many
from holonax.simulation.plan import Plan
from holonax.simulation.scenes import scene_of, series_of
from holonax.viewer.drawing import Drawing
from holonax.viewer.level_set import COARSE
from holonax.viewer.movie import make_movie
from holonax.viewer.overview import overview
from holonax.viewer.page import Page, make_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Ends(NamedTuple):
    """Where the paths are at the end, with what it takes to fetch their velocities, if the engine has any."""

    q: np.ndarray
    p: np.ndarray
    velocities: Callable[[], np.ndarray | None]


def _itself(v: np.ndarray | None) -> np.ndarray | None:
    return v


@final
@dataclass(frozen=True, repr=False)
class Run:
    """A simulated ensemble; `state` is where its paths are at the end.

    Attributes:
        t: times, shape (times,).
        q: positions, shape (paths, times, n); a path that failed stays where it was.
        p: momenta, likewise.
        status: per path, 0 if every step was solved, otherwise the `Status` of its first failure.
        failed_step: per path, the number of the step that failed (from 0), or -1.
        residual: per path, the largest residual left by Newton, or that of the failure.
        iterations: per path, the largest number of Newton iterations in a step.
        counts: per path, how often each outcome of the method came about, by name; empty for most methods.
        observed: results of the observables, by name.
        ends: what `state` is made of.
        system: the system, in words.
        method: the integrator.
        parameters: values of the system's parameters, by name; with a leading axis where each path has its own.
        h: step size.
        t1: end time.
        steps: number of steps.
        seed: seed of the noise.
        first_step: number that the first step has in the noise; 0 unless the run continues another.
        engine: what ran the paths: "llvm", "cuda", "xla", or "plain", which takes what the others cannot translate.
        reason: why that one.
        seconds: how long compiling and running took.
        t0: time at the start.
        over: what each observable was taken over, by name.
        model: the system itself; None where it is not known, as in a store whose system is in no catalogue.
        origin: how the system is found again, as text: `chain(beads=8)`, `file.py:name`; None if it is in no catalogue.
        observes_functions: of a run in a store: whether observables have functions that are no methods of the system.
        store: the folder that it is kept in; None if it is in memory.
        progress: of a run in a store: steps that each path has done; None in memory, where all are done.

    In a store, `q` and `p` are read when they are looked at (`LazyArray`); what is not there yet is NaN, and the status
    of a path that has not begun is -2.
    """

    t: np.ndarray
    q: np.ndarray
    p: np.ndarray
    status: np.ndarray
    failed_step: np.ndarray
    residual: np.ndarray
    iterations: np.ndarray
    counts: dict[str, np.ndarray]
    observed: dict[str, Any]
    ends: Ends
    system: str
    method: Method
    parameters: dict[str, np.ndarray]
    h: float
    t1: float
    steps: int
    seed: int
    first_step: int
    engine: str
    reason: str
    seconds: dict[str, float]
    t0: float
    over: dict[str, str]
    model: System | None
    origin: str | None
    observes_functions: bool = False
    store: Path | None = None
    progress: np.ndarray | None = None

    @cached_property
    def state(self) -> State:
        """Where the paths are at the end, to go on from: `simulate(system, method, run.state, t0=run.t1, ...)`."""
        if not self.complete:
            raise StoreError(f"the paths in {self.store} are not at their end yet; go on with {self.how_to_go_on}")
        return State(self.ends.q, self.ends.p, self.ends.velocities())

    @property
    def complete(self) -> bool:
        """Whether all paths are at their end."""
        return self.progress is None or bool((np.asarray(self.progress) >= self.steps).all())

    @property
    def units(self) -> Mapping[str, str]:
        """Of q, p and time, as far as its system says."""
        return {} if self.model is None else self.model.units

    @property
    def how_to_go_on(self) -> str:
        """What to call for a run that is not complete."""
        passed = "" if self.origin is not None and ".py:" not in self.origin else ", system=..."
        return f"hx.resume({str(self.store)!r}{passed}{', observe=...' if self.observes_functions else ''})"

    def to_xarray(self) -> Any:
        """As an `xarray.Dataset` with the dimensions `path`, `time` and `coordinate`; lazily, if it is in a store."""
        from holonax.simulation.exporting import dataset

        return dataset(self)

    def to_netcdf(self, file: str | PathLike[str]) -> None:
        """Write all of it into a file that every netCDF-4 reader understands."""
        from holonax.simulation.exporting import write_netcdf

        write_netcdf(self, file)

    def export(
        self,
        file: Any,
        *,
        path: int = 0,
        dimensions: int = 3,
        masses: Any = None,
        bonds: Any = None,
        box: Any = None,
        units: Any = None,
    ) -> None:
        """Write one path of a system of beads for other programs: `.h5md` or `.gsd`, by the end of the file's name.

        MDAnalysis and VMD open both, OVITO opens GSD.  A path that failed is written up to its failure.

        Args:
            file: name of the file; one that is there already is overwritten.
            path: number of the path.
            dimensions: coordinates of a bead, 3 or 2.
            masses: of all beads, or of each; if given, velocities p/m are written too.
            bonds: pairs of beads, for programs that draw them.
            box: edge of a periodic cube, or three edges.
            units: of H5MD, such as `{"length": "nm", "time": "ps"}`; GSD has none.
        """
        if at_least(0, "path", path, "paths are numbered from 0") >= len(self.status):
            raise InputError(f"path = {path}: the run has {len(self.status)} paths, numbered from 0")
        steps = self.steps + np.round((self.t - self.t1) / self.h).astype(np.int64)
        kept = steps <= (self.failed_step[path] if self.status[path] else self.steps)
        whole = (self.t, self.first_step + steps, np.asarray(self.q[path]), np.asarray(self.p[path]))
        options = {"dimensions": dimensions, "masses": masses, "bonds": bonds, "box": box, "units": units}
        write_trajectory(file, trajectory_of(*(x[kept] for x in whole), **options))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: velocities that may still be on a device are fetched, a system goes along if it can."""
        content = self.__dict__ | {"model": self.model if _can_be_pickled(self.model) else None}
        if self.store is None:
            q, p, v = self.state
            content |= {"ends": Ends(q, p, partial(_itself, v))}
        return content

    def view(
        self,
        file: str | PathLike[str] | None = None,
        *,
        drawing: Drawing | None = None,
        quantities: Mapping[str, Callable[..., Any]] | None = None,
        title: str | None = None,
    ) -> Page:
        """A page that plays the paths on their manifold: in a notebook, or as one HTML file that needs no network.

        Args:
            file: where to write the page; left out, it is only returned, and a notebook shows it.
            drawing: how to draw the system; left out, as the system says, or as its coordinates suggest.
            quantities: functions `fn(q, p)` by name, to colour and plot the paths by, beside the energy.
            title: of the page.
        """
        page = make_page(scene_of(self, drawing, quantities, title))
        if file is not None:
            page.save(file)
        return page

    def movie(self, file: str | PathLike[str], *, drawing: Drawing | None = None, title: str | None = None) -> None:
        """A film of the paths as a .gif or, with ffmpeg, as an .mp4; arguments as those of `view`."""
        make_movie(scene_of(self, drawing, title=title, cells=COARSE), file)

    def plot(self, quantities: Mapping[str, Callable[..., Any]] | None = None) -> Figure:
        """A quick look: time series with bands, a phase portrait, a histogram at the end; a figure of Matplotlib.

        Args:
            quantities: functions `fn(q, p)` by name whose time series are drawn; left out, the first coordinates.
        """
        return overview(series_of(self, quantities))

    def report(self, file: str | PathLike[str], *, drawing: Drawing | None = None, title: str | None = None) -> Path:
        """Write a page on the run: what came of it in words, figures, tables, and the viewer; one HTML file.

        `drawing` and `title` are those of `view`.
        """
        from holonax.simulation.reporting import write_report

        return write_report(self, file, drawing, title)

    def __repr__(self) -> str:
        paths, times, _ = self.q.shape
        failures = self.status[self.status > 0]
        failed = len(failures)
        worst = Status(int(np.bincount(failures).argmax())).name if failed else ""
        compiling, running = (self.seconds[part] for part in ("compiling", "running"))
        lines = [
            f"Run of {how_many(paths, 'path')}, {how_many(self.steps, 'step')} of h = {self.h:g} to t = {self.t1:g}; "
            f"{how_many(times, 'time')} kept",
            f"  system   {self.system}",
            f"  method   {self.method}",
            f"  noise    seed {self.seed}, steps from number {self.first_step} on",
            f"  engine   {self.engine}: {self.reason}; {compiling:.2g} s to compile, {running:.2g} s to run",
            f"  failed   {how_many(failed, 'path')}" + (f", mostly {worst}" if failed else ""),
            f"  Newton   residual up to {np.nanmax(self.residual, initial=0.0):.1e}, "
            f"up to {how_many(self.iterations.max(initial=0), 'iteration')} in a step",
        ]
        if self.store is not None:
            share = 1.0 if self.complete else float(np.mean(self.progress)) / self.steps  # type: ignore[arg-type]
            lines.append(f"  store    {self.store}: {share:.1%} done")
        if self.parameters:
            told = (
                f"{name} = {np.array2string(x, threshold=4) if isinstance(x, np.ndarray) else x}"
                for name, x in self.parameters.items()
            )
            lines.insert(2, f"  with     {', '.join(told)}")
        if self.counts:
            lines.append("  counts   " + ", ".join(f"{name} {int(x.sum())}" for name, x in self.counts.items()))
        if self.observed:
            lines.append(f"  observed {', '.join(self.observed)}")
        return "\n".join(lines)


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):  # functions defined in functions, closures
        return False
    return True


@remembered
def in_words(system: System, n: int) -> str:
    """Sizes of a system, and where its Lagrangian was written."""
    k, m = system.sizes(n)
    code = getattr(system.lagrangian, "__code__", None)
    name = getattr(system.lagrangian, "__qualname__", type(system.lagrangian).__name__)
    where = f", line {code.co_firstlineno} of {code.co_filename.rsplit('/', 1)[-1]}" if code else ""
    sizes = f"{how_many(n, 'coordinate')}, {how_many(k, 'constraint')}, {how_many(m, 'stochastic potential')}"
    return f"{sizes} (L is {name}{where})"


def describe_failures(plan: Plan, run: Run) -> str:
    """How many paths failed, the first of them, why, and what to do about it."""
    failed = np.flatnonzero(run.status > 0)
    path = failed[np.argmin(run.failed_step[failed])]
    step = run.failed_step[path]
    values = {name: x[0] for name, x in plan.values.of_paths(np.array([path]), 1).items()}
    own = plan.system.given({**plan.system.parameters, **values}).around(run.ends.q[path])
    where = ""
    if run.status[path] == Status.SINGULAR:
        where = f" ({most_dependent(own, run.ends.q[path])})"
    elif run.status[path] != Status.NON_FINITE and is_near_singular(own, run.ends.q[path]):
        where = f" ({most_dependent(own, run.ends.q[path])}; near a singular point a smaller h does not help)"
    if where and own.implied:
        where += (
            f"; {how_many(len(own.implied), 'constraint')} left out as redundant, chosen at the start: a run that "
            "begins near this point leaves out others, and redundant=(...) names them"
        )
    return (
        f"{len(failed)} of {len(run.status)} paths failed; first path {path} at step {step} "
        f"(t = {plan.t0 + step * run.h:.6g}), residual {run.residual[path]:.2e}, h = {run.h:g}: "
        f"{Status(run.status[path]).advice}{where}. "
        'on_failure="mark" returns the run with run.status instead of raising; it is also in .run of this error.'
    )
