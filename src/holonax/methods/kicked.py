r"""Kicks between RATTLE steps: strong order 3/2 at the cost of two RATTLE steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, final

import jax.numpy as jnp
from jax import Array

from holonax.inputs.checks import choice
from holonax.mechanics.noise import Increment
from holonax.mechanics.projection import project_momentum
from holonax.mechanics.system import State, System
from holonax.methods.base import Method, Report
from holonax.methods.tableau import Kicks
from holonax.methods.tableaux import KICKS, RATTLE
from holonax.methods.vprk import solve_stages
from holonax.numerics.newton import Newton


@final
@dataclass(frozen=True)
class Kicked(Method):
    r"""$\mathrm{Kick}(w_1)\,\mathrm{RATTLE}(h_1)\,\mathrm{Kick}(w_2) \ldots$ with the kicks at times $c_j h$ of a step.

    $\mathrm{Kick}(w): p \mapsto p + \sum_r w_r \gamma_r'(q)$, projected onto the cotangent space, is the exact flow of
    a constrained Hamiltonian, so every such composition is symplectic on $T^*S$ for every $L$.  With
    $w_j = \nu_j \Delta W + \kappa_j H$ the orders follow from `Kicks.noise_conditions`:

    | scheme | $c$ | strong | weak | symmetric |
    | --- | --- | --- | --- | --- |
    | "symmetric" | 0, 1/2, 1 | 3/2 | 2 | yes |
    | "milstein-tretyakov" | 0, 2/3 | 3/2 | 2 | no |
    | "midpoint" | 1/2 | 1 | 2 | yes |

    The projections between the parts are never computed: what they would add is $g'(q)^T \mu$ at the current $q$, and
    the first multiplier of the RATTLE step that follows, which acts at the same $q$, takes that into account anyway.
    One step solves two RATTLE steps and one projection.  Deterministic order 2.
    """

    scheme: str = "symmetric"
    newton: Newton = field(default=Newton(), repr=False)

    cost: ClassVar[str] = "2 x (2n + k)"
    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        choice("scheme", self.scheme, KICKS)
        super().__post_init__()

    @classmethod
    def typical(cls) -> Iterator[Method]:
        """All schemes."""
        return (cls(scheme) for scheme in KICKS)

    @property
    def kicks(self) -> Kicks:
        """Times and weights of the kicks."""
        return KICKS[self.scheme]

    @property
    def strong_order(self) -> float:
        """Strong order with noise."""
        return self.kicks.strong_order

    @property
    def weak_order(self) -> int:
        """Weak order with noise."""
        return self.kicks.weak_order

    @property
    def symmetric(self) -> bool:
        """Whether a step backwards undoes a step forwards."""
        return self.kicks.is_symmetric()

    def step(self, system: System, state: State, increment: Increment) -> tuple[State, Report]:
        """Advance one path by one step."""
        h, dW, H = increment
        drifts = []

        def drift(state: State, fraction: float) -> State:
            stages = solve_stages(system, RATTLE, self.newton, state, fraction * h, weights=None)
            drifts.append(stages)
            return State(stages.q1, stages.p_hat, stages.V[-1])

        def kick(state: State, w: Array) -> State:
            return state._replace(p=state.p + system.kick(state.q, w))

        now = 0.0
        for c, nu, kappa in zip(self.kicks.c, self.kicks.nu, self.kicks.kappa, strict=True):
            if c > now:
                state, now = drift(state, c - now), c
            state = kick(state, nu * dW + kappa * H)
        if now < 1.0:
            state = drift(state, 1.0 - now)
        end = project_momentum(system, state.q, state.p, state.guess, self.newton)

        solved = drifts[0].solved
        for stages in drifts[1:]:
            solved = solved.then(stages.solved)
        V = jnp.concatenate([stages.V for stages in drifts])
        lam = jnp.concatenate([stages.lam for stages in drifts] + [end.mu[None]])
        return State(state.q, end.p, end.v), Report.of(solved.then(end.solved), V, lam)
