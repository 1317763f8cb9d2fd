"""Systems that are found again by their names."""

from __future__ import annotations

from typing import Any

from holonax import systems
from holonax.errors import InputError
from holonax.mechanics.system import System
from holonax.methods.text import read


def from_catalogue(origin: str | None) -> System | None:
    """The system of a catalogue entry such as `chain(beads=8)`; None if it is not one."""
    if origin is None or origin.partition("(")[0] not in systems.names():
        return None
    return read(origin, "system", {one: getattr(systems, one) for one in systems.names()}).system


def system_again(store: Any, origin: str | None) -> System:
    """The system of a store, or an InputError that says how to pass it."""
    system = from_catalogue(origin)
    if system is None:
        from_where = "is in no catalogue" if origin is None else f"is from {origin}"
        raise InputError(
            f"the system of {store} {from_where}; pass it again: hx.resume({str(store)!r}, system=...), as it was"
        )
    return system
