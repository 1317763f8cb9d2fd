"""Means with a standard error that is honest under autocorrelation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from holonax.observables.base import Observable, Over
from holonax.observables.spread import Spread, at_least_one, none, spread, together
from holonax.observables.view import Readings, View

BATCHES = 32
"""Batches from which a standard error is estimated: it is then known to some 13 percent, 1 / sqrt(2 * 31)."""


@final
@dataclass(frozen=True)
class MeanResult:
    """A mean and how well it is known.

    Attributes:
        t: over the paths, the times of the means; otherwise the first and the last time seen.
        mean: shape (times, ...), (paths, ...) or (...), as it is over the paths, over time, or over all.
        stderr: its standard error; infinite where there is only one path, or one batch, to judge by.
        count: how many values it is the mean of.
        ess: effective sample size: so many independent values would have a mean as well known as this one.
    """

    t: np.ndarray
    mean: np.ndarray
    stderr: np.ndarray
    count: np.ndarray
    ess: np.ndarray


class _Summary(NamedTuple):
    values: Spread
    batches: Any  # batches that hold values
    between: Any  # squared deviations of the batches' means, each as often as it has values


class _Carry(NamedTuple):
    first: Any  # (batches,): position on the grid where each batch begins
    batches: Spread  # (batches, paths, ...)


@dataclass(frozen=True)
class Mean(Observable):
    r"""Mean of `fn(q, p)` with its standard error.

    By default over the paths, at the times of `run.t`; `Mean(fn, every=j)` sees the start and every j-th step whatever
    is saved, so that `save_every=None` with `Mean(fn, every=1)` follows $E\,f(t)$ through every step without storing a
    path.  Paths that have failed are left out from then on: `count` says how many are in.

    `over="time"` gives the mean along each path, and `over="all"` that of all paths and times together.  Successive
    values of a path are correlated, so that $\sigma/\sqrt n$ would be too small.  The values are therefore put into
    batches of consecutive times, long enough, one hopes, for their means to be independent.  If they are, and batch b
    of k holds $n_b$ of the $n$ values with the mean $m_b$, then $n_b\,\mathrm{var}(m_b)$ is the same number for all,

    $$ s^2 = \frac{1}{k - 1} \sum_b n_b (m_b - m)^2, \qquad \mathrm{stderr}^2 = s^2 / n. $$

    Along a path, the i-th of T times is in batch $\lfloor i B / T \rfloor$ with B = 32 (or T, if that is less).  Over
    all, P paths have $\lceil 32 / P \rceil$ batches each: from 32 paths on, each path is one batch, and since paths are
    independent the standard error is right however long the memory of a path; with fewer, T should be some hundreds
    of correlation times (`Autocorrelation` measures them).

    >>> import holonax as hx
    >>> entry = hx.systems.oscillator()
    >>> energy = entry.system.energy
    >>> run = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=1.0, h=0.125, paths=200, seed=0, save_every=None,
    ...                   observe={"at": hx.Mean(energy, every=4), "all": hx.Mean(energy, over="all")})
    >>> run.q.shape, run.observed["at"].t
    ((200, 1, 1), array([0. , 0.5, 1. ]))
    >>> bool(abs(run.observed["at"].mean[-1] - 0.625) < 5 * run.observed["at"].stderr[-1])
    True
    >>> bool(abs(run.observed["all"].mean - 0.5625) < 5 * run.observed["all"].stderr)
    True
    >>> int(run.observed["all"].count), bool(run.observed["all"].ess < 1800)
    (1800, True)
    """

    over: Over = field(default="paths", kw_only=True)

    def nothing(self, lead: tuple[int, ...], shape: tuple[int, ...]) -> _Summary:
        """No batches."""
        values = none(lead, shape)
        return _Summary(values, values.number, values.squares)

    def summarise(self, readings: Readings) -> _Summary:
        """Every value is a batch of its own, as it is over the paths at one time."""
        values = spread(readings, self.axes)
        return _Summary(values, values.number, values.squares)

    def combine(self, one: _Summary, other: _Summary) -> _Summary:
        """Means of batches combine as values do, counted as often as they have values."""
        batches = together(one.values._replace(squares=one.between), other.values._replace(squares=other.between))
        return _Summary(together(one.values, other.values), one.batches + other.batches, batches.squares)

    def begin(self, view: View, paths: int) -> _Carry:
        """Empty batches."""
        times = view.grid.times
        batches = min(times, BATCHES if self.over == "time" else -(-BATCHES // view.paths))
        first = -(-np.arange(batches) * times // batches)
        return _Carry(first, none((batches, paths), view.shape))

    def update(self, carry: _Carry, readings: Readings) -> _Carry:
        """Every row goes to its batch."""
        batches = len(carry.first)
        batch = jnp.sum(readings.position[:, None] >= carry.first, axis=1) - 1

        def gather(x: Any) -> Any:
            return jax.ops.segment_sum(x, batch, num_segments=batches)

        number = gather(readings.counts.astype(int))
        mean = gather(readings.kept) / at_least_one(number)
        squares = gather(jnp.where(readings.counts, readings.values - mean[batch], 0) ** 2)
        return carry._replace(batches=together(carry.batches, Spread(number, mean, squares)))

    def close(self, carry: _Carry) -> _Summary:
        """What is within batches and what is between them; together they are the spread of the values."""
        number, mean, within = carry.batches
        axes = (0,) if self.over == "time" else (0, 1)
        total = jnp.sum(number, axis=axes)
        common = jnp.sum(number * mean, axis=axes) / at_least_one(total)
        between = jnp.sum(number * (mean - common) ** 2, axis=axes)
        return _Summary(
            Spread(total, common, jnp.sum(within, axis=axes) + between), jnp.sum(number > 0, axis=axes), between
        )

    def result(self, view: View, summary: _Summary) -> MeanResult:
        """What cannot be known from fewer than two batches has an infinite error."""
        (number, mean, squares), batches, between = summary
        known = batches > 1
        error = np.where(known, between / np.maximum(batches - 1, 1) / at_least_one(number), np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):  # of a constant
            ess = np.where(known, squares / at_least_one(number - 1) / error, np.nan)
        mean = np.where(number > 0, mean, np.nan)  # `count` says that there is nothing to average
        return MeanResult(self.times(view), mean[()], np.sqrt(error)[()], self.plain(number), ess[()])
