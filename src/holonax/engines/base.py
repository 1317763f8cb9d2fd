"""What an engine is: a way to run chunks of paths of one system with one method."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from holonax.compiler.passes.scheduled import Program
from holonax.mechanics.system import State
from holonax.methods.path import Fate, begin

ROWS = 64
"""Recorded states per path in one call into the engine."""


class Runner(ABC):
    """A compiled program.  Step numbers, seed, paths, h and stride are run-time values: one program serves them all.

    Attributes:
        chunk: paths per call, at most.
        grain: the number of paths in a call is a multiple of it; equal to `chunk` where it cannot vary.
        workers: how many calls may run at a time.
        name: of the engine.
        fallback: if another engine was meant, why it cannot serve.
    """

    name: str
    fallback: str | None = None
    chunk: int
    grain: int
    workers: int

    @abstractmethod
    def begin(self, states: State, parameters: Mapping[str, np.ndarray]) -> Any:
        """The paths of a chunk at their start, in whatever form the program carries them; parameters per path."""

    @abstractmethod
    def advance(
        self, carried: Any, paths: np.ndarray, seed: int, h: float, first: int, stop: int, stride: int, offset: int = 0
    ) -> tuple[Any, Any, Any]:
        """Take the steps `first`..`stop - 1`, recording q and p at every multiple of `stride` after `first`.

        The noise of step i is that with the number i + `offset`, as which a failing step is reported too.

        Returns what is carried on, and two arrays (rows, paths, n) whose first rows are the recorded ones, of which
        there are never more than ROWS; what follows has no meaning.
        """

    @abstractmethod
    def fate(self, carried: Any) -> Fate:
        """How the paths fared so far, as NumPy arrays."""

    @abstractmethod
    def places(self, carried: Any) -> tuple[np.ndarray, np.ndarray]:
        """Positions and momenta, as NumPy arrays (paths, n)."""

    @abstractmethod
    def velocities(self, carried: Any) -> Callable[[], np.ndarray] | None:
        """Where Newton's method would begin, to be fetched later, unless the program knows that by itself."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LaneRunner(Runner):
    """What the engines on lanes share: a chunk is one array per entry of the track, all of length `paths`."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def entries(self, states: State, parameters: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Entries of q, p, v, of the fate, field by field, of functions of q, and of parameters, in this order."""
        state = State(*(np.asarray(x, self.program.dtype) for x in states))
        track = begin(state, self.program.outcomes)
        entries = [x for leaf in jax.tree.leaves(track) for x in (leaf.T if leaf.ndim == 2 else leaf[None])]
        unknown = np.broadcast_to(np.array(np.nan, self.program.dtype), len(state.q))
        fixed = [x[:, *i] for _, x in sorted(parameters.items()) for i in np.ndindex(x.shape[1:])]
        return [*entries, *[unknown] * len(self.program.functions), *fixed]

    def begin(self, states: State, parameters: Mapping[str, np.ndarray]) -> list[Any]:
        """The entries, one array each."""
        return [np.array(x) for x in self.entries(states, parameters)]

    def fate(self, carried: list) -> Fate:
        """How the paths fared so far, as NumPy arrays."""
        first, outcomes = 3 * self.program.n, self.program.outcomes
        *single, _ = Fate._fields
        fate = self.fetched(carried[first : first + len(single) + outcomes])
        counts = np.array(fate[len(single) :], np.int32).reshape(outcomes, len(fate[0]))
        return Fate(*fate[: len(single)], counts.T)  # type: ignore[call-arg]

    def places(self, carried: list) -> tuple[np.ndarray, np.ndarray]:
        """Positions and momenta, as NumPy arrays (paths, n)."""
        return self._vectors(carried, 0), self._vectors(carried, self.program.n)

    def velocities(self, carried: list) -> Callable[[], np.ndarray] | None:
        """Where Newton's method would begin, to be fetched later, unless the program knows that by itself."""
        place = 2 * self.program.n
        if place not in self.program.changing:
            return None
        own = [x.copy() if isinstance(x, np.ndarray) else x for x in carried[place : place + self.program.n]]
        return partial(self._vectors, own, 0)  # so that the others need not be kept

    def _vectors(self, carried: list, place: int) -> np.ndarray:
        return np.stack(self.fetched(carried[place : place + self.program.n]), axis=1)

    def fetched(self, arrays: list) -> list[np.ndarray]:
        """Some of what is carried, as NumPy arrays of their own."""
        return [np.array(x) for x in jax.device_get(arrays)]

    def rows(self, module: Any, paths: int, first: int, stop: int, stride: int) -> Any:
        """A buffer (rows, 2n, paths) for the q and p of a call, made by NumPy or CuPy."""
        return module.empty((stop // stride - first // stride, 2 * self.program.n, paths), self.program.dtype)

    def split(self, rows: Any) -> tuple[Any, Any]:
        """Such a buffer as q and p of shape (rows, paths, n)."""
        n = self.program.n
        return rows[:, :n].swapaxes(1, 2), rows[:, n:].swapaxes(1, 2)
