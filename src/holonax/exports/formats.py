"""Which format a file has, by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holonax.errors import HolonaxError, InputError, shown
from holonax.exports.gsd import write_gsd
from holonax.exports.h5md import write_h5md
from holonax.exports.trajectory import Trajectory

FORMATS: dict[str, Callable[[str, Trajectory], None]] = {".gsd": write_gsd, ".h5md": write_h5md}


def write_trajectory(file: Any, beads: Trajectory) -> None:
    """Write the file in the format that its name ends with."""
    suffix = Path(file).suffix if isinstance(file, (str, Path)) else ""
    if suffix not in FORMATS:
        raise InputError(f"file = {shown(file)}: its name must end in {' or '.join(FORMATS)}, which says the format")
    try:
        FORMATS[suffix](str(file), beads)
    except OSError as error:
        raise HolonaxError(f"{file} cannot be written: {error}") from error
