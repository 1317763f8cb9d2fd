r"""A square root $C$ of the mass matrix, $C C^T = L_{vv}$; of a large system with few entries, without a matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.mechanics.system import System
from holonax.numerics.linear import constant_value
from holonax.numerics.sparse_root import MOST_LEVELS, RootPlan
from holonax.numerics.structure import PER_OPERATION, WORTHWHILE, colour, pattern


class Root(NamedTuple):
    """How to apply $C$ and its transpose to a vector."""

    times: Callable[[Array], Array]
    transposed: Callable[[Array], Array]


def root_of_mass(system: System, q: Array) -> Root:
    """At rest."""
    rest = jnp.zeros_like(q)
    if (masses := diagonal_mass(system, q, rest)) is not None:
        root = jnp.sqrt(masses)
        return Root(lambda x: root * x, lambda x: root * x)
    if (sparse := _sparse_mass(system, q, rest)) is not None:
        plan, entries = sparse
        own = plan.root(entries)
        return Root(partial(plan.times, own), partial(plan.transposed, own))
    factor = jnp.linalg.cholesky(system.mass(q, rest))
    return Root(lambda x: factor @ x, lambda x: factor.T @ x)


def _sparse_mass(system: System, q: Array, v: Array) -> tuple[RootPlan, Array] | None:
    """How the root is found, and entries of the mass; None if it is small, dense or not known."""
    found = None if (n := q.size) < WORTHWHILE else _pattern(system, q, v)
    if found is None or np.count_nonzero(found[0] == found[1]) < n:
        return None
    coloured = colour(*found, (n, n))
    if PER_OPERATION * coloured.number > n:
        return None
    plan = RootPlan(*found, n)
    if plan.count > MOST_LEVELS or PER_OPERATION * len(plan.owners) > n**2:
        return None
    return plan, coloured.entries(lambda v: system.momentum(q, v), v)


def entries_and_least(system: System, q: Array, v: Array) -> tuple[Array, Array]:
    """Entries of the mass, and a number that is positive if and only if it is positive definite.

    That is the smallest eigenvalue, or the smallest pivot of a large mass with few entries.
    """
    if (masses := diagonal_mass(system, q, v)) is not None:
        return masses, jnp.min(masses)
    if (sparse := _sparse_mass(system, q, v)) is not None:
        plan, entries = sparse
        return entries, jnp.min(plan.factors(entries)[0])
    mass = system.mass(q, v)
    return mass, jnp.linalg.eigvalsh(mass)[0]


def diagonal_mass(system: System, q: Array, v: Array) -> Array | None:
    """The diagonal of the mass matrix, if it is seen that there is nothing beside it.

    Of a small system that is looked up, if the mass is constant; of a large one it is told by the pattern.
    """
    if q.size < WORTHWHILE:
        known = constant_value(lambda v: jax.jacfwd(lambda u: system.momentum(q, u))(v), v)
        if known is None or np.count_nonzero(known) > np.count_nonzero(np.diagonal(known)):
            return None
        return jnp.asarray(np.diagonal(known), v.dtype)
    found = _pattern(system, q, v)
    if found is None or not np.array_equal(*found):
        return None
    return jax.jvp(lambda v: system.momentum(q, v), (v,), (jnp.ones_like(v),))[1]


def _pattern(system: System, q: Array, v: Array) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and columns of the entries of the mass matrix."""
    traced = jax.make_jaxpr(lambda v: system.momentum(q, v))(v)
    return pattern(traced.jaxpr, traced.consts)
