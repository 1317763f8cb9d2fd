"""What is kept of a running ensemble: states at the saved times, and summaries for the observables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.engines import ROWS
from holonax.inputs.parameters import asked_for
from holonax.mechanics.closures import remembered
from holonax.methods.path import Fate
from holonax.observables import Grid, Observable, Seen, View


class End(NamedTuple):
    """Where the paths of a chunk are, with what it takes to fetch their velocities."""

    q: np.ndarray | None
    p: np.ndarray | None
    v: Callable[[], np.ndarray] | None


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
    end: Callable[[bool], End]  # where the paths are; q and p only if they are not known from elsewhere
    parameters: Mapping[str, np.ndarray]  # of the paths
    paths: int

    @cached_property
    def fate(self) -> Fate:
        """How the paths fared; fetched only where it is asked for, before the chunk goes on."""
        return self.look()


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


_alone = threading.Lock()  # for first calls: of all threads that need a program, one compiles it


class Watch:
    """An observable at work on one chunk, the consecutive paths `index`."""

    def __init__(self, observable: Observable, view: View, index: np.ndarray) -> None:
        self.observable = replace(observable, every=None, after=0)  # `view` knows them, the programs need not
        self.view, self.index = view, index
        self.position = 0  # on the grid
        self.carry: Any = None
        self.pieces: list[Any] = []

    def see(self, block: Block) -> None:
        """Take what is on the grid; compiled once, since blocks are made to have as many rows as there can be."""
        rows = self.view.grid.rows(block.numbers)
        if not len(rows):
            return
        padded = np.resize(rows, ROWS)
        whole = len(rows) == ROWS == len(block.q)
        q, p = (x if whole else x[padded] for x in (block.q, block.p))
        failed, step = block.fate.failed_step, block.numbers[padded]
        own = {name: block.parameters[name] for name in asked_for(self.observable.fn, block.parameters)}
        look = _Look(q, p, own, failed, step, self.position, len(rows), int(self.index[0]), len(self.index))
        with nullcontext() if self.position else _alone:
            if self.observable.over == "paths":
                summary = _summarise(self.observable)(look)
                self.pieces.append(jax.tree.map(lambda x: np.asarray(x)[: len(rows)], summary))
            else:
                if self.carry is None:
                    self.carry = self.observable.begin(self.view, block.q.shape[1])
                self.carry = jax.block_until_ready(_update(self.observable)(self.carry, look))  # or blocks pile up
        self.position += len(rows)

    def summary(self) -> Any:
        """Of all that was seen: over the paths, joined in time; over time, of the real paths."""
        if self.observable.over == "paths":
            return jax.tree.map(lambda *x: np.concatenate(x), *self.pieces)
        with _alone:
            summary = jax.tree.map(np.asarray, _close(self.observable)(self.carry))
        return jax.tree.map(lambda x: x[: len(self.index)], summary) if self.observable.over == "time" else summary


class _Look(NamedTuple):
    """A block as observables see it: rows that are on the grid come first."""

    q: Any
    p: Any
    parameters: Any  # those that the observable asks for, (paths, ...)
    failed_step: Any  # (paths,)
    step: Any  # (rows,)
    position: Any  # of the first row on the grid
    rows: Any  # that are not padding
    first: Any  # index of the first path
    paths: Any  # that are not padding


def _seen(observable: Observable, look: _Look) -> Seen:
    values = observable.values(look.q, look.p, look.parameters)
    row, column = jnp.arange(values.shape[0]), jnp.arange(values.shape[1])
    alive = (look.failed_step < 0) | (look.step[:, None] <= look.failed_step)
    counts = alive & (row < look.rows)[:, None] & (column < look.paths)
    counts = counts.reshape(counts.shape + (1,) * (values.ndim - 2))
    return Seen(values, counts, look.rows, look.position + row, look.step, look.first + column)


@remembered
def _summarise(observable: Observable) -> Callable[[_Look], Any]:
    return jax.jit(lambda look: observable.summarise(_seen(observable, look)))


@remembered
def _update(observable: Observable) -> Callable[[Any, _Look], Any]:
    return jax.jit(lambda carry, look: observable.update(carry, _seen(observable, look)))


@remembered
def _close(observable: Observable) -> Callable[[Any], Any]:
    return jax.jit(lambda carry: observable.close(carry))  # of its own: a method would be known by its class
