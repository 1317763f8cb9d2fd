"""Systems that nobody here wrote: no false failure, no wrong root, constraints at round-off, engines that agree.

`make test` runs a sample; `make corpus` runs all of it.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import corpus
import corpus_oracle
import holonax as hx
from holonax.numerics.roundoff import magnitude
from support import unless_too_large

METHODS = {
    "EulerA": hx.EulerA(),
    "EulerB": hx.EulerB(),
    "Rattle": hx.Rattle(),
    "Kicked": hx.Kicked(),
    "Lobatto3": hx.Lobatto(3),
    "Lobatto32": hx.Lobatto32(),
}
STEPS = 4
EPS = np.finfo(float).eps

SAMPLE = {("normal noise 1e6", "EulerA")}


def cases():
    for name in corpus.CORPUS:
        for method in METHODS:
            marks = [] if (name, method) in SAMPLE else [pytest.mark.corpus]
            yield pytest.param(name, method, marks=marks, id=f"{name}-{method}")


@functools.cache
def foreign(name):
    return corpus.CORPUS[name]()


@functools.partial(jax.jit, static_argnums=(0, 1))
def plain_path(system, method, start, noise):
    return hx.integrate(system, method, start, noise)


def paths(name, method, h):
    """The same path by every engine: (q, p, status of each step)."""
    case = foreign(name)
    n = len(case.start.q)
    noise = hx.increments(case.system, h=h, steps=STEPS, seed=3, path=0, method=method)
    plain = plain_path(case.system, method, case.start, noise)
    yield "plain", np.asarray(plain.q), np.asarray(plain.p), int(plain.report.status[-1]), noise
    for engine in ("llvm", "xla") if n <= 24 else ("llvm",):
        options = {"t1": STEPS * h, "h": h, "paths": 1, "seed": 3, "engine": engine, "on_failure": "mark"}
        run = unless_too_large(hx.simulate, case.system, method, case.start, **options)
        if run is not None:
            yield engine, run.q[0], run.p[0], int(run.status[0]), noise


@functools.lru_cache(maxsize=64)
def measures(system):
    """Compiled: g over what round-off allows, its derivative G, the velocity, the matrix G M^-1 G^T and the mass."""

    def at(q, p):
        v = system.velocity(q, p)
        g, sizes = system.g(q), magnitude(system.g, q)
        G = jax.jacfwd(system.g)(q)
        M = system.mass(q, v)
        return jnp.abs(g) / sizes, G, v, G @ jnp.linalg.solve(M, G.T), M

    return jax.jit(at)


@pytest.mark.parametrize(("name", "method"), list(cases()))
def test_one_step_after_another(name, method):
    case = foreign(name)
    for h in case.h:
        last = None
        for engine, q, p, status, noise in paths(name, METHODS[method], h):
            check(case, method, h, engine, q, p, status, noise)
            if last is not None and status == 0 == last[2]:
                np.testing.assert_allclose(q[-1], last[0][-1], rtol=0, atol=tolerance(case, h) * np.abs(q).max())
            last = (q, p, status)


def tolerance(case, h):
    """Relative accuracy that the condition of the constraints leaves, and at least 1e-9."""
    *_, P, _ = measures(case.system)(case.start.q, case.start.p)
    scale = np.sqrt(np.diag(P))
    condition = np.linalg.cond(P / np.outer(scale, scale))
    return max(1e-9, 1e3 * EPS * np.sqrt(condition) / min(1.0, h))


def check(case, method, h, engine, q, p, status, noise):
    here = f"{method}, {engine}, h = {h:g}"
    limit = tolerance(case, h)
    for i in range(STEPS):
        *_, v, _, M = measures(case.system)(q[i], p[i])
        dW, H = np.asarray(noise.dW[i]), np.asarray(noise.H[i])
        try:
            q1, p1 = corpus_oracle.step(case.system, method, q[i], p[i], np.asarray(v), h, dW, H)
        except corpus_oracle.NoRootError:
            assert status != 0, f"{here}: there is no near root at step {i}, and status 0"
            return
        if np.array_equal(q[i + 1], q[i]) and status != 0:
            pytest.fail(f"{here}: {hx.Status(status).name} at step {i}, where there is a root")
        impulse = np.abs(np.asarray(M)).max() * np.abs(v).max() + np.abs(dW).max(initial=0.0)
        assert np.abs(q[i + 1] - q1).max() <= limit * max(np.abs(q1).max(), h * np.abs(v).max()), (
            f"{here}: q at step {i}"
        )
        assert np.abs(p[i + 1] - p1).max() <= max(limit, 1e-8) * impulse / min(1.0, h), f"{here}: p at step {i}"
        g, G, v1, P, _ = (np.asarray(x) for x in measures(case.system)(q[i + 1], p[i + 1]))
        assert np.max(g) <= 64 * EPS, f"{here}: g is {np.max(g) / EPS:.0f} eps at step {i}"
        hidden, cancelled = np.abs(G @ v1), np.abs(G) @ (np.abs(v) + np.abs(v1) + pushed(case, q[i], h, dW, M, G, P))
        assert np.all(hidden <= 1e3 * EPS * cancelled), f"{here}: g'v is {np.max(hidden / cancelled):.1e} at step {i}"


def pushed(case, q, h, dW, M, G, P):
    """Velocities due to force, noise and the reactions to them: what of them cancels leaves its round-off.

    Reactions of constraints that are nearly parallel are far larger than what they react to.
    """
    q = jnp.asarray(q)
    force = h * np.asarray(jax.grad(case.system.lagrangian)(q, jnp.zeros_like(q)))
    kick = np.asarray(case.system.kick(q, jnp.asarray(dW))) if dW.size else 0.0
    multipliers = np.linalg.solve(P, G @ np.linalg.solve(M, force + kick))
    return np.abs(np.linalg.inv(M)) @ (np.abs(force) + np.abs(kick) + np.abs(G.T) @ np.abs(multipliers))
