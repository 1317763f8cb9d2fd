"""Few dense constraints on many coordinates: only a matrix of multipliers is made, whatever hides them."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import holonax as hx
from holonax.cache import arrays as kept_arrays
from holonax.compiler.arrays import equations as array_equations
from holonax.compiler.arrays.jacobian import Group
from holonax.compiler.arrays.values import fixed
from holonax.compiler.ir.graph import Untranslatable
from holonax.engines.llvm import runner as llvm
from holonax.engines.plain import PlainRunner
from holonax.numerics.batching import equations
from holonax.numerics.linear import Elimination, factors_of_diagonal, is_linear
from holonax.numerics.newton import root_p
from holonax.numerics.roundoff import magnitude
from holonax.numerics.structure import Sketch, SparseMass
from support import quick_jit

N, K = 240, 20
ROWS = np.random.default_rng(0).normal(size=(K, N)) / N**0.5
MASSES = np.linspace(1.0, 2.0, N)


def summed(q):
    """ROWS @ tanh(q), two coordinates at a time."""
    terms = jnp.asarray(ROWS.T.reshape(-1, 2, K)), jnp.tanh(q).reshape(-1, 2)
    return lax.scan(lambda s, term: (s + term[1] @ term[0], None), jnp.zeros(K), terms)[0]


KINETIC = {
    "diagonal": lambda v: 0.5 * jnp.sum(MASSES * v**2),
    "blocks": lambda v: 0.5 * jnp.sum(MASSES * v**2) + 0.2 * jnp.sum(v[::2] * v[1::2]),
    "of the motions": lambda v: 0.5 * jnp.sum(MASSES * v**2) + 0.1 * jnp.sum(v[::2] ** 2 * v[1::2] ** 2),
}


def parts_of(kinetic, constraint, q):
    """The equations of an Euler step."""
    reaction = jax.vjp(constraint, q)[1]
    return lambda x: [jax.grad(kinetic)(x[:N]) - q - reaction(x[N:])[0], constraint(q + 0.1 * x[:N]) - 0.1]


@pytest.mark.parametrize("mass", KINETIC)
def test_an_update_without_a_matrix_of_the_masses(mass):
    x = jnp.asarray(np.random.default_rng(1).normal(size=N + K))
    parts = parts_of(KINETIC[mass], lambda q: ROWS @ jnp.tanh(q), jnp.linspace(-1.0, 1.0, N))
    traced = jax.make_jaxpr(parts)(x)
    sketch = Sketch(traced.jaxpr, traced.consts, N)
    assert sketch.structure is None
    assert sketch.mass is factors_of_diagonal if mass == "diagonal" else isinstance(sketch.mass, SparseMass)
    value = jnp.concatenate(parts(x))

    def update(x):
        return Elimination(parts, x, N, sketch.mass).update(x, value)

    found, singular, _, diagonal = quick_jit(update)(x)
    jacobian = np.asarray(jax.jacfwd(lambda x: jnp.concatenate(parts(x)))(x))
    np.testing.assert_allclose(found, -np.linalg.solve(jacobian, value), rtol=0, atol=1e-9 * np.abs(found).max())
    np.testing.assert_allclose(diagonal, np.diagonal(jacobian)[:N])
    assert not singular


def largest_array(jaxpr):
    return max(v.aval.size for equation in equations(jaxpr) for v in equation.outvars)


def test_a_loop_in_the_constraint_is_no_obstacle():
    x = jnp.linspace(-1.0, 1.0, N + K)
    parts = parts_of(KINETIC["diagonal"], summed, jnp.linspace(-1.0, 1.0, N))
    assert is_linear(lambda x: parts(x)[0], x)
    assert not is_linear(lambda x: parts(x)[1], x)
    traced = jax.make_jaxpr(parts)(x)
    mass = Sketch(traced.jaxpr, traced.consts, N).mass
    value = jnp.concatenate(parts(x))
    update = jax.make_jaxpr(lambda x: Elimination(parts, x, N, mass).update(x, value))(x)
    assert largest_array(update.jaxpr) < N * N


def test_what_a_loop_carries_to_and_fro_is_not_linear():
    """Each number of the loop becomes a function of the other one, so that the square is seen in the second round."""

    def twice(x):
        return lax.scan(lambda carry, _: ((carry[1], carry[0] ** 2), None), (x, x), None, length=3)[0][0]

    assert not is_linear(twice, jnp.ones(3))


@pytest.mark.parametrize("reverse", [False, True])
def test_magnitudes_of_a_sum_in_a_loop(reverse):
    """They add up, as those of the terms do, however much of the values cancels."""
    a, x = np.random.default_rng(2).normal(size=(2, 50))

    def dot(x):
        return lax.scan(lambda s, term: (s + term[0] * term[1], s), 0.5 * x[0], (a, x), reverse=reverse)[0]

    expected = 2 * 0.5 * abs(x[0]) + np.sum(2 * np.abs(a * x))
    np.testing.assert_allclose(magnitude(dot, jnp.asarray(x)), expected, rtol=1e-14)


def test_the_step_size_is_not_known_to_be_zero():
    """Where it is, constraints at the end of a step do not depend on motions, and every pattern is sparse."""
    system = hx.System(lambda q, v: KINETIC["diagonal"](v), lambda q: ROWS @ jnp.tanh(q), n=N)
    traced = PlainRunner(system, hx.EulerA(), N, "float64")._traced(N)
    root = next(x for x in equations(traced) if x.primitive is root_p)
    rows, columns = root.params["sketch"].places
    assert np.count_nonzero((rows >= N) & (columns < N)) == K * N


def test_what_follows_from_a_program_is_found_once(monkeypatch):
    monkeypatch.setattr(kept_arrays, "user_cache", lambda: None)
    monkeypatch.setattr(kept_arrays, "_found", OrderedDict())
    calls = []

    def compute():
        calls.append(1)
        return {"x": np.arange(3)}

    programs = [jax.make_jaxpr(function)(1.0) for function in (jnp.sin, jnp.sin, jnp.cos)]
    found = [kept_arrays.recalled(compute, program) for program in programs]
    assert len(calls) == 2
    assert found[0] is found[1]
    assert found[1] is not found[2]


def test_products_of_an_elimination_are_counted_before_they_are_listed(monkeypatch):
    full = np.random.default_rng(3).random((9, 9)) < 0.5
    rows, columns = np.nonzero(full)
    group = Group(rows, columns, fixed(np.ones(len(rows))))
    expected = np.sum(full[6:, :6].sum(axis=0) * full[:6, 6:].sum(axis=1))
    assert array_equations._least_products(group, 6, 9) == expected
    monkeypatch.setattr(array_equations, "MOST_PRODUCTS", 10)
    chain = hx.systems.chain(160)
    with pytest.raises(Untranslatable, match="products"):  # not the number of unknowns, which is no obstacle
        llvm.prepare(chain.system, hx.EulerA(), chain.n, "float64")


@pytest.mark.study
@pytest.mark.filterwarnings("ignore:the 'llvm' engine cannot translate")  # that is what is meant
@pytest.mark.parametrize("mass", ["diagonal", "blocks"])
@pytest.mark.parametrize("method", [hx.EulerA(), hx.Rattle(), hx.Langevin(1.0, 1.0)], ids=str)
def test_paths_with_a_loop_in_the_constraint(method, mass):
    """The same as with a product of matrices, and both constraints at round-off."""
    q0 = np.random.default_rng(4).normal(size=N)
    level = ROWS @ np.tanh(q0)
    ends = []
    for function in (summed, lambda q: ROWS @ jnp.tanh(q)):
        system = hx.System(
            lambda q, v: KINETIC[mass](v) - 0.5 * q @ q, lambda q, function=function: function(q) - level, n=N
        )
        run = hx.simulate(system, method, hx.start(system, q0), t1=0.25, h=2**-5, save_every=None, progress=False)
        q, v = run.state.q[0], system.velocity(run.state.q[0], run.state.p[0])
        assert np.abs(ROWS @ np.tanh(q) - level).max() < 1e-14
        assert np.abs(ROWS @ ((1 - np.tanh(q) ** 2) * v)).max() < 1e-14
        ends.append(q)
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-9)
