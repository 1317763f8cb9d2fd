r"""The eliminated equations as terms of diffrax, driven by the noise of `hx.increments`.

Where the multiplier is eliminated (`hx.eliminated`), what is left is an ordinary Stratonovich equation for
$y = (q, p)$, which any solver can be given: diffrax's `Heun`, `SPaRK` or `SlowRK`, or, where L is quadratic in v and
Itô's form is the same, its `Euler`.  Such solvers do not know of the manifold and leave it, by an error of their order.

>>> import diffrax, holonax as hx
>>> from holonax.interop.diffrax import Noise, sde_terms
>>> entry = hx.systems.pendulum()
>>> noise = Noise(hx.increments(entry.system, h=2.0**-6, steps=64, seed=0, path=17))
>>> solution = diffrax.diffeqsolve(sde_terms(entry.system, noise), diffrax.Heun(), t0=0.0, t1=1.0, dt0=2.0**-6,
...                                y0=(entry.start.q, entry.start.p))
>>> q, p = solution.ys
>>> q.shape
(1, 3)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from holonax.errors import InputError
from holonax.inputs.checks import instance
from holonax.mechanics import eliminated
from holonax.mechanics.noise import Increment
from holonax.mechanics.start import A_SYSTEM
from holonax.mechanics.system import System

try:
    import diffrax
    import equinox
    import lineax
except ImportError:
    raise InputError("holonax.interop.diffrax needs diffrax: pip install diffrax") from None

_ROUNDING = 1e-6  # of a step, for times that solvers add up
_ELSEWHERE = (
    "this noise is known at multiples of its h only, from its beginning to its end; take dt0 = h, a constant step"
)


class Noise(diffrax.AbstractBrownianPath):
    r"""The Wiener path of `increments`, for `diffrax.ControlTerm`: the same numbers that `hx.simulate` uses.

    It is known at the ends of its steps.  Solvers may take steps that begin and end there, such as `dt0` a multiple of
    h; for any other there is an error.  The space-time Lévy area is there as well, for solvers that ask for it.
    """

    t0: Any  # type: ignore[misc]
    t1: Any  # type: ignore[misc]
    h: Array
    W: Array  # at the ends of the steps
    integral: Array  # of W, likewise
    levy_area: Any = equinox.field(static=True)

    def __init__(self, increments: Increment, t0: float = 0.0) -> None:
        r"""Add the increments up: $\int W\,ds$ grows by $h(W + \Delta W/2 + H)$ in a step that begins at $W$."""
        instance(
            "increments", increments, Increment, "draw them with hx.increments(system, h=..., steps=..., seed=...)"
        )
        if jnp.ndim(increments.dW) != 2:
            raise InputError(f"increments.dW has shape {jnp.shape(increments.dW)}: one path is needed, (steps, m)")
        h, dW, H = increments
        none = jnp.zeros((1, dW.shape[1]), dW.dtype)
        self.W = jnp.concatenate([none, jnp.cumsum(dW, axis=0)])
        self.integral = jnp.concatenate([none, jnp.cumsum(h[:, None] * (self.W[:-1] + dW / 2 + H), axis=0)])
        self.t0, self.t1, self.h = t0, t0 + len(dW) * h[0], h[0]
        self.levy_area = diffrax.BrownianIncrement | diffrax.SpaceTimeLevyArea

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True, use_levy: bool = False) -> Any:
        """What the path does from t0 to t1; from its beginning to t0 if that is all."""
        if t1 is None:
            t0, t1 = self.t0, t0
        i, j = self._number(t0), self._number(t1)
        dW = self.W[j] - self.W[i]
        if not use_levy:
            return dW
        dt = jnp.asarray(t1 - t0, dW.dtype)
        mean = (self.integral[j] - self.integral[i]) / jnp.where(dt == 0, 1, dt)
        return diffrax.SpaceTimeLevyArea(dt=dt, W=dW, H=jnp.where(dt == 0, 0, mean - self.W[i] - dW / 2))

    def _number(self, t: Any) -> Array:
        steps = (t - self.t0) / self.h
        number = jnp.round(steps)
        elsewhere = (abs(steps - number) > _ROUNDING) | (number < 0) | (number >= len(self.W))
        return equinox.error_if(number.astype(int), elsewhere, _ELSEWHERE)


def sde_terms(system: System, noise: Any) -> diffrax.MultiTerm:
    r"""The equations of $y = (q, p)$ with the multiplier eliminated (Stratonovich), driven by a path of m dimensions.

    `noise` is a `Noise`, or any other path of diffrax, such as a `VirtualBrownianTree` of shape (m,).
    """
    instance("system", system, System, A_SYSTEM)

    def drift(t: Any, y: tuple[Array, Array], args: Any) -> tuple[Array, Array]:
        return eliminated.drift(system, *y)

    def diffusion(t: Any, y: tuple[Array, Array], args: Any) -> lineax.PyTreeLinearOperator:
        sigma = eliminated.diffusion(system, *y)
        return lineax.PyTreeLinearOperator((jnp.zeros_like(sigma), sigma), jax.eval_shape(lambda: y))

    return diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(diffusion, noise))
