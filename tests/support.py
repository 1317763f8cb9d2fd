"""What several tests share: the methods and systems to run them on, and the 2-form on T*S."""

import functools
import math
import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import holonax as hx
from holonax import engines
from holonax.mechanics.closures import QUICKLY

METHODS = list(hx.Method.examples())
GEOMETRIC = [method for method in METHODS if method.keeps_manifold]
FOUR = ["pendulum", "ellipsoid", "double_pendulum", "rigid_body"]
OTHERS = [name for name in hx.systems.names() if name not in FOUR]
MANY_STAGES = (hx.Lobatto(4), hx.Lobatto(5), hx.Lobatto(6))
"""They compile longest; of their kind, three stages are tested more often."""
FEW = (hx.EulerA(), hx.Rattle(), hx.Kicked(), hx.Lobatto32())
"""One of each kind, for tests that compile derivatives of a step."""


BRIEF = {
    "ellipsoid": (hx.EulerB(), hx.EulerPrinted()),
    "chain": (hx.Rattle(),),
    "oscillator": (hx.Lobatto(3),),
    "ring": (hx.EulerA(),),
}
"""A method on a system takes seconds to compile: `make test` takes these, and on the pendulum all but MANY_STAGES."""


AVAILABLE = [name for name, engine in engines.ENGINES.items() if engine.missing() is None]
"""Engines of this machine."""


def heavy(*values):
    """Parameters of a test that is left to `make study`."""
    return pytest.param(*values, marks=pytest.mark.study)


def pairs(names, methods, few=False):
    """Parameters `name, method` of a test; of the methods on the pendulum only a FEW, if so wanted."""
    on_pendulum = FEW if few else [method for method in methods if method not in MANY_STAGES]
    return [
        pytest.param(name, method)
        if method in BRIEF.get(name, ()) or (name == "pendulum" and method in on_pendulum)
        else heavy(name, method)
        for name in names
        for method in methods
    ]


def mostly(names):
    """Engines as parameters of a test; XLA, which takes long to compile, is left to `make study`."""
    return [heavy(name) if name == "xla" else name for name in names]


def unless_too_large(simulate, *arguments, **options):
    """A run of an engine that is asked for by name; None if that cannot translate so large a program."""
    try:
        return simulate(*arguments, **options)
    except hx.InputError as error:
        if "cannot translate" in str(error):
            return None
        raise


