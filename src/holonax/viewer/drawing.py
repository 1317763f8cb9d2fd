"""Hints how to draw a system: which of its coordinates are points, what joins them, which are rotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from holonax.errors import InputError, shown, whole_number
from holonax.inputs.checks import at_least, flag, positive, real_numbers


@final
@dataclass(frozen=True)
class Frame:
    """A rigid body: which coordinates turn it, where it is, and the box that it is drawn as.

    Attributes:
        rotation: nine coordinates, a rotation matrix row by row, or four, a unit quaternion (w, x, y, z).
        at: three coordinates, the middle of the body; left out, the origin.
        size: edges of the box along the axes of the body.
    """

    rotation: tuple[int, ...]
    at: tuple[int, ...] | None = None
    size: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        rotation = _indices("rotation", self.rotation)
        if len(rotation) not in (4, 9):
            raise InputError(f"rotation names {len(rotation)} coordinates: a matrix has 9, a quaternion 4")
        at = None if self.at is None else _indices("at", self.at)
        if at is not None and len(at) != 3:
            raise InputError(f"at names {len(at)} coordinates: a place in space has 3")
        size = tuple(positive("size", edge) for edge in self.size)
        if len(size) != 3:
            raise InputError(f"size = {shown(self.size)}: a box has 3 edges")
        for name, value in (("rotation", rotation), ("at", at), ("size", size)):
            object.__setattr__(self, name, value)

    @property
    def used(self) -> tuple[int, ...]:
        """The coordinates that it needs."""
        return self.rotation + (self.at or ())

    def turns(self, q: np.ndarray) -> np.ndarray:
        """Rotation matrices of states (..., n), shape (..., 9)."""
        chosen = q[..., self.rotation]
        if len(self.rotation) == 9:
            return chosen
        w, x, y, z = np.moveaxis(chosen / np.linalg.norm(chosen, axis=-1, keepdims=True), -1, 0)
        rows = [
            1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
        ]  # fmt: skip
        return np.stack(rows, axis=-1)

    def middle(self, q: np.ndarray) -> np.ndarray:
        """Where it is, shape (..., 3)."""
        return np.zeros((*q.shape[:-1], 3)) if self.at is None else q[..., self.at]


@final
@dataclass(frozen=True)
class Drawing:
    """How to draw a system; whatever is left out is found from its coordinates and constraints.

    Attributes:
        points: for each point, its two or three coordinates, or a function of q (in `jax.numpy`) with the places of
            all points, shape (points, 2 or 3).  Left out: q is one point, or consecutive ones; of bodies, the ends of
            their third axes.
        dimension: 2 or 3, the number of consecutive coordinates of a point.  Left out: 3, unless there are but 2
            coordinates, or the constraints depend on pairs of them.
        rods: pairs of points that are joined, numbered from 0; the anchors are numbered after the points.  Left out:
            a constraint that touches exactly two points is a rod, and one that keeps a single point at a distance from
            a fixed place is a rod to an anchor there.
        anchors: fixed places that rods may end at.
        frames: bodies that are turned by coordinates.
        sizes: relative radii of the points.
        trails: how many of the times before the present one are drawn as trails.
        surface: whether the points of g = 0 are drawn, where one point has one constraint.

    >>> import holonax as hx
    >>> hx.Drawing(dimension=2).indices(4)
    ((0, 1), (2, 3))
    """

    points: tuple[tuple[int, ...], ...] | Callable[[Any], Any] | None = None
    dimension: int | None = None
    rods: tuple[tuple[int, int], ...] | None = None
    anchors: tuple[tuple[float, ...], ...] = ()
    frames: tuple[Frame, ...] = ()
    sizes: tuple[float, ...] | None = None
    trails: int = 16
    surface: bool = True

    def __post_init__(self) -> None:
        if self.dimension not in (None, 2, 3):
            raise InputError(f"dimension = {shown(self.dimension)}: points have 2 or 3 coordinates")
        kept: dict[str, Any] = {}
        if self.points is not None and not callable(self.points):
            kept["points"] = tuple(_indices("points", row) for row in _rows("points", self.points))
            if {len(row) for row in kept["points"]} not in ({2}, {3}):
                raise InputError(f"points = {shown(self.points)}: each is 2 or 3 numbers of coordinates, all alike")
        if self.rods is not None:
            kept["rods"] = tuple(_indices("rods", row) for row in _rows("rods", self.rods))
            if any(len(row) != 2 for row in kept["rods"]):
                raise InputError(f"rods = {shown(self.rods)}: each is a pair of points")
        anchors = [real_numbers("anchors", row, "a place is 2 or 3 numbers") for row in _rows("anchors", self.anchors)]
        kept["anchors"] = tuple(tuple(float(x) for x in row) for row in anchors)
        kept["frames"] = tuple(_rows("frames", self.frames))
        if not all(isinstance(frame, Frame) for frame in kept["frames"]):
            raise InputError(f"frames = {shown(self.frames)}: pass a tuple of hx.Frame(rotation=...)")
        if self.sizes is not None:
            kept["sizes"] = tuple(positive("sizes", size) for size in _rows("sizes", self.sizes))
        kept["trails"] = at_least(0, "trails", self.trails, "the number of times that a trail lasts is at least 0")
        kept["surface"] = flag("surface", self.surface)
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    def indices(self, n: int) -> tuple[tuple[int, ...], ...] | None:
        """The coordinates of each point among `n`; None where points are computed."""
        used = [i for frame in self.frames for i in frame.used]
        if callable(self.points) or (self.points is None and self.frames):
            chosen = None
        elif self.points is not None:
            chosen = self.points
        else:
            chosen = _consecutive(n, self.dimension)
        largest = max([*used, *(i for row in chosen or () for i in row)], default=0)
        if largest >= n:
            raise InputError(f"the drawing names coordinate {largest}, but there are {n}, numbered from 0")
        return chosen

    def check_numbers(self, points: int, dimension: int) -> None:
        """Raise where rods, anchors or sizes do not fit so many points."""
        there = points + len(self.anchors)
        for row in self.rods or ():
            if max(row) >= there:
                raise InputError(f"rod {row} names point {max(row)}, but there are {points} points, "
                                 f"numbered from 0, and {len(self.anchors)} anchors")  # fmt: skip
        for place in self.anchors:
            if len(place) != dimension:
                raise InputError(f"anchor {place} has {len(place)} coordinates, but points have {dimension}")
        if self.sizes is not None and len(self.sizes) != points:
            raise InputError(f"sizes has {len(self.sizes)} numbers, but there are {points} points")


def _consecutive(n: int, dimension: int | None) -> tuple[tuple[int, ...], ...]:
    """Points of coordinates that follow each other."""
    each = dimension or (2 if n == 2 else 3)
    if n % each:
        plane = "; for points in a plane: drawing=hx.Drawing(dimension=2)" if n % 2 == 0 and each == 3 else ""
        raise InputError(
            f"q has {n} coordinates, which are not places in {each} dimensions: say which of them are points, "
            "drawing=hx.Drawing(points=[[0, 1], ...]), or compute them from q, drawing=hx.Drawing(points=lambda q: ...)"
            f"{plane}"
        )
    return tuple(tuple(range(i, i + each)) for i in range(0, n, each))


def _rows(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, (Iterable, np.ndarray)):
        raise InputError(f"{name} = {shown(values)}: pass a sequence")
    return list(values)


def _indices(name: str, values: Any) -> tuple[int, ...]:
    found = tuple(whole_number(name, value) for value in _rows(name, values))
    if any(i < 0 for i in found):
        raise InputError(f"{name} = {shown(values)}: counted from 0")
    return found
