"""GSD, the format of HOOMD-blue, which OVITO, VMD, MDAnalysis and freud read; in single precision, as it defines it."""

from __future__ import annotations

import numpy as np

from holonax.errors import InputError
from holonax.exports.trajectory import Trajectory

_MARGIN = 1.01  # of a box around beads that are in none
_THIN = 1e-3  # such a box is at least this thick, compared with its longest edge


def write_gsd(file: str, beads: Trajectory) -> None:
    """Write all frames.  Where there is no periodic box, one that holds all positions is written, as GSD needs one.

    Positions in a periodic box are those of the images in it, with the numbers of the images beside them.
    """
    try:
        import gsd.hoomd
    except ImportError:
        raise InputError("files in the format GSD need gsd: pip install 'holonax[store]'") from None
    extent = abs(beads.positions).max(axis=(0, 1))
    around = 2 * _MARGIN * np.maximum(extent, _THIN * extent.max() or 1.0)
    box = around if beads.box is None else beads.box
    images = np.round(beads.positions / box).astype(np.int32)  # none where the box was put around all
    with gsd.hoomd.open(file, "w") as written:
        for number, step in enumerate(beads.step):
            frame = gsd.hoomd.Frame()
            frame.configuration.step, frame.configuration.box = int(step), [*box, 0.0, 0.0, 0.0]
            frame.particles.N = beads.positions.shape[1]
            frame.particles.position = beads.positions[number] - images[number] * box
            frame.particles.image = images[number]
            if beads.velocities is not None:
                frame.particles.velocity, frame.particles.mass = beads.velocities[number], beads.masses
            if len(beads.bonds):
                frame.bonds.N, frame.bonds.group = len(beads.bonds), beads.bonds
            frame.log["time"] = np.array([beads.t[number]])
            written.append(frame)
