"""Autocorrelation along the paths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.errors import InputError
from holonax.inputs.checks import at_least, memory
from holonax.observables.base import Observable, Over
from holonax.observables.spread import at_least_one, shares
from holonax.observables.view import Readings, View
from holonax.warn import warn

WINDOW = 5
"""Correlation times after which the sum of the autocorrelation is cut off."""

CHUNK = 4096
"""Paths that engines on a CPU run together, at most."""

SLOW = 1e11
"""Products from which on a run is warned of: two cores take ten minutes for them."""


@final
@dataclass(frozen=True)
class AutocorrelationResult:
    """Autocorrelation at the lags `t`.

    Attributes:
        t: lags as times, shape (lags + 1,), from 0 on.
        autocovariance: shape (paths, lags + 1, ...) over time, (lags + 1, ...) over all.
        autocorrelation: the same, divided by the variance, which is the autocovariance at lag 0.
        integrated_time: in units of time, shape (paths, ...) or (...); nan where the lags do not reach far enough.
        count: pairs of values at each lag, shape (paths, lags + 1) or (lags + 1,).
    """

    t: np.ndarray
    autocovariance: np.ndarray
    autocorrelation: np.ndarray
    integrated_time: np.ndarray
    count: np.ndarray


class _Pairs(NamedTuple):
    number: Any
    early: Any  # mean of the earlier values of the pairs
    late: Any
    product: Any  # deviations of the earlier from `early` times those of the later from `late`, summed


class _Carry(NamedTuple):
    values: Any  # (lags, paths, ...): the last ones before the block
    counts: Any
    pairs: _Pairs  # (lags + 1, ...)


@final
@dataclass(frozen=True)
class Autocorrelation(Observable):
    r"""Autocorrelation of `fn(q, p)` at the lags 0, 1, .., `lags`, in units of the steps seen, and its integral.

    With $\mu$ the mean of all values (over time: of those of the path) the autocovariance is

    $$ C_k = \frac{1}{n_k} \sum (x_i - \mu)(x_{i + k} - \mu) $$

    over the $n_k$ pairs of values of one path, k apart, and $\rho_k = C_k / C_0$.  The integrated autocorrelation time

    $$ \tau = \Delta t\,\Big(\tfrac12 + \sum_{k=1}^{M} \rho_k\Big) $$

    says how long a path takes to forget: the mean over a time T is as good as that of $T / 2\tau$ independent values.
    Beyond a few $\tau$ the sum gathers noise alone, so M is the first lag that reaches $5 \tau$, with the sum up to M
    itself (Sokal 1997).  If no lag does, the time is nan: take more lags, or a larger `every`.

    A pair is seen when its later value is; the last `lags` values of every path are all that is kept.

    >>> import holonax as hx
    >>> import numpy as np
    >>> entry = hx.systems.oscillator(sigma=0.0)
    >>> run = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=125.0, h=0.125, save_every=None,
    ...                   observe={"q": hx.Autocorrelation(lambda q, p: q[0], 25)})
    >>> q = run.observed["q"]
    >>> bool(np.abs(q.autocorrelation - np.cos(q.t)).max() < 0.02)
    True
    """

    lags: int
    meaningful: ClassVar[tuple[Over, ...]] = ("time", "all")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, "lags", self.lags, "must be a positive number of seen steps")

    def check(self, view: View) -> None:
        """The longest lag must have a pair, and all of them together must not take for ever."""
        if self.lags >= view.grid.times:
            raise InputError(
                f"lags = {self.lags}: only {view.grid.times} times are seen, so that lags can be "
                f"{view.grid.times - 1} at most; ask for fewer, or make t1 larger"
            )
        remedy = "ask for fewer lags, or see fewer steps with every="
        together = view.paths if self.over == "time" else min(view.paths, CHUNK)
        size = math.prod(view.shape)
        memory(f"lags = {self.lags} of {together} paths at a time", 8 * self.lags * together * size, remedy)
        if (products := self.lags * view.grid.times * view.paths * size) > SLOW:
            warn(f"lags = {self.lags} at {view.grid.times} times take {products:.1g} products; {remedy}")

    def nothing(self, lead: tuple[int, ...], shape: tuple[int, ...]) -> _Pairs:
        """Zeros."""
        zero = np.zeros((self.lags + 1, *lead, *shape))
        return _Pairs(np.zeros((self.lags + 1, *lead, *(1,) * len(shape)), int), zero, zero, zero)

    def begin(self, view: View, paths: int) -> _Carry:
        """Nothing before the first block."""
        values = np.zeros((self.lags, paths, *view.shape))
        counts = np.zeros((self.lags, paths, *(1,) * len(view.shape)), bool)
        return _Carry(values, counts, super().begin(view, paths))

    def update(self, carry: _Carry, readings: Readings) -> _Carry:
        """Pairs whose later value is in the block, and the last values."""
        values = jnp.concatenate([carry.values, readings.kept])
        counts = jnp.concatenate([carry.counts, readings.counts])
        rows = len(readings.values)

        def at(lag: Array) -> _Pairs:
            def earlier(x: Array) -> Array:
                return lax.dynamic_slice_in_dim(x, self.lags - lag, rows)

            both = readings.counts & earlier(counts)
            number = jnp.sum(both, axis=self.axes, keepdims=True)

            def centred(x: Array) -> tuple[Array, Array]:
                mean = jnp.sum(jnp.where(both, x, 0), axis=self.axes, keepdims=True) / at_least_one(number)
                return jnp.squeeze(mean, self.axes), jnp.where(both, x - mean, 0)

            (early, x), (late, y) = centred(earlier(values)), centred(readings.values)
            return _Pairs(jnp.squeeze(number, self.axes), early, late, jnp.sum(x * y, axis=self.axes))

        pairs = lax.map(at, jnp.arange(self.lags + 1))
        values, counts = (lax.dynamic_slice_in_dim(x, readings.rows, self.lags) for x in (values, counts))
        return _Carry(values, counts, self.combine(carry.pairs, pairs))

    def combine(self, one: _Pairs, other: _Pairs) -> _Pairs:
        """Products of deviations combine as squares of them do."""
        share = shares(one.number, other.number)[1]
        early, late = other.early - one.early, other.late - one.late
        return _Pairs(
            one.number + other.number,
            one.early + share * early,
            one.late + share * late,
            one.product + other.product + early * late * (one.number * share),
        )

    def close(self, carry: _Carry) -> _Pairs:
        """The pairs; over time, with the paths in front of the lags."""
        if self.over == "all":
            return carry.pairs
        return _Pairs(*(jnp.swapaxes(x, 0, 1) for x in carry.pairs))

    def result(self, view: View, summary: _Pairs) -> AutocorrelationResult:
        """From deviations from the means at each lag to deviations from the mean of all values, that at lag 0."""
        axis = 0 if self.over == "all" else 1
        number = np.where(summary.number > 0, summary.number, np.nan)
        mean = np.take(summary.early, [0], axis)
        covariance = summary.product / number + (summary.early - mean) * (summary.late - mean)
        with np.errstate(divide="ignore", invalid="ignore"):  # a constant has no correlation
            correlation = covariance / np.take(covariance, [0], axis)
        spacing = view.grid.stride * (view.t1 - view.t0) / view.grid.steps
        count = summary.number.reshape(summary.number.shape[: axis + 1])
        lag = np.arange(self.lags + 1)
        return AutocorrelationResult(
            lag * spacing, covariance, correlation, spacing * integrated(np.moveaxis(correlation, axis, -1)), count
        )


def integrated(correlation: np.ndarray) -> np.ndarray:
    """Sum of autocorrelations (last axis: lags from 0), half of the first, up to the first lag of WINDOW such sums."""
    sums = np.cumsum(correlation, axis=-1) - 0.5
    enough = np.arange(correlation.shape[-1]) >= WINDOW * sums
    first = np.argmax(enough, axis=-1, keepdims=True)
    return np.where(enough.any(axis=-1), np.take_along_axis(sums, first, axis=-1)[..., 0], np.nan)[()]
