"""What several tests share: the methods and systems to run them on, and the 2-form on T*S."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

import holonax as hx

METHODS = list(hx.Method.examples())
GEOMETRIC = [method for method in METHODS if method.keeps_manifold]
FOUR = ["pendulum", "ellipsoid", "double_pendulum", "rigid_body"]
OTHERS = [name for name in hx.systems.names() if name not in FOUR]


@functools.cache
def entry(name):
    return getattr(hx.systems, name)()


def oracle_name(method):
    """The name of a method in tests/oracle.py."""
    if isinstance(method, hx.Kicked):
        return f"Kicked:{method.scheme}"
    if isinstance(method, hx.Lobatto):
        return f"Lobatto{method.stages}"
    return type(method).__name__


@functools.cache
def compiled_step(method, system):
    """`method.step` as a compiled function of (state, increment)."""
    return jax.jit(functools.partial(method.step, system))


def random_increment(system, n, h, seed):
    _, m = system.sizes(n)
    rng = np.random.default_rng(seed)
    dW, H = np.sqrt(h) * rng.normal(size=m), np.sqrt(h / 12) * rng.normal(size=m)
    return hx.Increment(jnp.asarray(h), jnp.asarray(dW), jnp.asarray(H))


@functools.partial(jax.jit, static_argnums=(0, 1))
def noisy_path(system, method, start, noise):
    return hx.integrate(system, method, start, noise)


@functools.partial(jax.jit, static_argnums=0)
def _constraint_errors(system, q, p):
    def errors(q, p):
        return system.g(q), system.hidden(q, system.velocity(q, p))

    return [jnp.max(jnp.abs(x), initial=0.0) for x in jax.vmap(errors)(q, p)]


def constraint_errors(system, q, p):
    """Largest |g| and |g' v| over a path."""
    return [float(x) for x in _constraint_errors(system, q, p)]


@functools.partial(jax.jit, static_argnums=0)
def normals_of_cotangent_bundle(system, q, p):
    def defining(q, p):
        return jnp.concatenate([system.g(q), system.hidden(q, system.velocity(q, p))])

    return jnp.concatenate(jax.jacfwd(defining, argnums=(0, 1))(q, p), axis=1)


def tangent_basis(system, q, p):
    """Columns that span the tangent space of T*S = {g(q) = 0, g'(q) v(q, p) = 0} at (q, p)."""
    normals = np.asarray(normals_of_cotangent_bundle(system, q, p))
    return np.linalg.svd(normals)[2][normals.shape[0] :].T


def two_form_defect(system, method, states, increment):
    """Largest change of dq ^ dp on T*S under one step, over the given states."""

    @jax.jit
    def flow_jacobian(q, p):
        n = len(q)

        def flow(z):
            state, report = method.step(system, hx.State(z[:n], z[n:]), increment)
            return jnp.concatenate([state.q, state.p]), report.status

        return jax.jacfwd(flow, has_aux=True)(jnp.concatenate([q, p]))

    worst = 0.0
    for q, p in states:
        D, status = flow_jacobian(q, p)
        assert int(status) == 0
        n = len(q)
        form = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
        T = tangent_basis(system, q, p)
        moved = np.asarray(D) @ T
        worst = max(worst, np.abs(moved.T @ form @ moved - T.T @ form @ T).max())
    return worst


def fitted_slope(h, errors):
    """Least-squares slope of log(error) against log(h)."""
    return float(np.polyfit(np.log(h), np.log(errors), 1)[0])


@functools.partial(jax.jit, static_argnums=(0, 1))
def end_point(system, method, start, h, steps):
    """End of a path without noise; h and steps are run-time values, so one program serves every step size."""
    _, m = system.sizes(start.q.shape[0])
    increment = hx.Increment(h, jnp.zeros(m), jnp.zeros(m))

    def body(_, carry):
        state, status = carry
        state, report = method.step(system, state, increment)
        return state, jnp.maximum(status, report.status)

    state, status = jax.lax.fori_loop(0, steps, body, (start, jnp.zeros((), jnp.int32)))
    return state.q, state.p, status


def deterministic_slopes(name, method, t1, levels):
    """Slopes of the end-point error in q and p against a six-stage Lobatto reference."""
    system, start = entry(name).system, entry(name).start
    fine = 2 * max(levels)
    q_ref, p_ref, _ = end_point(system, hx.Lobatto(6), start, jnp.asarray(t1 / fine), fine)
    errors = []
    for steps in levels:
        q, p, status = end_point(system, method, start, jnp.asarray(t1 / steps), steps)
        assert int(status) == 0
        errors.append([float(jnp.linalg.norm(q - q_ref)), float(jnp.linalg.norm(p - p_ref))])
    h = [t1 / steps for steps in levels]
    return [fitted_slope(h, column) for column in np.array(errors).T], np.array(errors)


def within(value, expected, tolerance):
    return math.isfinite(value) and abs(value - expected) <= tolerance
