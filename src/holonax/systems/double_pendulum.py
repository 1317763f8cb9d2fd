"""The planar double pendulum in Cartesian coordinates."""

import jax.numpy as jnp
from jax import Array

from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry
from holonax.viewer.drawing import Drawing


def double_pendulum(sigma: float = 0.5) -> Entry:
    r"""Two unit masses on two unit rods: $n = 4$, $k = 2$, $q = (x_1, y_1, x_2, y_2)$, gravity along $-y$.

    State-dependent noise $\gamma = \sigma(\sin x_1, \sin(x_2 + y_2))$.
    """

    def rods(q: Array) -> Array:
        first, second = q[:2], q[2:] - q[:2]
        return jnp.array([first @ first, second @ second]) - 1.0

    system = System(
        lagrangian=lambda q, v: 0.5 * v @ v - q[1] - q[3],
        constraint=rods,
        noise=lambda q: sigma * jnp.sin(jnp.array([q[0], q[2] + q[3]])),
        n=4,
        drawing=Drawing(dimension=2),
    )
    return Entry("double_pendulum", system, start(system, q=[1.0, 0.0, 1.0, -1.0], v=[0.0, 0.5, 0.3, 0.5]))
