"""What a catalogue entry is; the entries themselves are the modules of `holonax.systems`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from jax import Array

from holonax.mechanics.system import State, System


@final
@dataclass(frozen=True)
class Entry:
    """A system worth having at hand, with a start and what is known about it.

    Attributes:
        name: the name in the catalogue.
        system: the system.
        start: an initial state on T*S.
        symmetries: momentum maps `J(q, p)` that every variational method conserves exactly, noise included.
        facts: what is known in closed form: numbers, or functions of what their name says.
    """

    name: str
    system: System
    start: State
    symmetries: Mapping[str, Callable[[Array, Array], Array]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return int(np.shape(self.start.q)[-1])

    @property
    def k(self) -> int:
        """Number of constraints."""
        return self.system.sizes(self.n)[0]

    @property
    def m(self) -> int:
        """Number of stochastic potentials."""
        return self.system.sizes(self.n)[1]


_PLAIN = (bool, int, float, str, type(None))


def traceable(make: Callable[..., Entry]) -> Callable[..., Entry]:
    """The function of a catalogue entry, whose systems know how they are found again, if their arguments are plain."""

    @functools.wraps(make)
    def made(*arguments: Any, **named: Any) -> Entry:
        entry = make(*arguments, **named)
        given = inspect.signature(make).bind(*arguments, **named).arguments
        if not all(type(value) in _PLAIN for value in given.values()):
            return entry
        text = ",".join(f"{name}={value!r}" for name, value in given.items())
        return replace(entry, system=replace(entry.system, origin=f"{make.__name__}({text})"))

    return made
