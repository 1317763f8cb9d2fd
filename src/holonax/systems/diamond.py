"""Four atoms with five or all six of their distances fixed: loops on which successive corrections hardly converge."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError, shown
from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry

FIRST, SECOND = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3], [0, 3]]).T
"""Pairs of atoms; the last one is free where five distances are fixed."""


def diamond(distances: int = 5, sigma: float = 0.3) -> Entry:
    r"""Four unit masses in space with five or six distances fixed at 1: $n = 12$, $k$ = 5 or 6.

    $L = |v|^2/2$.  Five distances: two triangles with a common side, as the hinge of a folded sheet; starts flat, as
    a rhombus, where the hinge begins to fold.  Six distances: a rigid tetrahedron.  Both turn about the common side.
    Noise $\gamma = \sigma q$ on every coordinate, hence $E\,H(t) = H(0) + \sigma^2 (12 - k) t/2$.
    """
    if distances not in (5, 6):
        raise InputError(f"distances = {shown(distances)}: four atoms have 5 or 6 distances fixed")
    i, j = FIRST[:distances], SECOND[:distances]

    def rods(q: Array) -> Array:
        x = q.reshape(4, 3)
        return jnp.sum((x[i] - x[j]) ** 2, axis=1) - 1.0

    system = System(
        lagrangian=lambda q, v: 0.5 * v @ v,
        constraint=rods,
        noise=lambda q: sigma * q,
        n=12,
    )
    height = np.sqrt(0.75)  # of a triangle; the common side lies on the axis of y
    angle = np.pi if distances == 5 else np.arccos(1 / 3)  # between the triangles
    other = np.array([np.cos(angle), 0.0, np.sin(angle)])
    q = np.array([[height, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, -0.5, 0.0], height * other])
    v = np.cross([0.0, -1.0, 0.0], q)
    if distances == 5:
        v[3] *= -0.5  # the hinge folds as it turns
    begin = start(system, q.ravel(), v.ravel())
    rate = 0.5 * sigma**2 * (12 - distances)
    facts = {"mean_energy": lambda t: system.energy(begin.q, begin.p) + rate * t}
    return Entry("diamond", system, begin, facts=facts)
