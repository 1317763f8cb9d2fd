"""A closed ring of beads and rods, with noise that respects all momenta."""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.inputs.checks import at_least
from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry


def ring(beads: int = 6, sigma: float = 0.3) -> Entry:
    r"""Unit masses joined to a ring by unit rods, free in space: $n = 3 \cdot$ beads, $k$ = beads.

    $L = |v|^2/2$; rods $|q_{i+1} - q_i|^2 = 1$, where the last bead is joined to the first.  Noise on every bend,
    $\gamma_i = \sigma |q_{i+1} - q_{i-1}|^2/2$: it depends on distances alone, so the momentum $\sum_i p_i$ and the
    angular momentum $\sum_i q_i \times p_i$ are conserved on every path.  Starts as a crown (neighbours up and down,
    but for one pair where their number is odd) that turns about its axis.
    """
    beads = at_least(3, "beads", beads, "a ring has at least 3 beads")

    def squares(q: Array, apart: int) -> Array:
        places = q.reshape(beads, 3)
        return jnp.sum((jnp.roll(places, -apart, axis=0) - places) ** 2, axis=1)

    system = System(
        lagrangian=lambda q, v: 0.5 * v @ v,
        constraint=lambda q: squares(q, 1) - 1.0,
        noise=lambda q: 0.5 * sigma * squares(q, 2),
        n=3 * beads,
    )
    number = np.arange(beads)
    angles = 2 * np.pi * number / beads
    radius = 0.4 / np.sin(np.pi / beads)  # rods reach 0.8 along the circle and 0.6 across it
    q = np.stack([radius * np.cos(angles), radius * np.sin(angles), 0.3 * (-1.0) ** number], axis=1)
    v = np.stack([-q[:, 1], q[:, 0], 0 * angles], axis=1) / radius
    begin = start(system, q.ravel(), v.ravel(), project=beads % 2 == 1)
    symmetries = {f"{kind}_{axis}": partial(found, number) for kind, found in MOMENTA.items() for number, axis in AXES}
    return Entry("ring", system, begin, symmetries)


def total_momentum(axis: int, q: Array, p: Array) -> Array:
    """Of particles in space, along an axis."""
    return jnp.sum(p.reshape(-1, 3)[:, axis])


def total_angular_momentum(axis: int, q: Array, p: Array) -> Array:
    """Of particles in space, about an axis."""
    return jnp.sum(jnp.cross(q.reshape(-1, 3), p.reshape(-1, 3))[:, axis])


MOMENTA = {"P": total_momentum, "J": total_angular_momentum}
AXES = tuple(enumerate("xyz"))
