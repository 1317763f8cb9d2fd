"""Which steps of which paths an observable sees, and what it gets of them at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError


@final
@dataclass(frozen=True)
class Grid:
    """The steps at which something is seen: the multiples of `every` from `after` on; or, without it, the last one."""

    every: int | None
    steps: int
    after: int = 0

    @property
    def stride(self) -> int:
        """A number that divides every step number on the grid."""
        return self.every or self.steps

    @property
    def first(self) -> int:
        """The first step number on the grid."""
        return -(-self.after // self.stride) * self.stride if self.every else self.steps

    @property
    def last(self) -> int:
        """The last one."""
        return self.steps // self.stride * self.stride

    @property
    def times(self) -> int:
        """How many step numbers are on the grid."""
        return (self.last - self.first) // self.stride + 1

    @property
    def numbers(self) -> np.ndarray:
        """The step numbers, in order."""
        return np.arange(self.first, self.last + 1, self.stride)

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Which of these step numbers are on the grid, as indices into `numbers`."""
        return np.flatnonzero((numbers >= self.first) & (numbers % self.stride == 0))


@final
@dataclass(frozen=True)
class View:
    """What is known of a run before it begins: an observable sees `paths` paths, on a grid, from `t0` to `t1`.

    `shape` is that of the observed quantity.
    """

    grid: Grid
    paths: int
    t0: float
    t1: float
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        steps, every, after = self.grid.steps, self.grid.stride, self.grid.after
        if every > steps:
            raise InputError(f"every = {every}: must be an integer from 1 to the {steps} steps of the run")
        if after > steps or self.grid.times < 1:
            raise InputError(
                f"after = {after} leaves nothing to see of {steps} steps, every {every} of them; "
                "make after smaller or t1 larger"
            )

    def time(self, numbers: Any) -> Any:
        """The times of these steps."""
        return self.t0 + (self.t1 - self.t0) * (numbers / self.grid.steps)

    @property
    def span(self) -> np.ndarray:
        """The first and the last time seen."""
        return self.time(np.array([self.grid.first, self.grid.last]))


class Readings(NamedTuple):
    """A block of values of the observed quantity: rows for consecutive times on the grid, columns for paths.

    A block is as large as compiled programs want it: `counts` says which of the values are there to be seen, being
    neither padding nor of a path that has failed.
    """

    values: Array  # (rows, paths, *shape)
    counts: Array  # (rows, paths, 1, ...), as many axes as `values`
    rows: Array  # how many of the rows are not padding
    position: Array  # (rows,): how many times of the grid came before
    step: Array  # (rows,): step numbers
    path: Array  # (paths,): indices of the paths in the ensemble

    @property
    def kept(self) -> Array:
        """The values, with 0 for those that do not count: what is not a number there must not reach a sum."""
        return jnp.where(self.counts, self.values, 0)