def python(script, **environment):
    """What a process of its own prints."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def compilations():
    """The names of what JAX compiles meanwhile."""
    compiled, open_ = [], [True]
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if open_ and "backend_compile" in event else None
    )  # which cannot be taken back
    yield compiled
    open_.clear()


def quick_jit(function=None, **options):
    """`jax.jit` for programs that run once: compiled in half the time, they are half as fast."""
    return jax.jit(function, compiler_options=QUICKLY, **options)


SMALL = {"net": {"rows": 2, "columns": 2}, "water": {"molecules": 2, "density": 150.0}}
"""Arguments of systems that are large by default; at this density the cutoff is beyond the neighbours."""

UNIT = {"water": 2.0**-5}
"""Of time, where it is not 1: steps are shorter by this factor."""


@functools.cache
def entry(name):
    return getattr(hx.systems, name)(**SMALL.get(name, {}))


@functools.cache
def bent_curve():
    """A system, and a start: the curve is so strongly bent that kernels take many steps of h = 0.25 again."""
    system = hx.System(
        lambda q, v: 0.5 * v @ v, lambda q: q[0] ** 4 + q[1] ** 4 - 1.0, lambda q: 0.5 * jnp.sin(2.0 * q), n=2
    )
    return system, hx.start(system, [1.0, 0.0], [0.0, 1.0])


def oracle_name(method):
    """The name of a method in tests/oracle.py."""
    if isinstance(method, hx.Kicked):
        return f"Kicked:{method.scheme}"
    if isinstance(method, hx.Lobatto):
        return f"Lobatto{method.stages}"
    return type(method).__name__


def random_increment(system, n, h, seed):
    _, m = system.sizes(n)
    rng = np.random.default_rng(seed)
    dW, H = np.sqrt(h) * rng.normal(size=m), np.sqrt(h / 12) * rng.normal(size=m)
    return hx.Increment(jnp.asarray(h), jnp.asarray(dW), jnp.asarray(H))


LONGEST = 10_000


@functools.partial(quick_jit, static_argnums=(0, 1))
def _walk(system, method, start, noise, steps):
    def body(i, carry):
        state, status, g, hidden = carry
        state, report = method.step(system, state, jax.tree.map(lambda x: x[i], noise))
        g = jnp.maximum(g, jnp.max(jnp.abs(system.g(state.q)), initial=0.0))
        hidden = jnp.maximum(hidden, jnp.max(jnp.abs(system.hidden(state.q, state.v)), initial=0.0))
        return state, jnp.maximum(status, report.status), g, hidden

    start = hx.State(start.q, start.p, start.guess)
    return jax.lax.fori_loop(0, steps, body, (start, jnp.zeros((), jnp.int32), jnp.zeros(()), jnp.zeros(())))


@functools.partial(quick_jit, static_argnums=0)
def _velocity(system, q, p):
    return system.velocity(q, p)


def walk(system, method, start, noise):
    """The end of a path, the worst |g| and |g' v| on the way; raises if a step was not solved.

    One program per system and method serves every step size and every number of steps up to LONGEST.
    """
    steps = len(noise.dW)
    padded = jax.tree.map(lambda x: np.concatenate([x, np.zeros((LONGEST - steps, *x.shape[1:]))]), noise)
    state, status, g, hidden = _walk(system, method, start, padded, steps)
    assert int(status) == 0
    if method.keeps_manifold:  # `v` is the velocity that belongs to (q, p)
        v = _velocity(system, state.q, state.p)
        np.testing.assert_allclose(v, state.v, atol=1e-11, rtol=0)
        hidden = max(float(hidden), float(jnp.max(jnp.abs(system.hidden(state.q, v)), initial=0.0)))
    return state, float(g), float(hidden)


def step(system, method, state, increment):
    """One step, by the program of `walk`."""
    return walk(system, method, state, jax.tree.map(lambda x: np.asarray(x)[None], increment))[0]


@functools.partial(quick_jit, static_argnums=0)
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

    @quick_jit
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


def end_point(system, method, start, h, steps):
    """End of a path without noise."""
    _, m = system.sizes(start.q.shape[0])
    none = np.zeros((steps, m))
    return walk(system, method, start, hx.Increment(np.full(steps, h), none, none))[0]


def deterministic_slopes(name, method, t1, levels):
    """Slopes of the end-point error in q and p against a six-stage Lobatto reference."""
    system, start = entry(name).system, entry(name).start
    fine = 2 * max(levels)
    exact = end_point(system, hx.Lobatto(6), start, t1 / fine, fine)
    errors = []
    for steps in levels:
        end = end_point(system, method, start, t1 / steps, steps)
        errors.append([float(jnp.linalg.norm(end.q - exact.q)), float(jnp.linalg.norm(end.p - exact.p))])
    h = [t1 / steps for steps in levels]
    return [fitted_slope(h, column) for column in np.array(errors).T], np.array(errors)


def within(value, expected, tolerance):
    return math.isfinite(value) and abs(value - expected) <= tolerance


FIVE_SIGMA = 5.7e-7
"""A p-value: two-sided."""


def chi_squared(angles, density, bins=16):
    """p-value of independent angles against a density that need not be normalised."""
    counts, _ = np.histogram(angles, bins, range=(-np.pi, np.pi))
    middles = (np.arange(bins * 256) + 0.5) / (bins * 256) * 2 * np.pi - np.pi
    expected = np.asarray(jax.vmap(density)(middles)).reshape(bins, 256).sum(axis=1)
    return stats.chisquare(counts, expected / expected.sum() * len(angles)).pvalue
