"""Sparse Cholesky factorisation, against the matrix that it is the root of; Langevin's with masses that are coupled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.mechanics.inertia import root_of_mass
from holonax.numerics.sparse_root import RootPlan

RANDOM = np.random.default_rng(0)


def banded(n, apart):
    beside = np.diag(-0.9 * np.ones(n - apart), apart)
    return np.diag(2.0 + RANDOM.random(n)) + beside + beside.T


def grid(side):
    line = np.diag(np.ones(side - 1), 1)
    return 4.1 * np.eye(side**2) - np.kron(line + line.T, np.eye(side)) - np.kron(np.eye(side), line + line.T)


def full(n):
    matrix = RANDOM.normal(size=(n, n))
    return matrix @ matrix.T + np.eye(n)


MATRICES = {
    "diagonal": np.diag(1.0 + RANDOM.random(7)),
    "banded": banded(120, 3),
    "blocks": np.kron(np.eye(30), full(4)),
    "grid": grid(8),
    "full": full(12),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_root_times_its_transpose_is_the_matrix(name):
    matrix = MATRICES[name]
    rows, columns = np.nonzero(matrix)
    order = RANDOM.permutation(len(rows))
    rows, columns = rows[order], columns[order]
    plan = RootPlan(rows, columns, len(matrix))

    @jax.jit
    def both(entries, unit):
        root = plan.root(entries)
        return [jax.vmap(lambda x, by=by: by(root, x), out_axes=1)(unit) for by in (plan.times, plan.transposed)]

    C, transposed = both(matrix[rows, columns], jnp.eye(len(matrix)))
    np.testing.assert_allclose(C @ C.T, matrix, atol=1e-13 * np.abs(matrix).max())
    np.testing.assert_allclose(transposed, C.T, atol=0)


def test_a_pivot_tells_what_is_not_definite():
    matrix = banded(120, 3) - 2.2 * np.eye(120)
    rows, columns = np.nonzero(matrix)
    pivots, _ = RootPlan(rows, columns, 120).factors(jnp.asarray(matrix[rows, columns]))
    assert np.linalg.eigvalsh(matrix)[0] < 0
    assert float(pivots.min()) < 0


def coupled_chain(beads):
    """A chain of rods; neighbouring beads share some inertia, which depends on where they are."""

    def lagrangian(q, v):
        x, u = q.reshape(-1, 3), v.reshape(-1, 3)
        shared = (1.0 + 0.2 * jnp.sin(jnp.diff(x, axis=0))) * jnp.diff(u, axis=0) ** 2
        return 0.5 * v @ v + 0.1 * jnp.sum(shared) - jnp.sum(x[:, 2])

    def rods(q):
        return jnp.sum(jnp.diff(q.reshape(-1, 3), axis=0) ** 2, axis=1) - 1.0

    along = RANDOM.normal(size=(beads, 3))
    x = np.cumsum(along / np.linalg.norm(along, axis=1, keepdims=True), axis=0)
    system = hx.System(lagrangian, rods, n=3 * beads)
    return system, hx.start(system, x.ravel(), RANDOM.normal(size=3 * beads), project=True)


def test_the_root_of_a_mass_of_many_coordinates_makes_no_matrix(monkeypatch):
    system, start = coupled_chain(40)
    mass = system.mass(jnp.asarray(start.q), jnp.zeros(120))
    monkeypatch.setattr(jnp.linalg, "cholesky", None)
    root = root_of_mass(system, jnp.asarray(start.q))
    C = jax.vmap(root.times, out_axes=1)(jnp.eye(120))
    np.testing.assert_allclose(C @ C.T, mass, atol=1e-13)


def test_langevin_with_a_mass_that_couples_neighbours_makes_no_matrix(monkeypatch):
    system, start = coupled_chain(70)
    monkeypatch.setattr(jnp.linalg, "cholesky", None)
    one, other = (
        hx.simulate(system, hx.Langevin(1.0, 0.5), start, t1=0.1, h=0.02, seed=seed, engine="llvm") for seed in (3, 4)
    )
    assert "loops over arrays" in one.reason
    assert np.abs(one.q[0, -1] - other.q[0, -1]).max() > 1e-3


@pytest.mark.study
@pytest.mark.parametrize("friction", [1.0, (1.0, 2.0, 0.0) * 70], ids=["one", "many"])
def test_langevin_with_such_a_mass_is_the_plain_step(friction):
    system, start = coupled_chain(70)
    method = hx.Langevin(friction, 0.5)
    run = hx.simulate(system, method, start, t1=0.1, h=0.02, seed=3, engine="llvm")
    noise = hx.increments(system, h=0.02, steps=5, seed=3, path=0, method=method)
    path = hx.integrate(system, method, start, noise)
    assert "loops over arrays" in run.reason
    assert np.abs(run.q[0, -1] - path.q[-1]).max() < 1e-9
    assert np.abs(run.p[0, -1] - path.p[-1]).max() < 1e-9


def test_a_large_mass_that_is_not_definite_is_refused():
    def lagrangian(q, v):
        return 0.5 * v @ v - 0.3 * jnp.sum(jnp.diff(v) ** 2)

    system = hx.System(lagrangian, n=150)
    start = hx.start(system, np.zeros(150))
    with pytest.raises(hx.InputError, match=r"not positive definite, which Langevin needs: .*pivot is -"):
        hx.simulate(system, hx.Langevin(1.0, 1.0), start, t1=0.1, h=0.05)
