"""The lane compiler: what folds away, what is shared, what it can translate, and what it says when it cannot."""

import functools
import itertools
import operator
import warnings

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax import lax

import holonax as hx
from holonax import engines
from holonax.compiler import Target, compile_step
from holonax.compiler.frontend.elimination import eliminate, substitute
from holonax.compiler.frontend.functions import FUNCTIONS
from holonax.compiler.frontend.newton import QUICK, derivative
from holonax.compiler.frontend.polynomial import quadratic
from holonax.compiler.frontend.translate import array_of, look, translate_closed
from holonax.compiler.ir.graph import Build, Loop
from holonax.compiler.ir.operations import BY_TYPE, OPERATIONS, Library, evaluate
from holonax.compiler.ir.program import Block
from holonax.engines.cuda import expressions as cuda_expressions
from holonax.engines.llvm import instructions as llvm_instructions
from holonax.engines.xla import emit as xla_emit
from holonax.simulation import simulate as ensemble
from support import entry, heavy, mostly, quick_jit


def values(nodes, known):
    """Numbers for nodes, given those of the inputs."""
    known = dict(known)

    def value(node):
        if node not in known:
            known[node] = node.value if node.is_constant else evaluate(node.name, node.dtype, *map(value, node.args))
        return known[node]

    return [value(node) for node in nodes]


def translated(function, *arguments):
    """`function` through lanes, evaluated in NumPy."""
    build = Build()
    traced = jax.make_jaxpr(function)(*arguments)
    arrays = [np.asarray(x) for x in arguments]
    inputs = [array_of([build.fresh("input", x.dtype.name) for _ in range(x.size)], x.shape) for x in arrays]
    known = {}
    for nodes, array in zip(inputs, arrays, strict=True):
        known |= dict(zip(nodes.flat, array.flat, strict=True))
    outputs = look(translate_closed(build, traced, inputs))
    return [np.array(values(x.flat, known)).reshape(x.shape) for x in outputs]


X = np.array([0.3, -1.2, 2.5, 0.7])
M = np.arange(12.0).reshape(3, 4) / 7 - 0.5
I = np.array([3, 1, 2])

