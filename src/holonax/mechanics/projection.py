r"""Projections onto $S$ and onto the cotangent space of $S$: shared by the methods and by `start`."""

from __future__ import annotations

from typing import NamedTuple

from jax import Array

from holonax.mechanics.system import System
from holonax.numerics.newton import Newton, Solved


class Projected(NamedTuple):
    """A momentum in the cotangent space, its velocity, and the impulse that brought it there."""

    p: Array
    v: Array
    mu: Array
    solved: Solved


def project_momentum(system: System, q: Array, p_hat: Array, guess: Array, newton: Newton) -> Projected:
    r"""Projection step, paper (projectionstep): the $(v, \mu)$ with

    $$ L_v(q, v) = \hat p + g'(q)^T \mu, \qquad g'(q) v = 0. $$

    Itself the flow of a constrained Hamiltonian, hence symplectic on $T^*S$.
    """

    def residual(v: Array, mu: Array) -> tuple[Array, Array]:
        return system.momentum(q, v) - p_hat - system.reaction(q, mu), system.hidden(q, v)

    (v, mu), solved = newton(residual, (guess, 0 * system.g(q)))
    return Projected(p_hat + system.reaction(q, mu), v, mu, solved)


def project_position(system: System, q_hat: Array, newton: Newton) -> tuple[Array, Solved]:
    r"""The point $q = \hat q + g'(\hat q)^T \mu$ with $g(q) = 0$: on $S$, in the direction normal to the level set."""

    def residual(move: Array, mu: Array) -> tuple[Array, Array]:
        return move - system.reaction(q_hat, mu), system.g(q_hat + move)

    (move, _), solved = newton(residual, (0 * q_hat, 0 * system.g(q_hat)))
    return q_hat + move, solved
