r"""Number, mean and spread of values, and how they combine without cancellation.

With $\delta = \mu_b - \mu_a$ the squared deviations of two sets about their common mean are

$$ M = M_a + M_b + \delta^2\,\frac{n_a n_b}{n_a + n_b}, \qquad \mu = \mu_a + \frac{n_b}{n_a + n_b}\,\delta, $$

(Chan, Golub and LeVeque 1979): sums of positive terms, exact whatever the size of the mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from holonax.observables.view import Readings


class Spread(NamedTuple):
    """Of some values: how many, their mean (0 of none), and their squared deviations from it, summed."""

    number: Any
    mean: Any
    squares: Any


def none(lead: tuple[int, ...], shape: tuple[int, ...]) -> Spread:
    """Of no values; the number has axes of length 1 in place of those of a value."""
    zero = np.zeros(lead + shape)
    return Spread(np.zeros(lead + (1,) * len(shape), int), zero, zero)


def spread(readings: Readings, axes: tuple[int, ...]) -> Spread:
    """Of a block of values, over the given axes of (times, paths)."""
    number = jnp.sum(readings.counts, axis=axes, keepdims=True)
    mean = jnp.sum(readings.kept, axis=axes, keepdims=True) / at_least_one(number)
    squares = jnp.sum(jnp.where(readings.counts, readings.values - mean, 0) ** 2, axis=axes)
    return Spread(jnp.squeeze(number, axes), jnp.squeeze(mean, axes), squares)


def together(one: Spread, other: Spread) -> Spread:
    """Of the values of both."""
    share, apart = shares(one.number, other.number)[1], other.mean - one.mean
    squares = one.squares + other.squares + apart**2 * (one.number * share)
    return Spread(one.number + other.number, one.mean + share * apart, squares)


def shares(one: Any, other: Any) -> tuple[Any, Any]:
    """What part of all values each of two numbers is; 0 and 0 of none."""
    total = at_least_one(one + other)
    return one / total, other / total


def at_least_one(number: Any) -> Any:
    """A number to divide by, where nothing is divided by nothing; for NumPy's arrays and JAX's."""
    return number + (number == 0)
