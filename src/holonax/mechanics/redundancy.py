r"""Redundant constraints: which ones are kept, so that the others follow from them.

Constraints are *redundant* where $g'$ has the same rank $r < k$ at all points of $S$ near the start.  Then $r$ of them
that are independent define the same $S$ there, the others vanish on it by themselves, and the motion, which does not
depend on how the reaction $g'^T\lambda$ is shared out among the rows of $g'$, is that of the system with these $r$
alone.  That system is what methods and engines see; the others are watched (`distance_from_implied`).

The rows of $g' M^{-1/2}$ (M: the diagonal of the mass, so that units do not matter) are chosen as in
`holonax.numerics.independent_rows`.  Rows that keep next to nothing of their length beside these are *suspects*:
redundant, or only nearly dependent, or dependent at this one point.  That is told apart at points of S nearby, where a
redundant constraint still holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError, StartError
from holonax.inputs.checks import instance, is_traced
from holonax.inputs.parameters import Values
from holonax.mechanics.closures import QUICKLY, keep_up, remembered
from holonax.mechanics.projection import project_position
from holonax.mechanics.system import State, System
from holonax.numerics.host import HostProgram
from holonax.numerics.independent_rows import Entries, dependent_rows
from holonax.numerics.newton import Newton, Status
from holonax.numerics.roundoff import magnitude
from holonax.numerics.structure import entries_of

SUSPECT = 1e-6
"""Part of its length that a row keeps, below which it may depend on the others."""

DEPENDENT = 1e-12
"""Below this it does depend on them, at least here."""

HOLDS = 1e-10
"""What is left of a constraint on S, compared with its magnitude."""

NEARBY = {1e-2: 1e-10, 1e-3: 1e-10, 1e-4: 1e-12, 1e-5: 1e-14}
"""How far the points nearby are, of the size of q, and what is left there of a redundant constraint.  Of one that is
dependent at a single point, about the square of the distance is left.  Where a singular point is near, or the way back
to S is not found, points that are nearer may still tell."""

LOOKED_AT = 32
"""Paths at whose starts is looked; the others are watched as they run."""

Point = tuple[Array, dict[str, Any]]
"""Positions of some paths and the parameters there, both with a leading axis."""


def distance_from_implied(system: System, q: Array) -> Array:
    """Of the constraints that are to follow from the others, compared with the magnitudes in them."""
    return _relative(system.g_implied, q)


def independent(system: System, start: State, parameters: Any = None) -> System:
    """The system with constraints that are independent at a start; its `redundant` says which are left out.

    Runs of a system with `redundant="allow"` do this by themselves.  It is needed where numbers are not known, under
    `jit` and `grad`, and for single steps, `method.step`; and where several runs are to leave out the same ones.

    >>> import holonax as hx, jax.numpy as jnp
    >>> twice = hx.System(lambda q, v: 0.5 * v @ v - q[2], lambda q: jnp.array([1.0, 3.0]) * (q @ q - 1.0),
    ...                   redundant="allow")
    >>> hx.independent(twice, hx.start(twice, q=[1.0, 0.0, 0.0])).redundant
    (1,)
    """
    instance("system", system, System, "build one with hx.System(lagrangian, constraint, noise)")
    instance("start", start, State, "build it with hx.start(system, q=..., v=...)")
    return without_redundant(system, start.q, Values.of(system.parameters, parameters))


def without_redundant(system: System, q: Any, values: Values, project: bool = False) -> System:
    """The system with constraints that are independent at q, or, with `project`, at points of S near q."""
    if system.redundant != "allow":
        return system
    if is_traced((q, *values)):
        raise InputError(
            'redundant="allow" looks at numbers, but q or a parameter is traced (by jax.jit, vmap or grad); choose '
            "before that: system = hx.independent(system, start)"
        )
    everything = replace(system, redundant=())
    q = np.atleast_2d(np.asarray(q, jnp.result_type(float)))
    everything.sizes(q.shape[1])
    keep_up(everything, q.shape[1])
    paths = values.paths or len(q)
    which = np.unique(np.linspace(0, paths - 1, min(paths, LOOKED_AT)).astype(int))
    points = q[which] if len(q) > 1 else np.broadcast_to(q, (len(which), q.shape[1]))
    at = jnp.asarray(points), values.of_paths(which, len(which)) | values.made_for(points)
    if project:
        at = _projected(everything, at)
    return replace(system, redundant=_redundant_at(everything, at))


class _Slopes(NamedTuple):
    rows: Any
    columns: Any
    values: Any  # of g' M^-1/2
    distance: Any  # of g from zero, compared with its magnitude

    def dependent(self, least: float, wanted: tuple[int, ...] = ()) -> dict[int, float]:
        """Suspects, and the part of its length that each keeps."""
        return dependent_rows(Entries(*(np.asarray(x) for x in self[:3])), least, wanted)


def _redundant_at(system: System, at: Point) -> tuple[int, ...]:
    """Numbers of the constraints that follow from the others at these points of S and near them."""
    slopes, added = _slopes(system.form)(*at), tuple[int, ...]()
    if not np.isfinite(slopes.values).all():
        return ()  # which the checks of a start refuse, and say why
    while suspects := slopes.dependent(SUSPECT, added):
        if np.any(slopes.distance > HOLDS):
            break  # likewise: these are no points of S
        left = _left_nearby(replace(system, redundant=tuple(suspects)), at)
        if left is None:
            raise StartError(
                f"constraints {sorted(suspects)} keep only {max(suspects.values()):.1e} of their gradients beside the "
                "others, and no point of S near q was found to tell whether they follow from them: too near to a "
                "singular point; start elsewhere, or name the redundant ones: hx.System(..., redundant=(...))"
            )
        free = [number for number, x in zip(sorted(suspects), left, strict=True) if x > 0.0]
        if not free:
            break
        worst = max(free, key=lambda number: suspects[number])
        if suspects[worst] <= DEPENDENT:
            raise StartError(
                f"constraint {worst} depends on the others at q, but not at points of S nearby, where the others leave "
                f"{max(left):.1e} of it: q is a singular point, at which the constraints do not determine the motion; "
                "start elsewhere, or remove the constraint"
            )
        added = (*added, worst)  # only nearly dependent
    return tuple(sorted(suspects))


def _projected(system: System, at: Point) -> Point:
    """Points where all constraints hold; off S, constraints may be independent that are redundant on it.

    Rows count as dependent that keep as little of their length as q is away from S; the others bring q nearer.
    """
    for _ in range(10):
        slopes = _slopes(system.form)(*at)
        distance = float(np.max(slopes.distance, initial=0.0))
        if not distance > HOLDS:
            return at
        suspects = slopes.dependent(min(0.3, max(SUSPECT, 10 * distance)))
        q, status = _onto(replace(system, redundant=tuple(suspects)).form)(*at)
        if np.any(status != Status.CONVERGED) or not np.any(np.abs(q - at[0]) > HOLDS * np.abs(at[0]).max()):
            break
        at = q, at[1]
    raise StartError(
        f"project=True found no point where all constraints hold, {distance:.1e} of their size is left: without "
        f"{sorted(suspects)}, which look redundant, there is one; correct q, or the constraints if they contradict one "
        "another"
    )


def _left_nearby(system: System, at: Point) -> np.ndarray | None:
    """What is left of the implied constraints at points of S near these, 0 for round-off; None if none are found."""
    program, found = _neighbours(system.form), None
    for far, round_off in NEARBY.items():
        left, status = program(*at, far)
        if np.all(status == Status.CONVERGED):
            most = np.max(left, axis=0)
            most = np.where(most > round_off, most, 0.0)
            found = most if found is None else np.minimum(found, most)
            if not found.any():
                break
    return found


@remembered
def _slopes(form: System) -> Callable[..., _Slopes]:
    def one(q: Array, values: dict[str, Any]) -> _Slopes:
        system = form.given(values)
        rows, columns, slopes = entries_of(system.g, q)
        values_in_units = slopes * _unit(system, q)[columns]
        return _Slopes(jnp.asarray(rows), jnp.asarray(columns), values_in_units, _relative(system.g, q))

    axes = _Slopes(None, None, 0, 0)
    return jax.jit(jax.vmap(one, out_axes=axes), compiler_options=QUICKLY)


@remembered
def _onto(form: System) -> HostProgram:
    def one(q: Array, values: dict[str, Any]) -> tuple[Array, Array]:
        q, solved = project_position(form.given(values), q, Newton())
        return q, solved.status

    return HostProgram(one, (0, 0), QUICKLY)


@remembered
def _neighbours(form: System) -> Callable[..., tuple[Array, Array]]:
    """Of a few points of S near each point: what is left of the implied constraints there."""

    def one(q: Array, direction: Array, values: dict[str, Any], far: Any) -> tuple[Array, Array]:
        system = form.given(values)
        unit = _unit(system, q)
        near, solved = project_position(system, q + far * jnp.max(jnp.abs(q) / unit) * unit * direction, Newton())
        return distance_from_implied(system, near), solved.status

    program = HostProgram(one, (0, 0, 0, None), QUICKLY)

    def several(q: Array, values: dict[str, Any], far: Any) -> tuple[Array, Array]:
        directions = np.random.default_rng(0).normal(size=(3, q.shape[1]))
        each = np.repeat(np.arange(len(q)), len(directions))
        q, values = jax.tree.map(lambda x: x[each], (q, values))
        return program(q, np.tile(directions, (len(q) // len(directions), 1)), values, far)

    return several


def _unit(system: System, q: Array) -> Array:
    """One over the root of the mass of each coordinate: what coordinates are measured in."""
    rest = jnp.zeros_like(q)
    rows, columns, masses = entries_of(lambda v: system.momentum(q, v), rest)
    own = rows == columns
    mass = jnp.abs(rest.at[rows[own]].set(masses[own]))
    return jnp.where((mass > 0.0) & jnp.isfinite(mass), mass, 1.0) ** -0.5


def _relative(function: Callable[[Array], Array], q: Array) -> Array:
    """Values of a function compared with their magnitudes, for coordinates that are all as large as the largest."""
    value = jnp.abs(function(q))
    return jnp.where(value == 0.0, 0.0, value / magnitude(function, q, jnp.max(jnp.abs(q))))
