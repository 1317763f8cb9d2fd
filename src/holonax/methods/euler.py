r"""Constrained stochastic variational Euler methods: one Newton solve for $(\hat v, \lambda)$, then the projection.

All have order 1, strong order 1 and weak order 1, and keep both constraints to round-off.  They fail when no point
of $S$ is within reach of the step: $h|v|$ too large for the curvature of the constraint.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, final

import jax.numpy as jnp
from jax import Array

from holonax.mechanics.noise import Increment
from holonax.mechanics.projection import project_momentum
from holonax.mechanics.system import State, System
from holonax.methods.base import Method, Report
from holonax.numerics.newton import Newton, Status

Residual = Callable[[Array, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class _Euler(Method):
    """What the Euler methods share: the solve, the update of q and the projection."""

    newton: Newton = field(default=Newton(), repr=False)

    cost: ClassVar[str] = "n + k"
    order: ClassVar[int] = 1
    strong_order: ClassVar[float] = 1.0
    weak_order: ClassVar[int] = 1
    symmetric: ClassVar[bool] = False

    @abstractmethod
    def equations(self, system: System, state: State, increment: Increment) -> tuple[Residual, Callable[..., Array]]:
        r"""The residual in $(\hat v, \lambda)$, and $\hat p$ as a function of the solution."""

    def step(self, system: System, state: State, increment: Increment) -> tuple[State, Report]:
        """Advance one path by one step."""
        q, h = state.q, increment.h
        residual, p_hat = self.equations(system, state, increment)
        guess = (state.guess, 0 * system.g(q))
        (v, lam), solved = self.newton(residual, guess)
        q1 = q + h * v
        end = project_momentum(system, q1, p_hat(v, lam), v, self.newton)
        report = Report.of(solved.then(end.solved), V=v[None], lam=jnp.stack([lam, end.mu]))
        return State(q1, end.p, end.v), report


@final
@dataclass(frozen=True)
class EulerA(_Euler):
    r"""Constrained stochastic variational Euler, force and noise at $q_k$: symplectic on $T^*S$ for every $L$.

    With $\lambda = h\Lambda$ the impulse of the constraint, solves for $(\hat v, \lambda)$

    $$ L_v(q_k, \hat v) = p_k + h L_q(q_k, \hat v) + \sum_r \gamma_r'(q_k)\,\Delta W_r + g'(q_k)^T \lambda, \qquad
       g(q_k + h \hat v) = 0, $$

    then projects $\hat p = L_v(q_k, \hat v)$ onto the cotangent space at $q_{k+1}$.

    Paper: (variationaleulerA) with noise, (projectionstep).  Order 1, strong order 1, weak order 1.
    """

    def equations(self, system: System, state: State, increment: Increment) -> tuple[Residual, Callable[..., Array]]:
        """Force, noise and Legendre transform at the beginning of the step."""
        q, p, h = state.q, state.p, increment.h
        kick = system.kick(q, increment.dW)

        def p_hat(v: Array, lam: Array) -> Array:
            return p + h * system.force(q, v) + kick + system.reaction(q, lam)

        def residual(v: Array, lam: Array) -> tuple[Array, Array]:
            return system.momentum(q, v) - p_hat(v, lam), system.g(q + h * v) / h

        return residual, p_hat


@final
@dataclass(frozen=True)
class EulerB(_Euler):
    r"""The adjoint of `EulerA`, force and noise at $q_{k+1}$: symplectic on $T^*S$ for every $L$.

    Solves for $(\hat v, \lambda)$

    $$ L_v(q_{k+1}, \hat v) = p_k + g'(q_k)^T \lambda, \qquad q_{k+1} = q_k + h\hat v, \qquad g(q_{k+1}) = 0, $$

    and projects $\hat p = L_v(q_{k+1}, \hat v) + h L_q(q_{k+1}, \hat v) + \sum_r \gamma_r'(q_{k+1})\,\Delta W_r$.

    The form that belongs to the tableau (1 | 1); the paper prints another one, `EulerPrinted` (docs/errata.md, E2).
    Order 1, strong order 1, weak order 1.
    """

    def equations(self, system: System, state: State, increment: Increment) -> tuple[Residual, Callable[..., Array]]:
        """Force, noise and Legendre transform at the end of the step."""
        q, p, h = state.q, state.p, increment.h

        def residual(v: Array, lam: Array) -> tuple[Array, Array]:
            q1 = q + h * v
            return system.momentum(q1, v) - p - system.reaction(q, lam), system.g(q1) / h

        def p_hat(v: Array, lam: Array) -> Array:
            q1 = q + h * v
            return p + system.reaction(q, lam) + h * system.force(q1, v) + system.kick(q1, increment.dW)

        return residual, p_hat


@final
@dataclass(frozen=True)
class EulerPrinted(_Euler):
    r"""The Euler method as the paper prints it; **symplectic only for separable** $L = T(v) - U(q)$.

    Force at $(q_k, v_k)$, Legendre transform at $(q_{k+1}, \hat v)$:

    $$ L_v(q_{k+1}, \hat v) = p_k + h L_q(q_k, v_k) + \sum_r \gamma_r'(q_k)\,\Delta W_r + g'(q_k)^T \lambda, \qquad
       g(q_k + h\hat v) = 0, $$

    then the projection.  Paper: (veulerqupdate)-(veulerlt), (variationaleulerB).  Where $L_q$ depends on $v$ the
    2-form is not preserved (docs/errata.md, E2): prefer `EulerA` or `EulerB`.  Order 1, strong order 1, weak order 1.
    """

    symplectic: ClassVar[bool] = False

    def equations(self, system: System, state: State, increment: Increment) -> tuple[Residual, Callable[..., Array]]:
        """Force and noise at the beginning, Legendre transform at the end of the step."""
        q, p, h = state.q, state.p, increment.h
        (v_k,), solved = self.newton(lambda v: system.momentum(q, v) - p, (state.guess,))
        v_k = jnp.where(solved.status == Status.CONVERGED, v_k, jnp.nan)  # fails the step
        p_free = p + h * system.force(q, v_k) + system.kick(q, increment.dW)

        def p_hat(v: Array, lam: Array) -> Array:
            return p_free + system.reaction(q, lam)

        def residual(v: Array, lam: Array) -> tuple[Array, Array]:
            q1 = q + h * v
            return system.momentum(q1, v) - p_hat(v, lam), system.g(q1) / h

        return residual, p_hat
