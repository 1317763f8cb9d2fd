r"""A constrained stochastic mechanical system, and a point of its phase space.

$$ dq = v\,dt, \qquad dp = L_q(q, v)\,dt + \sum_r \gamma_r'(q) \circ dW_r + g'(q)^T d\lambda, \qquad p = L_v(q, v),
\qquad g(q) = 0. $$

Three plain functions say it all; every derivative that the methods need is one line of autodiff here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError
from holonax.solve import Newton, Status

LARGEST_GUESSED_DIMENSION = 64


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
        for name in ("lagrangian", "constraint", "noise"):
            function = getattr(self, name)
            if not callable(function) and (name == "lagrangian" or function is not None):
                raise InputError(f"{name} = {function!r} is not a function; write it as a plain Python function")
        if self.n is not None and self.n < 1:
            raise InputError(f"n = {self.n}: a system has at least 1 coordinate")

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

    def sizes(self, n: int) -> tuple[int, int]:
        """Number of constraints and of stochastic potentials `(k, m)` at `n` coordinates."""
        q = jax.ShapeDtypeStruct((n,), jnp.result_type(float))
        shapes = {"lagrangian": jax.eval_shape(self.lagrangian, q, q).shape}
        if shapes["lagrangian"] != ():
            raise InputError(f"lagrangian returns shape {shapes['lagrangian']} for n = {n}; it must return a scalar")
        for name, function in (("constraint", self.g), ("noise", self.gamma)):
            shapes[name] = jax.eval_shape(function, q).shape
            if len(shapes[name]) != 1:
                raise InputError(f"{name} returns shape {shapes[name]} for n = {n}; return a scalar or a vector")
        return shapes["constraint"][0], shapes["noise"][0]

    def dimension(self) -> int:
        """`n` as given, or the smallest number of coordinates that lagrangian, constraint and noise accept."""
        if self.n is not None:
            return self.n
        for n in range(1, LARGEST_GUESSED_DIMENSION + 1):
            if self.objection(n) is None:
                return n
        raise InputError(
            f"no number of coordinates up to {LARGEST_GUESSED_DIMENSION} fits lagrangian, constraint and noise; "
            "say it: hx.System(..., n=...)"
        )

    def objection(self, n: int) -> str | None:
        """Why the functions do not accept `n` coordinates, or None.

        Indices are tried on NumPy arrays, because one out of range raises there, whereas JAX clamps it silently.
        """
        q = np.full(n, 0.5)
        for name, arguments in (("lagrangian", (q, q)), ("constraint", (q,)), ("noise", (q,))):
            function = getattr(self, name)
            with np.errstate(all="ignore"), contextlib.suppress(AttributeError, TypeError, ValueError):
                try:  # what else a function that wants JAX arrays may raise here means nothing
                    function and function(*arguments)
                except IndexError as error:
                    return f"{name} does not accept {n} coordinates: {error}"
        try:
            self.sizes(n)
        except (TypeError, ValueError) as error:
            return f"the functions of the system do not accept {n} coordinates: {error}"
        return None


def _pullback(function: Callable[[Array], Array], q: Array, w: Array) -> Array:
    value, pullback = jax.vjp(function, q)
    return pullback(w.astype(value.dtype))[0]
