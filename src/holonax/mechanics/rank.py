r"""Whether constraints are independent and masses invertible at a point, which is to be seen before a run.

Small systems are judged by singular values.  Of large ones no matrix is ever formed: the sparse Jacobian of the
projection step, $\begin{pmatrix} L_{vv} & -g'^T \\ g' & 0 \end{pmatrix}$, is eliminated as Newton would do it, and what
is small compared with what it is the difference of are its pivots.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.mechanics.system import System
from holonax.numerics.host import HostProgram
from holonax.numerics.structure import Sketch, SparseElimination


class Rank(NamedTuple):
    """One number per path: the smallest singular value over the largest, or the smallest pivot; sizes of gradients."""

    mass: np.ndarray
    constraints: np.ndarray
    both: np.ndarray
    gradients: np.ndarray  # one per constraint
    mass_is_finite: np.ndarray
    gradients_are_finite: np.ndarray
    measure: str = "singular values"
    compared: str = "the largest"


class Dense(NamedTuple):
    """Both matrices, $g'$ and $L_{vv}$."""

    G: Any
    M: Any

    def rank(self) -> Rank:
        """Of all paths."""
        G, M = self
        there = np.isfinite(G).all(axis=(1, 2))
        slopes = np.where(there[:, None, None], G, 1.0)
        finite = np.isfinite(M).all(axis=(1, 2))
        known = np.where(finite[:, None, None], M, np.eye(M.shape[-1]))
        masses = np.diagonal(known, axis1=1, axis2=2)
        if np.count_nonzero(known) == np.count_nonzero(masses):  # a factorisation would take long if there are many
            mass = np.where(np.all(masses != 0.0, axis=1), 1.0, 0.0)
            both = slopes @ np.swapaxes(slopes / np.where(masses == 0.0, 1.0, masses)[:, None], 1, 2)
        else:
            mass = conditioning(known)
            known = np.where((mass > 0.0)[:, None, None], known, np.eye(M.shape[-1]))
            both = slopes @ np.linalg.solve(known, np.swapaxes(slopes, 1, 2))
        return Rank(mass, conditioning(slopes), conditioning(both), sizes(G), finite, there)


class Bordered(NamedTuple):
    """Few dense constraints on many coordinates: $g'$, $g' L_{vv}^{-1} g'^T$, and how far the mass is from singular."""

    G: Any
    both: Any
    margins: Any

    def rank(self) -> Rank:
        """Of all paths."""
        there, finite = np.isfinite(self.G).all(axis=(1, 2)), np.isfinite(self.margins).all(axis=1)
        mass = np.min(np.where(finite[:, None], self.margins, 1.0), axis=1, initial=1.0)
        known = np.isfinite(self.both).all(axis=(1, 2))[:, None, None]
        slopes, both = np.where(there[:, None, None], self.G, 1.0), np.where(known, self.both, 1.0)
        return Rank(mass, conditioning(slopes), conditioning(both), sizes(self.G), finite, there)


class Sparse(NamedTuple):
    """Pivots compared with what they are the difference of, those of the motions first; sizes of gradients."""

    motions: Any
    multipliers: Any
    gradients: Any

    def rank(self) -> Rank:
        """Of all paths."""
        motions, multipliers = (np.min(x, axis=1, initial=1.0) for x in (self.motions, self.multipliers))
        finite, there = np.isfinite(motions), np.isfinite(self.gradients).all(axis=1)
        difference = "what they are the difference of"
        return Rank(motions, multipliers, multipliers, self.gradients, finite, there, "pivots", difference)


def jacobian(system: System, q: Array, v: Array) -> Dense | Bordered | Sparse:
    """Of the equations of the projection step, dense or sparse as Newton would have it."""
    n = q.shape[0]

    def parts(x: Array) -> list[Array]:
        return [system.momentum(q, x[:n]) - system.reaction(q, x[n:]), system.hidden(q, x[:n])]

    x = jnp.append(v, 0 * system.g(q))
    traced = jax.make_jaxpr(parts)(x)
    sketch = Sketch(traced.jaxpr, traced.consts, n)
    if (structure := sketch.structure) is None:
        G = jax.jacrev(system.g)(q)
        if sketch.mass is None:
            return Dense(G, system.mass(q, v))
        mass = sketch.mass(lambda v: system.momentum(q, v), v)
        return Bordered(G, G @ mass.solve(G.T), mass.margins)
    elimination = SparseElimination(parts, x, structure, n)
    margins = elimination.margins(x)
    constraints = structure.constraints
    entries = jnp.abs(constraints.entries(lambda x: parts(x)[1], x))
    gradients = jax.ops.segment_max(entries, constraints.rows, x.size - n)
    return Sparse(margins[:n], margins[n:], gradients)


def _jacobian_at(system: System, q: Any) -> Dense | Bordered | Sparse:
    """At rest, for a single point."""
    q = jnp.asarray(q, jnp.result_type(float))
    return HostProgram(partial(jacobian, system), (None, None), {})(q, jnp.zeros_like(q))


def most_dependent(system: System, q: Any) -> str:
    """Which constraint is nearest to being a combination of the others at q, in words."""
    return worst_constraint(system, _jacobian_at(system, q))


def worst_constraint(system: System, found: Dense | Bordered | Sparse) -> str:
    """The same of a Jacobian at a single point."""
    if isinstance(found, Sparse):
        size, margins = np.asarray(found.gradients), np.asarray(found.multipliers)
        if not np.isfinite(size).all():
            return "no constraint is to blame"
        if not size.all():
            return f"the gradient of constraint {int(np.argmin(size))} vanishes"
        which = int(np.argmin(margins))
        number = _number(system, which, len(size))
        return f"constraint {number} depends most on the others: its pivot is {margins[which]:.1e} of what it was"
    G = np.asarray(found.G)
    size = sizes(G)
    if len(G) == 0 or not np.isfinite(G).all():
        return "no constraint is to blame"
    if not size.all():
        return f"the gradient of constraint {int(np.argmin(size))} vanishes"
    left, values, _ = np.linalg.svd(G / size[:, None])
    which, ratio = int(np.argmax(np.abs(left[:, -1]))), values[-1] / values[0]
    return (
        f"constraint {_number(system, which, len(G))} depends most on the others: singular values of g' reach down to "
        f"{ratio:.1e} of the largest"
    )


def _number(system: System, which: int, k: int) -> int:
    """The number of a constraint among all, also those that are left out as redundant."""
    return int(np.delete(np.arange(k + len(system.implied)), system.implied)[which])


NEARLY = 1e-2
"""Ratio of singular values, or pivots, below which a failure may come of a singular point nearby."""


def is_near_singular(system: System, q: Any) -> bool:
    """Whether constraints are nearly dependent at q."""
    found = jax.tree.map(lambda x: np.asarray(x)[None], _jacobian_at(system, q))
    return bool(found.rank().constraints[0] < NEARLY)


def sizes(vectors: np.ndarray) -> np.ndarray:
    """Largest magnitudes: squares would overflow for coordinates beyond 1e154."""
    return np.abs(vectors).max(axis=-1, initial=0.0)


def conditioning(matrices: np.ndarray) -> np.ndarray:
    """Smallest over largest singular value, rows scaled to a common size first so that units do not matter."""
    if 0 in matrices.shape:
        return np.ones(len(matrices))
    size = np.abs(matrices).max(axis=2, keepdims=True)
    values = np.linalg.svd(matrices / np.where(size > 0, size, 1.0), compute_uv=False)
    return values[:, -1] / np.maximum(values[:, 0], np.finfo(float).tiny)
