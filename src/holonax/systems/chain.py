"""A bead-rod chain of any length, hanging from the origin."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError
from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry


def chain(beads: int = 4, sigma: float = 0.3) -> Entry:
    r"""Unit masses joined by unit rods in three dimensions: $n = 3 \cdot$ beads, $k$ = beads.

    $L = |v|^2/2 - \sum_i z_i$; rods $|q_i - q_{i-1}|^2 = 1$ with $q_0 = 0$; noise $\gamma = \sigma q$ on every
    coordinate, hence $E\,H(t) = H(0) + \sigma^2 (n - k) t/2$.  Starts at rest as a zigzag.
    """
    if beads < 1:
        raise InputError(f"beads = {beads}: a chain has at least 1 bead")

    def rods(q: Array) -> Array:
        places = q.reshape(beads, 3)
        links = jnp.diff(places, axis=0, prepend=jnp.zeros((1, 3), places.dtype))
        return jnp.sum(links**2, axis=1) - 1.0

    system = System(
        lagrangian=lambda q, v: 0.5 * v @ v - jnp.sum(q.reshape(beads, 3)[:, 2]),
        constraint=rods,
        noise=lambda q: sigma * q,
        n=3 * beads,
    )
    links = np.tile([[0.8, 0.0, -0.6], [0.0, 0.8, -0.6]], (beads, 1))[:beads]
    begin = start(system, q=np.cumsum(links, axis=0).ravel())
    rate = 0.5 * sigma**2 * (3 * beads - beads)
    facts = {"mean_energy": lambda t: system.energy(begin.q, begin.p) + rate * t}
    return Entry("chain", system, begin, facts=facts)
