"""Programs in pieces: the numbers of dense elimination by NumPy, and of JAX, without compiling an elimination."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.mechanics.projection import project_momentum, project_position
from holonax.numerics import host, sparse
from holonax.numerics.cutting import cut_at
from holonax.numerics.host import HostProgram
from holonax.numerics.newton import Newton, Status
from holonax.numerics.structure import Sketch, SparseElimination
from support import quick_jit

BEADS = 120
MASSES = np.linspace(1.0, 3.0, 3 * BEADS)
CHAIN = hx.systems.chain(BEADS).system.constraint
SYSTEM = hx.System(lambda q, v, *, heavy: 0.5 * heavy * jnp.sum(MASSES * v**2), CHAIN, parameters={"heavy": 1.0})


@pytest.fixture
def uncompiled(monkeypatch):
    """Nobody may write an elimination down as array operations, and NumPy is to be called."""

    def refuse(*_):
        raise AssertionError("an elimination is compiled")

    calls, factors = [], host.TapeFactors
    monkeypatch.setattr(sparse.EliminationPlan, "factorize", refuse)
    monkeypatch.setattr(host, "TapeFactors", lambda *arguments: calls.append(1) or factors(*arguments))
    yield
    assert calls


def near_the_chain(paths):
    random = np.random.default_rng(4)
    straight = np.asarray(hx.systems.chain(BEADS).start.q)
    return straight + 1e-2 * random.normal(size=(paths, 3 * BEADS)), random.normal(size=(paths, 3 * BEADS))


def slopes(q):
    return np.asarray(jax.jacrev(CHAIN)(q))


def onto_tangents(q, p):
    """By a dense matrix: p + g'^T mu with g' M^-1 (p + g'^T mu) = 0."""
    G = slopes(q)
    return p - G.T @ np.linalg.solve(G @ (G / MASSES).T, G @ (p / MASSES))


def onto_chain(q):
    """By Newton's method with dense matrices, in the direction of g'(q)^T."""
    G, mu = slopes(q), np.zeros(BEADS)
    for _ in range(10):
        mu = mu - np.linalg.solve(slopes(q + G.T @ mu) @ G.T, np.asarray(CHAIN(q + G.T @ mu)))
    return q + G.T @ mu


def momentum(q, p, heavy):
    projected = project_momentum(SYSTEM.given({"heavy": heavy}), q, p, 0 * p, Newton())
    return projected.p, projected.v, projected.solved.status


def test_momenta_of_one_path_and_of_many(uncompiled):
    q, p = near_the_chain(3)
    alone = [HostProgram(momentum, (None, None, None), {})(q[i], p[i], 2.0) for i in range(3)]
    many = HostProgram(momentum, (0, 0, None), {})(q, p, 2.0)
    for i, (found, v, status) in enumerate([*alone, *zip(*many, strict=True)]):
        expected = onto_tangents(q[i % 3], p[i % 3])
        np.testing.assert_allclose(found, expected, atol=1e-13)
        np.testing.assert_allclose(v, expected / MASSES / 2.0, atol=1e-13)
        assert int(status) == Status.CONVERGED


def test_what_paths_share_and_what_is_their_own(uncompiled):
    q, p = near_the_chain(1)
    found, v, status = HostProgram(momentum, (None, None, 0), {})(q[0], p[0], np.array([1.0, 4.0]))
    assert status.shape == (2,)
    expected = onto_tangents(q[0], p[0])
    np.testing.assert_allclose(found, [expected, expected], atol=1e-13)
    np.testing.assert_allclose(v, [expected / MASSES, expected / MASSES / 4.0], atol=1e-13)


def test_positions_some_paths_at_a_time(uncompiled, monkeypatch):
    monkeypatch.setattr(host, "WORKSPACE", 20_000)  # that of two or three paths
    q, _ = near_the_chain(5)
    program = HostProgram(lambda q: project_position(SYSTEM, q, Newton()), (0,), {})
    found, solved = program(q)
    np.testing.assert_array_equal(solved.status, np.zeros(5))
    np.testing.assert_allclose(found, [onto_chain(x) for x in q], atol=1e-12)


def test_outcomes_are_those_of_the_compiled_iteration():
    """Failures too: one path converges, one finds nothing, one begins where constraints are dependent."""
    q, _ = near_the_chain(3)
    q[1] += 30.0 * np.random.default_rng(0).normal(size=3 * BEADS)
    q[2] = 0.0

    def one(q):
        return project_position(SYSTEM, q, Newton())

    position, solved = HostProgram(one, (0,), {})(q)
    expected, outcome = quick_jit(jax.vmap(one))(q)
    np.testing.assert_array_equal(solved.status, outcome.status)
    assert len(set(map(int, solved.status))) > 1
    np.testing.assert_array_equal(np.delete(solved.iterations, 1), np.delete(outcome.iterations, 1))
    np.testing.assert_allclose(position[0], expected[0], atol=1e-13)


def test_an_update_is_that_of_a_compiled_program():
    """Signs and all, where equations are far from solved: some pivots of multipliers are negative there."""
    q, p = near_the_chain(1)
    random = np.random.default_rng(0)
    x = jnp.asarray(np.concatenate([3.0 * random.normal(size=3 * BEADS), np.zeros(BEADS)]))

    def parts(x):
        v, mu = x[: 3 * BEADS], x[3 * BEADS :]
        return [MASSES * v - p[0] - SYSTEM.reaction(q[0], mu), CHAIN(q[0] + v)]

    traced = jax.make_jaxpr(parts)(x)
    structure = Sketch(traced.jaxpr, traced.consts, 3 * BEADS).structure
    elimination, value = SparseElimination(parts, x, structure, 3 * BEADS), jnp.concatenate(parts(x))
    expected, singular, signs, _ = quick_jit(elimination.update)(x, value)
    update, also_singular, also_signs = host._update(
        structure.matrices, *map(np.asarray, (elimination.entries(x), value))
    )
    assert set(np.asarray(signs)) == {-1.0, 1.0}
    np.testing.assert_array_equal(also_signs, signs)
    assert bool(also_singular) == bool(singular)
    np.testing.assert_allclose(update, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.study
def test_the_derivative_of_a_projected_start():
    """It was not to be had backwards: what maps eliminations over paths had no such rule."""
    q, v = near_the_chain(2)
    chain = hx.System(lambda q, v: 0.5 * v @ v, CHAIN)

    def energy(q):
        return jnp.sum(hx.start(chain, q, v[0], project=True).p ** 2)

    slope = float(jax.grad(energy)(q[0]) @ v[1])
    there, back = (float(energy(q[0] + far * v[1])) for far in (1e-5, -1e-5))
    assert abs(slope - (there - back) / 2e-5) < 1e-5 * abs(slope)


def test_a_start_compiles_no_elimination(uncompiled):
    net = hx.systems.net(7, 7)
    random = np.random.default_rng(1)
    q, v = np.asarray(net.start.q) + 1e-3 * random.normal(size=147), random.normal(size=147)
    state = hx.start(net.system, q, v, project=True)
    G = np.asarray(jax.jacrev(net.system.constraint)(state.q))
    assert np.abs(net.system.constraint(state.q)).max() < 1e-13
    expected = v - G.T @ np.linalg.solve(G @ G.T, G @ v)
    np.testing.assert_allclose(state.v, expected, atol=1e-12)
    again = hx.start(net.system, state.q, p=state.p)
    np.testing.assert_allclose(again.v, expected, atol=1e-12)


def test_dependent_constraints_are_found_by_pivots(uncompiled):
    def twice(q):
        return jnp.append(CHAIN(q), 2.0 * CHAIN(q)[3])

    q = hx.systems.chain(BEADS).start.q
    with pytest.raises(hx.StartError, match=r"constraints are dependent: constraint \d+ depends most .*its pivot is"):
        hx.start(hx.System(lambda q, v: 0.5 * v @ v, twice), q)
    allowed = hx.System(lambda q, v: 0.5 * v @ v, twice, redundant="allow")
    kept = hx.independent(allowed, hx.start(allowed, np.asarray(q) + 1e-3, project=True)).redundant
    assert kept in ((3,), (BEADS,))


def test_a_program_has_one_piece_for_each_stage():
    """However equations are mixed: sines are left to the caller here, some in a program that is called twice."""

    @jax.jit
    def inner(x):
        return jnp.sin(x) + 1.0

    def function(x, y):
        return inner(inner(x) * y), jnp.sin(y) - x, 2.0, jnp.cos(x)

    traced = jax.make_jaxpr(function)(1.0, 1.0)
    program = cut_at(lambda equation: equation.primitive.name == "sin", traced, [True, False])
    assert [len(piece.left) for piece in program.pieces] == [2, 1, 0]
    known = {**program.given, 0: 0.3, 1: 0.7}
    for piece in program.pieces:
        known.update(zip(piece.outputs, program.evaluate(piece, *(known[i] for i in piece.inputs)), strict=True))
        known.update({step.outputs[0]: np.sin(known[step.inputs[0]]) for step in piece.left})
    expected = [np.sin((np.sin(0.3) + 1) * 0.7) + 1, np.sin(0.7) - 0.3, 2.0, np.cos(0.3)]
    np.testing.assert_allclose([known[i] for i in program.results], expected, rtol=1e-6)
    assert [i in program.mapped for i in program.results] == [True, True, False, True]


def test_results_that_all_paths_share_have_an_axis_of_paths():
    found = HostProgram(lambda x, y: (x + 1.0, jnp.cos(y), 3.0), (0, None), {})(np.arange(4.0), 0.0)
    np.testing.assert_array_equal(np.stack(found), [np.arange(4.0) + 1.0, np.ones(4), np.full(4, 3.0)], strict=True)
