"""The arrays of a stored run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from holonax.methods.path import Fate
from holonax.simulation.plan import Plan
from holonax.store.arrays import Variable

NOT_YET = -2
"""Status of a path of which nothing is known yet."""

_COORDINATES = 2**16  # entries in a file
_WORDS = {
    "q": "positions",
    "p": "momenta",
    "status": "0 if every step was solved, otherwise the number of the first failure (holonax.Status); -2: not run yet",
    "failed_step": "number of the step that failed, or -1",
    "residual": "largest residual left by Newton, or that of the failure",
    "iterations": "largest number of Newton iterations in a step",
    "done": "steps that are done and safe on the disk",
    "path": "number of the path, which with the seed determines its noise",
    "time": "time",
    "coordinate": "number of the coordinate",
}


@final
@dataclass(frozen=True)
class Shapes:
    """Shapes of a stored run and of its files.

    Attributes:
        paths: number of paths.
        times: number of saved times.
        n: number of coordinates.
        dtype: type of positions and momenta.
        outcomes: what the method counts.
        chunk: paths of a chunk.
        span: saved times of a file.
        units: of q, p and time, where they are known.
    """

    paths: int
    times: int
    n: int
    dtype: str
    outcomes: tuple[str, ...]
    chunk: int
    span: int
    units: Mapping[str, str]

    @staticmethod
    def of(plan: Plan, chunk: int, span: int) -> Shapes:
        """For a plan."""
        outcomes, units = plan.method.outcomes, plan.system.units
        return Shapes(plan.paths, plan.grid.times, plan.n, plan.dtype, outcomes, chunk, span, units)

    @property
    def chunks(self) -> int:
        """Number of chunks of paths."""
        return -(-self.paths // self.chunk)

    def paths_of(self, index: int) -> range:
        """The paths of a chunk."""
        return range(index * self.chunk, min((index + 1) * self.chunk, self.paths))

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The arrays by name."""
        states = ("path", "time", "coordinate")
        shape, files = (self.paths, self.times, self.n), (self.chunk, self.span, self.n)
        found = [Variable(name, states, shape, files, self.dtype, math.nan, self._words(name)) for name in ("q", "p")]
        for name, dtype, fill in self._of_paths():
            found.append(Variable(name, ("path",), (self.paths,), (self.chunk,), dtype, fill, self._words(name)))
        for name, size, dtype, fill in (
            ("path", self.paths, "int64", -1.0), ("time", self.times, "float64", math.nan),
            ("coordinate", self.n, "int64", -1.0),
        ):  # fmt: skip
            found.append(Variable(name, (name,), (size,), (_COORDINATES,), dtype, fill, self._words(name)))
        return {variable.name: variable for variable in found}

    def _words(self, name: str) -> Mapping[str, str]:
        return words_of(name, self.units)

    def _of_paths(self) -> list[tuple[str, str, float]]:
        counts = [(f"counts_{name}", "int32", -1.0) for name in self.outcomes]
        known = [
            ("status", "int32", NOT_YET), ("failed_step", "int32", -1), ("residual", self.dtype, math.nan),
            ("iterations", "int32", -1), ("done", "int64", 0),
        ]  # fmt: skip
        return known + counts

    def write_coordinates(self, store: Path, times: np.ndarray) -> None:
        """Write what the axes mean."""
        for name, values in (("path", np.arange(self.paths)), ("time", times), ("coordinate", np.arange(self.n))):
            for k, first in enumerate(range(0, len(values), _COORDINATES)):
                self.variables[name].write(store, (k,), values[first : first + _COORDINATES])

    def write_fate(self, store: Path, index: int, fate: Fate, done: int) -> None:
        """Write how the paths of a chunk fared, which their record says as well."""
        values: dict[str, Any] = fate._asdict() | {"done": np.full(len(fate.status), done)}
        counts = values.pop("counts")
        values |= {f"counts_{name}": column for name, column in zip(self.outcomes, counts.T, strict=True)}
        for name, column in values.items():
            self.variables[name].write(store, (index,), column, durable=False)


def words_of(name: str, units: Mapping[str, str]) -> Mapping[str, str]:
    """What an array is, for its attributes."""
    if name.startswith("counts_"):
        return {"long_name": f"how often {name.removeprefix('counts_')} came about"}
    unit = {"units": units[name]} if name in units else {}
    return {"long_name": _WORDS[name]} | unit if name in _WORDS else {}
