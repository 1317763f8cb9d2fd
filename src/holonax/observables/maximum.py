"""The largest value, and where it was attained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from holonax.observables.base import Observable
from holonax.observables.view import Readings, View

NOWHERE = np.iinfo(np.int32).max
"""Later than any step, so that whatever is seen comes before it."""


@final
@dataclass(frozen=True)
class MaxResult:
    """The largest value; of several equal ones the earliest, and of these the one of the path with the lowest index.

    Attributes:
        max: shape (times, ...), (paths, ...) or (...), as it is over the paths, over time, or over all.
        t: when it was attained; over the paths, the times.
        path: index of the path that attained it.
        count: how many values there were.
    """

    max: np.ndarray
    t: np.ndarray
    path: np.ndarray
    count: np.ndarray


class _Place(NamedTuple):
    number: Any
    value: Any
    step: Any
    path: Any


@final
@dataclass(frozen=True)
class Max(Observable):
    """The largest value of `fn(q, p)`, of every entry by itself if it is an array, with the time and the path of it.

    >>> import holonax as hx
    >>> entry = hx.systems.pendulum()
    >>> run = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=1.0, h=0.125, paths=100, seed=0,
    ...                   observe={"height": hx.Max(lambda q, p: q[2])})
    >>> height = run.observed["height"]
    >>> bool(height.max == run.q[..., 2].max() == run.q[height.path, run.t == height.t, 2])
    True
    """

    def nothing(self, lead: tuple[int, ...], shape: tuple[int, ...]) -> _Place:
        """Less than anything, and nowhere."""
        full = lead + shape
        place = np.full(full, NOWHERE, int)
        return _Place(np.zeros(lead + (1,) * len(shape), int), np.full(full, -np.inf), place, place)

    def summarise(self, readings: Readings) -> _Place:
        """The largest, then the earliest of these, then the lowest path of those; what is not a number is largest."""
        trailing = (1,) * (readings.values.ndim - 2)
        steps, paths = readings.step.reshape(-1, 1, *trailing), readings.path.reshape(1, -1, *trailing)
        value = jnp.max(jnp.where(readings.counts, readings.values, -jnp.inf), axis=self.axes, keepdims=True)
        best = readings.counts & ((readings.values == value) | jnp.isnan(readings.values))
        step = jnp.min(jnp.where(best, steps, NOWHERE), axis=self.axes, keepdims=True)
        path = jnp.min(jnp.where(best & (steps == step), paths, NOWHERE), axis=self.axes)
        number = jnp.sum(readings.counts, axis=self.axes)
        return _Place(number, jnp.squeeze(value, self.axes), jnp.squeeze(step, self.axes), path)

    def combine(self, one: _Place, other: _Place) -> _Place:
        """The same choice between two."""
        module: Any = jnp if isinstance(one.value, jax.Array) else np
        defined, also = ~module.isnan(one.value), ~module.isnan(other.value)
        larger = (other.value > one.value) | (defined & ~also)
        equal = (other.value == one.value) | ~(defined | also)
        before = (other.step < one.step) | ((other.step == one.step) & (other.path < one.path))
        chosen = larger | (equal & before)
        return _Place(
            one.number + other.number, *(module.where(chosen, y, x) for x, y in zip(one[1:], other[1:], strict=True))
        )

    def result(self, view: View, summary: _Place) -> MaxResult:
        """Of no values there is no largest."""
        number, value, step, path = summary
        t = self.times(view) if self.over == "paths" else np.where(number > 0, view.time(step), np.nan)[()]
        value, path = np.where(number > 0, value, np.nan)[()], np.where(number > 0, path, -1)[()]
        return MaxResult(value, t, path, self.plain(number))
