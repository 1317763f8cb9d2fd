r"""A constrained stochastic mechanical system, and a point of its phase space.

$$ dq = v\,dt, \qquad dp = L_q(q, v)\,dt + \sum_r \gamma_r'(q) \circ dW_r + g'(q)^T d\lambda, \qquad p = L_v(q, v),
\qquad g(q) = 0. $$

Three plain functions say it all; every derivative that the methods need is one line of autodiff here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import Array

from holonax.checks import at_least
from holonax.errors import InputError
from holonax.foreign import LARGEST_GUESSED_DIMENSION, Foreign
from holonax.solve import Newton, Status


class State(NamedTuple):
    r"""A point $(q, p)$ of $T^*S$; `v` is the velocity that belongs to it, kept only as Newton's next guess."""

    q: Any  # arrays of JAX, or of NumPy outside it
    p: Any
    v: Any = None

    @property
    def guess(self) -> Array:
        """The velocity to start Newton from: `v` if the last step left one, otherwise rest."""
        return jnp.zeros_like(self.q) if self.v is None else self.v


@final
@dataclass(frozen=True)
class System:
    r"""A Lagrangian $L(q, v)$ with holonomic constraints $g(q) = 0$ and stochastic potentials $\gamma_r(q)$.

    Args:
        lagrangian: `L(q, v)`, a scalar; need not be separable, but $L_{vv}$ must be invertible.
        constraint: `g(q)`, a scalar or a vector of $k < n$ independent functions; None if there is none.
        noise: `gamma(q)`, a scalar or a vector of $m$ potentials, each driven by its own Wiener process; None if none.
        n: number of coordinates.  Only `hx.increments` ever needs it, to count the potentials before there is a start;
            left out, it is the smallest number of coordinates that the three functions accept.

    Parameters are whatever the functions close over, as they are when the system is first used: programs are compiled
    once per system, so make a new `System` for new values, best with a function:

    >>> import holonax as hx
    >>> def pendulum(gravity):
    ...     return hx.System(lambda q, v: 0.5 * v @ v - gravity * q[2], constraint=lambda q: q @ q - 1.0)
    >>> pendulum(9.81).sizes(3)
    (1, 0)
    """

    lagrangian: Callable[[Array, Array], Array]
    constraint: Callable[[Array], Array] | None = None
    noise: Callable[[Array], Array] | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        for function in self.functions():
            function.check()
        if self.n is not None:
            object.__setattr__(self, "n", at_least(1, "n", self.n, "a system has at least 1 coordinate"))
        for function in self.functions():
            function.check_signature()

    # The three functions as vectors, also where there are none.

    def g(self, q: Array) -> Array:
        """Constraints, shape (k,)."""
        return (
            jnp.zeros((0,), q.dtype) if self.constraint is None else jnp.atleast_1d(self.constraint(q)).astype(q.dtype)
        )

    def gamma(self, q: Array) -> Array:
        """Stochastic potentials, shape (m,)."""
        return jnp.zeros((0,), q.dtype) if self.noise is None else jnp.atleast_1d(self.noise(q)).astype(q.dtype)

    # First derivatives.

    def momentum(self, q: Array, v: Array) -> Array:
        r"""Legendre transform $p = L_v(q, v)$."""
        return jax.grad(self.lagrangian, argnums=1)(q, v)

    def force(self, q: Array, v: Array) -> Array:
        r"""$L_q(q, v)$."""
        return jax.grad(self.lagrangian, argnums=0)(q, v)

    def hidden(self, q: Array, v: Array) -> Array:
        r"""Left side of the hidden constraint, $g'(q) v$."""
        return jax.jvp(self.g, (q,), (v,))[1]

    def reaction(self, q: Array, lam: Array) -> Array:
        r"""Impulse of the constraints, $g'(q)^T \lambda$."""
        return _pullback(self.g, q, lam)

    def kick(self, q: Array, w: Array) -> Array:
        r"""Impulse of the noise, $\sum_r w_r \gamma_r'(q)$."""
        return _pullback(self.gamma, q, w)

    # What follows from them.

    def mass(self, q: Array, v: Array) -> Array:
        r"""Mass matrix $L_{vv}(q, v)$."""
        return jax.jacfwd(self.momentum, argnums=1)(q, v)

    def velocity(self, q: Array, p: Array, guess: Array | None = None) -> Array:
        r"""Inverse Legendre transform: $v$ with $L_v(q, v) = p$; NaN where Newton finds none."""
        begin = jnp.zeros_like(q) if guess is None else guess
        (v,), solved = Newton()(lambda v: self.momentum(q, v) - p, (begin,))
        return jnp.where(solved.status == Status.CONVERGED, v, jnp.nan)

    def energy(self, q: Array, p: Array) -> Array:
        r"""Hamiltonian $H(q, p) = p \cdot v - L(q, v)$."""
        v = self.velocity(q, p)
        return p @ v - self.lagrangian(q, v)

    # Sizes.

    def functions(self) -> Iterator[Foreign]:
        """What there is of lagrangian, constraint and noise, to be tried out."""
        yield Foreign("lagrangian", self.lagrangian, ("q", "v"), "number")
        if self.constraint is not None:
            yield Foreign("constraint", self.constraint, ("q",), "vector")
        if self.noise is not None:
            yield Foreign("noise", self.noise, ("q",), "vector")

    def sizes(self, n: int) -> tuple[int, int]:
        """Number of constraints and of stochastic potentials `(k, m)` at `n` coordinates."""
        sizes = {function.name: math.prod(function.result(n).shape) for function in self.functions()}
        return sizes.get("constraint", 0), sizes.get("noise", 0)

    def dimension(self) -> int:
        """`n` as given, or the smallest number of coordinates that lagrangian, constraint and noise accept."""
        if self.n is not None:
            return self.n
        for n in range(1, LARGEST_GUESSED_DIMENSION + 1):
            if all(function.accepts(n) for function in self.functions()):
                return n
        for function in self.functions():
            function.check_anywhere()
        raise InputError(
            f"no number of coordinates up to {LARGEST_GUESSED_DIMENSION} fits lagrangian, constraint and noise; "
            "say it: hx.System(..., n=...)"
        )

    def check_derivatives(self, n: int) -> None:
        """Raise unless the functions have the derivatives that methods need, at `n` coordinates."""
        for function in self.functions():
            function.check_derivatives(n)


def _pullback(function: Callable[[Array], Array], q: Array, w: Array) -> Array:
    value, pullback = jax.vjp(function, q)
    return pullback(w.astype(value.dtype))[0]
