r"""The points where a function of two or three variables is zero, as segments or triangles: marching simplices.

The box is cut into a grid, each cell into $d!$ simplices (Kuhn's triangulation: a path from corner to corner along the
axes, in every order).  In a simplex the function counts as linear, so that it vanishes on a segment (of a triangle), or
on a triangle or a quadrilateral (of a tetrahedron), whose corners lie on edges where the sign changes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import NamedTuple

import numpy as np

Level = Callable[[np.ndarray], np.ndarray]
"""Values of the function at points (m, d)."""

COARSE, FINE = 24, 44
"""Cells along an edge of the box: to see how far the surface reaches, and to draw it."""

BISECTIONS = 4

FURTHEST = 40.0
"""A surface that does not close within so many times the extent of the paths is cut off near them."""


class Mesh(NamedTuple):
    """Corners, and which of them are the ends of a segment or the corners of a triangle."""

    corners: np.ndarray  # (corners, d)
    cells: np.ndarray  # (cells, d)


def level_set(level: Level, low: np.ndarray, high: np.ndarray, cells: int = FINE) -> Mesh:
    """Where the function is zero, around the box of the paths: all of it if it is bounded, otherwise a part."""
    middle, reach = (low + high) / 2, np.max(high - low) / 2
    if reach == 0:
        reach = float(np.max(np.abs(middle))) / 2 or 0.5
    grow = 1.2
    while grow < FURTHEST:
        mesh = march(level, middle - grow * reach, middle + grow * reach, COARSE)
        edge = grow * reach * (1 - 2 / COARSE)
        if len(mesh.corners) and np.abs(mesh.corners - middle).max() < edge:
            margin = 3 * grow * reach / COARSE
            return march(level, mesh.corners.min(axis=0) - margin, mesh.corners.max(axis=0) + margin, cells)
        grow *= 1.6
    return march(level, middle - 1.5 * reach, middle + 1.5 * reach, cells)


def march(level: Level, low: np.ndarray, high: np.ndarray, cells: int) -> Mesh:
    """Where the function is zero within a box."""
    d = len(low)
    axes = [np.linspace(a, b, cells + 1) for a, b in zip(low, high, strict=True)]
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    values = np.asarray(level(places), float)
    simplices = _crossing(values, d, cells)
    negative = values[simplices] < 0
    order = np.argsort(~negative, axis=1, kind="stable")  # negative corners first
    simplices, count = np.take_along_axis(simplices, order, axis=1), negative.sum(axis=1)
    pieces = [simplices[count == below][:, piece] for below, piece in _pieces(d)]  # (cells, d, 2): ends of edges
    edges = np.sort(np.concatenate(pieces).reshape(-1, 2), axis=1)
    keys, which = np.unique(edges[:, 0] * len(places) + edges[:, 1], return_inverse=True)
    one, other = keys // len(places), keys % len(places)
    corners, is_zero = _roots(level, places[one], places[other], values[one], values[other])
    cells_found = which.reshape(-1, d)
    if d == 3:
        sides = [_uphill(places, simplices[count == below], below) for below, _ in _pieces(d)]
        cells_found = _oriented(corners, cells_found, np.concatenate(sides))
    cells_found = cells_found[is_zero[cells_found].all(axis=1)]
    used, renumbered = np.unique(cells_found, return_inverse=True)
    return Mesh(corners[used], renumbered.reshape(-1, d))


def _crossing(values: np.ndarray, d: int, cells: int) -> np.ndarray:
    """Corners of the simplices with both signs, shape (simplices, d + 1)."""
    steps = (cells + 1) ** np.arange(d - 1, -1, -1)
    base = np.stack(np.meshgrid(*d * [np.arange(cells)], indexing="ij"), axis=-1).reshape(-1, d) @ steps
    found = []
    for way in permutations(range(d)):
        corners = base[:, None] + np.concatenate([[0], np.cumsum(steps[list(way)])])
        at = values[corners]
        mixed = (at.min(axis=1) < 0) & (at.max(axis=1) >= 0)  # never where something is not a number
        found.append(corners[mixed])
    return np.concatenate(found)


def _pieces(d: int) -> list[tuple[int, list[list[int]]]]:
    """For a number of negative corners, which come first: the edges that the corners of a piece of g = 0 lie on."""
    if d == 2:
        return [(1, [[0, 1], [0, 2]]), (2, [[0, 2], [1, 2]])]
    return [
        (1, [[0, 1], [0, 2], [0, 3]]),
        (3, [[0, 3], [1, 3], [2, 3]]),
        (2, [[0, 2], [0, 3], [1, 3]]),  # a quadrilateral, as two triangles
        (2, [[0, 2], [1, 3], [1, 2]]),
    ]


def _roots(level: Level, a: np.ndarray, b: np.ndarray, at_a: np.ndarray, at_b: np.ndarray) -> tuple[np.ndarray, ...]:
    """Zeros on edges by bisection and a last linear step; and whether they are zeros.

    Towards a pole, where the sign changes too, values grow: the largest of all that were seen are the last ones.
    """
    largest = np.maximum(np.abs(at_a), np.abs(at_b))
    for _ in range(BISECTIONS):
        middle = (a + b) / 2
        value = np.asarray(level(middle), float)
        largest = np.maximum(largest, np.abs(value))
        beyond = (value < 0) == (at_a < 0)  # the zero lies between the middle and b
        a, at_a = np.where(beyond[:, None], middle, a), np.where(beyond, value, at_a)
        b, at_b = np.where(beyond[:, None], b, middle), np.where(beyond, at_b, value)
    is_zero = np.maximum(np.abs(at_a), np.abs(at_b)) < largest  # False where something is not a number
    share = np.where(is_zero, at_a / np.where(is_zero, at_a - at_b, 1.0), 0.5)
    return a + share[:, None] * (b - a), is_zero


def _uphill(places: np.ndarray, simplices: np.ndarray, below: int) -> np.ndarray:
    """Directions from the negative to the positive corners."""
    return places[simplices[:, below:]].mean(axis=1) - places[simplices[:, :below]].mean(axis=1)


def _oriented(corners: np.ndarray, triangles: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Triangles whose normals point uphill."""
    a, b, c = (corners[triangles[:, i]] for i in range(3))
    wrong = np.sum(np.cross(b - a, c - a) * sides, axis=1) < 0
    return np.where(wrong[:, None], triangles[:, ::-1], triangles)
