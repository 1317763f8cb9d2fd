"""The baseline that every comparison needs: a method that does not know of the constraint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import jax.numpy as jnp

from holonax.mechanics import eliminated
from holonax.mechanics.noise import Increment
from holonax.mechanics.system import State, System
from holonax.methods.base import Method, Report
from holonax.numerics.newton import Newton, Status


@final
@dataclass(frozen=True)
class EulerMaruyama(Method):
    r"""Euler-Maruyama on the eliminated equations, paper (firstorder): **leaves the manifold**, by $O(h)$ and growing.

    $$ q_{k+1} = q_k + h v_k, \qquad p_{k+1} = p_k + h\,b(q_k, p_k) + \sigma(q_k, p_k)\,\Delta W, $$

    with the drift $b$ (in Itô's form) and the diffusion $\sigma$ of `holonax.mechanics.eliminated`.  Neither symplectic
    nor symmetric; there to show what structure preservation buys.  Order 1; strong order 1 for $L$ quadratic in $v$,
    where $\sigma$ depends on $q$ alone; weak order 1.
    """

    newton: Newton = field(default=Newton(), repr=False)

    order: ClassVar[int] = 1
    strong_order: ClassVar[float] = 1.0
    weak_order: ClassVar[int] = 1
    symmetric: ClassVar[bool] = False
    symplectic: ClassVar[bool] = False
    keeps_manifold: ClassVar[bool] = False
    cost: ClassVar[str] = "n"

    def step(self, system: System, state: State, increment: Increment) -> tuple[State, Report]:
        """Advance one path by one step."""
        q, p, (h, dW, _) = state.q, state.p, increment
        (v,), solved = self.newton(lambda v: system.momentum(q, v) - p, (state.guess,))
        at = eliminated.terms(system, q, p, v)
        drift = at.drift + eliminated.ito_correction(system, q, p)
        p1 = p + h * drift + at.diffusion @ dW
        lam = h * at.lam_drift + at.lam_diffusion @ dW
        known = jnp.all(jnp.isfinite(p1)) | (solved.status != Status.CONVERGED)  # P or L_vv may be singular
        solved = solved._replace(status=jnp.where(known, solved.status, Status.SINGULAR))
        return State(q + h * v, p1, v), Report.of(solved, V=v[None], lam=lam[None])
