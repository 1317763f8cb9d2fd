r"""Orders from errors: a straight line in log-log, the bias of the reference taken out, intervals by bootstrap.

Errors against a reference that is itself the method at $h_{ref}$ are not $C h^r$ but $C (h^r - h_{ref}^r)$ in the mean,
and $C \sqrt{h^{2r} - h_{ref}^{2r}}$ in root mean square, since the differences of successive levels are uncorrelated to
leading order.  Fitting a line to them overestimates $r$: with a reference only twice as fine as the finest level, by up
to $\log_2 3 - 1$.  Here the errors are first divided by that known factor, with the fitted $r$ itself, until $r$ stands
still.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BATCHES = 128
RESAMPLES = 1000
CONFIDENCE = (2.5, 97.5)
_SEED = 20_081


class Fit(NamedTuple):
    """A fitted order with its 95 % interval; NaN and an infinite interval where fewer than two levels are usable."""

    order: float
    interval: tuple[float, float]


def fitted_order(h: np.ndarray, errors: np.ndarray, h_ref: float, power: int) -> np.ndarray:
    """Order of errors of shape (..., levels).

    `power` says how the reference's own error enters: 0 not at all, 1 as in a mean, 2 as in a root mean square.
    """
    x = np.log(h)
    weight = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    order = np.log(errors) @ weight
    for _ in range(50 if power else 0):
        kept = 1.0 - (h_ref / h) ** (power * np.maximum(order, 0.05)[..., None])
        order = (np.log(errors) - np.log(kept) / power) @ weight
    return order


def batch_means(values: np.ndarray) -> np.ndarray:
    """Means of (levels, paths) over at most `BATCHES` groups of paths: (batches, levels)."""
    groups = np.array_split(values, min(BATCHES, values.shape[-1]), axis=-1)
    return np.stack([group.mean(axis=-1) for group in groups])


def resampled(batches: np.ndarray) -> np.ndarray:
    """Bootstrap means of (batches, levels): (resamples, levels)."""
    rng = np.random.default_rng(_SEED)
    picks = rng.integers(len(batches), size=(RESAMPLES, len(batches)))
    return batches[picks].mean(axis=1)


def fit(h: np.ndarray, errors: np.ndarray, samples: np.ndarray, h_ref: float, power: int) -> Fit:
    """Order of `errors` (levels,), with an interval from bootstrap `samples` of them (resamples, levels)."""
    if len(h) < 2:
        return Fit(float("nan"), (-float("inf"), float("inf")))
    order = float(fitted_order(h, errors, h_ref, power))
    low, high = np.percentile(fitted_order(h, np.maximum(samples, np.finfo(float).tiny), h_ref, power), CONFIDENCE)
    return Fit(order, (float(low), float(high)))
