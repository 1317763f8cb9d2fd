"""What the engines on lanes share: a chunk is one array per entry of the track, all of length `paths`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from holonax.compiler import Program
from holonax.engines.base import Runner
from holonax.mechanics.system import State
from holonax.methods.path import Fate, begin


class LaneRunner(Runner):
    """Arrays of numbers by the numbers that `program.track` gives to the entries of a track."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.state, self.places_of_fate = program.track

    def entries(self, states: State, parameters: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Entries of the track, of functions of q, and of parameters, in this order."""
        state = State(*(np.asarray(x, self.program.dtype) for x in states))
        track = begin(state, len(self.places_of_fate.counts))
        entries = [x for leaf in jax.tree.leaves(track) for x in (leaf.T if leaf.ndim == 2 else leaf[None])]
        unknown = np.broadcast_to(np.array(np.nan, self.program.dtype), len(state.q))
        fixed = [x[:, *i] for _, x in sorted(parameters.items()) for i in np.ndindex(x.shape[1:])]
        return [*entries, *[unknown] * len(self.program.functions), *fixed]

    def begin(self, states: State, parameters: Mapping[str, np.ndarray]) -> Any:
        """The entries, one array each."""
        return [np.array(x) for x in self.entries(states, parameters)]

    def fate(self, carried: Any) -> Fate:
        """How the paths fared so far, as NumPy arrays."""
        *single, counts = self.places_of_fate
        alone = self.fetched([carried[i] for (i,) in single])
        outcomes = np.array(self.fetched([carried[i] for i in counts]), np.int32).reshape(len(counts), len(alone[0]))
        return Fate(*alone, outcomes.T)  # type: ignore[call-arg]

    def places(self, carried: Any) -> tuple[np.ndarray, np.ndarray]:
        """Positions and momenta, as NumPy arrays (paths, n)."""
        q, p = (self._matrix([carried[i] for i in entries]) for entries in (self.state.q, self.state.p))
        return q, p

    def velocities(self, carried: Any) -> Callable[[], np.ndarray] | None:
        """Where Newton's method would begin, to be fetched later, unless the program knows that by itself."""
        if self.state.v[0] not in self.program.changing:
            return None
        own = [carried[i].copy() if isinstance(carried[i], np.ndarray) else carried[i] for i in self.state.v]
        return partial(self._matrix, own)  # so that the others need not be kept

    def _matrix(self, arrays: list) -> np.ndarray:
        return np.stack(self.fetched(arrays), axis=1)

    def fetched(self, arrays: list) -> list[np.ndarray]:
        """Some of what is carried, as NumPy arrays of their own."""
        return [np.array(x) for x in jax.device_get(arrays)]

    def rows(self, module: Any, paths: int, first: int, stop: int, stride: int) -> Any:
        """A buffer (rows, 2n, paths) for the q and p of a call, made by NumPy or CuPy."""
        shape = stop // stride - first // stride, len(self.program.recorded), paths
        return module.empty(shape, self.program.dtype)

    def split(self, rows: Any) -> tuple[Any, Any]:
        """Such a buffer as q and p of shape (rows, paths, n)."""
        n = self.program.n
        return rows[:, :n].swapaxes(1, 2), rows[:, n:].swapaxes(1, 2)
