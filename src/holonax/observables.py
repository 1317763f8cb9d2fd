"""Averages that are taken while the paths run and need no stored trajectory.

An observable reduces a block of states to a small summary on the device; summaries of different paths merge
associatively, and the last one becomes the result.  A new observable is one subclass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError


@dataclass(frozen=True)
class Observable(ABC):
    """A quantity `fn(q, p)` of one state (number or array), seen at every `every`-th step, or at the saved times."""

    fn: Callable[[Array, Array], Array]
    every: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise InputError(f"fn = {self.fn!r} is not a function of (q, p)")
        if self.every is not None and self.every < 1:
            raise InputError(f"every = {self.every}: must be a positive number of steps, or None for the saved times")

    def values(self, q: Array, p: Array) -> Array:
        """`fn` of states with two leading axes, times and paths."""
        return jax.vmap(jax.vmap(lambda q, p: jnp.asarray(self.fn(q, p))))(q, p)

    @abstractmethod
    def reduce(self, q: Array, p: Array, alive: Array) -> Any:
        """Summary of a block of shape (times, paths, n); `alive` (times, paths) excludes paths that have failed."""

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """Summary of the paths of both."""

    @abstractmethod
    def result(self, t: np.ndarray, summary: Any) -> Any:
        """What the user sees."""


@final
@dataclass(frozen=True)
class MeanResult:
    """Mean over the paths at the times `t`, its standard error, and how many paths it is the mean of."""

    t: np.ndarray
    mean: np.ndarray
    stderr: np.ndarray
    count: np.ndarray


class _Sums(NamedTuple):
    number: Any
    mean: Any
    squares: Any


@final
@dataclass(frozen=True)
class Mean(Observable):
    r"""Mean over the paths of `fn(q, p)` at each time, with its standard error.

    By default at the times of `run.t`; `Mean(fn, every=j)` sees the start and every j-th step whatever is saved, so
    that `save_every=None` with `Mean(fn, every=1)` follows $E\,f(t)$ through every step without storing a path.  Paths
    that have failed are left out from then on: `count` says how many are in.

    >>> import holonax as hx
    >>> entry = hx.systems.oscillator()
    >>> run = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=1.0, h=0.125, paths=200, seed=0, save_every=None,
    ...                   observe={"energy": hx.Mean(entry.system.energy, every=4)})
    >>> run.q.shape, run.observed["energy"].t
    ((200, 1, 1), array([0. , 0.5, 1. ]))
    >>> bool(abs(run.observed["energy"].mean[-1] - 0.625) < 5 * run.observed["energy"].stderr[-1])
    True
    """

    def reduce(self, q: Array, p: Array, alive: Array) -> _Sums:
        """Count, mean and sum of squared deviations at each time."""
        values = self.values(q, p)
        weight = alive.reshape(alive.shape + (1,) * (values.ndim - 2))
        number = jnp.sum(weight, axis=1)
        mean = jnp.sum(jnp.where(weight, values, 0), axis=1) / jnp.maximum(number, 1)  # 0 of none, for merging
        squares = jnp.sum(jnp.where(weight, values - mean[:, None], 0) ** 2, axis=1)
        return _Sums(number, mean, squares)

    def merge(self, one: _Sums, other: _Sums) -> _Sums:
        """Chan, Golub and LeVeque's pairwise update."""
        number = one.number + other.number
        share = other.number / np.maximum(number, 1)
        apart = other.mean - one.mean
        return _Sums(number, one.mean + share * apart, one.squares + other.squares + apart**2 * one.number * share)

    def result(self, t: np.ndarray, summary: _Sums) -> MeanResult:
        """The standard error of a mean over fewer than two paths is unknown, hence infinite."""
        count = np.asarray(summary.number)
        known = count > 1
        variance = np.where(known, summary.squares / np.maximum(count - 1, 1), np.inf)
        stderr = np.sqrt(variance / np.maximum(count, 1))
        mean = np.where(count > 0, summary.mean, np.nan)  # `count` says that there is nothing to average
        return MeanResult(t, mean, stderr, count.reshape(len(t), -1)[:, 0])
