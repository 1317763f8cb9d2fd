"""What an engine is: a way to run chunks of paths of one system with one method."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from holonax.mechanics.system import State
from holonax.methods.path import Fate

ROWS = 64
"""Recorded states per path in one call into the engine."""


class Runner(ABC):
    """A compiled program.  Step numbers, seed, paths, h and stride are run-time values: one program serves them all.

    Attributes:
        chunk: paths per call, at most.
        grain: the number of paths in a call is a multiple of it; equal to `chunk` where it cannot vary.
        workers: how many calls may run at a time.
        least: the number of paths from which on a call of their own is worth its while.
        tapered: whether chunks should become smaller towards the end of a run, because each is to be stored after it.
        name: of the engine.
        fallback: if another engine was meant, why it cannot serve.
        how: what is to be said of the way in which it runs.
        sparse: whether that is the right way all the same, because equations are large and sparse.
    """

    name: str
    fallback: str | None = None
    how: str | None = None
    sparse: bool = False
    chunk: int
    grain: int
    workers: int
    least: int = 1
    tapered: bool = False

    @cached_property
    def quick(self) -> dict[int, int]:
        """By the number of paths: steps in a call that is known to take a fraction of a second."""
        return {}

    @property
    def block(self) -> int:
        """Paths that are observed together: sums over paths are sums over such blocks, however paths are cut."""
        return self.grain

    def beside(self, chunks: int) -> Runner:
        """The same program where so many chunks run at a time: if that leaves cores idle, they may share a chunk."""
        return self

    @abstractmethod
    def begin(self, states: State, parameters: Mapping[str, Any], fate: Fate | None = None) -> Any:
        """The paths of a chunk in whatever form the program carries them; parameters per path.

        They are at their start, or on their way, having fared so far as `fate` says.
        """

    def renewed(self, carried: Any, parameters: Mapping[str, Any]) -> Any:
        """The same with other values of some parameters, of engines that take those that are made for states."""
        raise NotImplementedError

    @abstractmethod
    def advance(
        self, carried: Any, paths: range, seed: int, h: float, first: int, stop: int, stride: int, offset: int = 0
    ) -> tuple[Any, Any, Any]:
        """Take the steps `first`..`stop - 1`, recording q and p at every multiple of `stride` after `first`.

        `paths` are the numbers of the paths; where more than these are carried, the others repeat them from the first.
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


def path_numbers(paths: range, size: int) -> np.ndarray:
    """The numbers of so many paths that are carried."""
    return repeated(np.arange(paths.start, paths.stop, dtype=np.uint64), size)


def repeated(index: np.ndarray, size: int) -> np.ndarray:
    """The same from the first on again, until there are so many."""
    return index if len(index) == size else np.resize(index, size)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
