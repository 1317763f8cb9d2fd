r"""The Langevin system that samples a density on $\{g = 0\}$.

Langevin dynamics with the Lagrangian $L = \frac12 v^T M v + \log\rho(q)$ at temperature 1 samples $\rho\,d\sigma_M$,
where $\sigma_M$ is the surface measure of the metric $M$.  In terms of what users mean by a density on a surface,

$$ d\sigma_M = \sqrt{\det M}\,\sqrt{\det(g' M^{-1} g'^T)}\;\delta(g(q))\,dq
            = \sqrt{\det M}\,\sqrt{\frac{\det(g' M^{-1} g'^T)}{\det(g' g'^T)}}\;d\sigma, $$

the first by the co-area formula with the metric $M$, the second with the Euclidean one.  Dividing by the factor in
front gives a target that does not depend on $M$: the mass matrix is then a matter of speed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError
from holonax.inputs.checks import real_numbers
from holonax.inputs.foreign import Foreign
from holonax.mechanics.closures import fingerprint
from holonax.mechanics.system import System

MEASURES = ("surface", "delta")


def langevin_system(log_density: Any, constraint: Any, n: int, mass: Any, measure: str) -> System:
    """The system, after a look at the functions; the same one, hence compiled once, if they compute the same."""
    _check_functions(log_density, constraint, n)
    told = tuple(fingerprint(function, n) for function in (log_density, constraint) if function is not None)
    return _system(_Target(log_density, constraint, told, n, _mass_key(mass, n), measure))


def _check_functions(log_density: Any, constraint: Any, n: int) -> None:
    functions = [Foreign("log_density", log_density, ("q",), "number")]
    if constraint is not None:
        functions.append(Foreign("constraint", constraint, ("q",), "vector"))
    for function in functions:
        function.check(remembered=False)  # but by what it computes
        function.check_signature()
        function.result(n)
        function.check_derivatives(n)


def _mass_key(mass: Any, n: int) -> tuple[tuple[float, ...], ...] | None:
    """The mass matrix as something that can be compared."""
    if mass is None:
        return None
    matrix = real_numbers("mass", mass, f"pass a positive number, n = {n} of them, or a matrix ({n}, {n})")
    if matrix.shape in ((), (n,)):
        matrix = np.diag(np.broadcast_to(matrix, n))
    if (
        matrix.shape != (n, n)
        or not np.isfinite(matrix).all()
        or not np.allclose(matrix, matrix.T)
        or not np.linalg.eigvalsh(matrix).min() > 0
    ):
        raise InputError(f"mass must be a positive number, n = {n} of them, or a symmetric positive matrix ({n}, {n})")
    return tuple(map(tuple, (0.5 * (matrix + matrix.T)).tolist()))


@dataclass(frozen=True)
class _Target:
    """What is sampled.  Two targets are equal if their functions compute the same, whatever they close over now."""

    log_density: Callable[[Array], Array] = field(compare=False)
    constraint: Callable[[Array], Array] | None = field(compare=False)
    fingerprints: tuple[Any, ...]
    n: int
    mass: tuple[tuple[float, ...], ...] | None
    measure: str


@lru_cache(maxsize=64)
def _system(target: _Target) -> System:
    """The same one for equal targets."""
    log_density, constraint, n, mass, measure = (
        target.log_density, target.constraint, target.n, target.mass, target.measure
    )  # fmt: skip
    M = np.eye(n) if mass is None else np.array(mass)
    diagonal = np.diag(M) if np.count_nonzero(M) == n else None
    inverse = np.linalg.inv(M)
    g = None if constraint is None else lambda q: constraint(q)  # which has a hash
    surface = System(lambda q, v: 0.5 * v @ (M @ v if diagonal is None else diagonal * v), g, n=n)

    def over_mass(G: Array) -> Array:
        return G @ inverse @ G.T if diagonal is None else (G / diagonal) @ G.T

    @jax.jit  # traced once
    def potential(q: Array) -> Array:
        if constraint is None or (measure == "surface" and mass is None):
            return log_density(q)
        G = jax.jacfwd(surface.g)(q)
        if measure == "delta":
            return log_density(q) - 0.5 * _log_determinant(over_mass(G))
        return log_density(q) - 0.5 * (_log_determinant(over_mass(G)) - _log_determinant(G @ G.T))

    return System(lambda q, v: surface.lagrangian(q, v) + potential(q), g, n=n)


def _log_determinant(matrix: Array) -> Array:
    """Of a symmetric positive matrix."""
    if len(matrix) == 1:
        return jnp.log(matrix[0, 0])
    return 2 * jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(matrix))))
