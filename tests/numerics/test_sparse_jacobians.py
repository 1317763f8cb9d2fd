"""Sparse Jacobians: patterns, colours, and the same updates as dense elimination."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.cache import arrays as kept_arrays
from holonax.numerics import structure
from holonax.numerics.linear import Elimination, factors_of_diagonal
from holonax.numerics.structure import Sketch, SparseElimination
from support import heavy, quick_jit

BEADS = 20


@pytest.fixture(autouse=True)
def _even_if_it_is_small(monkeypatch):
    monkeypatch.setattr(structure, "WORTHWHILE", 10)
    monkeypatch.setattr(structure, "PER_OPERATION", 1)


def links(q, closed=False):
    x = q.reshape(-1, 3)
    return (jnp.roll(x, -1, axis=0) - x)[: None if closed else -1]


def constraints(kind):
    """Of beads in space, as users write them."""
    first, second = np.arange(BEADS - 1), np.arange(1, BEADS)
    return {
        "slices": lambda q: jnp.sum(links(q) ** 2, axis=1) - 1.0,
        "index arrays": lambda q: jnp.sum((q.reshape(-1, 3)[first] - q.reshape(-1, 3)[second]) ** 2, axis=1) - 1.0,
        "ring": lambda q: jnp.sum(links(q, closed=True) ** 2, axis=1) - 1.0,
        "centre of mass": lambda q: jnp.append(jnp.sum(links(q) ** 2, axis=1) - 1.0, jnp.sum(q.reshape(-1, 3)[:, 0])),
        "one by one": lambda q: jnp.stack(
            [jnp.sum((q[3 * i : 3 * i + 3] - q[3 * i + 3 : 3 * i + 6]) ** 2) - 1.0 for i in range(BEADS - 1)]
        ),
    }[kind]


def lagrangian(q, v):
    x, u = q.reshape(-1, 3), v.reshape(-1, 3)
    mass = 1.0 + x[:, 2:] ** 2  # a block for each bead
    return 0.5 * jnp.sum(mass * u**2) + 0.1 * jnp.sum(u[:, 0] * u[:, 1]) - jnp.sum(x[:, 2])


LAGRANGIANS = {"plain": lambda q, v: 0.5 * v @ v - jnp.sum(q[2::3]), "blocks": lagrangian}
KINDS = ["slices", "index arrays", "ring", "centre of mass", "one by one"]


def equations(kind, masses):
    """Residual of EulerA's step in the velocities and multipliers, and where to evaluate it."""
    system = hx.System(LAGRANGIANS[masses], constraints(kind), n=3 * BEADS)
    rng = np.random.default_rng(0)
    q = jnp.asarray(rng.normal(size=3 * BEADS))
    n, k = 3 * BEADS, len(system.g(q))

    def parts(x):
        v, lam = x[:n], x[n:]
        return [system.momentum(q, v) - 0.1 * system.force(q, v) - system.reaction(q, lam), system.g(q + 0.1 * v) / 0.1]

    return parts, jnp.asarray(rng.normal(size=n + k)), n


@pytest.mark.parametrize(
    ("kind", "masses"),
    [
        ("centre of mass", "plain"),
        ("index arrays", "blocks"),
        *(heavy(kind, masses) for kind in KINDS for masses in LAGRANGIANS),
    ],
)
def test_updates_are_those_of_dense_elimination(kind, masses):
    parts, x, n = equations(kind, masses)
    traced = jax.make_jaxpr(parts)(x)
    found = Sketch(traced.jaxpr, traced.consts, n).structure
    assert found is not None
    colours = found.momenta.number + found.constraints.number
    assert colours < 20, colours
    value = jnp.concatenate(parts(x))
    dense, singular, signs, diagonal = quick_jit(Elimination(parts, x, n).update)(x, value)
    sparse, also_singular, also_signs, same = quick_jit(SparseElimination(parts, x, found, n).update)(x, value)
    np.testing.assert_allclose(sparse, dense, rtol=0, atol=1e-9 * float(jnp.abs(dense).max()))
    np.testing.assert_allclose(same, diagonal)
    assert not singular
    assert not also_singular
    assert signs.shape == also_signs.shape


