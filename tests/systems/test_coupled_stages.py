"""Methods of three and more stages on sparse systems: the same steps in another order of elimination."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.engines.llvm.array_runner import ArrayRunner
from holonax.engines.plain import PlainRunner
from holonax.mechanics.system import State
from holonax.numerics import sparse, sparse_order, structure, tape
from support import fitted_slope, heavy, within

H = 2.0**-6


def dendrimer(generations):
    """A tree of rods: three from the core, two more from every bead; the core is free."""
    parents, last = [], [0]
    for _ in range(generations):
        grown = [parent for parent in last for _ in range(3 if parent == 0 else 2)]
        last = list(range(len(parents) + 1, len(parents) + 1 + len(grown)))
        parents += grown
    parent, child = np.array(parents), 1 + np.arange(len(parents))
    random = np.random.default_rng(0)
    rods = random.normal(size=(len(parent), 3))
    x = np.zeros((len(parent) + 1, 3))
    for i, rod in zip(child, rods / np.linalg.norm(rods, axis=1, keepdims=True), strict=True):
        x[i] = x[parent[i - 1]] + rod

    def constraint(q):
        x = q.reshape(-1, 3)
        return jnp.sum((x[child] - x[parent]) ** 2, axis=1) - 1.0

    system = hx.System(lambda q, v: 0.5 * v @ v - jnp.sum(q[2::3]), constraint, lambda q: 0.4 * jnp.sin(q), n=x.size)
    return system, hx.start(system, x.ravel(), 0.3 * random.normal(size=x.size), project=True)


def catalogue(name, *arguments):
    entry = getattr(hx.systems, name)(*arguments)
    return entry.system, entry.start


SYSTEMS = {
    "chain": lambda: catalogue("chain", 12),
    "ring": lambda: catalogue("ring", 14),
    "net": lambda: catalogue("net", 5, 5),
    "tree": lambda: dendrimer(3),
}


def ends(runner, start, paths, steps=6):
    """Of paths with noise, as many at a time as the engine takes."""
    q, p = [], []
    for first in range(0, paths, runner.chunk):
        states = State(*(np.tile(np.asarray(x), (runner.chunk, 1)) for x in (start.q, start.p, start.guess)))
        own = range(first, first + runner.chunk)
        carried, q_own, p_own = runner.advance(runner.begin(states, {}), own, 5, H, 0, steps, steps)
        assert not runner.fate(carried).status.any()
        q.append(np.asarray(q_own)[0])
        p.append(np.asarray(p_own)[0])
    return np.concatenate(q)[:paths], np.concatenate(p)[:paths]


def refuse_doubts(runner, group, *_):
    """In the place of steps that are taken again by the plain engine."""
    assert (runner._tracked(group)[3] == 0).all()


@pytest.fixture
def by_levels(monkeypatch):
    """Small systems are eliminated as large ones are: level by level, to the last unknown."""

    def levels(rows, columns, motions, size, costs=None, **options):
        return sparse_order.elimination_levels(rows, columns, motions, size, sparse_order.Costs(0, 10**9, 0), **options)

    monkeypatch.setattr(sparse_order, "FULL", 1.0)
    monkeypatch.setattr(structure, "WORTHWHILE", 10)
    monkeypatch.setattr(structure, "PER_OPERATION", 1e-6)
    for module in (sparse, tape):
        monkeypatch.setattr(module, "elimination_levels", levels)


CASES = [
    ("chain", hx.Lobatto32()),
    heavy("chain", hx.Lobatto(4)),
    *(heavy(name, hx.Lobatto(3)) for name in ("ring", "net", "tree")),
    heavy("tree", hx.Lobatto32()),
]


@pytest.mark.parametrize(("name", "integrator"), CASES, ids=str)
def test_steps_are_those_of_a_dense_elimination(name, integrator, by_levels, monkeypatch):
    """With noise; the other order is LAPACK's, with exchanges."""
    system, start = SYSTEMS[name]()
    monkeypatch.setattr(ArrayRunner, "_take_again", refuse_doubts)
    q, p = ends(ArrayRunner(system.form, integrator, system.n, "float64", "a test"), start, paths=2)
    monkeypatch.setattr(structure, "WORTHWHILE", 10**9)
    expected_q, expected_p = ends(PlainRunner(system.form, integrator, system.n, "float64"), start, paths=2)
    assert np.abs(q - expected_q).max() < 1e-9
    assert np.abs(p - expected_p).max() < 1e-9
    assert np.abs(q - start.q).max() > 1e-3
    assert np.abs(q[0] - q[1]).max() > 1e-4


@pytest.mark.study
@pytest.mark.parametrize("name", ["chain", "tree"])
def test_the_plain_engine_and_its_derivatives(name, by_levels, monkeypatch):
    """Ends of paths, and how they change with the start, against dense elimination."""
    system, start = SYSTEMS[name]()
    noise = hx.increments(system, h=H, steps=2, seed=3)
    push = np.random.default_rng(7).normal(size=system.n)

    def end(size):
        path = hx.integrate(system, hx.Lobatto32(), start._replace(p=start.p + size * push), noise)
        return path.q[-1], path.report.status

    found = jax.jvp(end, (0.1,), (1.0,))
    monkeypatch.setattr(structure, "WORTHWHILE", 10**9)
    expected = jax.jvp(lambda size: end(size), (0.1,), (1.0,))
    assert not found[0][1].any()
    assert np.abs(found[0][0] - expected[0][0]).max() < 1e-10
    assert np.abs(found[1][0] - expected[1][0]).max() < 1e-9
    assert np.abs(found[1][0]).max() > 1e-3


