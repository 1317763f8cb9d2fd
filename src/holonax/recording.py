"""What is kept of a running ensemble: states at the saved times, and summaries for the observables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, final

import jax
import numpy as np
from jax import Array

from holonax.engines import ROWS
from holonax.observables import Observable
from holonax.path import Fate


@final
@dataclass(frozen=True)
class Grid:
    """The steps at which something is seen: 0, every, 2 every, ...; or, with `every=None`, the last one alone."""

    every: int | None
    steps: int

    @property
    def stride(self) -> int:
        """A number that divides every step number on the grid."""
        return self.every or self.steps

    @property
    def numbers(self) -> np.ndarray:
        """The step numbers, in order."""
        return np.array([self.steps]) if self.every is None else np.arange(0, self.steps + 1, self.every)

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Which of these step numbers are on the grid, as indices into `numbers`."""
        return np.flatnonzero(numbers == self.steps if self.every is None else numbers % self.every == 0)


@final
@dataclass(frozen=True)
class Block:
    """A chunk after `done` steps, with its states (rows, paths, n) at the step `numbers`.

    Rows and paths beyond the real ones are padding.
    """

    done: int
    numbers: np.ndarray
    q: Array
    p: Array
    look: Callable[[], Fate]
    paths: int

    @cached_property
    def fate(self) -> Fate:
        """How the paths fared; fetched only where it is asked for, before the chunk goes on."""
        return self.look()

    @property
    def alive(self) -> np.ndarray:
        """(rows, paths): whether the state is that of a real path that had not failed by then."""
        number = np.zeros(self.q.shape[0], int)
        number[: len(self.numbers)] = self.numbers
        failed = self.fate.failed_step
        alive = (failed < 0) | (number[:, None] <= failed)
        return alive & (np.arange(self.q.shape[1]) < self.paths)


class Recorder:
    """Saved states of all paths, in arrays of shape (paths, times, n)."""

    def __init__(self, grid: Grid, paths: int, n: int, dtype: np.dtype) -> None:
        self.grid = grid
        self.q = np.empty((paths, len(grid.numbers), n), dtype)
        self.p = np.empty_like(self.q)

    def see(self, index: np.ndarray, block: Block, column: int) -> int:
        """Store what is on the grid, from `column` on, for the consecutive paths `index`; the next column."""
        rows = self.grid.rows(block.numbers)
        columns = slice(column, column + len(rows))
        for kept, states in ((self.q, block.q), (self.p, block.p)):
            seen = np.asarray(states)[rows, : block.paths]
            kept[index[0] : index[-1] + 1, columns] = seen.swapaxes(0, 1)
        return columns.stop


class Watch:
    """An observable at work on one chunk."""

    def __init__(self, observable: Observable, grid: Grid) -> None:
        self.observable, self.grid = observable, grid
        self.pieces: list[Any] = []

    def see(self, block: Block) -> None:
        """Reduce a block on the device and keep the rows that are on the grid."""
        rows = self.grid.rows(block.numbers)
        if len(rows):
            q, p, alive = (_padded(x) for x in (block.q, block.p, block.alive))
            summary = _reduce(self.observable, q, p, alive)
            self.pieces.append(jax.tree.map(lambda x: np.asarray(x)[rows], summary))

    def summary(self) -> Any:
        """The pieces, joined in time."""
        return jax.tree.map(lambda *x: np.concatenate(x), *self.pieces)


def _padded(states: Any) -> Any:
    """As many rows as an engine ever returns, so that observables compile once."""
    return states if len(states) == ROWS else np.resize(states, (ROWS, *states.shape[1:]))


@partial(jax.jit, static_argnums=0)
def _reduce(observable: Observable, q: Array, p: Array, alive: Array) -> Any:
    return observable.reduce(q, p, alive)
