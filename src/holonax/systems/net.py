"""A cloth of beads and rods that hangs from its upper edge."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.inputs.checks import at_least
from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry


def net(rows: int = 3, columns: int = 3, sigma: float = 0.3) -> Entry:
    r"""Unit masses on a grid, joined by unit rods to their neighbours: $n = 3 r c$, $k = r (2c - 1)$.

    $L = |v|^2/2 - \sum_i z_i$.  Each bead has a rod to the one on its right and one to the one above it; those of the
    upper row hang from fixed points.  Noise $\gamma = \sigma q$ on every coordinate, hence
    $E\,H(t) = H(0) + \sigma^2 (n - k) t/2$ with $n - k = r (c + 1)$.  Starts at rest, folded along its columns and held
    out obliquely.
    """
    rows = at_least(1, "rows", rows, "a net has at least 1 row")
    columns = at_least(1, "columns", columns, "a net has at least 1 column")

    across = np.tile([[0.8, 0.6, 0.0], [0.8, -0.6, 0.0]], (columns, 1))[: columns - 1]
    edge = np.concatenate([np.zeros((1, 3)), np.cumsum(across, axis=0)])  # the fixed points
    down = np.cumsum(np.tile([[0.0, 0.8, -0.6], [0.0, 0.6, -0.8]], (rows, 1))[:rows], axis=0)

    def rods(q: Array) -> Array:
        places = q.reshape(rows, columns, 3)
        hung = jnp.concatenate([edge[None], places])
        links = [jnp.diff(places, axis=1), jnp.diff(hung, axis=0)]
        return jnp.concatenate([jnp.sum(link**2, axis=2).ravel() for link in links]) - 1.0

    system = System(
        lagrangian=lambda q, v: 0.5 * v @ v - jnp.sum(q.reshape(-1, 3)[:, 2]),
        constraint=rods,
        noise=lambda q: sigma * q,
        n=3 * rows * columns,
    )
    begin = start(system, q=(edge[None] + down[:, None]).ravel())
    rate = 0.5 * sigma**2 * rows * (columns + 1)
    facts = {"mean_energy": lambda t: system.energy(begin.q, begin.p) + rate * t}
    return Entry("net", system, begin, facts=facts)
