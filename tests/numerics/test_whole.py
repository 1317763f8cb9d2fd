"""Functions that stay whole compute, map and differentiate like the functions themselves."""

import jax
import jax.numpy as jnp
import numpy as np

from holonax.numerics.whole import whole


def wave(x, k):
    return jnp.sin(x) * k.astype(x.dtype)


WAVE = whole(wave)
X, K = jnp.array([0.3, -1.2, 2.0]), jnp.array([1, 2, 3], jnp.int32)


def test_it_is_one_equation():
    (equation,) = jax.make_jaxpr(lambda x: WAVE.bind(x, K))(X).eqns
    assert equation.primitive is WAVE


def test_values():
    expected = np.sin(X) * K
    np.testing.assert_allclose(WAVE.bind(X, K), expected, rtol=1e-15)
    np.testing.assert_allclose(jax.jit(WAVE.bind)(X, K), expected, rtol=1e-15)


def test_several_at_a_time():
    many = jnp.stack([X, 2 * X])
    both = jax.vmap(lambda x: WAVE.bind(x, K))(many)
    np.testing.assert_allclose(both, np.sin(many) * K, rtol=1e-15)
    matrix = jax.vmap(WAVE.bind, in_axes=(None, 0))(X, jnp.stack([K, 2 * K]))
    np.testing.assert_allclose(matrix, np.sin(X) * np.stack([K, 2 * K]), rtol=1e-15)


def test_derivatives():
    slope = jax.grad(lambda x: WAVE.bind(x, K).sum())(X)
    np.testing.assert_allclose(slope, np.cos(X) * K, rtol=1e-15)
    np.testing.assert_allclose(jax.jacfwd(lambda x: WAVE.bind(x, K))(X), np.diag(np.cos(X) * K), rtol=1e-15)
    assert jax.grad(lambda t: WAVE.bind(X, K).sum() + t)(0.0) == 1.0