FUNCTIONS_OF_ARRAYS = {
    "arithmetic": lambda x: (x + 1) * x - x / 3.0 + 2.0 / (x * x + 1) - (-x),
    "powers": lambda x: x**3 + x**-2 + (x * x) ** 0.5 + jnp.power(jnp.abs(x), 1.7),
    "angles": lambda x: jnp.arctan2(x, 2.0) + jnp.arctan2(0.5, x),
    "rounding": lambda x: jnp.floor(x) + jnp.ceil(x) + jnp.round(x) + jnp.sign(x) + jnp.clip(x, -1.0, 1.0),
    "logistic": lambda x: jax.nn.sigmoid(x) + jax.nn.softplus(x) + jax.nn.relu(x) + lax.rsqrt(x * x + 1),
    "choice": lambda x: jnp.where(x > 0, x, jnp.where(x < -1, 0.0, x * x)) + jnp.maximum(x, 0.1) + jnp.minimum(x, 0.2),
    "logic": lambda x: jnp.where((x > 0) & ~(x > 1) | (x == 2.5), 1.0, 0.0) + jnp.isfinite(x),
    "reductions": lambda x: x.sum() + x.max() - x.min() + x.prod() + jnp.argmax(x) + jnp.any(x > 2) + jnp.all(x > -9),
    "tangents": lambda x: jax.jacfwd(jnp.tanh)(x).sum(0) + jax.jacfwd(jax.nn.sigmoid)(x).sum(0),
    "scans": lambda x: jnp.cumsum(x) + jnp.cumprod(x) + lax.cummax(x) + jnp.cumsum(x[::-1])[::-1],
    "products": lambda x: M @ x + x @ M.T + jnp.outer(x, x)[:3, 0] + jnp.dot(M, M.T) @ x[:3],
    "shapes": lambda x: jnp.stack([x, 2 * x]).T.reshape(2, 4)[:, ::-1].ravel()[1:7:2] + jnp.tile(x, 2)[:3],
    "padding": lambda x: jnp.pad(x, (1, 2)) + jnp.concatenate([x, x[:3]]) + jnp.roll(jnp.pad(x, (0, 3)), 2),
    "differences": lambda x: jnp.diff(x, prepend=0.0) + jnp.repeat(x[:2], 2),
    "indexing": lambda x: x[I] + x[jnp.array([0, 3, 1])] + jnp.zeros(3).at[jnp.array([0, 2, 0])].add(x[:3]),
    "updates": lambda x: x.at[1:3].set(7.0).at[0].multiply(2.0) + lax.dynamic_update_slice(x, x[:2], (2,)),
    "matrices": lambda x: jnp.linalg.solve(jnp.diag(x + 3) + 0.1 * jnp.outer(x, x), x) + jnp.trace(jnp.outer(x, x)),
    "factors": lambda x: jnp.linalg.cholesky(jnp.diag(x**2 + 3) + jnp.outer(x, x)),
    "derivatives of factors": lambda x: jax.grad(
        lambda y: jnp.sum(jnp.linalg.cholesky(jnp.diag(y**2 + 3) + jnp.outer(y, y)) ** 3)
    )(x),
    "triangles": lambda x: sum(
        lax.linalg.triangular_solve(
            M[:, :3] + 2 * jnp.eye(3) + jnp.diag(x[:3] ** 2),
            jnp.outer(x[:3], x[1:]),
            left_side=left,
            lower=lower,
            transpose_a=transpose,
            unit_diagonal=unit,
        )
        * weight
        for weight, (left, lower, transpose, unit) in enumerate(itertools.product((True, False), repeat=4), 1)
    ),
    "batches of factors": lambda x: jax.vmap(lambda y: jnp.linalg.cholesky(jnp.diag(x**2 + 3) + y))(jnp.ones(2)),
    "norms": lambda x: jnp.linalg.norm(x) + jnp.cross(x[:3], x[1:]).sum() + jnp.mean(x) + jnp.var(x),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y * x + i, x),
    "scan": lambda x: lax.scan(lambda c, a: (c * a + 1, c + a), 0.5, x)[1],
    "cond": lambda x: lax.cond(len(x) > 3, lambda y: y * 2, lambda y: y, x),
    "nested jit": jax.jit(lambda x: jax.jit(jnp.sin)(x) + jax.checkpoint(jnp.cos)(x)),
    "derivatives": lambda x: jax.grad(lambda y: jnp.sum(jnp.sin(y) ** 2))(x) + jax.jacfwd(lambda y: y * y[0])(x)[0],
    "integers": lambda x: (jnp.arange(4, dtype=jnp.uint32) * np.uint32(2654435761) >> 7).astype(float) + x,
}


@pytest.mark.parametrize("name", FUNCTIONS_OF_ARRAYS)
def test_translation_of_ordinary_functions(name):
    function = FUNCTIONS_OF_ARRAYS[name]
    (result,) = translated(function, X)
    np.testing.assert_allclose(result, function(jnp.asarray(X)), rtol=1e-13, atol=1e-14)


def test_folding_and_sharing():
    build = Build()
    x, y = (build.fresh("input", "float64") for _ in range(2))
    assert (x * 0 + y * 1) is y
    assert (x - x).is_number(0)
    assert (x + y) is (y + x)
    assert build("negative", -x) is x
    assert (2 * x) * 3 is 6 * x
    assert abs(x * x) is x * x
    assert build("select", build("less", x, y), x, x) is x
    assert build("power", x, build.number(2, "float64")) is x * x


def test_derivatives_on_the_graph():
    def function(x):
        a, b, c, d = x
        return jnp.stack(
            [
                jnp.sin(a) * jnp.exp(b) / (1 + c * c),
                jnp.sqrt(d) * a + jnp.abs(b) * c,
                jnp.where(a > 0, a**3, b) + jnp.maximum(c, d) + jnp.arctan2(a, d),
                jnp.power(d, 1.3) + jnp.minimum(a, c) * b,
            ]
        )

    build = Build()
    unknowns = [build.fresh("unknown", "float64") for _ in X]
    (rows,) = look(translate_closed(build, jax.make_jaxpr(function)(X), [array_of(unknowns, X.shape)]))
    jacobian = derivative(build, list(rows), unknowns)
    assert 3 not in jacobian[0]  # what does not occur is not there
    dense = np.zeros((4, 4))
    for i, row in enumerate(jacobian):
        dense[i, list(row)] = values(row.values(), dict(zip(unknowns, X, strict=True)))
    np.testing.assert_allclose(dense, quick_jit(jax.jacfwd(function))(X), rtol=1e-13)


