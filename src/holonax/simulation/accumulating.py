"""An observable at work on one chunk: segments of states go in, the summaries of its blocks of paths come out.

Sums depend on the order in which numbers are added up.  Here that order is fixed: values are gathered until a block of
ROWS times, counted from the start of the run, is full; paths are taken in blocks that the engine names, counted from
the first path; and what is compiled sees one such block of times and paths after another.  So the results have the same
bits however the paths are cut into chunks and the steps into segments, and wherever a run was interrupted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.engines import ROWS
from holonax.inputs.parameters import asked_for
from holonax.mechanics.closures import remembered
from holonax.observables import Observable, Readings, View
from holonax.simulation.segments import Segment

_alone = threading.Lock()  # for first calls: of all threads that need a program, one compiles it


@final
class Accumulator:
    """What an observable has gathered so far from one chunk of consecutive paths."""

    def __init__(self, observable: Observable, view: View, chunk: range, block: int) -> None:
        self.observable = replace(observable, every=None, after=0)  # `view` knows them, the programs need not
        self.view, self.chunk, self.block = view, chunk, block
        self.blocks = -(-len(chunk) // block)
        self.columns = block * max(2, self.blocks)  # XLA makes another program, with other last digits, of a single one
        self.position = 0  # on the grid
        self.values: np.ndarray | None = None  # of the block of times that is not full yet: (ROWS, paths, ...)
        self.carry: Any = None  # over time: of each block of paths
        self.pieces: list[Any] = []  # over the paths: their summaries (blocks, times, ...)
        self.began = False

    def add(self, segment: Segment) -> None:
        """Take what is on the grid."""
        rows = self.view.grid.rows(segment.numbers)
        while len(rows):
            slot, full = _place(self.position)
            part, rows = rows[: full - slot], rows[full - slot :]
            with nullcontext() if self.began else _alone:
                self._gather(segment, part, slot)
                self.position += len(part)
                if slot + len(part) == full:
                    self._take(full, segment.fate.failed_step)
            self.began = self.began or self.position > 1

    def summaries(self, failed_step: np.ndarray) -> list[Any]:
        """Of each block of paths, of all times so far; with the steps at which paths failed by now."""
        carry, pieces, values, position = self.carry, list(self.pieces), self.values, self.position
        with _alone:
            if rows := self.pending:
                self._take(rows, failed_step)
            if self.observable.over == "paths":
                all_times = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *self.pieces)
            else:
                all_times = jax.tree.map(np.asarray, _close(self.observable)(self.carry, self.blocks))
        self.carry, self.pieces, self.values, self.position = carry, pieces, values, position  # to go on from
        summaries = [jax.tree.map(lambda x, i=i: x[i], all_times) for i in range(self.blocks)]
        if self.observable.over == "time" and (last := len(self.chunk) % self.block):
            summaries[-1] = jax.tree.map(lambda x: x[:last], summaries[-1])  # without padding
        return summaries

    @property
    def pending(self) -> int:
        """Times that wait for their block to be full."""
        slot, full = _place(self.position)
        return slot if self.position and slot < full else 0

    # To be stored, and restored.

    def state(self) -> dict[str, np.ndarray]:
        """All that it takes to go on, as arrays by name."""
        state = {"position": np.array(self.position)}
        if (rows := self.pending) and self.values is not None:
            state["values"] = self.values[:rows]
        gathered = self.carry if not self.pieces else jax.tree.map(lambda *x: np.concatenate(x, axis=1), *self.pieces)
        return state | {f"gathered.{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(gathered))}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Be as one whose state that was."""
        self.position = int(state["position"])
        if "values" in state:
            self.values = np.zeros((ROWS, *state["values"].shape[1:]))
            self.values[: len(state["values"])] = state["values"]
        leaves = [state[f"gathered.{i}"] for i in range(len(state)) if f"gathered.{i}" in state]
        if leaves and self.observable.over == "paths":
            self.pieces = [jax.tree.unflatten(jax.tree.structure(self.observable.nothing((0,), ())), leaves)]
        elif leaves:
            self.carry = jax.tree.unflatten(jax.tree.structure(self.observable.begin(self.view, self.block)), leaves)

    # Blocks of times.

    def _gather(self, segment: Segment, rows: np.ndarray, slot: int) -> None:
        """Compute the values of these rows, each at its place in the block, so that it is always the same program."""
        index = np.full(ROWS, rows[0])
        index[slot : slot + len(rows)] = rows
        columns = np.resize(np.arange(segment.q.shape[1]), self.columns)
        q, p = (_selected(x, index, columns) for x in (segment.q, segment.p))
        asked = asked_for(self.observable.fn, segment.parameters)
        own = jax.tree.map(lambda x: _columns(x, columns), {name: segment.parameters[name] for name in asked})
        values = _evaluate(self.observable, self.block)(q, p, own, self.blocks)
        if len(rows) == ROWS:
            self.values = np.asarray(values)
            return
        if slot == 0 or self.values is None:
            self.values = np.zeros(values.shape, values.dtype)
        self.values[slot : slot + len(rows)] = np.asarray(values)[slot : slot + len(rows)]

    def _take(self, rows: int, failed_step: np.ndarray) -> None:
        """Add the block of times, of which so many are there, to what was gathered."""
        first = self.position - rows
        numbers = self.view.grid.first + (first + np.arange(ROWS)) * self.view.grid.stride
        failed = np.resize(failed_step, self.columns)
        inputs = _Inputs(self.values, failed, numbers, first, rows, self.chunk.start, len(self.chunk))
        if self.observable.over == "paths":
            summary = _summarise(self.observable, self.block)(inputs, self.blocks)
            self.pieces.append(jax.tree.map(lambda x: np.asarray(x)[:, :rows], summary))
        else:
            if self.carry is None:
                one = self.observable.begin(self.view, self.block)
                self.carry = jax.tree.map(
                    lambda x: np.repeat(np.asarray(x)[None], self.columns // self.block, axis=0), one
                )
            carry = _update(self.observable, self.block)(self.carry, inputs, self.blocks)
            self.carry = jax.block_until_ready(carry)  # or segments pile up


def _place(position: int) -> tuple[int, int]:
    """Place in its block of times, and the size of that: the start is one of its own, as it is a segment of its own."""
    return ((position - 1) % ROWS, ROWS) if position else (0, 1)


def _selected(states: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    """Rows and columns, copied only where they are not simply all."""
    whole = len(rows) == len(states) and rows[0] == 0 and rows[-1] == len(states) - 1 and (np.diff(rows) == 1).all()
    return _columns(states if whole else states[rows], columns, axis=1)


def _columns(x: Any, columns: np.ndarray, axis: int = 0) -> Any:
    return x if x.shape[axis] == len(columns) else x.take(columns, axis=axis)


class _Inputs(NamedTuple):
    """What the compiled programs are given of a block of times: rows that are there come first."""

    values: Any
    failed_step: Any  # (paths,)
    step: Any  # (rows,)
    position: Any  # of the first row on the grid
    rows: Any  # that are not padding
    first: Any  # index of the first path
    paths: Any  # that are not padding


def _readings(inputs: _Inputs, i: Array, block: int) -> Readings:
    """Those of one block of paths."""
    values, failed = _mine(inputs.values, i, block, 1), _mine(inputs.failed_step, i, block, 0)
    row, column = jnp.arange(values.shape[0]), i * block + jnp.arange(block)
    alive = (failed < 0) | (inputs.step[:, None] <= failed)
    counts = alive & (row < inputs.rows)[:, None] & (column < inputs.paths)
    counts = counts.reshape(counts.shape + (1,) * (values.ndim - 2))
    return Readings(values, counts, inputs.rows, inputs.position + row, inputs.step, inputs.first + column)


def _for_blocks(one: Callable[[Array], Any], blocks: Array, most: int) -> Any:
    """What a function makes of the number of a block, stacked, for as many blocks as there are.

    The last digits of sums depend on the program that XLA makes of them.  So it is to make the same of a block, however
    many there are: a loop whose length is not known when it is compiled, and barriers around what is done with a block.
    """
    shapes = jax.eval_shape(one, jnp.int32(0))
    start = jax.tree.map(lambda x: jnp.zeros((most, *x.shape), x.dtype), shapes)

    def body(i: Array, all_of: Any) -> Any:
        return jax.tree.map(lambda x, y: x.at[i].set(y), all_of, lax.optimization_barrier(one(i)))

    return lax.fori_loop(0, blocks, body, start)


def _mine(x: Array, i: Array, block: int, axis: int) -> Array:
    """The part of a block."""
    return lax.optimization_barrier(lax.dynamic_slice_in_dim(x, i * block, block, axis))


@remembered
def _evaluate(observable: Observable, block: int) -> Callable[..., Array]:
    def values(q: Array, p: Array, own: Mapping[str, Array], blocks: Array) -> Array:
        def one(i: Array) -> Array:
            mine = jax.tree.map(lambda x: _mine(x, i, block, 0), own)
            return observable.values(_mine(q, i, block, 1), _mine(p, i, block, 1), mine)

        found = jnp.moveaxis(_for_blocks(one, blocks, q.shape[1] // block), 0, 1)
        return found.reshape(found.shape[0], -1, *found.shape[3:])

    return jax.jit(values)


@remembered
def _summarise(observable: Observable, block: int) -> Callable[..., Any]:
    def summarise(inputs: _Inputs, blocks: Array) -> Any:
        most = inputs.values.shape[1] // block
        return _for_blocks(lambda i: observable.summarise(_readings(inputs, i, block)), blocks, most)

    return jax.jit(summarise)


@remembered
def _update(observable: Observable, block: int) -> Callable[..., Any]:
    def update(carry: Any, inputs: _Inputs, blocks: Array) -> Any:
        def one(i: Array) -> Any:
            own = lax.optimization_barrier(jax.tree.map(lambda x: x[i], carry))
            return observable.update(own, _readings(inputs, i, block))

        return _for_blocks(one, blocks, inputs.values.shape[1] // block)

    return jax.jit(update)


@remembered
def _close(observable: Observable) -> Callable[..., Any]:
    def close(carry: Any, blocks: Array) -> Any:
        most = len(jax.tree.leaves(carry)[0])

        def one(i: Array) -> Any:
            return observable.close(lax.optimization_barrier(jax.tree.map(lambda x: x[i], carry)))

        return _for_blocks(one, blocks, most)

    return jax.jit(close)
