"""A figure for the quick look at a run: how quantities go, a phase portrait, where they are at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holonax.report.style import COLOURS, INK, house, label_ends, panels
from holonax.viewer.page import BAND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LINES = 40
"""Paths in a phase portrait."""


class Series(NamedTuple):
    """Some or all states of a run: times, positions and momenta (paths, times, n), quantities (paths, times)."""

    t: np.ndarray
    q: np.ndarray
    p: np.ndarray
    quantities: Mapping[str, np.ndarray]
    title: str
    units: Mapping[str, str]
    some: bool  # whether the quantities are some of the coordinates, and there are more

    def label(self, what: str, name: str) -> str:
        """A name for an axis, with the unit of what is on it if that is known."""
        return f"{name} ({self.units[what]})" if what in self.units else name


def overview(series: Series) -> Figure:
    """Three panels: means and bands over time, (q, p) of the coordinate that moves most, a histogram of the end."""
    with house():
        figure, (over_time, portrait, last) = panels(3, width=4.2, height=3.4)
        figure.suptitle(series.title, x=0.01, ha="left", fontsize=11)
        _bands(over_time, series)
        _portrait(portrait, series)
        _histogram(last, series)
    return figure


def _bands(axis: Any, series: Series) -> None:
    ends = []
    for (name, values), colour in zip(series.quantities.items(), COLOURS, strict=False):
        low, middle, high = _quantiles(values)
        if len(series.t) > 1:
            axis.fill_between(series.t, low, high, color=colour, alpha=0.15, linewidth=0)
            axis.plot(series.t, middle, color=colour)
        else:
            axis.errorbar(series.t, middle, [middle - low, high - middle], color=colour, marker="o", capsize=3)
        ends.append((float(series.t[-1]), float(np.nan_to_num(middle[-1])), name, colour))
    title = "mean and middle 90 %" if len(series.q) > 1 else "over time"
    hidden = f", {len(ends)} of {series.q.shape[-1]} coordinates" if series.some else ""
    axis.set(title=title + hidden, xlabel=series.label("time", "t"))
    axis.margins(x=0)
    label_ends(axis, ends)


def _quantiles(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower end of the band, mean and upper end, of the numbers that are finite."""
    kept = np.where(np.isfinite(values), values, np.nan)
    some = np.isfinite(kept).any(axis=0)
    result = np.full((3, values.shape[1]), np.nan)
    if some.any():
        result[[0, 2]] = np.where(some, np.nanquantile(np.where(some, kept, 0.0), BAND, axis=0), np.nan)
        result[1] = np.where(some, np.nanmean(np.where(some, kept, 0.0), axis=0), np.nan)
    return result[0], result[1], result[2]


def _portrait(axis: Any, series: Series) -> None:
    n = series.q.shape[-1]
    moved = np.nan_to_num(np.ptp(np.where(np.isfinite(series.q), series.q, 0.0).reshape(-1, n), axis=0))
    i = int(np.argmax(moved))
    kept = slice(None, None, -(-len(series.q) // MOST_LINES))
    q, p = series.q[kept, :, i], series.p[kept, :, i]
    style = {"color": INK, "linewidth": 0.6, "alpha": max(0.15, 1 / np.sqrt(len(q)))}
    axis.plot(q.T, p.T, **style, marker="." if len(series.t) == 1 else None)
    axis.plot(q[:, -1], p[:, -1], "o", color=COLOURS[1], markersize=3)
    many = f", {len(q)} of {len(series.q):,} paths" if len(q) < len(series.q) else ""
    axis.set(title=f"phase portrait{many}", xlabel=series.label("q", f"q[{i}]"), ylabel=series.label("p", f"p[{i}]"))


def _histogram(axis: Any, series: Series) -> None:
    name, values = next(iter(series.quantities.items()))
    values = values[:, -1]
    values = values[np.isfinite(values)]
    bins = int(np.clip(np.sqrt(len(values)), 5, 60))
    axis.locator_params(axis="x", nbins=5)
    axis.hist(values, bins=bins, color=COLOURS[0], alpha=0.85)
    axis.set(title=f"{name} at t = {series.t[-1]:g}", xlabel=name, ylabel="paths")