def test_elimination_keeps_a_band_and_finds_singular_matrices():
    def system(size):
        build = Build()
        entries = {(i, j): build.fresh("input", "float64") for i in range(size) for j in range(size) if abs(i - j) < 2}
        rows = [{j: entries[i, j] for j in range(size) if (i, j) in entries} for i in range(size)]
        right = [build.fresh("input", "float64") for _ in range(size)]
        return build, entries, rows, right

    build, entries, rows, right = system(6)
    pivots, singular, order = eliminate(build, rows, right, 6, list(range(6)))
    again = eliminate(build, rows, right, 6, list(range(6)), order=order)
    assert [pivot.column for pivot in again.pivots] == [pivot.column for pivot in pivots]
    assert max(len(pivot.rest) for pivot in pivots) == 1
    matrix = np.random.default_rng(1).normal(size=(6, 6)) + 4 * np.eye(6)
    matrix *= np.abs(np.subtract.outer(range(6), range(6))) < 2
    known = {node: matrix[place] for place, node in entries.items()} | dict(zip(right, np.arange(6.0), strict=True))
    solved = substitute(build, pivots)
    x = values([solved[i][0] for i in range(6)], known)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, np.arange(6.0)), rtol=1e-12)
    assert not values([singular], known)[0]
    known |= {entries[i, j]: 1.0 for i in (2, 3) for j in range(6) if (i, j) in entries}
    known |= {entries[2, 1]: 0.0, entries[3, 4]: 0.0}
    assert values([singular], known)[0]


@pytest.mark.parametrize("mass", [1e-27, 1e-3, 1.0, 1e20])
def test_velocities_are_eliminated_before_multipliers_whatever_the_units(mass):
    build = Build()
    m, zero = build.number(mass, "float64"), build.number(0, "float64")
    slopes = [build.fresh("input", "float64") for _ in range(3)]
    rows = [{i: m, 3: slopes[i]} for i in range(3)] + [dict(enumerate(slopes))]
    pivots, *_ = eliminate(build, rows, [zero] * 4, 4, list(range(4)), last={3})
    assert [pivot.column for pivot in pivots][-1] == 3


def test_a_linear_constraint_is_solved_for_its_own_multiplier():
    build = Build()
    numbers = [build.number(x, "float64") for x in (1.0, 0.05, 0.0)]
    rows = [{0: numbers[0], 2: numbers[1]}, {0: numbers[1], 1: numbers[0]}]  # a momentum, and a constraint
    pivots, *_ = eliminate(build, rows, [numbers[2]] * 2, 3, [0, 2], last={2})
    assert [pivot.column for pivot in pivots] == [0, 2]


def test_a_pivot_that_is_round_off_is_singular():
    build = Build()
    entries = [build.fresh("input", "float64") for _ in range(4)]
    rows, right = [dict(enumerate(entries[:2])), dict(enumerate(entries[2:]))], [build.number(1, "float64")] * 2
    _, singular, _ = eliminate(build, rows, right, 2, [0, 1])
    for last, expected in ((0.3, True), (0.3 * (1 + 1e-10), False)):  # 0.3 - 0.1 (0.3 / 0.1) is not zero
        numbers = 0.1, 0.3, 0.1, last
        assert last - 0.1 * (0.3 * (1 / 0.1)) != 0.0
        assert values([singular], dict(zip(entries, numbers, strict=True)))[0] == expected


