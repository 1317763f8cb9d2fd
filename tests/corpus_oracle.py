"""One step of a method on any system, by continuation: the near root is followed from a step that does not move.

Independent of the library's Newton, of its starts and of its choice of a root: the equations of the paper stand here as
one dense system, with all multipliers and the end velocity, every constraint and momentum scaled to size one, solved
for h and noise multiplied by 1/8, 2/8, ... 1.  Only derivatives of the user's functions come from JAX.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from oracle import lobatto

X = 0.5 - np.sqrt(2) / 3
Y = (1 - np.sqrt(2 / 3)) / 2
TABLEAUX = {
    "Rattle": (*lobatto(2), lobatto(2)[1], np.zeros(2)),
    "Lobatto3": (*lobatto(3), lobatto(3)[1], np.zeros(3)),
    "Lobatto32": (*lobatto(3), np.array([X, 1 - 2 * X, X]), np.array([1.0, 0.0, -1.0])),
}


class NoRootError(Exception):
    """The near root ends before the step is as long as it should be."""


def vector(function):
    return lambda q: jnp.atleast_1d(function(q)) if function is not None else jnp.zeros(0)


@functools.lru_cache(maxsize=512)
def equations(system, name, k):
    """F(x, q, p, h, dW, H) and the state (q1, p1) it belongs to, compiled; x begins with copies of v."""
    g, gamma = vector(system.constraint), vector(system.noise)
    L_q, L_v = jax.grad(system.lagrangian, 0), jax.grad(system.lagrangian, 1)
    G, dgamma = jax.jacrev(g), jax.jacrev(gamma)

    def euler(x, q, p, h, dW, H):
        n = len(q)
        V, v1, lam, mu = x[:n], x[n : 2 * n], x[2 * n : 2 * n + k], x[2 * n + k :]
        q1 = q + h * V
        push = p + G(q).T @ lam
        if name == "EulerA":
            push = push + h * L_q(q, V) + dW @ dgamma(q)
            stage, p_hat = push - L_v(q, V), push
        else:
            stage, p_hat = push - L_v(q1, V), push + h * L_q(q1, V) + dW @ dgamma(q1)
        p1 = p_hat + G(q1).T @ mu
        return (stage, p1 - L_v(q1, v1), g(q1) / h, G(q1) @ v1), (q1, p1)

    def vprk(x, q, p, h, dW, H):
        a, b, nu, kappa = TABLEAUX[name]
        n, s = len(q), len(b)
        V, v1 = x[: s * n].reshape(s, n), x[s * n : (s + 1) * n]
        lam, mu = x[(s + 1) * n : (s + 1) * n + (s - 1) * k].reshape(s - 1, k), x[(s + 1) * n + (s - 1) * k :]
        Q = q + h * a @ V
        impulse = [
            h * b[j] * L_q(Q[j], V[j]) + (nu[j] * dW + kappa[j] * H) @ dgamma(Q[j])
            + (G(Q[j]).T @ lam[j] if j < s - 1 else 0.0)
            for j in range(s)
        ]  # fmt: skip
        stages = [p + sum((1 - a[j, i] / b[i]) * impulse[j] for j in range(s)) - L_v(Q[i], V[i]) for i in range(s)]
        p1 = p + sum(impulse) + G(Q[-1]).T @ mu
        constraints = [g(Q[i]) / h for i in range(1, s)]
        return (*stages, p1 - L_v(Q[-1], v1), *constraints, G(Q[-1]) @ v1), (Q[-1], p1)

    def projection(x, q, p, h, dW, H):
        n = len(q)
        p1 = p + dW @ dgamma(q) + G(q).T @ x[n:]
        return (p1 - L_v(q, x[:n]), G(q) @ x[:n]), (q, p1)

    form = {"EulerA": euler, "EulerB": euler, "kick": projection}.get(name, vprk)

    def F(x, *data):
        parts, state = form(x, *data)
        return jnp.concatenate(parts), state

    return jax.jit(lambda x, *data: (*F(x, *data), jax.jacfwd(lambda y: F(y, *data)[0])(x)))


def solve(function, x, *data):
    """Newton's method on rows and columns scaled to size one, until it no longer gets better."""
    best, found, limit = np.inf, None, 1e-9
    for _ in range(60):
        value, state, jacobian = (np.asarray(y) if not isinstance(y, tuple) else y for y in function(x, *data))
        if not (np.isfinite(value).all() and np.isfinite(jacobian).all()):
            raise NoRootError
        rows = np.abs(jacobian).max(axis=1)
        columns = np.abs(jacobian / rows[:, None]).max(axis=0)
        scaled = jacobian / rows[:, None] / columns
        update = np.linalg.solve(scaled, value / rows) / columns
        limit = max(1e-9, 1e4 * np.finfo(float).eps * np.linalg.cond(scaled) / min(1.0, data[2]))
        size = np.abs(update * columns).max() / max(np.abs(x * columns).max(), 1e-300)
        if size < best:
            best, found = size, (x, [np.asarray(y) for y in state])
        elif best < limit:
            return found
        x = x - update
    if best < limit:
        return found
    raise NoRootError


def follow(system, name, q, p, v, h, dW, H):
    """The near root of a step, from a step that does not move."""
    n, k = len(q), len(np.atleast_1d(vector(system.constraint)(jnp.asarray(q))))
    stages = {"EulerA": 1, "EulerB": 1, "kick": 0}.get(name) if name not in TABLEAUX else len(TABLEAUX[name][1])
    multipliers = k * (stages if stages else 1) + (k if stages == 1 else 0)
    x = np.concatenate([np.tile(v, stages + 1), np.zeros(multipliers)])
    function, parts = equations(system, name, k), 8 if name != "kick" else 1
    for part in range(1, parts + 1):
        t = part / parts
        x, state = solve(function, x, q, p, t * h, t * np.asarray(dW), t * np.asarray(H))
    return *state, x[stages * n : (stages + 1) * n]


def step(system, name, q, p, v, h, dW, H):
    """(q1, p1) of a method by name; v is the velocity that belongs to (q, p)."""
    if not name.startswith("Kicked"):
        return follow(system, name, q, p, v, h, dW, H)[:2]
    kicks = [(0.0, Y * dW + H), (0.5, (1 - 2 * Y) * dW), (1.0, Y * dW - H)]
    now, none = 0.0, 0 * dW
    for c, w in kicks:
        if c > now:
            q, p, v = follow(system, "Rattle", q, p, v, (c - now) * h, none, none)
            now = c
        q, p, v = follow(system, "kick", q, p, v, h, w, none)
    return q, p
