"""The paper's stochastically perturbed spherical pendulum."""

import math
from functools import partial

import jax.numpy as jnp
from jax import Array

from holonax.inputs.checks import choice
from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry


def pendulum(noise: str | None = "sine", sigma: float = 1.0, gravity: float = 1.0) -> Entry:
    r"""Unit mass on the unit sphere, $L = |v|^2/2 - g q_z$, with a choice of stochastic potentials.

    * `"sine"`: $\gamma_i = \sigma \sin q_i$, the paper's example;
    * `"linear"`: $\gamma_i = \sigma q_i$, for which $E\,H(t) = H(0) + \sigma^2 t$;
    * `"axial"`: $\gamma = \sigma \sin q_z$, symmetric about the vertical, so that $J_z$ is conserved on every path;
    * None: no noise.
    """
    potentials = {
        "sine": lambda q: sigma * jnp.sin(q),
        "linear": lambda q: sigma * q,
        "axial": lambda q: sigma * jnp.sin(q[2]),
        None: None,
    }
    choice("noise", noise, potentials)
    system = System(
        lagrangian=lambda q, v: 0.5 * v @ v - gravity * q[2],
        constraint=lambda q: q @ q - 1.0,
        noise=potentials[noise],
        n=3,
    )
    begin = start(system, q=[1.0, 0.0, 0.0], v=[0.0, 1.0, 0.5])
    facts: dict = {"planar_period": partial(planar_period, gravity)}
    if noise == "linear":
        facts["mean_energy"] = lambda t: system.energy(begin.q, begin.p) + sigma**2 * t
    symmetric = noise in ("axial", None)
    return Entry("pendulum", system, begin, {"J_z": angular_momentum} if symmetric else {}, facts)


def angular_momentum(q: Array, p: Array) -> Array:
    """Angular momentum about the vertical."""
    return q[0] * p[1] - q[1] * p[0]


def planar_period(gravity: float, theta: float) -> float:
    r"""Period of the planar swing of amplitude $\theta$: $4K(\sin(\theta/2))/\sqrt g$, by Gauss's mean."""
    a, b = 1.0, math.cos(theta / 2)
    while abs(a - b) > 1e-15 * a:
        a, b = (a + b) / 2, math.sqrt(a * b)
    return 2 * math.pi / (a * math.sqrt(gravity))
