"""The harmonic oscillator, the one system here without a constraint."""

import jax.numpy as jnp

from holonax.inputs.checks import choice
from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry


def oscillator(noise: str = "additive", sigma: float = 0.5) -> Entry:
    r"""$L = (v^2 - q^2)/2$; noise `"additive"`, $\gamma = \sigma q$, or `"multiplicative"`, $\gamma = \sigma q^2/2$.

    With additive noise the solution is Gaussian around $(q, p) = (\cos t, -\sin t)$, and mean energy, variances and
    covariance are known.
    """
    potentials = {"additive": lambda q: sigma * q, "multiplicative": lambda q: 0.5 * sigma * q**2}
    choice("noise", noise, potentials)
    system = System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, noise=potentials[noise], n=1)
    additive = {
        "mean_q": jnp.cos,
        "mean_p": lambda t: -jnp.sin(t),
        "mean_energy": lambda t: 0.5 + 0.5 * sigma**2 * t,
        "var_q": lambda t: sigma**2 * (t / 2 - jnp.sin(2 * t) / 4),
        "var_p": lambda t: sigma**2 * (t / 2 + jnp.sin(2 * t) / 4),
        "cov": lambda t: sigma**2 * jnp.sin(t) ** 2 / 2,
    }
    return Entry("oscillator", system, start(system, q=[1.0]), facts=additive if noise == "additive" else {})
