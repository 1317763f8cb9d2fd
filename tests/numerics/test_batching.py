"""Batches of LAPACK calls on a CPU: split, because XLA may wait for itself for ever otherwise."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.numerics.batching import over_paths

NOT_SPREAD = 100_000  # half of what was seen to hang


def largest_batch(function, *arguments):
    """The largest batch of matrices in the program of `over_paths`, in units of work."""
    text = str(jax.make_jaxpr(lambda *x: over_paths(function, *x))(*arguments))
    shapes = [[int(x) for x in shape.split(",")] for shape in re.findall(r"f64\[([\d,]+)\][^=\n]* = lu\b(?!_)", text)]
    return max(np.prod(shape) * shape[-1] for shape in shapes)


@pytest.mark.parametrize(("paths", "n"), [(10, 3), (8192, 3), (300, 20), (7, 90)])
def test_results_are_those_of_vmap_and_batches_are_small(paths, n):
    matrices = jnp.asarray(np.random.default_rng(0).normal(size=(paths, n, n)) + 3 * np.sqrt(n) * np.eye(n))
    right = jnp.ones((paths, n))
    np.testing.assert_allclose(
        jax.jit(lambda *x: over_paths(jnp.linalg.solve, *x))(matrices, right),
        np.linalg.solve(np.asarray(matrices), np.asarray(right)[..., None])[..., 0],
        atol=1e-12,
    )
    assert largest_batch(jnp.linalg.solve, matrices, right) <= max(NOT_SPREAD, n**3)


def test_programs_inside_programs_are_found():
    def hidden(x):
        return jax.lax.cond(x[0, 0] > 0, jax.jit(jnp.linalg.inv), lambda x: x, x)

    assert largest_batch(hidden, jnp.ones((8192, 3, 3))) <= NOT_SPREAD


def test_what_is_not_a_factorisation_of_matrices_is_left_alone():
    def tridiagonal(x):
        return jax.lax.linalg.tridiagonal_solve(x, 4.0 + x, x, x[:, None])[:, 0]

    x = jnp.tile(jnp.array([0.0, 0.5, 0.0]), (5, 1))
    np.testing.assert_allclose(over_paths(tridiagonal, x), jax.vmap(tridiagonal)(x))


@pytest.mark.study
def test_newton_counts_beyond_the_inline_sizes():
    entry = hx.systems.rigid_body()
    noise = hx.Increment(jnp.full(512, 0.1), jnp.zeros((512, 3)), jnp.zeros((512, 3)))
    state = jax.tree.map(lambda x: jnp.tile(x, (512, 1)), hx.State(entry.start.q, entry.start.p, entry.start.v))

    def step(state, noise):
        return hx.Rattle().step(entry.system, state, noise)[0].q

    assert largest_batch(step, state, noise) <= NOT_SPREAD


@pytest.mark.study
def test_what_used_to_hang_does_not():
    """A mean force of a molecule in two threads: several independent solutions of linear systems in one program."""
    code = """
import jax.numpy as jnp, holonax as hx
def bonds(q):
    a, b, c = q.reshape(3, 3)
    return jnp.array([(b - a) @ (b - a), (c - b) @ (c - b), (c - a) @ (c - a)]) - jnp.array([1.0, 1.0, 2.0])
system = hx.System(lambda q, v: 0.5 * v @ v, bonds, n=9)
start = hx.start(system, q=[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
run = hx.simulate(system, hx.Langevin(1.0, 1.0), start, t1=10.0, h=0.1, paths=512, save_every=None, engine="llvm",
                  observe={"force": hx.MeanForce(system, 1.0)})
assert run.observed["force"].count == 512 * 101
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
