"""H5MD 1.1 (de Buyl, Colberg and Höfling, Comput. Phys. Commun. 185, 2014), which MDAnalysis, VMD and h5py read.

All beads are one group, `/particles/trajectory`, the name by which MDAnalysis finds them without a topology.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holonax.errors import InputError
from holonax.exports.trajectory import Trajectory
from holonax.version import __version__


def write_h5md(file: str, beads: Trajectory) -> None:
    """Write all frames, in double precision."""
    try:
        import h5py
    except ImportError:
        raise InputError("files in the format H5MD need h5py: pip install 'holonax[store]'") from None
    with h5py.File(file, "w") as root:
        about = root.create_group("h5md")
        about.attrs["version"] = np.array([1, 1], np.int32)
        about.create_group("author").attrs["name"] = "unknown"
        about.create_group("creator").attrs.update({"name": "holonax", "version": __version__})
        group = root.create_group("particles/trajectory")
        length, time = beads.units.get("length"), beads.units.get("time")
        _element(group, "position", beads.positions, beads, length)
        if beads.velocities is not None:
            _element(group, "velocity", beads.velocities, beads, f"{length} {time}-1" if length else None)
        if beads.masses is not None:
            group["mass"] = beads.masses
        box = group.create_group("box")
        box.attrs.update({"dimension": 3, "boundary": ["none" if beads.box is None else "periodic"] * 3})
        if beads.box is not None:
            _element(box, "edges", np.tile(beads.box, (len(beads.t), 1)), beads, length)
        if len(beads.bonds):
            bonds = root.create_dataset("connectivity/bonds", data=beads.bonds)
            bonds.attrs["particles_group"] = group.ref


def _element(group: Any, name: str, value: np.ndarray, beads: Trajectory, unit: str | None) -> None:
    """What changes in time: values, with the steps and the times that they belong to."""
    element = group.create_group(name)
    element["step"], element["time"], element["value"] = beads.step, beads.t, value
    if unit:
        element["value"].attrs["unit"] = unit
        element["time"].attrs["unit"] = beads.units["time"]
