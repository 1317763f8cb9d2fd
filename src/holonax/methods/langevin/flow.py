r"""The parts that a Langevin step is composed of: drift along a geodesic, kick, heat bath.

A part may leave the momentum off the cotangent space, by $g'(q)^T \mu$ at the current $q$.  Kicks and the bath do not
mind, being linear in $p$ up to the projection.  A drift could absorb it in its first multiplier, but Newton, which
starts from it, might then find another point of $S$: a strong force normal to $S$, which cannot matter, would matter.
So `settle` takes it out before every drift and at the end.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from holonax.mechanics.inertia import Root, root_of_mass
from holonax.mechanics.noise import Increment
from holonax.mechanics.projection import project_momentum
from holonax.mechanics.system import State, System
from holonax.methods.base import Method, Report
from holonax.methods.tableaux import RATTLE
from holonax.methods.vprk import solve_stages
from holonax.numerics.newton import Newton, Solved


class Passage:
    """A path on its way through a step: where it is, and what was solved so far."""

    def __init__(self, system: System, newton: Newton, state: State, settled: bool = False) -> None:
        self.system, self.newton, self.state = system, newton, state
        self.settled = settled  # on the cotangent space, v its velocity; that of a start is only a guess
        zero = jnp.zeros((), state.q.dtype)
        self.solved = Solved(jnp.zeros((), jnp.int32), zero, jnp.zeros((), jnp.int32))
        self.V: list[Array] = []
        self.lam: list[Array] = []

    def drift(self, t: Array) -> None:
        r"""A: one RATTLE step for the kinetic part $L(q, v) - L(q, 0)$ alone.

        Its force is the difference of two, which are the same term by term where the mass is constant.
        """
        self.settle()
        force = self.system.force

        def kinetic(q: Array, v: Array) -> Array:
            return force(q, v) - force(q, jnp.zeros_like(q))

        stages = solve_stages(self.system, RATTLE, self.newton, self.state, t, weights=None, force=kinetic)
        self._arrive(State(stages.q1, stages.p_hat, stages.V[-1]), stages.solved, stages.V, stages.lam)

    def kick(self, t: Array) -> None:
        r"""B: $p \mapsto p - t\,U'(q)$."""
        q = self.state.q
        self._push(self.state.p + t * self.system.force(q, jnp.zeros_like(q)))

    def bathe(self, t: Array, friction: float, temperature: float, dW: Array) -> None:
        r"""O with one friction for all coordinates, exact: with $c = e^{-\gamma t}$ and $C C^T = M$,

        $$ p_{kin} \mapsto c\,p_{kin} + \sqrt{T (1 - c^2)}\,C\,\Delta W/\sqrt t, \qquad \text{projected}. $$
        """
        q, p = self.state.q, self.state.p
        offset, factor = self._mass(q)
        decay = jnp.exp(-friction * t)
        strength = jnp.sqrt(-temperature * jnp.expm1(-2 * friction * t) / t)
        self._push(offset + decay * (p - offset) + strength * factor.times(dW))

    def bathe_midpoint(self, t: Array, friction: Array, temperature: float, dW: Array) -> None:
        r"""O with a friction for each coordinate: with $R = \mathrm{diag}\sqrt{\gamma_i}$, the $(v_1, \mu)$ with

        $$ p_1 = p - \frac t2 R M R (v + v_1) + \sqrt{2T}\,R\,C\,\Delta W + g'(q)^T \mu, \qquad g'(q) v_1 = 0. $$
        """
        self.settle()
        q, p, v = self.state
        _, factor = self._mass(q)
        root = jnp.sqrt(friction)
        noise = jnp.sqrt(2 * temperature) * root * factor.times(dW)

        def residual(v1: Array, mu: Array) -> tuple[Array, Array]:
            resistance = root * factor.times(factor.transposed(root * (v + v1)))
            impulse = noise - 0.5 * t * resistance + self.system.reaction(q, mu)
            return self.system.momentum(q, v1) - p - impulse, self.system.hidden(q, v1)

        (v1, mu), solved = self.newton(residual, (v, 0 * self.system.g(q)))
        self._arrive(State(q, self.system.momentum(q, v1), v1), solved, v1[None], mu[None], settled=True)

    def step(self, method: Method, h: Array) -> None:
        """A step of another method, without noise."""
        self.settle()
        none = jnp.zeros((method.noises(self.system, self.state.q.shape[0]),), self.state.q.dtype)
        state, report = method.step(self.system, self.state, Increment(h, none, none))
        solved = Solved(report.status, report.residual, report.iterations)
        self._arrive(state, solved, report.V, report.lam, settled=True)

    def settle(self) -> None:
        """Project the momentum, and find the velocity that belongs to it, unless that is the case already."""
        if not self.settled:
            q, p, guess = self.state.q, self.state.p, self.state.guess
            end = project_momentum(self.system, q, p, guess, self.newton)
            self._arrive(
                State(q, end.p, end.v), end.solved, jnp.zeros((0, len(q)), q.dtype), end.mu[None], settled=True
            )

    def report(self) -> Report:
        """What was solved on the way."""
        return Report.of(self.solved, jnp.concatenate(self.V), jnp.concatenate(self.lam))

    def energy(self) -> Array:
        """$H = p v - L(q, v)$ of a settled state."""
        q, p, v = self.state
        return p @ v - self.system.L(q, v)

    def _mass(self, q: Array) -> tuple[Array, Root]:
        """$L_v(q, 0)$, the momentum of rest, and a root of the mass matrix."""
        return self.system.momentum(q, jnp.zeros_like(q)), root_of_mass(self.system, q)

    def _push(self, p: Array) -> None:
        self.state, self.settled = self.state._replace(p=p), False

    def _arrive(self, state: State, solved: Solved, V: Array, lam: Array, settled: bool = False) -> None:
        self.state, self.solved, self.settled = state, self.solved.then(solved), settled
        self.V.append(V)
        self.lam.append(lam)