def test_a_diagonal_mass_of_many_coordinates_is_not_made_as_a_matrix():
    """Few dense constraints: the mass is seen to be diagonal, and only a matrix of multipliers is factorised."""
    rows = np.random.default_rng(0).normal(size=(20, 120))
    masses = np.linspace(1.0, 2.0, 120)

    def parts(x):
        return [masses * x[:120] - jnp.sin(x[:120].shape[0] + masses) - rows.T @ x[120:], rows @ jnp.sin(x[:120])]

    x = jnp.linspace(-0.5, 0.5, 140)
    traced = jax.make_jaxpr(parts)(x)
    sketch = Sketch(traced.jaxpr, traced.consts, 120)
    assert sketch.structure is None
    assert sketch.mass is factors_of_diagonal
    value = jnp.concatenate(parts(x))
    alike = [Elimination(parts, x, 120, mass).update(x, value) for mass in (None, factors_of_diagonal)]
    for one, other in zip(*alike, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * float(jnp.abs(alike[0][0]).max()))
    coupled = jax.make_jaxpr(lambda x: [parts(x)[0] + x[1], parts(x)[1]])(x)
    assert Sketch(coupled.jaxpr, coupled.consts, 120).mass is not factors_of_diagonal


def test_paths_at_once_and_one_by_one_agree():
    parts, x, n = equations("slices", "plain")
    traced = jax.make_jaxpr(parts)(x)
    sparse = SparseElimination(parts, x, Sketch(traced.jaxpr, traced.consts, n).structure, n)
    many = x + jnp.arange(3.0)[:, None]

    def update(x):
        return sparse.update(x, jnp.concatenate(parts(x)))[0]

    one = quick_jit(update)
    np.testing.assert_allclose(
        quick_jit(jax.vmap(update))(many), jnp.stack([one(x) for x in many]), rtol=1e-9, atol=1e-12
    )


def test_what_is_dense_stays_dense():
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(40, 120)))
    traced = jax.make_jaxpr(lambda x: [x[:120] - matrix.T @ x[120:], jnp.tanh(matrix @ x[:120])])(jnp.zeros(160))
    assert Sketch(traced.jaxpr, traced.consts, 120).structure is None


def test_an_operation_that_is_not_known_is_no_obstacle(monkeypatch):
    parts, x, n = equations("slices", "plain")
    import asdex

    monkeypatch.setattr(kept_arrays, "_found", OrderedDict())  # what another test has found
    monkeypatch.setattr(asdex, "jacobian_sparsity", lambda *_: (_ for _ in ()).throw(NotImplementedError))
    traced = jax.make_jaxpr(parts)(x)
    assert Sketch(traced.jaxpr, traced.consts, n).structure is None


@pytest.mark.parametrize("method", [hx.EulerA(), heavy(hx.Kicked())], ids=str)
def test_paths_do_not_depend_on_it(monkeypatch, method):
    e = hx.systems.chain(12)
    noise = hx.increments(e.system, h=0.02, steps=5, seed=1)

    def path():
        return quick_jit(lambda start: hx.integrate(e.system, method, start, noise))(e.start)

    sparse = path()
    monkeypatch.setattr(structure, "WORTHWHILE", 10**9)
    dense = path()
    assert int(sparse.report.status.max()) == int(dense.report.status.max()) == 0
    np.testing.assert_allclose(sparse.q, dense.q, atol=1e-12)


def test_derivatives_do_not_depend_on_it_either(monkeypatch):
    e = hx.systems.chain(4)
    noise = hx.increments(e.system, h=0.02, steps=1, seed=1)

    def reach(v):
        begin = hx.State(e.start.q, e.system.momentum(e.start.q, v), v)
        return jnp.sum(hx.integrate(e.system, hx.EulerA(), begin, noise).q[-1] ** 2)

    monkeypatch.setattr(structure, "PER_OPERATION", 0.1)
    sparse = [quick_jit(mode(reach))(jnp.zeros(12)) for mode in (jax.grad, jax.jacfwd)]
    monkeypatch.setattr(structure, "WORTHWHILE", 10**9)
    dense = quick_jit(jax.grad(reach))(jnp.zeros(12))
    assert float(jnp.abs(dense).max()) > 0.01
    np.testing.assert_allclose(sparse, [dense, dense], atol=1e-14)
