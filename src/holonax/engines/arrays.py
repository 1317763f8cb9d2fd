"""What engines share that run array programs (`holonax.compiler.arrays`)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import numpy as np

from holonax.compiler.arrays.program import ArrayProgram, compile_arrays
from holonax.engines.base import Runner
from holonax.engines.plain import PlainRunner
from holonax.inputs.made import Made
from holonax.inputs.parameters import kinds
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import Fate, Track
from holonax.numerics.newton import Status

Shapes = tuple[tuple[int, ...], ...]


class ArrayEngine(Runner):
    """Array programs by the shapes of parameters, each compiled when its shapes are first met.

    Neighbour lists are parameters whose lengths are known only when they are made.  Steps in doubt are taken again by
    the plain engine.
    """

    sparse = True

    def __init__(self, system: System, method: Method, n: int, dtype: str, reason: str) -> None:
        self.how = f"with loops over arrays, because {reason}"
        self.system, self.method, self.n, self.dtype = system, method, n, dtype
        self.values = kinds(system.parameters, n, dtype)
        self.programs: dict[Shapes, ArrayProgram] = {}
        self.lock = threading.RLock()

    @property
    def program(self) -> ArrayProgram:
        """The program for the parameters that the system has."""
        return self.program_for(self.values)

    def check_translatable(self) -> None:
        """Raise `Untranslatable`, with the reason, if there is no such program."""
        self.program_for(self.values)

    def program_for(self, values: dict[str, Any]) -> ArrayProgram:
        """The program for parameters of these types and shapes; compiled when it is first needed."""
        with self.lock:
            if (shapes := shapes_of(values)) not in self.programs:
                self.programs[shapes] = compile_arrays(self.system, self.method, self.n, self.dtype, values)
            return self.programs[shapes]

    @cached_property
    def plain(self) -> PlainRunner:
        """By which steps in doubt are taken again."""
        return PlainRunner(self.system, self.method, self.n, self.dtype)

    def taken_again(
        self,
        leaves: list[np.ndarray],
        values: Mapping[str, Any],
        path: int,
        seed: int,
        h: float,
        step: int,
        offset: int,
    ) -> list[np.ndarray]:
        """The leaves of the track of one path after a step that was in doubt, given them before it.

        If neighbour lists were made for an earlier state, they are what to doubt first: the step counts as failed, so
        that it is tried again with lists for the state before it (`holonax.simulation.neighbours`).
        """
        q, p, v, _, failed, residual, iterations, counts = (np.array(leaf) for leaf in leaves)
        if any(made.distance(q[None]).any() for made in values.values() if isinstance(made, Made)):
            stale, number = (np.full_like(failed, x) for x in (Status.STALE_LIST, step + offset))
            return [q, p, v, stale, number, residual, iterations, counts]
        fate = Fate(np.zeros_like(failed), failed, residual, iterations, counts[None])
        track = Track(State(q[None], p[None], v[None]), fate)
        steps = step, step + 1, step + 2
        (_, track), _, _ = self.plain.advance((dict(values), track), range(path, path + 1), seed, h, *steps, offset)
        return [np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(track)]


def of_paths(parameters: Mapping[str, Any], paths: range) -> dict[str, Any]:
    """The parameters of some paths."""
    return jax.tree.map(lambda x: x[paths.start : paths.stop], dict(parameters))


def of_one_path(values: Mapping[str, Any]) -> dict[str, Any]:
    """The kinds of parameters that each of several paths has."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), dict(values))


def shapes_of(values: dict[str, Any]) -> Shapes:
    """By which programs are told apart."""
    return tuple(x.shape for x in jax.tree.leaves(values))
