"""All pairs of points that are close to each other, in a time that grows with the number of points.

Space is divided into cells whose sides are at least as long as the radius, so that close points are in the same cell or
in cells that touch.  Cells are never stored: points are sorted by the number of their cell, and those of a cell are
found by bisection.
"""

from __future__ import annotations

from itertools import product

import numpy as np

_MOST_CELLS = 2**20
"""Cells along an axis, so that the number of a cell in three dimensions is a whole number of 64 bits."""


def close_pairs(x: np.ndarray, radius: float, box: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Indices i < j of points x (points, dimensions) with |x_i - x_j| < radius, sorted by i, then by j.

    In a periodic `box` (dimensions,) the distance is that of the nearest images.
    """
    points, dimensions = x.shape
    if box is None:
        low = x.min(axis=0)
        extent = np.maximum(x.max(axis=0) - low, radius)
        inside, sides = x - low, np.clip(extent // radius, 1, _MOST_CELLS).astype(np.int64)
    else:
        extent = box
        inside, sides = x - box * np.floor(x / box), np.minimum(box // radius, _MOST_CELLS).astype(np.int64)
        sides[sides < 3] = 1  # or a cell would touch another one on both sides
    cell = np.minimum((inside * (sides / extent)).astype(np.int64), sides - 1)
    strides = np.cumprod([1, *sides[:-1]])
    order = np.argsort(cell @ strides, kind="stable")
    inside, cell = inside[order], cell[order]
    numbers = cell @ strides

    found = []
    nothing = (0,) * dimensions
    for offset in product(*((-1, 0, 1) if side > 1 else (0,) for side in sides)):
        if offset < nothing:  # its opposite finds the same pairs
            continue
        other = cell + offset
        there = np.flatnonzero(((other >= 0) & (other < sides)).all(axis=1)) if box is None else np.arange(points)
        number = (other[there] % sides) @ strides
        first, last = (np.searchsorted(numbers, number, side) for side in ("left", "right"))
        if offset == nothing:
            first = there + 1  # each pair once
        i, j = _expanded(there, first, last)
        apart = inside[i] - inside[j]
        if box is not None:
            apart -= box * np.round(apart / box)
        close = np.einsum("ij,ij->i", apart, apart) < radius**2
        i, j = order[i[close]], order[j[close]]
        found.append(np.minimum(i, j) * points + np.maximum(i, j))
    i, j = np.divmod(np.sort(np.concatenate(found)), points)
    return i.astype(np.int32), j.astype(np.int32)


def _expanded(i: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each i with all numbers from its first to its last (excluded)."""
    counts = last - first
    begins = np.cumsum(counts) - counts
    return np.repeat(i, counts), np.arange(counts.sum()) + np.repeat(first - begins, counts)
