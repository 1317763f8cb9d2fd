"""Slices of traced programs: the same values from less."""

import jax
import jax.numpy as jnp
import numpy as np

from holonax.numerics.slicing import slice_of


def test_a_slice_keeps_what_depends_on_the_argument_and_what_is_constant():
    table = np.array([2, 0, 1])
    traced, large = {}, jnp.linspace(1.0, 2.0, 1000)

    def trace(y):
        def function(x):
            jnp.sum(jnp.exp(x))  # of no use
            given = jnp.sum(jnp.sin(large * y))
            return [x[table + 0] * given, given * jnp.ones(2)]

        traced["jaxpr"] = jax.make_jaxpr(function)(jnp.zeros(3))
        return y

    jax.make_jaxpr(trace)(0.5)  # y has no value yet
    jaxpr, constants = traced["jaxpr"].jaxpr, traced["jaxpr"].consts
    known = [None if isinstance(c, jax.core.Tracer) else np.asarray(c) for c in constants]
    assert any(value is None for value in known)
    function, given = slice_of(jaxpr, known)
    assert all(x.size < 1000 for x in given)
    sliced = jax.make_jaxpr(function)(jnp.zeros(3), *given)
    assert not {"exp", "sin"} & {equation.primitive.name for equation in sliced.eqns}
    x = jnp.array([1.0, 2.0, 3.0])
    found = function(x, *(jnp.full(g.shape, 4.0) for g in given))
    np.testing.assert_array_equal(found[0], 4.0 * x[table])
