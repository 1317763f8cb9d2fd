"""One path of beads, as the formats of molecular dynamics know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from holonax.errors import InputError, shown
from holonax.inputs.checks import choice, real_numbers

LENGTHS = ("Angstrom", "nm", "pm", "fm", "m")
TIMES = ("fs", "ps", "ns", "s")


class Trajectory(NamedTuple):
    """Beads in space over time.

    Attributes:
        t: times, shape (frames,).
        step: numbers of the steps, likewise.
        positions: shape (frames, beads, 3).
        velocities: likewise, or None where the masses are not known.
        masses: of the beads, or None.
        bonds: pairs of beads, shape (bonds, 2).
        box: edges of a periodic box, shape (3,), or None.
        units: names of the units of "length" and "time", or nothing.
    """

    t: np.ndarray
    step: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray | None
    masses: np.ndarray | None
    bonds: np.ndarray
    box: np.ndarray | None
    units: Mapping[str, str]


def trajectory_of(
    t: np.ndarray,
    step: np.ndarray,
    q: np.ndarray,
    p: np.ndarray,
    *,
    dimensions: Any,
    masses: Any,
    bonds: Any,
    box: Any,
    units: Any,
) -> Trajectory:
    """Positions q and momenta p of one path, shape (frames, n), as beads: coordinates of the first come first.

    Beads in a plane are given z = 0.
    """
    if dimensions not in (2, 3):
        raise InputError(f"dimensions = {shown(dimensions)}: beads have 2 or 3 coordinates each")
    n = q.shape[1]
    if n % dimensions:
        raise InputError(f"{n} coordinates are not beads with {dimensions} each; only systems of beads can be exported")
    beads = n // dimensions
    m = None if masses is None else _masses(masses, beads)
    velocities = None if m is None else _in_space(p, dimensions) / m[:, None]
    edges = None if box is None else _edges(box)
    names = {} if units is None else _units(units)
    return Trajectory(t, step, _in_space(q, dimensions), velocities, m, _bonds(bonds, beads), edges, names)


def _in_space(x: np.ndarray, dimensions: int) -> np.ndarray:
    places = np.asarray(x, np.float64).reshape(len(x), -1, dimensions)
    return np.pad(places, ((0, 0), (0, 0), (0, 3 - dimensions)))


def _masses(masses: Any, beads: int) -> np.ndarray:
    found = real_numbers("masses", masses, f"pass a positive number, or one for each of the {beads} beads")
    if found.shape not in ((), (beads,)) or not np.all(np.isfinite(found) & (found > 0)):
        raise InputError(f"masses = {shown(masses)}: pass a positive number, or one for each of the {beads} beads")
    return np.broadcast_to(found, beads).astype(np.float64)


def _bonds(bonds: Any, beads: int) -> np.ndarray:
    found = np.zeros((0, 2), np.int64) if bonds is None else np.asarray(bonds)
    sound = found.dtype.kind in "iu" and found.ndim == 2 and found.shape[1] == 2
    if not sound or found.min(initial=0) < 0 or found.max(initial=0) >= beads:
        raise InputError(
            f"bonds = {shown(bonds)}: pass pairs of beads such as [(0, 1)], numbered from 0 to {beads - 1}"
        )
    return found.astype(np.int64)


def _edges(box: Any) -> np.ndarray:
    edges = real_numbers("box", box, "pass the edge of a periodic cube, or three edges")
    if edges.shape not in ((), (3,)) or not np.all(np.isfinite(edges) & (edges > 0)):
        raise InputError(f"box = {shown(box)}: pass the edge of a periodic cube, or three edges, all of them positive")
    return np.broadcast_to(edges, 3).astype(np.float64)


def _units(units: Any) -> dict[str, str]:
    if not isinstance(units, Mapping) or {*units} != {"length", "time"}:
        raise InputError(f'units = {shown(units)}: pass both, as {{"length": "nm", "time": "ps"}}, or none')
    for name, known in (("length", LENGTHS), ("time", TIMES)):
        choice(f"units[{name!r}]", units[name], known)
    return dict(units)
