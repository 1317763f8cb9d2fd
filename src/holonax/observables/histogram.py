"""Histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from holonax.errors import InputError, shown
from holonax.inputs.checks import real_numbers
from holonax.observables.base import Observable
from holonax.observables.view import Readings, View


@final
@dataclass(frozen=True)
class HistogramResult:
    """How often values fell where.

    Attributes:
        t: over the paths, the times of the histograms; otherwise the first and the last time seen.
        edges: of the bins, shape (bins + 1,); a bin holds its lower edge, the last one both.
        counts: values in each bin, shape (times, ..., bins), (paths, ..., bins) or (..., bins), as the histogram is
            taken over the paths, over time, or over all.
        below: values below the first edge.
        above: values above the last edge.
        undefined: values that are not numbers.
        count: all values, wherever they fell.
    """

    t: np.ndarray
    edges: np.ndarray
    counts: np.ndarray
    below: np.ndarray
    above: np.ndarray
    undefined: np.ndarray
    count: np.ndarray

    @property
    def density(self) -> np.ndarray:
        """Estimate of the probability density in each bin; what fell outside is missing from its integral."""
        total = self.counts.sum(axis=-1) + self.below + self.above + self.undefined
        with np.errstate(invalid="ignore"):  # of no values
            return self.counts / total[..., None] / np.diff(self.edges)


@final
@dataclass(frozen=True)
class Histogram(Observable):
    """Histogram of `fn(q, p)`, of every entry by itself if it is an array, with bins between the given edges.

    >>> import holonax as hx
    >>> import numpy as np
    >>> entry = hx.systems.pendulum()
    >>> run = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=1.0, h=0.125, paths=100, seed=0, save_every=None,
    ...                   observe={"height": hx.Histogram(lambda q, p: q[2], np.linspace(-1, 1, 5), after=1)})
    >>> height = run.observed["height"]
    >>> int(height.counts.sum()), height.density.shape, round(float(height.density.sum() * 0.5), 12)
    (800, (4,), 1.0)
    """

    edges: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        edges = real_numbers("edges", self.edges, "pass numbers that increase, such as np.linspace(-1, 1, 51)")
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all() or not np.isfinite(edges).all():
            raise InputError(
                f"edges = {shown(self.edges)}: must be two or more finite numbers that increase, such as "
                "np.linspace(-1, 1, 51) for 50 bins"
            )
        object.__setattr__(self, "edges", tuple(edges.tolist()))  # hashable

    def nothing(self, lead: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """Zeros: below, the bins, above, undefined."""
        return np.zeros((*lead, *shape, len(self.edges) + 2), int)

    def summarise(self, readings: Readings) -> Any:
        """Every value adds 1 in its place, or 0 if it does not count."""
        edges = jnp.asarray(self.edges)
        place = jnp.searchsorted(edges, readings.values, side="right")
        place = jnp.where(readings.values == edges[-1], len(edges) - 1, place)
        place = jnp.where(jnp.isnan(readings.values), len(edges) + 1, place)
        index = jnp.indices(place.shape, sparse=True)
        shape = [1 if axis in self.axes else size for axis, size in enumerate(place.shape)]
        where = [0 if axis in self.axes else x for axis, x in enumerate(index)]
        counts = jnp.zeros((*shape, len(edges) + 2), int).at[(*where, place)].add(readings.counts.astype(int))
        return jnp.squeeze(counts, self.axes)

    def combine(self, one: Any, other: Any) -> Any:
        """Counts add up."""
        return one + other

    def result(self, view: View, summary: np.ndarray) -> HistogramResult:
        """The places apart."""
        every = summary.sum(axis=-1)  # the same for all entries of a value
        count = every.reshape(*every.shape[: 0 if self.over == "all" else 1], -1)[..., 0]
        below, counts, above, undefined = (summary[..., 0], summary[..., 1:-2], summary[..., -2], summary[..., -1])
        return HistogramResult(self.times(view), np.array(self.edges), counts, below, above, undefined, count)
