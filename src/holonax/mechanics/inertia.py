r"""A square root $C$ of the mass matrix, $C C^T = L_{vv}$; of a large system with a diagonal one, without a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.mechanics.system import System
from holonax.numerics.linear import constant_value
from holonax.numerics.structure import WORTHWHILE, pattern


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
    factor = jnp.linalg.cholesky(system.mass(q, rest))
    return Root(lambda x: factor @ x, lambda x: factor.T @ x)


def diagonal_mass(system: System, q: Array, v: Array) -> Array | None:
    """The diagonal of the mass matrix, if it is seen that there is nothing beside it.

    Of a small system that is looked up, if the mass is constant; of a large one it is told by the pattern.
    """
    if q.size < WORTHWHILE:
        known = constant_value(lambda v: jax.jacfwd(lambda u: system.momentum(q, u))(v), v)
        if known is None or np.count_nonzero(known) > np.count_nonzero(np.diagonal(known)):
            return None
        return jnp.asarray(np.diagonal(known), v.dtype)
    traced = jax.make_jaxpr(lambda v: system.momentum(q, v))(v)
    found = pattern(traced.jaxpr, traced.consts)
    if found is None or not np.array_equal(*found):
        return None
    return jax.jvp(lambda v: system.momentum(q, v), (v,), (jnp.ones_like(v),))[1]
