r"""Constrained stochastic variational partitioned Runge-Kutta methods, paper (csvprk)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
from jax import Array

from holonax.errors import TableauError
from holonax.inputs.checks import instance
from holonax.mechanics.noise import Increment
from holonax.mechanics.projection import project_momentum
from holonax.mechanics.system import State, System
from holonax.methods import tableaux
from holonax.methods.base import Method, Report
from holonax.methods.tableau import Tableau
from holonax.numerics.newton import Newton, Solved


class Stages(NamedTuple):
    """The end of a step before its projection, and the stages that led there."""

    q1: Array
    p_hat: Array
    V: Array
    lam: Array
    solved: Solved


def solve_stages(
    system: System,
    tableau: Tableau,
    newton: Newton,
    state: State,
    h: Array,
    weights: Array | None,
    force: Callable[[Array, Array], Array] | None = None,
) -> Stages:
    r"""The stages of (csvprk), in terms of the impulse that each stage exerts.

    Stage $j$ exerts the impulse of the force, of its constraint ($\lambda^j = h b_j \Lambda^j$) and of its noise,

    $$ I^j = h b_j L_q(Q^j, V^j) + g'(Q^j)^T \lambda^j + \sum_r w_{jr} \gamma_r'(Q^j), \qquad
       Q^i = q_k + h \sum_j a_{ij} V^j, $$

    of which the share $1 - a_{ji}/b_i$ has reached stage $i$, and all of it the end of the step:

    $$ L_v(Q^i, V^i) = p_k + \sum_j (1 - a_{ji}/b_i) I^j, \qquad g(Q^i) = 0 \ (i = 2..s), \qquad
       \hat p = p_k + \sum_j I^j. $$

    Since $a_{sj} = b_j$, the last impulse reaches no stage: $\lambda^s$ is left to the projection, where the hidden
    constraint fixes it.  Unknowns: $V^1..V^s$ and $\lambda^1..\lambda^{s-1}$.  `weights` is $w$; None for no noise.
    Another `force` than $L_q$ may act.
    The first stage is at $q_k$ itself, whatever the unknowns are: for RATTLE with a constant mass the momenta are then
    linear in them, which Newton can see.
    """
    q, p = state.q, state.p
    dtype, s = q.dtype, tableau.stages
    a, b, transfer = (jnp.asarray(x, dtype) for x in (tableau.a, tableau.b, tableau.transfer))
    w = jnp.zeros((s, 0), dtype) if weights is None else weights

    def push(b: Array, w: Array, Q: Array, V: Array) -> Array:
        """Impulse of force and noise."""
        impulse = h * b * (force or system.force)(Q, V)
        return impulse if weights is None else impulse + system.kick(Q, w)

    def impulses(V: Array, lam: Array) -> tuple[Array, Array]:
        """Of all stages but the last, and where those after the first are."""
        Q = q + h * a[1:] @ V
        first = (push(b[0], w[0], q, V[0]) + system.reaction(q, lam[0]))[None]
        if s == 2:
            return Q, first
        between = jax.vmap(push)(b[1:-1], w[1:-1], Q[:-1], V[1:-1]) + jax.vmap(system.reaction)(Q[:-1], lam[1:])
        return Q, jnp.concatenate([first, between])

    def residual(V: Array, lam: Array) -> tuple[Array, Array]:
        Q, impulse = impulses(V, lam)
        momenta = jnp.concatenate([system.momentum(q, V[0])[None], jax.vmap(system.momentum)(Q, V[1:])])
        return momenta - p - transfer[:, :-1] @ impulse, jax.vmap(system.g)(Q) / h

    def balancing(j: int) -> Array:
        """The multiplier that takes the normal part out of what stage j exerts, were it at the beginning."""
        exerted = p + push(b[j], w[j], q, state.guess)
        return project_momentum(system, q, exerted, state.guess, newton).mu

    # Where forces at stages that move enter, a strong one along the normal must be balanced from the start.
    multipliers = [balancing(j) for j in range(s - 1)] if s > 2 else [0 * system.g(q)]
    (V, lam), solved = newton(residual, (jnp.tile(state.guess, (s, 1)), jnp.stack(multipliers)))
    Q, impulse = impulses(V, lam)
    return Stages(Q[-1], p + impulse.sum(axis=0) + push(b[-1], w[-1], Q[-1], V[-1]), V, lam, solved)


class _PartitionedRungeKutta(Method):
    """The step; a method is this and a tableau."""

    tableau: Tableau
    newton: Newton

    @property
    def cost(self) -> str:
        """Unknowns of the stages."""
        return f"{self.tableau.stages}n + {self.tableau.stages - 1}k"

    @property
    def order(self) -> int:
        """Order for deterministic systems."""
        return self.tableau.order

    @property
    def strong_order(self) -> float:
        """Strong order with noise."""
        return self.tableau.strong_order

    @property
    def weak_order(self) -> int:
        """Weak order with noise."""
        return self.tableau.weak_order

    @property
    def symmetric(self) -> bool:
        """Whether a step backwards undoes a step forwards."""
        return self.tableau.is_symmetric()

    def step(self, system: System, state: State, increment: Increment) -> tuple[State, Report]:
        """Advance one path by one step: the stages, then the projection."""
        nu, kappa = (jnp.asarray(x, state.q.dtype)[:, None] for x in (self.tableau.nu, self.tableau.kappa))
        weights = nu * increment.dW + kappa * increment.H
        stages = solve_stages(system, self.tableau, self.newton, state, increment.h, weights)
        end = project_momentum(system, stages.q1, stages.p_hat, stages.V[-1], self.newton)
        report = Report.of(stages.solved.then(end.solved), stages.V, jnp.concatenate([stages.lam, end.mu[None]]))
        return State(stages.q1, end.p, end.v), report


@final
@dataclass(frozen=True)
class VPRK(_PartitionedRungeKutta):
    r"""The variational integrator of any tableau that meets Jay's condition: symplectic on $T^*S$ for every $L$.

    Solves `solve_stages` for $s n + (s - 1) k$ unknowns, then the projection for $n + k$.  Paper: (csvprk), with the
    closure of docs/methods.md.  A tableau that cannot work is refused with the reason.  Fails when $h|v|$ is too large
    for the curvature of the constraint.

    >>> import holonax as hx
    >>> hx.VPRK(hx.Tableau(a=[[0, 0], [1, 0]], b=[1, 0]))
    Traceback (most recent call last):
        ...
    holonax.errors.TableauError: this tableau cannot carry constraints: b_2 = 0; every weight must differ from 0
    """

    tableau: Tableau
    newton: Newton = field(default=Newton(), repr=False)

    def __post_init__(self) -> None:
        instance("tableau", self.tableau, Tableau, "pass one such as hx.tableaux.RATTLE or hx.Tableau(a, b)")
        if (reason := self.tableau.refusal()) is not None:
            raise TableauError(f"this tableau cannot carry constraints: {reason}")
        super().__post_init__()

    @classmethod
    def typical(cls) -> Iterator[Method]:
        """None: `Rattle`, `Lobatto` and `Lobatto32` are its examples."""
        yield from ()


@final
@dataclass(frozen=True)
class Rattle(_PartitionedRungeKutta):
    r"""Stochastic variational RATTLE, paper (rattle): order 2, symmetric, symplectic on $T^*S$ for every $L$.

    The variational integrator of the trapezoidal rule with noise weights $\nu = b$, $\kappa = 0$: strong order 1,
    weak order 1.  (No choice of $\nu, \kappa$ gives more with two stages: docs/errata.md, E3.)
    """

    newton: Newton = field(default=Newton(), repr=False)
    tableau: Tableau = field(default=tableaux.RATTLE, init=False, repr=False)


@final
@dataclass(frozen=True)
class Lobatto(_PartitionedRungeKutta):
    r"""Lobatto IIIA-IIIB with 2 to 6 stages: order $2s - 2$, symmetric, symplectic on $T^*S$ for every $L$.

    Noise weights $\nu = b$, $\kappa = 0$: strong order 1, weak order 1.  For deterministic systems, or weak noise; with
    noise prefer `Lobatto32` or `Kicked`.
    """

    stages: int = 3
    newton: Newton = field(default=Newton(), repr=False)
    tableau: Tableau = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tableau", tableaux.lobatto(self.stages))
        super().__post_init__()

    @classmethod
    def typical(cls) -> Iterator[Method]:
        """3 to 6 stages; with 2 it is `Rattle`."""
        return (cls(stages) for stages in (3, 4, 5, 6))


@final
@dataclass(frozen=True)
class Lobatto32(_PartitionedRungeKutta):
    r"""Three-stage Lobatto IIIA-IIIB with the noise weights of strong order 3/2 (weak order 2).

    $\nu = (x, 1 - 2x, x)$, $x = 1/2 - \sqrt2/3$, $\kappa = (1, 0, -1)$ solve the conditions (i)-(iii) of
    `Tableau.noise_conditions`.  Order 4 without noise; symmetric; symplectic on $T^*S$ for every $L$.
    """

    newton: Newton = field(default=Newton(), repr=False)
    tableau: Tableau = field(default=tableaux.LOBATTO_32, init=False, repr=False)