@pytest.mark.parametrize("seed", range(20))
def test_folding_comes_to_an_end_and_keeps_values(seed):
    # Random sums and products of numbers that change at different rates: outside all loops, in one, in one inside it.
    random, build = np.random.default_rng(seed), Build()
    fixed = [build.fresh("input", "float64") for _ in range(3)]
    outer = Loop(build, fixed, build.alive)
    inner = Loop(build, outer.parameters, build.alive)
    known = {node: random.normal() for node in (*fixed, *outer.parameters, *inner.parameters)}
    numbers = [*known.items(), *((build.number(x, "float64"), x) for x in (2.0, -1.0, 0.5, 0.0))]
    for _ in range(300):
        (x, a), (y, b) = (numbers[i] for i in random.integers(0, len(numbers), 2))
        operation = random.choice([operator.add, operator.sub, operator.mul])
        if abs(operation(a, b)) < 100:
            numbers.append((operation(x, y), operation(a, b)))
    for node, value in numbers:
        assert values([node], known)[0] == pytest.approx(value, rel=1e-9, abs=1e-9)


def blocks(items):
    return [item for item in items if isinstance(item, Block)]


TARGET = Target("llvm", FUNCTIONS, most=10**6)


def compiled(name, method, **arguments):
    e = entry(name) if not arguments else getattr(hx.systems, name)(**arguments)
    return compile_step(e.system, method, e.n, "float64", TARGET)


def floats(block):
    return len([i for i in block.carried if block.loop.begin[i].dtype == "float64"])


def test_linear_and_quadratic_equations_are_solved_without_iteration():
    # The velocities of a constant mass disappear, so that one multiplier is left, in a quadratic; the projection is
    # linear.  Loops are left for roots in doubt, and for failures: both are rare.
    for name, method, rare in (
        ("pendulum", hx.EulerA(), 2), ("pendulum", hx.Kicked("symmetric"), 3), ("oscillator", hx.Rattle(), 1)
    ):  # fmt: skip
        loops = blocks(compiled(name, method).body)
        assert [block.loop.rare for block in loops] == [True] * rare
    # The torus is no quadric; with a mass that depends on the unknowns everything is iterated.
    torus, *_ = blocks(compiled("torus", hx.Rattle()).body)
    assert not torus.loop.rare or floats(torus) > 3
    ellipsoid = blocks(compiled("ellipsoid", hx.EulerA()).body)[0]
    assert floats(ellipsoid) == 5
    assert ellipsoid.loop.most == QUICK


def test_the_first_iteration_of_multipliers_comes_before_the_loop():
    newton, careful, _ = blocks(compiled("chain", hx.EulerA(), beads=3).body)
    assert newton.loop.most == QUICK
    assert floats(newton) == 4
    assert careful.loop.rare  # what is seldom asked for is not computed otherwise
    assert careful.loop.most == 25
    assert len(careful.body) > 100


def root_of(a, b, c, rising=True):
    build = Build()
    nodes = [build.fresh("input", "float64") for _ in range(3)]
    found = quadratic(build, nodes, build.number(rising, "bool"))
    return values(list(found), dict(zip(nodes, (c, b, a), strict=True)))


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("numbers", [(2, -3, 0.5), (2, 3, 0.5), (-1, 1e-9, 3), (1, 4, 1), (1e-12, 1, -1), (3, -1e9, 2)])
def test_the_root_of_a_quadratic_is_the_one_with_the_slope_asked_for(numbers, rising):
    a, b, c = numbers
    root, none, singular = root_of(a, b, c, rising)
    with mpmath.workdps(60):
        distance = mpmath.sqrt(mpmath.mpf(b) ** 2 - 4 * mpmath.mpf(a) * c)
        expected = (-b + (distance if rising else -distance)) / (2 * mpmath.mpf(a))
    assert root == pytest.approx(float(expected), rel=1e-14, abs=1e-300)
    assert not none
    assert not singular


def test_a_line_is_a_quadratic_too():
    assert root_of(0.0, 2.0, -3.0)[0] == 1.5


def test_quadratics_without_a_root_or_with_two_that_coincide():
    assert root_of(1.0, 1.0, 5.0)[1:] == [True, False]
    assert np.isfinite(root_of(1.0, 1.0, 5.0)[0])  # or the status would be another one
    assert root_of(1.0, 2.0, 1.0)[1:] == [False, True]


def test_functions_at_the_end_of_a_step_are_not_computed_again():
    def kept(method):
        made = compiled("pendulum", method)
        return [made.carried[i] for i in made.changing if i >= made.track.size]

    assert len(kept(hx.Rattle())) == 3  # the cosines of the noise
    assert not kept(hx.EulerA())  # whose noise acts at the beginning only


