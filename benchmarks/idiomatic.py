"""What a good JAX user writes without holonax: residuals by autodiff, Newton in a `while_loop`, `jit(vmap(scan))`.

Of holonax only the functions L, g, gamma of a system and the numbers of a tableau are used.  The noise comes from
`jax.random`, so paths differ from holonax's; the methods are the same.  Runs on whatever device JAX runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

MAX_ITERATIONS = 25
Step = Callable[["Functions", "Point", Array, Array, Array], "Point"]


class Functions(NamedTuple):
    """A system: Lagrangian, constraints and stochastic potentials, the latter two as vectors."""

    L: Callable[[Array, Array], Array]
    g: Callable[[Array], Array]
    gamma: Callable[[Array], Array]

    @classmethod
    def of(cls, system: Any) -> Functions:
        """The three functions of a `hx.System`."""
        return cls(
            system.lagrangian,
            lambda q: jnp.atleast_1d(system.constraint(q)),
            lambda q: jnp.atleast_1d(system.noise(q)),
        )


class Point(NamedTuple):
    """Position, momentum, and the velocity as Newton's next guess."""

    q: Array
    p: Array
    v: Array


def newton(residual: Callable[[Array], Array], x: Array, resolution: Array | float = 0.0) -> Array:
    """Plain Newton, until an update is below 0.1 sqrt(eps) relative, or below 16 eps times `resolution`."""
    eps = float(jnp.finfo(x.dtype).eps)

    def unfinished(carry: tuple) -> Array:
        x, size, count = carry
        bound = jnp.maximum(0.1 * eps**0.5 * jnp.max(jnp.abs(x)), 16 * eps * resolution)
        return (size > bound) & (count < MAX_ITERATIONS)

    def improve(carry: tuple) -> tuple:
        x, _, count = carry
        step = jnp.linalg.solve(jax.jacfwd(residual)(x), -residual(x))
        return x + step, jnp.max(jnp.abs(step)), count + 1

    return lax.while_loop(unfinished, improve, (x, jnp.asarray(jnp.inf, x.dtype), 0))[0]


def project(system: Functions, q: Array, p_hat: Array, guess: Array) -> Point:
    """The momentum of the cotangent space at q that differs from `p_hat` by a reaction."""
    n, zero = q.shape[0], jnp.zeros_like(system.g(q))
    _, reaction = jax.vjp(system.g, q)

    def residual(x: Array) -> Array:
        v, mu = x[:n], x[n:]
        hidden = jax.jvp(system.g, (q,), (v,))[1]
        return jnp.concatenate([jax.grad(system.L, 1)(q, v) - p_hat - reaction(mu)[0], hidden])

    x = newton(residual, jnp.concatenate([guess, zero]))
    return Point(q, p_hat + reaction(x[n:])[0], x[:n])


def euler_a(system: Functions, at: Point, h: Array, dW: Array, H: Array) -> Point:
    """Constrained stochastic variational Euler, force and noise at the beginning of the step."""
    q, p, guess = at
    n, zero = q.shape[0], jnp.zeros_like(system.g(q))
    reaction = jax.vjp(system.g, q)[1]
    kick = jax.vjp(system.gamma, q)[1](dW)[0]

    def p_hat(v: Array, lam: Array) -> Array:
        return p + h * jax.grad(system.L)(q, v) + kick + reaction(lam)[0]

    def residual(x: Array) -> Array:
        v, lam = x[:n], x[n:]
        return jnp.concatenate([jax.grad(system.L, 1)(q, v) - p_hat(v, lam), system.g(q + h * v) / h])

    x = newton(residual, jnp.concatenate([guess, zero]), jnp.max(jnp.abs(q)) / h)
    v, lam = x[:n], x[n:]
    return project(system, q + h * v, p_hat(v, lam), v)


def vprk(tableau: Any, system: Functions, at: Point, h: Array, dW: Array, H: Array) -> Point:
    """Constrained stochastic variational partitioned Runge-Kutta, for any tableau (a, b, nu, kappa)."""
    q, p, guess = at
    n, k, s = q.shape[0], system.g(q).shape[0], tableau.stages
    a, b, nu, kappa = (jnp.asarray(x, q.dtype) for x in (tableau.a, tableau.b, tableau.nu, tableau.kappa))
    transfer = 1.0 - a.T / b[:, None]
    weights = nu[:, None] * dW + kappa[:, None] * H

    def impulse(Q: Array, V: Array, lam: Array, b: Array, w: Array) -> Array:
        push, kick = jax.vjp(system.g, Q)[1](lam)[0], jax.vjp(system.gamma, Q)[1](w)[0]
        return h * b * jax.grad(system.L)(Q, V) + push + kick

    def stages(x: Array) -> tuple[Array, Array, Array]:
        V, lam = x[: s * n].reshape(s, n), jnp.concatenate([x[s * n :], jnp.zeros(k, x.dtype)]).reshape(s, k)
        Q = q + h * a @ V
        return Q, V, jax.vmap(impulse)(Q, V, lam, b, weights)

    def residual(x: Array) -> Array:
        Q, V, I = stages(x)
        momenta = jax.vmap(jax.grad(system.L, 1))(Q, V) - p - transfer @ I
        return jnp.concatenate([momenta.ravel(), jax.vmap(system.g)(Q[1:]).ravel() / h])

    guesses = jnp.concatenate([jnp.tile(guess, s), jnp.zeros((s - 1) * k, q.dtype)])
    x = newton(residual, guesses, jnp.max(jnp.abs(q)) / h)
    Q, V, I = stages(x)
    return project(system, Q[-1], p + I.sum(axis=0), V[-1])


def simulate(
    system: Functions,
    step: Step,
    q0: Array,
    p0: Array,
    *,
    h: float,
    steps: int,
    paths: int,
    areas: bool = False,
    dtype: str = "float64",
) -> Callable[[Array], tuple[Array, Array]]:
    """A compiled function from a key to the end states of `paths` paths, each of shape (paths, n).

    `areas` says whether the method needs the space-time Lévy areas H; otherwise they are not drawn.
    """
    q0, p0 = jnp.asarray(q0, dtype), jnp.asarray(p0, dtype)
    m = jax.eval_shape(system.gamma, q0).shape[0]
    size = jnp.asarray(h, dtype)
    root = jnp.sqrt(size)

    def advance(key: Array, at: Point, number: Array) -> tuple[Point, None]:
        z = root * jax.random.normal(jax.random.fold_in(key, number), (2 if areas else 1, m), dtype)
        return step(system, at, size, z[0], z[1] / 12.0**0.5 if areas else 0 * z[0]), None

    def path(key: Array) -> tuple[Array, Array]:
        end, _ = lax.scan(partial(advance, key), Point(q0, p0, jnp.zeros_like(q0)), jnp.arange(steps))
        return end.q, end.p

    return jax.jit(lambda key: jax.vmap(path)(jax.random.split(key, paths)))
