"""An observable at work on one chunk: segments of states go in, the summary of all of them comes out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from holonax.engines import ROWS
from holonax.inputs.parameters import asked_for
from holonax.mechanics.closures import remembered
from holonax.observables import Observable, Readings, View
from holonax.simulation.segments import Segment

_alone = threading.Lock()  # for first calls: of all threads that need a program, one compiles it


@final
class Accumulator:
    """What an observable has gathered so far from one chunk of consecutive paths."""

    def __init__(self, observable: Observable, view: View, chunk: range) -> None:
        self.observable = replace(observable, every=None, after=0)  # `view` knows them, the programs need not
        self.view, self.chunk = view, chunk
        self.position = 0  # on the grid
        self.carry: Any = None
        self.pieces: list[Any] = []

    def add(self, segment: Segment) -> None:
        """Take what is on the grid; compiled once, since every segment is made to have as many rows as there can be."""
        rows = self.view.grid.rows(segment.numbers)
        if not len(rows):
            return
        inputs = self._inputs(segment, rows)
        with nullcontext() if self.position else _alone:
            if self.observable.over == "paths":
                summary = _summarise(self.observable)(inputs)
                self.pieces.append(jax.tree.map(lambda x: np.asarray(x)[: len(rows)], summary))
            else:
                if self.carry is None:
                    self.carry = self.observable.begin(self.view, segment.q.shape[1])
                carry = _update(self.observable)(self.carry, inputs)
                self.carry = jax.block_until_ready(carry)  # or segments pile up
        self.position += len(rows)

    def summary(self) -> Any:
        """Of all segments: over the paths, joined in time; over time, of the paths that are not padding."""
        if self.observable.over == "paths":
            return jax.tree.map(lambda *x: np.concatenate(x), *self.pieces)
        with _alone:
            summary = jax.tree.map(np.asarray, _close(self.observable)(self.carry))
        return jax.tree.map(lambda x: x[: len(self.chunk)], summary) if self.observable.over == "time" else summary

    def _inputs(self, segment: Segment, rows: np.ndarray) -> _Inputs:
        padded = np.resize(rows, ROWS)
        whole = len(rows) == ROWS == len(segment.q)
        q, p = (x if whole else x[padded] for x in (segment.q, segment.p))
        own = {name: segment.parameters[name] for name in asked_for(self.observable.fn, segment.parameters)}
        failed, step = segment.fate.failed_step, segment.numbers[padded]
        return _Inputs(q, p, own, failed, step, self.position, len(rows), self.chunk.start, len(self.chunk))


class _Inputs(NamedTuple):
    """What the compiled programs are given of a segment: rows that are on the grid come first."""

    q: Any
    p: Any
    parameters: Any  # those that the observable asks for, (paths, ...)
    failed_step: Any  # (paths,)
    step: Any  # (rows,)
    position: Any  # of the first row on the grid
    rows: Any  # that are not padding
    first: Any  # index of the first path
    paths: Any  # that are not padding


def _readings(observable: Observable, inputs: _Inputs) -> Readings:
    values = observable.values(inputs.q, inputs.p, inputs.parameters)
    row, column = jnp.arange(values.shape[0]), jnp.arange(values.shape[1])
    alive = (inputs.failed_step < 0) | (inputs.step[:, None] <= inputs.failed_step)
    counts = alive & (row < inputs.rows)[:, None] & (column < inputs.paths)
    counts = counts.reshape(counts.shape + (1,) * (values.ndim - 2))
    return Readings(values, counts, inputs.rows, inputs.position + row, inputs.step, inputs.first + column)


@remembered
def _summarise(observable: Observable) -> Callable[[_Inputs], Any]:
    return jax.jit(lambda inputs: observable.summarise(_readings(observable, inputs)))


@remembered
def _update(observable: Observable) -> Callable[[Any, _Inputs], Any]:
    return jax.jit(lambda carry, inputs: observable.update(carry, _readings(observable, inputs)))


@remembered
def _close(observable: Observable) -> Callable[[Any], Any]:
    return jax.jit(lambda carry: observable.close(carry))  # of its own: a method would be known by its class
