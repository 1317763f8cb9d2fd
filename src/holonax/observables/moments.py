"""Mean, variance, skewness and kurtosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np

from holonax.observables.base import Observable
from holonax.observables.spread import none, shares, spread
from holonax.observables.view import Readings, View


@final
@dataclass(frozen=True)
class MomentsResult:
    """The first four moments of the values seen, each as it is: no correction for a small number of values.

    Attributes:
        t: over the paths, the times of the results; otherwise the first and the last time seen.
        mean: shape (times, ...), (paths, ...) or (...), as it is over the paths, over time, or over all.
        variance: mean squared deviation from the mean.
        skewness: mean cubed deviation in units of the standard deviation; 0 for a symmetric distribution.
        kurtosis: the excess: mean fourth power of the deviation in these units, less 3; 0 for a normal distribution.
        count: how many values there were.
    """

    t: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    skewness: np.ndarray
    kurtosis: np.ndarray
    count: np.ndarray


class _Sums(NamedTuple):
    number: Any
    mean: Any
    second: Any  # deviations from the mean to this power, summed
    third: Any
    fourth: Any


@final
@dataclass(frozen=True)
class Moments(Observable):
    r"""Mean, variance, skewness and excess kurtosis of `fn(q, p)`.

    Sums of powers of deviations, $M_j = \sum (x - \mu)^j$, combine without going through powers of x, whose
    differences would lose every digit where the mean is large.  Of two sets with means $\delta$ apart, a and b their
    shares of the n values, one expands $x - \mu = (x - \mu_a) - b\,\delta$ and $x - \mu = (x - \mu_b) + a\,\delta$
    (Pebay 2008):

    $$ M_3 = M_3^a + M_3^b + 3\delta (a M_2^b - b M_2^a) + n\,ab(a - b)\,\delta^3, $$
    $$ M_4 = M_4^a + M_4^b + 4\delta (a M_3^b - b M_3^a) + 6\delta^2 (a^2 M_2^b + b^2 M_2^a)
       + n\,ab(a^2 - ab + b^2)\,\delta^4. $$

    >>> import holonax as hx
    >>> entry = hx.systems.oscillator()
    >>> run = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=1.0, h=0.125, paths=4000, seed=0, save_every=None,
    ...                   observe={"q": hx.Moments(lambda q, p: q[0], over="paths")})
    >>> q = run.observed["q"]  # Gaussian at every time
    >>> bool(abs(q.variance[0] - entry.facts["var_q"](1.0)) < 0.01), bool(abs(q.kurtosis[0]) < 0.4)
    (True, True)
    """

    def nothing(self, lead: tuple[int, ...], shape: tuple[int, ...]) -> _Sums:
        """Zeros."""
        first = none(lead, shape)
        return _Sums(*first, first.squares, first.squares)

    def summarise(self, readings: Readings) -> _Sums:
        """Deviations from the mean of the block."""
        first = spread(readings, self.axes)
        apart = jnp.where(readings.counts, readings.values - jnp.expand_dims(first.mean, self.axes), 0)
        return _Sums(*first, *(jnp.sum(apart**power, axis=self.axes) for power in (3, 4)))

    def combine(self, one: _Sums, other: _Sums) -> _Sums:
        """The formulas above."""
        a, b = shares(one.number, other.number)
        number, apart = one.number + other.number, other.mean - one.mean
        both = number * a * b
        return _Sums(
            number,
            one.mean + b * apart,
            one.second + other.second + both * apart**2,
            one.third + other.third + 3 * apart * (a * other.second - b * one.second) + both * (a - b) * apart**3,
            one.fourth
            + other.fourth
            + 4 * apart * (a * other.third - b * one.third)
            + 6 * apart**2 * (a**2 * other.second + b**2 * one.second)
            + both * (a**2 - a * b + b**2) * apart**4,
        )

    def result(self, view: View, summary: _Sums) -> MomentsResult:
        """Nothing is known of no values; a constant has no skewness."""
        number = np.where(summary.number > 0, summary.number, np.nan)
        second, third, fourth = (x / number for x in summary[2:])
        with np.errstate(divide="ignore", invalid="ignore"):
            skewness, kurtosis = third / second**1.5, fourth / second**2 - 3
        mean = summary.mean + 0 * number
        return MomentsResult(self.times(view), mean, second, skewness, kurtosis, self.plain(summary.number))
