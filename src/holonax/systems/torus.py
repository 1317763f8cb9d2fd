"""A heavy particle on a torus, with noise that respects the axis."""

import jax.numpy as jnp
from jax import Array

from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry
from holonax.systems.pendulum import angular_momentum


def torus(large: float = 1.0, small: float = 0.5, sigma: float = 0.5) -> Entry:
    r"""$L = |v|^2/2 - q_z$ on $(\rho - R)^2 + q_z^2 = r^2$, $\rho^2 = q_x^2 + q_y^2$.

    Noise $\gamma = \sigma(\sin q_z, \rho^2/2)$: both are symmetric about the axis, so $J_z$ is conserved on every path.
    """

    def tube(q: Array) -> Array:
        return (jnp.hypot(q[0], q[1]) - large) ** 2 + q[2] ** 2 - small**2

    system = System(
        lagrangian=lambda q, v: 0.5 * v @ v - q[2],
        constraint=tube,
        noise=lambda q: sigma * jnp.array([jnp.sin(q[2]), 0.5 * (q[0] ** 2 + q[1] ** 2)]),
        n=3,
    )
    begin = start(system, q=[large + small, 0.0, 0.0], v=[0.0, 1.0, 0.5])
    return Entry("torus", system, begin, {"J_z": angular_momentum})
