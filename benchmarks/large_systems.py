"""Large systems of the benchmarks that are not in the catalogue."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array

import holonax as hx


def dimers(side: int = 3) -> hx.Entry:
    """Rigid dimers on a cubic lattice, Lennard-Jones between atoms of different ones, weak noise on all coordinates."""
    number = side**3
    first, second = np.triu_indices(2 * number, 1)
    different = first // 2 != second // 2
    first, second = first[different], second[different]

    def lagrangian(q: Array, v: Array) -> Array:
        x = q.reshape(-1, 3)
        power = jnp.sum((x[first] - x[second]) ** 2, axis=1) ** -3
        return 0.5 * v @ v - 4.0 * jnp.sum(power**2 - power)

    def rods(q: Array) -> Array:
        x = q.reshape(number, 2, 3)
        return jnp.sum((x[:, 1] - x[:, 0]) ** 2, axis=1) - 1.0

    system = hx.System(lagrangian, rods, lambda q: 0.05 * q, n=6 * number)
    places = 2.0 * np.stack(np.meshgrid(*3 * [np.arange(side)], indexing="ij"), axis=-1).reshape(-1, 1, 3)
    axes = np.eye(3)[np.arange(number) % 3]
    q = places + np.array([-0.5, 0.5])[:, None] * axes[:, None]
    return hx.Entry("dimers", system, hx.start(system, q.ravel()))


def star(beads: int) -> hx.Entry:
    """Rods from one bead to all others, weak noise on all coordinates."""
    system = hx.System(
        lambda q, v: 0.5 * v @ v,
        lambda q: jnp.sum((q[3:].reshape(-1, 3) - q[:3]) ** 2, axis=1) - 1.0,
        lambda q: 0.05 * q,
        n=3 * beads,
    )
    rods = np.random.default_rng(0).normal(size=(beads - 1, 3))
    rods /= np.linalg.norm(rods, axis=1, keepdims=True)
    return hx.Entry("star", system, hx.start(system, np.append(np.zeros(3), rods)))


def stiefel(rows: int, columns: int) -> hx.Entry:
    """Orthonormal columns: a dense constraint on a matrix."""
    first, second = np.triu_indices(columns)
    weights = np.arange(1.0, rows + 1)[:, None]

    def constraint(q: Array) -> Array:
        x = q.reshape(rows, columns)
        return (x.T @ x - jnp.eye(columns))[first, second]

    def lagrangian(q: Array, v: Array) -> Array:
        return 0.5 * v @ v - 0.5 * jnp.sum(weights * q.reshape(rows, columns) ** 2)

    system = hx.System(lagrangian, constraint, lambda q: 0.3 * q, n=rows * columns)
    q = np.linalg.qr(np.random.default_rng(1).normal(size=(rows, columns)))[0]
    return hx.Entry("stiefel", system, hx.start(system, q.ravel()))


Density = Callable[[Array], Array]


def regression(data: int) -> tuple[Density, Density, np.ndarray]:
    """The fit of y = a exp(-b x) + 0.05 e as a manifold in (a, b, e): log density, constraint, and a point."""
    x = np.linspace(0.0, 2.0, data)
    y = 2.0 * np.exp(-0.7 * x) + 0.05 * np.random.default_rng(3).normal(size=data)

    def log_density(q: Array) -> Array:
        return -0.5 * q[2:] @ q[2:] - 0.02 * q[:2] @ q[:2]

    def constraint(q: Array) -> Array:
        return y - q[0] * jnp.exp(-q[1] * x) - 0.05 * q[2:]

    return log_density, constraint, np.array([2.0, 0.7, *(y - 2.0 * np.exp(-0.7 * x)) / 0.05])
