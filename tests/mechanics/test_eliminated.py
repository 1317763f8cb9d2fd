"""The eliminated equations: projectors, the vanishing correction, and the step of the paper's last theorem."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.mechanics import eliminated
from support import entry, fitted_slope, heavy, step

QUARTIC = hx.System(  # L is not quadratic in v
    lambda q, v: 0.5 * v @ v + 0.1 * jnp.sum(v**4) - q[2], constraint=lambda q: q @ q - 1.0, noise=jnp.sin, n=3
)


def random_points(system, n, number=5):
    """Points of T*S: random ones, projected."""
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=(number, n)), 0.3 * rng.normal(size=(number, n))
    if n == 9:  # near a rotation, or the projection has far to go
        q = np.stack([np.linalg.qr(x.reshape(3, 3))[0].ravel() for x in q])
    if n == 4:
        q = np.stack([np.r_[x[:2] / np.linalg.norm(x[:2]), x[:2] / np.linalg.norm(x[:2]) + [0.6, 0.8]] for x in q])
    if n == 3:
        q /= np.linalg.norm(q, axis=1, keepdims=True)
    return hx.start(system, q=q, v=v, project=True)


@pytest.mark.parametrize("name", ["pendulum", *map(heavy, ("ellipsoid", "double_pendulum", "rigid_body"))])
def test_projectors_and_the_vanishing_correction(name):
    system = entry(name).system
    points = random_points(system, entry(name).n)
    P, B = jax.jit(jax.vmap(functools.partial(eliminated.projectors, system)))(points.q, points.p)
    identity = np.eye(entry(name).n)
    assert np.abs((identity - B) @ B).max() < 1e-12
    G = jax.vmap(jax.jacfwd(system.g))(points.q)
    assert np.abs(np.einsum("bij,bkj->bik", identity - B, G)).max() < 1e-12  # (Id - B) g'^T = 0
    np.testing.assert_allclose(P, np.swapaxes(P, 1, 2), atol=1e-14)
    correction = jax.jit(jax.vmap(functools.partial(eliminated.ito_correction, system)))(points.q, points.p)
    assert np.abs(correction).max() < 1e-12


@pytest.mark.parametrize("name", ["ellipsoid", *map(heavy, ("pendulum", "double_pendulum", "rigid_body"))])
def test_the_drift_keeps_the_hidden_constraint(name):
    """d(g' v) = 0 along drift and diffusion: the eliminated equations stay on T*S."""
    system = entry(name).system
    points = random_points(system, entry(name).n)

    def rates(q, p):
        def hidden(q, p):
            return system.hidden(q, system.velocity(q, p))

        at = eliminated.terms(system, q, p)
        along_drift = jax.jvp(hidden, (q, p), (at.v, at.drift))[1]
        along_noise = jax.vmap(lambda s: jax.jvp(lambda p: hidden(q, p), (p,), (s,))[1], in_axes=1)(at.diffusion)
        return along_drift, along_noise

    for rate in jax.jit(jax.vmap(rates))(points.q, points.p):
        assert np.abs(rate).max() < 1e-11


@pytest.mark.study
def test_the_parts_are_those_of_the_whole():
    e = entry("ellipsoid")
    q, p = e.start.q, e.start.p
    at = eliminated.terms(e.system, q, p)
    for one, other in zip(
        (*eliminated.projectors(e.system, q, p), *eliminated.multiplier(e.system, q, p)),
        (at.P, at.B, at.lam_drift, at.lam_diffusion),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(eliminated.drift(e.system, q, p)[1], at.drift)
    np.testing.assert_array_equal(eliminated.diffusion(e.system, q, p), at.diffusion)
    noise = jax.jacrev(e.system.gamma)(q).T
    np.testing.assert_allclose(at.diffusion, (np.eye(3) - at.B) @ noise, atol=1e-15)


def test_erratum_8_the_correction_does_not_vanish_where_the_lagrangian_is_not_quadratic():
    points = random_points(QUARTIC, 3)
    q, p = points.q[0], points.p[0]
    correction = eliminated.ito_correction(QUARTIC, q, p)
    assert float(jnp.abs(correction).max()) > 1e-3
    # against the closed form 1/2 sum_r B L_vvv(u_r, u_r), u_r = M^-1 sigma_r
    at = eliminated.terms(QUARTIC, q, p)
    M = QUARTIC.mass(q, at.v)
    third = jax.jacfwd(lambda v: QUARTIC.mass(q, v))(at.v)
    u = jnp.linalg.solve(M, at.diffusion)
    np.testing.assert_allclose(correction, 0.5 * at.B @ jnp.einsum("ijk,jr,kr->i", third, u, u), atol=1e-13)


def one_step_differences(system, step, h, paths=10_000):
    """(EulerA - EulerMaruyama) after one step on the same noise, for many draws: mean and root mean square."""
    noise = jax.vmap(lambda path: hx.increments(system, h=h, steps=1, seed=2, path=path))(jnp.arange(paths))
    noise = jax.tree.map(lambda x: x[:, 0], noise)
    # The martingale part is odd in dW to leading order; averaging over +dW and -dW leaves the mean.
    difference, opposite = step(noise), step(noise._replace(dW=-noise.dW))
    mean = jnp.linalg.norm((0.5 * (difference + opposite)).mean(axis=0))
    return float(mean), float(jnp.sqrt(jnp.mean(jnp.sum(difference**2, axis=1))))


@pytest.mark.parametrize("name", ["pendulum", pytest.param("ellipsoid", marks=pytest.mark.study)])
def test_one_step_differs_from_euler_maruyama_as_the_last_theorem_says(name):
    e = entry(name)

    @jax.jit
    @jax.vmap
    def step(noise):
        one, other = (method.step(e.system, e.start, noise)[0] for method in (hx.EulerA(), hx.EulerMaruyama()))
        return jnp.concatenate([one.q - other.q, one.p - other.p])

    steps = [2.0**-k for k in (6, 8, 10)]
    means, squares = zip(*(one_step_differences(e.system, step, h) for h in steps), strict=True)
    assert abs(fitted_slope(steps, means) - 2.0) < 0.15, means
    assert abs(fitted_slope(steps, squares) - 1.5) < 0.1, squares


def test_the_baseline_leaves_the_manifold_and_the_others_do_not():
    e = entry("pendulum")
    run = hx.simulate(e.system, hx.EulerMaruyama(), e.start, t1=5.0, h=2.0**-6, paths=20, seed=0)
    assert np.abs(np.sum(run.q**2, axis=-1) - 1.0).max() > 1e-2
    state = step(e.system, hx.EulerA(), e.start, hx.Increment(jnp.asarray(0.1), jnp.ones(3), jnp.zeros(3)))
    assert abs(float(state.q @ state.q) - 1.0) < 1e-15
