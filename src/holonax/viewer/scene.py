"""What is drawn, as plain arrays, and how much of a large ensemble is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple, final

import numpy as np

from holonax.viewer.level_set import Mesh

MOST_NUMBERS = 1_200_000
"""Numbers of all states that are drawn: with two bytes each, some megabytes."""

MOST_POINTS = 20_000
"""Points at a time."""

MOST_TIMES = 300
"""Times that are kept where there are too many numbers: ten seconds of a film."""


class Thinning(NamedTuple):
    """Every how many-th path, time and point is drawn."""

    path: int
    time: int
    point: int

    def notes(self, paths: int, times: int, points: int) -> tuple[str, ...]:
        """The same in sentences."""
        told = []
        for stride, number, what in zip(self, (paths, times, points), ("paths", "times", "points"), strict=True):
            if stride > 1:
                every = f"every {stride:,}{_ending(stride)}"
                told.append(
                    f"{-(-number // stride):,} of {number:,} {what} are shown, {every}, to keep the page small."
                )
        return tuple(told)


def thinning(paths: int, times: int, points: int, numbers: int) -> Thinning:
    """How much is drawn of so many points per path with so many numbers of a path at a time."""
    point = ceil(points / MOST_POINTS)
    points, numbers = ceil(points / point), ceil(numbers / point)
    path = ceil(paths * points / MOST_POINTS)
    kept = ceil(paths / path)
    time = ceil(kept * times * numbers / MOST_NUMBERS)
    if times / time < MOST_TIMES:  # rather fewer paths than a film that jerks
        time = ceil(times / MOST_TIMES)
        path = min(paths, path * ceil(kept * ceil(times / time) * numbers / MOST_NUMBERS))
        time = max(time, ceil(ceil(paths / path) * times * numbers / MOST_NUMBERS))
    return Thinning(path, time, point)


def _ending(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


@final
@dataclass(frozen=True)
class Bodies:
    """Rigid bodies: rotation matrices row by row (paths, times, bodies, 9), middles (..., 3), edges (bodies, 3)."""

    turns: np.ndarray
    middles: np.ndarray
    sizes: np.ndarray


@final
@dataclass(frozen=True)
class Scene:
    """An ensemble of paths, ready to be drawn.

    Attributes:
        title: of the page.
        facts: short lines below it.
        notes: sentences on what is not drawn as it is.
        t: times, shape (times,).
        paths: numbers that the paths have in the run, shape (paths,).
        q: states, shape (paths, times, n), to show numbers of.
        points: places, shape (paths, times, points, 2 or 3).
        stride: every how many-th point of the system is among them.
        indices: the coordinates of q that a point has, shape (points, 2 or 3); None if points are computed.
        status: per path, 0 or the number of what went wrong.
        failed_at: per path, the time from which on it stands still, or infinity.
        statuses: names of the numbers in `status`.
        rods: pairs of points, shape (rods, 2); anchors are numbered after the points.
        anchors: fixed places, shape (anchors, 2 or 3).
        bodies: rigid bodies, None if there are none.
        sizes: relative radii of the points.
        trails: how many times a trail lasts.
        surface: the points of g = 0, None if they are not drawn.
        quantities: numbers of every state by name, shape (paths, times).
    """

    title: str
    facts: tuple[str, ...]
    notes: tuple[str, ...]
    t: np.ndarray
    paths: np.ndarray
    q: np.ndarray
    points: np.ndarray
    stride: int
    indices: np.ndarray | None
    status: np.ndarray
    failed_at: np.ndarray
    statuses: Mapping[int, str]
    rods: np.ndarray
    anchors: np.ndarray
    bodies: Bodies | None
    sizes: np.ndarray
    trails: int
    surface: Mesh | None
    quantities: Mapping[str, np.ndarray]

    @property
    def dimension(self) -> int:
        """2 in a plane, 3 in space."""
        return int(self.points.shape[-1])

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of all points, of those numbers that are finite."""
        places = self.points.reshape(-1, self.dimension)
        return bounds(places)


def bounds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest of the finite numbers of every column; 0 if there are none."""
    known = np.isfinite(values)
    low = np.min(values, axis=0, where=known, initial=np.inf)
    high = np.max(values, axis=0, where=known, initial=-np.inf)
    some = known.any(axis=0)
    return np.where(some, low, 0.0), np.where(some, high, 0.0)