def test_the_work_of_a_chain_grows_with_its_length():
    eight, sixteen = (compiled("chain", hx.EulerA(), beads=beads).size for beads in (8, 16))
    assert sixteen < 2.3 * eight


@pytest.mark.parametrize(
    ("target", "emitter"),
    [("xla", xla_emit), ("cuda", cuda_expressions), ("llvm", llvm_instructions)],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_every_target_knows_every_operation(target, emitter):
    """Also those that depend on types: for them, and for no others, an emitter has a method."""
    written = {name: getattr(operation, target) for name, operation in OPERATIONS.items()}
    assert None not in written.values()
    assert {name for name, form in written.items() if form == BY_TYPE} == emitter._BY_TYPE.keys()


def test_a_function_of_the_user_may_have_the_name_of_one_of_ours():
    @jax.jit
    def random_words(q):
        return jnp.sum(q**2)

    system = hx.System(lambda q, v: 0.5 * v @ v - 0.5 * random_words(q), n=2)
    start = hx.start(system, q=[1.0, 0.0], v=[0.0, 1.0])
    run = hx.simulate(system, hx.Rattle(), start, t1=1.0, h=0.25, engine="xla", progress=False)
    np.testing.assert_allclose(run.q[0, -1], [np.cos(1.0), np.sin(1.0)], atol=0.02)


def with_force(force, n=1, **arguments):
    """A system whose force is any function, differentiable or not."""

    @jax.custom_jvp
    def potential(q):
        return 0.0 * q[0]

    @potential.defjvp
    def rule(primals, tangents):
        return 0.0 * primals[0][0], force(primals[0]) @ tangents[0]

    return hx.System(lambda q, v: 0.5 * v @ v + potential(q), n=n, **arguments)


def collatz(q):
    """A loop whose length differs from path to path."""

    def body(state):
        number, steps = state
        return jnp.where(number > 1.5, number / 2, number + 1), steps + 1.0

    return jnp.stack([lax.while_loop(lambda state: state[0] > 1.0, body, (q[0], 0.0 * q[0]))[1]])


@pytest.mark.parametrize("engine", ["llvm", heavy("xla")])
def test_loops_and_branches_that_differ_between_lanes(engine):
    def branch(q):
        return lax.cond(q[0] > 2.0, lambda: jnp.sin(q), lambda: q * q)

    places = np.linspace(0.5, 40.0, 50)
    start = hx.State(jnp.asarray(places)[:, None], jnp.zeros((50, 1)))
    for force in (collatz, branch):
        run = hx.simulate(with_force(force), hx.EulerA(), start, t1=1.0, h=1.0, engine=engine, save_every=None)
        alone = quick_jit(force)
        expected = [alone(jnp.array([x]))[0] for x in places]
        np.testing.assert_allclose(run.p[:, 0, 0], expected, rtol=1e-14)


# Functions of one argument: what their rows in the table of operations say, against JAX.

FUNCTIONS_OF_ONE = {
    name: row for name, row in OPERATIONS.items() if isinstance(row.llvm, Library) and "{1}" not in row.cuda
}
PLACES = np.array([-30.0, -2.5, -1.0, -0.7, 0.0, 0.3, 0.9, 1.0, 1.4, 2.5, 20.0])


@functools.cache
def by_jax():
    """For each function, its values and derivatives at PLACES."""
    every = {name: jax.vmap(jax.value_and_grad(row.xla)) for name, row in FUNCTIONS_OF_ONE.items()}
    return quick_jit(lambda x: {name: function(x) for name, function in every.items()})(PLACES)


def inside(name):
    """Where a function and its derivative are defined."""
    return np.isfinite(by_jax()[name]).all(axis=0)


@pytest.mark.parametrize("name", FUNCTIONS_OF_ONE)
def test_value_derivative_and_facts_of_a_function(name):
    row, (expected, slopes), good = FUNCTIONS_OF_ONE[name], by_jax()[name], inside(name)
    build = Build()
    x = build.fresh("unknown", "float64")
    (translation,) = look(translate_closed(build, jax.make_jaxpr(row.xla)(1.0), [array_of([x], ())]))
    assert translation.item() is build(name, x)
    ((derived,),) = (entries.values() for entries in derivative(build, [build(name, x)], [x]))
    assert np.count_nonzero(good) > 2
    np.testing.assert_allclose(evaluate(name, "float64", PLACES), expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(values([derived], {x: PLACES[good]})[0], slopes[good], rtol=1e-13)
    assert row.is_total == np.isfinite(expected).all()
    assert not row.is_nonnegative or (expected[good] >= 0).all()


@functools.cache
def by_a_kernel(engine):
    """All functions of the C library in one program, where they are defined: by name, its values and JAX's."""
    functions = {name: row.xla for name, row in FUNCTIONS_OF_ONE.items()}
    where = {name: PLACES[inside(name)] for name in functions}
    functions |= {"arctan2": lambda x: jnp.arctan2(x, 2.0), "power": lambda x: jnp.power(x, 0.3)}
    where |= {"arctan2": PLACES, "power": PLACES[PLACES > 0]}
    q = jnp.stack([np.resize(where[name], len(PLACES)) for name in functions], axis=1)

    def force(q):
        return jnp.stack([function(x) for function, x in zip(functions.values(), q, strict=True)])

    start, system = hx.State(q, jnp.zeros(q.shape)), with_force(force, q.shape[1])
    run = hx.simulate(system, hx.EulerA(), start, t1=1.0, h=1.0, engine=engine, save_every=None)
    return dict(zip(functions, zip(run.p[:, 0].T, quick_jit(jax.vmap(force))(q).T, strict=True), strict=True))


@pytest.mark.parametrize("engine", mostly(["llvm", "xla"]))
@pytest.mark.parametrize("name", [*FUNCTIONS_OF_ONE, "arctan2", "power"])
def test_a_function_in_a_kernel(name, engine):
    found, expected = by_a_kernel(engine)[name]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)


def test_what_cannot_be_translated_runs_on_the_plain_engine_and_says_so_once(monkeypatch):
    monkeypatch.setattr(ensemble, "_told", set())  # another test may have met the same reason
    system = hx.System(lambda q, v: 0.5 * v @ v - jnp.sort(q)[0] * q[1], n=2)
    start = hx.start(system, q=[0.3, 0.2])
    arguments = {"t1": 0.5, "h": 0.125, "progress": False}
    with pytest.warns(UserWarning, match=r"'llvm' engine cannot translate the primitive 'sort'.*plain XLA engine"):
        run = hx.simulate(system, hx.EulerB(), start, **arguments)
    noise = hx.increments(system, h=0.125, steps=4, seed=0)
    np.testing.assert_allclose(run.q[0], hx.integrate(system, hx.EulerB(), start, noise).q, atol=1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hx.simulate(system, hx.EulerA(), start, **arguments)
    with pytest.raises(hx.InputError, match=r"cannot translate the primitive 'sort'.*; engine='auto' runs it on"):
        hx.simulate(system, hx.EulerA(), start, engine="llvm", **arguments)


def test_a_program_that_would_be_too_large_has_loops_over_arrays_or_is_refused(monkeypatch):
    monkeypatch.setattr(engines.llvm, "TARGET", engines.llvm.TARGET._replace(most=100))
    e = hx.systems.pendulum()
    run = hx.simulate(e.system, hx.EulerA(), e.start, t1=0.5, h=0.25, engine="llvm", progress=False)
    assert "loops over arrays, because a program of about" in run.reason
    monkeypatch.setattr(engines.llvm, "ArrayRunner", _raise)
    e = hx.systems.pendulum(sigma=0.123)
    with pytest.raises(hx.InputError, match=r"a program of about \d+ operations \(its limit is 100\)"):
        hx.simulate(e.system, hx.EulerA(), e.start, t1=0.5, h=0.25, engine="llvm", progress=False)


def _raise(*_):
    raise engines.Untranslatable("anything")


def test_expressions_that_are_nested_too_deeply_run_on_the_plain_engine(monkeypatch):
    def deep(*_):
        raise RecursionError

    monkeypatch.setattr(engines.llvm, "prepare", deep)
    e = hx.systems.torus()
    runner = engines.runner("llvm", e.system, hx.EulerA(), e.n, "float64")
    assert isinstance(runner, engines.plain.PlainRunner)
    assert runner.fallback == "'llvm' engine cannot translate expressions so deeply nested"