@pytest.mark.study
def test_order_four_on_a_chain_of_forty_beads():
    chain = hx.systems.chain(40)
    quiet = hx.System(chain.system.lagrangian, chain.system.constraint, n=120)
    push = 0.5 * np.random.default_rng(0).normal(size=120)
    start = hx.start(quiet, chain.start.q, push, project=True)

    def end(steps):
        run = hx.simulate(quiet, hx.Lobatto(3), start, t1=0.5, h=0.5 / steps, save_every=None, engine="llvm")
        assert "with loops over arrays" in run.reason
        return run.state.q[0]

    exact = end(256)
    errors = [np.linalg.norm(end(steps) - exact) for steps in (8, 16, 32)]
    assert within(fitted_slope([1 / 8, 1 / 16, 1 / 32], errors), 4.0, 0.3), errors


def fast(beads, stiffness, number):
    """Chains whose rods turn by up to three radians in a step of 0.1, and a strong force along all rods."""
    random = np.random.default_rng(1)

    def rods(q):
        return jnp.diff(q.reshape(beads, 3), axis=0, prepend=jnp.zeros((1, 3)))

    def lagrangian(q, v):
        return 0.5 * v @ v - jnp.sum(q[2::3]) - 0.5 * stiffness * jnp.sum(rods(q) ** 2)

    along, across = random.normal(size=(2, number, beads, 3))
    along /= np.linalg.norm(along, axis=-1, keepdims=True)
    across = np.cross(across, along)
    across *= np.linspace(0.5, 30.0, number)[:, None, None] / np.linalg.norm(across, axis=-1, keepdims=True)
    q, v = (np.cumsum(x, axis=1).reshape(number, -1) for x in (along, across))
    return hx.System(lagrangian, lambda q: jnp.sum(rods(q) ** 2, axis=1) - 1.0, n=3 * beads), q, v


def followed(system, tableau, q, p, h, parts=300):
    """The end of a step whose length grows from 0, by Newton's method for all unknowns, and whether it came so far."""
    a, b, transfer, s, n = tableau.a, tableau.b, tableau.transfer, tableau.stages, len(q)

    def residual(x, h):
        V, lam = x[: s * n].reshape(s, n), x[s * n :].reshape(s - 1, -1)
        Q = q + h * a @ V
        impulse = h * b[:-1, None] * jax.vmap(system.force)(Q[:-1], V[:-1]) + jax.vmap(system.reaction)(Q[:-1], lam)
        return jnp.append(V - p - transfer[:, :-1] @ impulse, jax.vmap(system.g)(Q[1:]) / h)

    def further(carry, h):
        x, near, sign = carry
        y = jax.lax.fori_loop(0, 4, lambda _, y: y - jnp.linalg.solve(jax.jacfwd(residual)(y, h), residual(y, h)), x)
        new = jnp.linalg.slogdet(jax.jacfwd(residual)(y, h))[0]
        close = jnp.abs(y - x).max() < 0.3 * (1.0 + jnp.abs(x).max())
        near &= close & (jnp.abs(residual(y, h)).max() < 1e-8) & ((new == sign) | (sign == 0))
        return (jnp.where(near, y, x), near, new), None

    x = jnp.append(jnp.tile(p, s), jnp.zeros((s - 1) * system.g(q).size))
    (x, near, _), _ = jax.lax.scan(further, (x, jnp.array(True), jnp.array(0.0)), h * jnp.arange(1, parts + 1) / parts)
    return q + h * b @ x[: s * n].reshape(s, n), near


@pytest.mark.study
@pytest.mark.parametrize("stiffness", [0.0, 300.0])
def test_the_near_root_or_a_status(stiffness, by_levels):
    """The signs of pivots tell the near root in this order too; a force along the normal changes nothing in that."""
    number, h = 64, 0.1
    system, q, v = fast(6, stiffness, number)
    expected, near = jax.jit(jax.vmap(lambda q, p: followed(fast(6, 0.0, 1)[0], hx.tableaux.lobatto(3), q, p, h)))(q, v)
    noise = hx.increments(system, h=h, steps=1, seed=0)

    def end(q, v):
        path = hx.integrate(system, hx.Lobatto(3), State(q, v, v), noise)
        return path.q[-1], path.report.status[-1]

    judged(*jax.jit(jax.vmap(end))(q, v), expected, near)
    runner = ArrayRunner(system.form, hx.Lobatto(3), system.n, "float64", "a test")
    parts = [slice(first, first + runner.chunk) for first in range(0, number, runner.chunk)]
    taken = [runner.advance(runner.begin(State(q[i], v[i], v[i]), {}), range(number)[i], 5, h, 0, 1, 1) for i in parts]
    ended, status = [np.asarray(t[1])[-1] for t in taken], [runner.fate(t[0]).status for t in taken]
    judged(np.concatenate(ended), np.concatenate(status), expected, near)


def judged(q, status, expected, near):
    """Where there is a near root it is found, nearly always; never another one with status 0."""
    solved = np.asarray(status == 0) & np.asarray(near)
    assert np.abs(q - expected)[solved].max() < 1e-6
    assert solved.sum() >= near.sum() - 1
    assert 10 < near.sum() < len(near)
    assert np.any(status != 0)
