"""What the engines on lanes share: a chunk is one array per entry of the track, all of length `paths`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import numpy as np

from holonax.compiler import Program
from holonax.compiler.ir.track import TrackLayout
from holonax.engines.base import Runner
from holonax.mechanics.system import State
from holonax.methods.path import Fate, begin


@final
@dataclass(frozen=True)
class Outline:
    """What a runner has to know of a program whose code it has; plain numbers, so that they can be kept with the code.

    Attributes:
        n: number of coordinates.
        outcomes: number of the method's outcomes.
        dtype: of the floating-point numbers.
        functions: number of functions of q that are carried after the track.
        changing: numbers of the carried values that a step changes.
        size: number of operations.
    """

    n: int
    outcomes: int
    dtype: str
    functions: int
    changing: list[int]
    size: int

    @staticmethod
    def of(program: Program) -> Outline:
        """Of a program that was made just now."""
        outcomes = len(program.track.fate.counts)
        return Outline(program.n, outcomes, program.dtype, len(program.functions), program.changing, program.size)

    @property
    def track(self) -> TrackLayout:
        """How the entries of a path are numbered."""
        return TrackLayout.of(self.n, self.outcomes)


class LaneRunner(Runner):
    """Arrays of numbers by the numbers that `outline.track` gives to the entries of a track."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.state, self.places_of_fate = outline.track

    def entries(
        self, states: State, parameters: Mapping[str, np.ndarray], fate: Fate | None = None
    ) -> list[np.ndarray]:
        """Entries of the track, of functions of q, and of parameters, in this order."""
        state = State(*(np.asarray(x, self.outline.dtype) for x in states))
        track = begin(state, len(self.places_of_fate.counts), fate)
        entries = [x for leaf in jax.tree.leaves(track) for x in (leaf.T if leaf.ndim == 2 else leaf[None])]
        unknown = np.broadcast_to(np.array(np.nan, self.outline.dtype), len(state.q))
        fixed = [x[:, *i] for _, x in sorted(parameters.items()) for i in np.ndindex(x.shape[1:])]
        return [*entries, *[unknown] * self.outline.functions, *fixed]

    def begin(self, states: State, parameters: Mapping[str, np.ndarray], fate: Fate | None = None) -> Any:
        """The entries, one array each."""
        return [np.array(x) for x in self.entries(states, parameters, fate)]

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
        if self.state.v[0] not in self.outline.changing:
            return None
        own = [carried[i].copy() if isinstance(carried[i], np.ndarray) else carried[i] for i in self.state.v]
        return partial(self._matrix, own)  # so that the others need not be kept

    def _matrix(self, arrays: list) -> np.ndarray:
        return np.stack(self.fetched(arrays), axis=1)

    def fetched(self, arrays: list) -> list[np.ndarray]:
        """Some of what is carried, as NumPy arrays of their own."""
        return [np.array(x) for x in jax.device_get(arrays)]

    def rows(self, paths: int, first: int, stop: int, stride: int) -> np.ndarray:
        """A buffer (rows, 2n, paths) for the q and p of a call."""
        shape = stop // stride - first // stride, 2 * self.outline.n, paths
        return np.empty(shape, self.outline.dtype)

    def split(self, rows: Any) -> tuple[Any, Any]:
        """Such a buffer as q and p of shape (rows, paths, n)."""
        n = self.outline.n
        return rows[:, :n].swapaxes(1, 2), rows[:, n:].swapaxes(1, 2)
