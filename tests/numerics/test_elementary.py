"""Own elementary functions against mpmath: at most 2 units in the last place, in JAX and inside the kernels."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import holonax as hx
from holonax.numerics import elementary

RANDOM = np.random.default_rng(0)
POSITIVE = np.concatenate(
    [
        RANDOM.uniform(0.0, 2.0, 2000),
        1.0 + RANDOM.choice([-1, 1], 500) * 2.0 ** -RANDOM.uniform(1, 52, 500),
        2.0 ** RANDOM.uniform(-1000, 1000, 500),
    ]
)
ANGLES = np.concatenate([RANDOM.uniform(-np.pi / 2, np.pi / 2, 2000), 2.0 ** -RANDOM.uniform(0, 60, 500)])
WIDE = np.concatenate([RANDOM.uniform(-50, 50, 1000), RANDOM.uniform(-1e6, 1e6, 500), np.pi * np.arange(1, 500)])


def worst_error(values, function, x):
    """In units in the last place of the exact value."""
    with mpmath.workprec(200):
        exact = [function(mpmath.mpf(float(a))) for a in x]
        return max(
            abs(float((mpmath.mpf(float(v)) - e) / mpmath.mpf(float(np.spacing(abs(float(e)))))))
            for v, e in zip(values, exact, strict=True)
        )


def test_logarithm():
    assert worst_error(jax.jit(elementary.log)(POSITIVE), mpmath.log, POSITIVE) < 2.0


def test_sine():
    assert worst_error(jax.jit(elementary.sine)(ANGLES), mpmath.sin, ANGLES) < 2.0


def in_kernel(function, x, engine):
    """`function` of x as an engine computes it: the force on free particles that start at x, after one step of 1."""

    @jax.custom_jvp
    def potential(q):
        return 0.0 * q

    @potential.defjvp
    def rule(primals, tangents):
        return 0.0 * primals[0], function(primals[0]) * tangents[0]

    system = hx.System(lambda q, v: 0.5 * v @ v + potential(q[0]), n=1)
    start = hx.State(jnp.asarray(x)[:, None], jnp.zeros((len(x), 1)))
    run = hx.simulate(system, hx.EulerA(), start, t1=1.0, h=1.0, engine=engine, save_every=None, on_failure="mark")
    return run.p[:, 0, 0]


@pytest.mark.parametrize("engine", ["llvm", "xla"])
@pytest.mark.parametrize(
    ("function", "exact", "x"),
    [
        (jnp.sin, mpmath.sin, WIDE),
        (jnp.cos, mpmath.cos, WIDE),
    ],
    ids=["sin", "cos"],
)
def test_sine_and_cosine_of_the_kernels(function, exact, x, engine):
    assert worst_error(in_kernel(function, x, engine), exact, x) < 2.0


def test_logarithm_and_exponential_of_the_kernels():
    assert worst_error(in_kernel(jnp.log, POSITIVE, "llvm"), mpmath.log, POSITIVE) < 2.0
    x = RANDOM.uniform(-700, 700, 2000)
    assert worst_error(in_kernel(jnp.exp, x, "llvm"), mpmath.exp, x) < 2.0


def test_at_the_ends_of_their_domains():
    x = np.array([5e-324, 1e-310, 1e308])
    np.testing.assert_allclose(in_kernel(jnp.log, x, "llvm"), np.log(x), rtol=1e-15)
    x = np.array([-800.0, -745.0, 709.0])
    np.testing.assert_allclose(in_kernel(jnp.exp, x, "llvm"), np.exp(x), rtol=1e-15)


def test_an_angle_that_a_double_does_not_know_is_a_failure():
    system = hx.System(lambda q, v: 0.5 * v @ v + jnp.sin(q[0]), n=1)
    start = hx.State(jnp.array([[1e17], [1.0]]), jnp.zeros((2, 1)))
    run = hx.simulate(system, hx.EulerA(), start, t1=1.0, h=1.0, engine="llvm", on_failure="mark")
    assert run.status.tolist() == [hx.Status.NON_FINITE, 0]
