"""A system that is not separable: position-dependent mass and a gyroscopic force, on an ellipsoid."""

import jax.numpy as jnp
from jax import Array

from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry

AXES = (1.0, 1.3, 0.8)


def ellipsoid(sigma: float = 0.5) -> Entry:
    r"""$L = \frac12 v^T M(q) v + A(q) \cdot v - U(q)$ on $\sum (q_i/a_i)^2 = 1$.

    $M = I + 0.3\,u u^T$ with $u = (\sin q_y, \cos q_z, q_x)$; $A = \frac12 (1 + 0.2 q_z)(-q_y, q_x, 0)$, a magnetic
    field that varies; $U = q_z + 0.2 q_x^2$; noise $\gamma = \sigma(\sin q_x, q_y q_z)$.  $L_q$ depends on $v$ in every
    way it can, which tells symplectic methods from those that only look so.
    """
    axes = jnp.asarray(AXES)

    def lagrangian(q: Array, v: Array) -> Array:
        x, y, z = q
        u = jnp.array([jnp.sin(y), jnp.cos(z), x])
        kinetic = 0.5 * v @ v + 0.15 * (u @ v) ** 2
        gyroscopic = 0.5 * (1.0 + 0.2 * z) * (x * v[1] - y * v[0])
        return kinetic + gyroscopic - z - 0.2 * x**2

    system = System(
        lagrangian,
        constraint=lambda q: jnp.sum((q / axes) ** 2) - 1.0,
        noise=lambda q: sigma * jnp.array([jnp.sin(q[0]), q[1] * q[2]]),
        n=3,
    )
    return Entry("ellipsoid", system, start(system, q=axes * jnp.array([0.6, 0.64, 0.48]), v=[0.6, 0.0, -0.6]))
