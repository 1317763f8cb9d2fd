"""Programs of loops over arrays: the same steps as the plain engine, and arrays that are what JAX says they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler.arrays import backwards, factors, moves, solve  # noqa: F401 - they register translations
from holonax.compiler.arrays.evaluate import array_values
from holonax.compiler.arrays.jacobian import Differentiation
from holonax.compiler.arrays.translate import Translation, look
from holonax.compiler.arrays.values import Combined, DenseArray, Given
from holonax.compiler.ir.graph import Untranslatable
from holonax.engines.llvm.array_runner import PATHS, ArrayRunner
from holonax.engines.plain import PlainRunner
from holonax.mechanics.pairs import PairList
from holonax.mechanics.system import State
from holonax.methods.path import IN_DOUBT
from support import heavy

H = 2.0**-6
INDEX = np.array([[0, 2, 4, 6, 1], [1, 3, 5, 7, 6]])


def pairs(q):
    x = q.reshape(8, 3)
    return x[INDEX[0]] - x[INDEX[1]]


def bent(q, v):
    """Position-dependent masses, a potential between pairs, and forces that depend on velocities."""
    mass = 1.0 + 0.2 * jnp.sin(q) ** 2
    return 0.5 * jnp.sum(mass * v**2) - jnp.sum(jnp.exp(-jnp.sum(pairs(q) ** 2, axis=1))) + 0.1 * q[:-1] @ v[1:]


def apart(seed):
    return np.random.default_rng(seed).normal(size=24)


def on_rods(lagrangian, noise=None, extra=0, seed=0, **parameters):
    """Eight beads with five rods, and the centre of mass held in some directions."""
    q = apart(seed)
    lengths = np.sum(np.asarray(pairs(q)) ** 2, axis=1)
    centre = q.reshape(8, 3).mean(axis=0)[:extra]

    def constraint(q):
        rods = jnp.sum(pairs(q) ** 2, axis=1) - lengths
        return jnp.concatenate([rods, jnp.mean(q.reshape(8, 3), axis=0)[:extra] - centre])

    system = hx.System(lagrangian, constraint, noise, n=24, parameters=parameters)
    return system, hx.start(system, q=q, v=0.3 * apart(seed + 1), project=True)


def fluid():
    """Eleven rigid dimers in the plane that all repel each other: sums of many terms, and a costly force."""
    first, second = np.triu_indices(22, 1)
    first, second = (x[first // 2 != second // 2] for x in (first, second))

    def lagrangian(q, v):
        x = q.reshape(22, 2)
        return 0.5 * v @ v - jnp.sum(jnp.sum((x[first] - x[second]) ** 2, axis=1) ** -2)

    def rods(q):
        x = q.reshape(11, 2, 2)
        return jnp.sum((x[:, 0] - x[:, 1]) ** 2, axis=1) - 1.0

    system = hx.System(lagrangian, rods, lambda q: 0.1 * q[:3], n=44)
    q = np.stack([2.0 * np.arange(11) % 7, np.arange(11)], axis=1)[:, None] + [[[0.0, 0.0], [0.6, 0.8]]]
    return system, hx.start(system, q=q.ravel())


def determinant(q):
    """Of a matrix of 11 rows: its gradient takes products, factors and triangular systems, from both ends."""
    rows = jnp.sin(jnp.outer(jnp.arange(1.0, 12.0), q)) / 24  # (11, 24)
    return jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(rows @ rows.T + jnp.eye(11)))))


def combed(q):
    """Entries two to seven apart, and each entry several times: what one path alone does not read in order."""
    apart = [jnp.sum(jnp.sin(q[first::step] * q[: len(q[first::step])])) for step in range(2, 8) for first in (0, 1)]
    again = [jnp.sum(jnp.cos(jnp.repeat(q, times) * np.linspace(1, 2, times * 45))) for times in (2, 3, 11)]
    skipping = np.delete(np.arange(45), [3, 19, 20, 31])
    return sum(apart) + sum(again) + jnp.sum(jnp.tanh(q[skipping] * q[:41]))


SYSTEMS = {
    "combed": lambda: (
        s := hx.System(
            lambda q, v: 0.5 * v @ v - 0.1 * combed(q), lambda q: jnp.sum(q.reshape(15, 3) ** 2, axis=1) - 1.0,
            lambda q: 0.1 * q, n=45,
        ),
        hx.start(s, q=np.random.default_rng(4).normal(size=45), v=np.ones(45), project=True),
    ),
    "long": lambda: (hx.systems.chain(70).system, hx.systems.chain(70).start),
    "matrices": lambda: on_rods(lambda q, v: 0.5 * v @ v - 3.0 * determinant(q), lambda q: 0.2 * jnp.sin(q[:5])),
    "fluid": fluid,
    "chain": lambda: (hx.systems.chain(9).system, hx.systems.chain(9).start),
    "bent": lambda: on_rods(bent, lambda q: 0.2 * jnp.sin(q[:5]), extra=1),
    "masses": lambda: on_rods(
        lambda q, v, *, masses, gravity: 0.5 * v @ (masses * v) - gravity * jnp.cumsum(q)[-3],
        lambda q: jnp.cumsum(q)[:7] / 9, extra=2, masses=np.linspace(0.5, 3.0, 24), gravity=2.0,
    ),
    "free": lambda: (
        s := hx.System(lambda q, v: 0.5 * v @ v - jnp.sum(jnp.cos(q)), noise=lambda q: 0.1 * q, n=11),
        hx.start(s, q=np.linspace(-1, 1, 11), v=np.ones(11)),
    ),
    "sums": lambda: (  # of 21 products, which are not as many as vectors hold
        s := hx.System(
            lambda q, v: 0.5 * v @ v - jnp.sum(q * jnp.cos(q)) * jnp.sum(q * jnp.sin(q)), noise=lambda q: 0.1 * q, n=21
        ),
        hx.start(s, q=np.linspace(-1, 1, 21), v=np.ones(21)),
    ),
    "numbered": lambda: on_rods(
        lambda q, v, *, which: 0.5 * v @ v + jnp.sum(jnp.sin(1.0 + q.reshape(8, 3)[which.astype(int)])),
        which=np.array([2.0, 7.0, 2.0, 3.0, 5.0]),
    ),
    "quiet": lambda: on_rods(lambda q, v: 0.5 * v @ v + jnp.sum(jnp.tanh(pairs(q)))),
    "rod": lambda: (  # whose matrix, of many products for each entry, is kept from step to step; it moves along itself
        s := hx.System(lambda q, v: 0.5 * v @ v, lambda q: jnp.sum((q[:6] - q[6:]) ** 2) - 1.0, n=12),
        hx.start(s, q=np.linspace(-1, 1, 12), v=0.3 * np.ones(12), project=True),
    ),
}  # fmt: skip


def ran(runner, system, start, paths, steps, stride=1):
    """Recorded q and p, (rows, paths, n), and the fate of paths."""
    number = paths if isinstance(runner, ArrayRunner) else -(-paths // runner.chunk) * runner.chunk
    state = State(*(np.resize(np.asarray(x), (number, system.n)) for x in (start.q, start.p, start.guess)))
    values = {name: np.resize(x, (number, *np.shape(x))) for name, x in system.parameters.items()}
    q, p, fates = [], [], []
    for first in range(0, number, runner.chunk):
        own = slice(first, first + runner.chunk)
        part = runner.begin(State(*(x[own] for x in state)), {name: x[own] for name, x in values.items()})
        part, q_part, p_part = runner.advance(
            part, range(first, min(number, first + runner.chunk)), 5, H, 0, steps, stride
        )
        q.append(np.asarray(q_part)[: steps // stride])
        p.append(np.asarray(p_part)[: steps // stride])
        fates.append(runner.fate(part))
    fate = jax.tree.map(lambda *parts: np.concatenate(parts)[:paths], *fates)
    return np.concatenate(q, 1)[:, :paths], np.concatenate(p, 1)[:, :paths], fate


def both(name, method, paths, steps=20, stride=4):
    system, start = SYSTEMS[name]()
    fast = ArrayRunner(system.form, method, system.n, "float64", "a test")
    plain = PlainRunner(system.form, method, system.n, "float64")
    return fast, ran(fast, system, start, paths, steps, stride), ran(plain, system, start, paths, steps, stride)


QUICK = [
    ("chain", hx.EulerA()),
    ("bent", hx.EulerA()),
    heavy("fluid", hx.Rattle()),
    ("matrices", hx.EulerA()),
    ("rod", hx.Langevin(1.0, 0.5, metropolis=True)),
]
LONGER = [
    ("numbered", hx.EulerA()),
    ("combed", hx.Rattle()),
    *(("bent", method) for method in (hx.EulerB(), hx.EulerPrinted(), hx.Rattle(), hx.Kicked(), hx.Lobatto(3))),
    *(
        ("quiet", hx.Langevin(1.0, 0.5, **options))
        for options in ({}, {"core": hx.Rattle()}, {"inner": 2}, {"metropolis": True})
    ),
    *(("free", method) for method in (hx.Kicked(), hx.Rattle())),
    *(("masses", method) for method in (hx.Kicked(), hx.Lobatto32(), hx.EulerB())),
    ("chain", hx.Lobatto(3)),
]
CASES = [*QUICK, *(heavy(*case) for case in LONGER)]


@pytest.mark.parametrize(("name", "integrator"), CASES, ids=str)
def test_steps_are_those_of_the_plain_engine(name, integrator, monkeypatch):
    monkeypatch.setattr(ArrayRunner, "_take_again", counted := Counted())
    _, (q, p, fate), (expected_q, expected_p, expected) = both(name, integrator, PATHS)
    assert counted.steps == 0
    assert not fate.status.any()
    assert not expected.status.any()
    assert np.abs(q - expected_q).max() < 1e-12
    assert np.abs(p - expected_p).max() < 1e-12
    assert np.array_equal(fate.counts, expected.counts)
    assert np.abs(q[-1] - q[0]).max() > 1e-3
    assert np.abs(q[:, 0] - q[:, 1]).max() > 1e-6 or name in ("quiet", "numbered")


class Counted:
    """Counts paths that are in doubt, in place of taking their steps again."""

    def __init__(self):
        self.steps = 0

    def __get__(self, runner, _):
        def look_at(vector, *_):
            self.steps += int((runner._tracked(vector)[3] == IN_DOUBT).sum())

        return look_at


def test_a_path_that_cannot_begin_to_move_is_in_doubt(monkeypatch):
    """Though constraints hold where it is: every pivot counts as bad here, so that all steps are taken again."""
    monkeypatch.setattr(solve, "near_signs", lambda equations: np.full(equations.tape.size, -1.0))
    monkeypatch.setattr(ArrayRunner, "_take_again", counted := Counted())
    system, start = SYSTEMS["rod"]()
    runner = ArrayRunner(system.form, hx.Langevin(1.0, 0.5), system.n, "float64", "a test")
    ran(runner, system, start, 3, 1)
    assert counted.steps == 3


@pytest.mark.parametrize("name", ["long", "combed", "fluid", "sums", *map(heavy, ("numbered", "matrices", "masses"))])
def test_one_path_alone_has_the_same_bits(name):
    system, start = SYSTEMS[name]()
    runner = ArrayRunner(system.form, hx.EulerA(), system.n, "float64", "a test")
    together = ran(runner, system, start, PATHS, 20)
    runner.chunk = 1
    alone = ran(runner, system, start, 3, 20)
    assert np.array_equal(together[0][:, :3], alone[0])
    assert np.array_equal(together[1][:, :3], alone[1])


@pytest.mark.parametrize(
    ("name", "method", "unknowns"),
    [
        ("masses", hx.Rattle(), 24 + 7),  # the mass is constant: both stages have the same motions
        ("bent", hx.Rattle(), 2 * 24 + 6),  # it is another one at the second stage
        ("quiet", hx.Lobatto(3), 3 * 24 + 2 * 5),
    ],
)
def test_stages_that_are_equal_are_solved_for_once(name, method, unknowns):
    system, _ = SYSTEMS[name]()
    runner = ArrayRunner(system.form, method, system.n, "float64", "a test")
    assert max(solve.unknowns.size for solve in runner.program.solves) == unknowns


def test_the_force_at_the_end_of_a_step_is_that_of_the_next():
    """Kept in memory; in another call of the kernel, where it is computed anew, the bits are the same."""
    system, start = fluid()
    runner = ArrayRunner(system.form, hx.Rattle(), 44, "float64", "a test")
    assert 44 in {array.size for array in runner.program.kept}
    q, p, _ = ran(runner, system, start, 1, 8)
    state = State(*(np.asarray(x)[None] for x in (start.q, start.p, start.guess)))
    carried = runner.begin(state, {})
    for first, stop in ((0, 3), (3, 8)):
        carried, q_part, p_part = runner.advance(carried, range(1), 5, H, first, stop, 1)
        assert np.array_equal(q_part[-1], q[stop - 1])
        assert np.array_equal(p_part[-1], p[stop - 1])


def test_two_halves_are_the_whole_where_a_force_has_several_terms():
    """The force that is kept from step to step is rounded as the one at the beginning of a call."""
    beads, random = 30, np.random.default_rng(7)

    def potential(q):
        x = q.reshape(beads, 3)
        link, apart = jnp.diff(x, axis=0), x[3:] - x[:-3]
        bend = jnp.sum(1 - jnp.sum(link[1:] * link[:-1], axis=1))
        return bend + 0.2 * jnp.sum(1 / (jnp.sum(apart * apart, axis=1) + 0.1))

    system = hx.System(
        lambda q, v: 0.5 * v @ v - potential(q),
        lambda q: jnp.sum(jnp.diff(q.reshape(beads, 3), axis=0) ** 2, axis=1) - 1.0, n=3 * beads,
    )  # fmt: skip
    step = random.normal(2.0 * np.eye(3)[0], size=(beads, 3))
    q = np.cumsum(step / np.linalg.norm(step, axis=1)[:, None], axis=0)
    start = hx.start(system, q.ravel(), 0.5 * random.normal(size=3 * beads), project=True)
    runner = ArrayRunner(system.form, hx.Rattle(), system.n, "float64", "a test")
    assert runner.program.kept
    states = State(*(np.asarray(x)[None] for x in (start.q, start.p, start.guess)))
    _, whole, _ = runner.advance(runner.begin(states, {}), range(1), 5, H, 0, 20, 10)
    half = runner.advance(runner.begin(states, {}), range(1), 5, H, 0, 10, 10)[0]
    _, end, _ = runner.advance(half, range(1), 5, H, 10, 20, 10)
    assert np.array_equal(whole[1], end[0])


def test_steps_in_doubt_are_taken_again_and_failures_are_the_same():
    """Beads so fast that some paths find no root, and others only with the care of the plain engine."""
    chain = hx.systems.chain(9, sigma=40.0)
    method = hx.EulerA()
    fast = ArrayRunner(chain.system.form, method, 27, "float64", "a test")
    plain = PlainRunner(chain.system.form, method, 27, "float64")
    q, p, fate = ran(fast, chain.system, chain.start, PATHS, 12)
    expected_q, expected_p, expected = ran(plain, chain.system, chain.start, PATHS, 12)
    assert 0 < (fate.status != 0).sum() < PATHS
    assert np.array_equal(fate.status, expected.status)
    assert np.array_equal(fate.failed_step, expected.failed_step)
    assert np.abs(q - expected_q).max() < 1e-9
    assert np.abs(p - expected_p).max() < 1e-7
    assert np.isfinite(q).all()


FUNCTIONS = {
    "pairs": lambda q: jnp.sum(pairs(q) ** 2, axis=1),
    "scatter": lambda q: jnp.zeros(9).at[INDEX[0]].add(q[INDEX[1]] ** 2).at[3].set(q[0] * q[1]),
    "padded": lambda q: jnp.pad(q.reshape(8, 3), ((1, 0), (0, 2)))[:, ::2] @ jnp.arange(3.0),
    "matrices": lambda q: (q.reshape(4, 6) @ q.reshape(6, 4)).T.ravel(),
    "sums": lambda q: jnp.cumsum(jnp.sin(q))[::-1] * jnp.max(q),
    "chosen": lambda q: jnp.where(q > 0, q**3, jnp.exp(q)) / (2.0 + q**2),
    "cholesky": lambda q: jnp.linalg.cholesky(jnp.outer(q[:5], q[:5]) + jnp.diag(3.0 + q[5:10] ** 2)).ravel(),
    "substitution": lambda q: jax.scipy.linalg.solve_triangular(
        q[:16].reshape(4, 4) + 5.0 * jnp.eye(4), q[16:].reshape(4, 2), trans=1
    ).ravel(),
    "scanned": lambda q: jax.lax.scan(lambda c, x: (jnp.tanh(c + x), c * x), q[0], q[:5])[1],
    "branches": lambda q: jax.lax.cond(q[0] > 0, lambda: q * 2.0, lambda: q**2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_and_their_jacobians_are_those_of_jax(name):
    function, q = FUNCTIONS[name], apart(3)
    traced = jax.make_jaxpr(function)(q)
    translation, unknowns = Translation(), Given(24, "float64", "unknowns")
    (ref,) = look(translation.closed(traced, [unknowns.all]))
    known = {unknowns: q}
    value = array_values(ref.array, known)[ref.table]
    assert np.abs(value - function(q)).max() < 1e-14
    if name in ("sums", "branches"):  # the largest of many, and of choices: not in equations of a step
        return
    matrix = Differentiation(translation, unknowns).matrix([ref])
    dense = np.zeros((ref.table.size, 24))
    dense[matrix.rows, matrix.columns] = array_values(matrix.entries.array, known)[matrix.entries.table]
    exact = jax.jacfwd(function)(q).reshape(-1, 24)
    assert np.abs(dense - exact).max() < 1e-13
    assert len(np.unique(matrix.rows * 24 + matrix.columns)) == len(matrix.rows)


SUMS_OF_SUMS = {
    "gyration": lambda x: jnp.mean((x - jnp.mean(x, axis=0)) ** 2)[None],
    "each direction": lambda x: jnp.sum(jnp.sin(x - jnp.mean(x, axis=0)), axis=0),
    "beside others": lambda x: jnp.append(x[:5, 0] * x[1:6, 1], jnp.sum(x[::2] * jnp.exp(jnp.mean(x[1:] ** 2))) ** 2),
    "joined": lambda x: jnp.sum(jnp.sin(jnp.concatenate([x[7:], x[:7] ** 2]) * x - jnp.mean(x, axis=0))[9:96, :2])[
        None
    ],
    "one inside of another": lambda x: jnp.sum((x - jnp.mean((x - jnp.sum(x)) ** 3)) ** 2)[None],
}


@pytest.mark.parametrize("name", SUMS_OF_SUMS)
def test_sums_of_sums_are_differentiated_backwards(name):
    """With arrays as long as there are unknowns, where derivatives of all terms would have their square."""
    beads, translation = 100, Translation()
    q = np.random.default_rng(0).normal(size=3 * beads) / 9
    unknowns = Given(3 * beads, "float64", "unknowns")

    def function(q):
        return SUMS_OF_SUMS[name](q.reshape(beads, 3))

    (ref,) = look(translation.closed(jax.make_jaxpr(function)(q), [unknowns.all]))
    matrix = Differentiation(translation, unknowns).matrix([ref])
    known = {unknowns: q}
    dense = np.zeros((ref.table.size, 3 * beads))
    dense[matrix.rows, matrix.columns] = array_values(matrix.entries.array, known)[matrix.entries.table]
    exact = jax.jacrev(function)(q)
    assert np.abs(dense - exact).max() < 1e-12 * np.abs(exact).max()
    assert max(array.size for array in known) <= 4 * 3 * beads


def test_steps_with_a_radius_of_gyration_are_those_of_the_plain_engine(monkeypatch):
    monkeypatch.setattr(backwards, "WIDE", 4)

    def gyration(q):
        return jnp.mean((q.reshape(8, 3) - jnp.mean(q.reshape(8, 3), axis=0)) ** 2)

    size = float(gyration(apart(0)))
    system = hx.System(
        lambda q, v: 0.5 * v @ v - q[2], lambda q: jnp.append(pairs(q)[:, 0], gyration(q)) - constants, n=24
    )
    constants = np.append(pairs(apart(0))[:, 0], size)
    monkeypatch.setitem(SYSTEMS, "gyration", lambda: (system, hx.start(system, apart(0), apart(1), project=True)))
    _, (q, p, fate), (expected_q, expected_p, expected) = both("gyration", hx.EulerA(), PATHS)
    assert not fate.status.any()
    assert not expected.status.any()
    assert np.abs(q - expected_q).max() < 1e-12
    assert np.abs(p - expected_p).max() < 1e-12
    assert np.abs(q[-1] - q[0]).max() > 1e-2


MATRICES = {
    "product": lambda x: x[:, :10] @ x[:, 2:].T,
    "batches": lambda x: jnp.einsum("aij,akj->aki", *2 * [jnp.stack([x[:, :9], x[:, 3:]])]),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(12)),
    "lower": lambda x: jax.scipy.linalg.solve_triangular(x + 5.0 * jnp.eye(12), x[:, :3], lower=True),
    "upper": lambda x: jax.scipy.linalg.solve_triangular(x + 5.0 * jnp.eye(12), x[:, :3], trans=0),
    "transposed": lambda x: jax.scipy.linalg.solve_triangular(x + 5.0 * jnp.eye(12), x[0], trans=1),
    "slope": jax.grad(lambda x: jnp.sum(jnp.linalg.cholesky(x @ x.T + jnp.eye(12)) ** 3)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_stay_matrices(name):
    function, x = MATRICES[name], np.random.default_rng(0).normal(size=(12, 12))
    places, translation = Given(144, "float64", "places"), Translation()
    traced = jax.make_jaxpr(function)(x)
    (ref,) = look(translation.closed(traced, [places.all[np.arange(144).reshape(12, 12)]]))
    assert any(isinstance(array, DenseArray) for array in translation.known.values())
    assert all(array.terms.table.size <= 144 for array in translation.known.values() if isinstance(array, Combined))
    value = array_values(ref.array, {places: x.ravel()})[ref.table]
    np.testing.assert_allclose(value, function(x), rtol=1e-11, atol=1e-11)


BY_PATH = {
    "rows": lambda x, i: x.at[i].get(mode="promise_in_bounds") ** 2,
    "filled": lambda x, i: x.at[i].get(mode="fill", fill_value=7.0),
    "clipped": lambda x, i: x.at[i].get(mode="clip"),
    "entries": lambda x, i: jnp.sin(x)[:, 1].at[i].get(mode="promise_in_bounds"),
    "constant": lambda x, i: jnp.ones((8, 3)).at[i].get(mode="fill", fill_value=0.0),
    "added": lambda x, i: x.at[i].add(jnp.cos(x[: len(i)]), mode="drop"),
    "added, clipped": lambda x, i: jnp.zeros(8).at[i].add(x[: len(i), 1], mode="clip"),
    "slope": lambda x, i: jax.grad(lambda x: jnp.sum(jnp.sin(x[i]) * x[i - 1]))(x),
}
NUMBERS = np.array([3, 3, 0, 7, 9, -11, 3], np.int32)


@pytest.mark.parametrize("name", BY_PATH)
def test_rows_at_numbers_that_a_path_knows_are_those_of_jax(name):
    """Also those that come several times, and those out of range."""
    function, x = BY_PATH[name], jnp.asarray(apart(4)).reshape(8, 3)
    numbers = NUMBERS if "promise" not in str(jax.make_jaxpr(function)(x, NUMBERS)).lower() else NUMBERS % 8
    places, index = Given(24, "float64", "places"), Given(7, "int32", "index")
    translation = Translation()
    traced = jax.make_jaxpr(function)(x, numbers)
    (ref,) = look(translation.closed(traced, [places.all[np.arange(24).reshape(8, 3)], index.all]))
    value = array_values(ref.array, {places: np.ravel(x), index: numbers})[ref.table]
    np.testing.assert_allclose(value, function(x, numbers), rtol=1e-14, atol=1e-14)


def with_lists(paths):
    """Particles that attract each other, two of them held apart, at places of their own for every path; a list each."""
    recipe = hx.pairs(1.5, 0.4, exclude=[[0, 1]])

    def lagrangian(q, v, *, near, charges):
        return 0.5 * v @ v - near.sum(lambda r2, a, b: 0.02 * (1.0 + a * b) * (2.25 - r2) ** 3, q, charges)

    def constraint(q):
        return jnp.sum((q[:3] - q[3:6]) ** 2) - 1.0

    system = hx.System(lagrangian, constraint, n=33, parameters={"near": recipe, "charges": np.linspace(-1, 1, 11)})
    q = np.random.default_rng(0).uniform(0.0, 2.0, (paths, 33))
    starts = hx.start(system, q, 0.3 * np.ones((paths, 33)), project=True)
    return system, State(*map(np.asarray, starts)), recipe


def advanced(runner, states, values, steps):
    """Where paths are after some steps, one call for as many as the runner takes."""
    found = []
    for begin in range(0, len(states.q), runner.chunk):
        part = runner.begin(*jax.tree.map(lambda x, begin=begin: x[begin : begin + runner.chunk], (states, values)))
        numbers = range(begin, min(len(states.q), begin + runner.chunk))
        part, _, _ = runner.advance(part, numbers, 5, H, 0, steps, 1)
        assert not runner.fate(part).status.any()
        found.append(np.stack(runner.places(part)))
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize(
    "method",
    [hx.EulerA(), *map(heavy, (hx.Rattle(), hx.EulerB(), hx.Kicked(), hx.Langevin(1.0, 0.5, metropolis=True)))],
    ids=str,
)
def test_lists_of_neighbours_run_as_on_the_plain_engine(method, monkeypatch):
    """Every path with its own list; a path alone has the same bits, and so it has with more room for a list."""
    system, states, recipe = with_lists(PATHS)
    values = {"near": recipe.around(states.q), "charges": np.tile(system.parameters["charges"], (PATHS, 1))}
    monkeypatch.setattr(ArrayRunner, "_take_again", counted := Counted())
    fast = ArrayRunner(system.form, method, system.n, "float64", "a test")
    together = advanced(fast, states, values, 10)
    expected = advanced(PlainRunner(system.form, method, system.n, "float64"), states, values, 10)
    assert np.abs(together - expected).max() < 1e-12
    assert len({x.tobytes() for x in values["near"].i}) == PATHS
    fast.chunk = 1
    longer = recipe.around(states.q, values["near"].room + 69)  # not a multiple of what a vector holds
    alone = advanced(
        fast, State(*(x[:2] for x in states)), jax.tree.map(lambda x: x[:2], values | {"near": longer}), 10
    )
    assert np.array_equal(together[:, :2], alone)
    assert counted.steps == 0


def test_steps_with_lists_can_be_repeated_with_others():
    """What was carried before a call is as it was, and goes on with another list, of another length."""
    system, states, recipe = with_lists(1)
    short = {"near": recipe.around(states.q), "charges": system.parameters["charges"][None]}
    fast = ArrayRunner(system.form, hx.Rattle(), system.n, "float64", "a test")
    begun = fast.begin(states, short)
    after, _, _ = fast.advance(begun, range(1), 5, H, 0, 10, 1)
    assert np.array_equal(fast.places(begun)[0], states.q)
    other = fast.renewed(begun, {"near": recipe.around(states.q, short["near"].room + 64)})
    again, _, _ = fast.advance(other, range(1), 5, H, 0, 10, 1)
    assert np.array_equal(fast.places(again), fast.places(after))
    nobody = PairList(recipe, *(np.zeros_like(short["near"].i) for _ in range(2)), short["near"].reference)
    free, _, _ = fast.advance(fast.renewed(begun, {"near": nobody}), range(1), 5, H, 0, 10, 1)
    assert np.abs(fast.places(free)[0] - fast.places(after)[0]).max() > 1e-6


def test_what_depends_on_the_state_in_other_ways_is_refused():
    system = hx.System(lambda q, v: 0.5 * v @ v - jnp.sort(q)[0], n=24)
    with pytest.raises(Untranslatable, match="sort"):
        ArrayRunner(system.form, hx.EulerA(), 24, "float64", "a test").check_translatable()


@pytest.mark.parametrize(
    ("name", "method", "paths"),
    [
        ("chain", hx.EulerA(), 1),
        ("bent", hx.Rattle(), PATHS),
        heavy("chain", hx.Rattle(), PATHS),
        heavy("rod", hx.Langevin(1.0, 0.5), 1),
        heavy("masses", hx.EulerB(), 3),
        heavy("bent", hx.Lobatto(3), PATHS),
    ],
    ids=str,
)
def test_in_single_precision_no_step_is_in_doubt(name, method, paths, monkeypatch):
    """Numbers of four bytes are where elimination looks for them."""
    monkeypatch.setattr(ArrayRunner, "taken_again", None)
    system, start = SYSTEMS[name]()
    q, _, fate = ran(ArrayRunner(system.form, method, system.n, "float32", "a test"), system, start, paths, 8)
    expected, _, _ = ran(ArrayRunner(system.form, method, system.n, "float64", "a test"), system, start, paths, 8)
    assert not fate.status.any()
    np.testing.assert_allclose(q, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", [hx.EulerA(), heavy(hx.Kicked())], ids=str)
def test_coordinates_that_stay_at_zero_while_others_move(method, dtype, monkeypatch):
    """Nothing cancels in their constraints, and round-off is what is left of their motions; no step is in doubt."""
    monkeypatch.setattr(ArrayRunner, "taken_again", None)
    system = hx.System(
        lambda q, v: 0.5 * v @ v - 0.5 * q @ q, lambda q: q[2::3] * jnp.exp(q[::3]), lambda q: 0.3 * q, n=24
    )
    start = hx.start(system, q=apart(2), v=apart(3), project=True)
    q, _, fate = ran(ArrayRunner(system.form, method, 24, dtype, "a test"), system, start, PATHS, 64)
    assert not fate.status.any()
    assert np.abs(q[:, :, 2::3]).max() < 4 * np.finfo(dtype).eps


@pytest.mark.parametrize("paths", [heavy(1), PATHS])
def test_single_precision_with_constants_of_double_precision(paths):
    """As in users' functions: `jnp.zeros` is of double precision, whatever q is."""

    def rods(q):
        return jnp.sum(jnp.diff(jnp.concatenate([jnp.zeros((1, 3)), q.reshape(9, 3)]), axis=0) ** 2, axis=1) - 1.0

    system = hx.System(lambda q, v: 0.5 * v @ v - 0.25 * jnp.sum(q), rods, lambda q: 0.1 * q, n=27)
    start = hx.start(system, hx.systems.chain(9).start.q)
    runner = ArrayRunner(system.form, hx.EulerA(), 27, "float32", "a test")
    q, _, fate = ran(runner, system, start, paths, 8)
    assert q.dtype == np.float32
    assert not fate.status.any()
    assert np.abs(jax.vmap(system.g)(q[-1].astype(float))).max() < 1e-5
