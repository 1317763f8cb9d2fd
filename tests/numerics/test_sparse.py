"""Sparse elimination against dense linear algebra of NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holonax.numerics.sparse import analyse


def chain(beads):
    return [(i, i + 1) for i in range(beads - 1)], beads


def net(side):
    place = np.arange(side * side).reshape(side, side)
    rods = [np.stack([place[1:], place[:-1]], -1), np.stack([place[:, 1:], place[:, :-1]], -1)]
    return np.concatenate([x.reshape(-1, 2) for x in rods]), side * side


def tree(beads):
    return [((i - 1) // 2, i) for i in range(1, beads)], beads


def pattern(rods, beads, mass="diagonal", centre=False):
    """Rows and columns of the Newton matrix of beads in space with rods between them, n and n + k."""
    n, rods = 3 * beads, np.asarray(rods, int).reshape(-1, 2)
    bead, motion = np.arange(n) // 3, np.arange(n)
    reach = {"diagonal": 0, "tridiagonal": 1, "blocks": 2}[mass]
    row, column = np.concatenate([np.stack([motion[: n - d], motion[d:]]) for d in range(reach + 1)], axis=1)
    if mass == "blocks":
        row, column = row[bead[row] == bead[column]], column[bead[row] == bead[column]]
    touched = (3 * rods[:, :, None] + np.arange(3)).reshape(-1, 6)
    constraint = np.repeat(n + np.arange(len(rods)), 6)
    if centre:
        constraint = np.append(constraint, n + len(rods) + motion % 3)
        touched = np.append(touched.ravel(), motion)
    row, column = np.append(row, constraint), np.append(column, touched.ravel())
    apart = row != column
    size = n + len(rods) + 3 * centre
    return np.append(row, column[apart]), np.append(column, row[apart]), n, size


def stages(rods, beads, number):
    """The same for several stages, in which beads act on those that they are joined to: all stages on each other."""
    n, k, rods = 3 * beads, len(rods), np.asarray(rods, int).reshape(-1, 2)
    one, two = (3 * rods.T[:, :, None] + np.arange(3)).reshape(2, -1)
    motion = np.arange(n)
    coupled = np.stack([np.concatenate([motion, one, two]), np.concatenate([motion, two, one])])
    touching = np.stack([np.tile(np.repeat(np.arange(k), 3), 2), np.concatenate([one, two])])
    i, j = np.indices((number, number)).reshape(2, -1, 1)
    among = (n * i + coupled[0]).ravel(), (n * j + coupled[1]).ravel()
    i, j = np.indices((number - 1, number)).reshape(2, -1, 1)
    along = (number * n + k * i + touching[0]).ravel(), (n * j + touching[1]).ravel()
    rows, columns = (np.concatenate([among[m], along[m], along[1 - m]]) for m in (0, 1))
    size = number * n + (number - 1) * k
    return *np.divmod(np.unique(rows * size + columns), size), number * n, size


def matrix(rows, columns, n, size, seed=0):
    """Near a symmetric one with positive masses, as close to the start of a step, but not symmetric."""
    random = np.random.default_rng(seed)
    full = random.normal(size=(size, size))
    full = full + full.T + 0.1 * random.normal(size=(size, size)) + np.diag(np.where(np.arange(size) < n, 20.0, 0.0))
    there = np.zeros((size, size), bool)
    there[rows, columns] = True
    return np.where(there, full, 0.0)


def plain_pivots(full, order):
    """Of Gaussian elimination without exchanges, in an order."""
    reduced = full[np.ix_(order, order)].copy()
    for j in range(len(order)):
        reduced[j + 1 :, j + 1 :] -= np.outer(reduced[j + 1 :, j] / reduced[j, j], reduced[j, j + 1 :])
    pivots = np.empty(len(order))
    pivots[order] = np.diag(reduced)
    return pivots


def solved(plan, entries, b):
    """Solutions, singular and signs, compiled fast rather than to fast code."""

    def run(entries, b):
        factors = plan.factorize(entries)
        return factors.solve(b), factors.singular, factors.signs

    return jax.jit(run, compiler_options={"xla_backend_optimization_level": 0})(jnp.asarray(entries), jnp.asarray(b))


GRAPHS = {
    "chain": pattern(*chain(60)),
    "ring": pattern([(i, (i + 1) % 30) for i in range(30)], 30),
    "net": pattern(*net(5)),
    "tree": pattern(*tree(31)),
    "diamond": pattern([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], 4),
    "blocks": pattern(*chain(20), mass="blocks"),
    "tridiagonal": pattern(*chain(20), mass="tridiagonal"),
    "centre of mass": pattern(*chain(20), centre=True),
    "three stages": stages(*chain(14), 3),
    "four stages": stages(*tree(7), 4),
    "no constraint": pattern([], 8, mass="blocks"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_solutions_and_pivots(name):
    rows, columns, n, size = GRAPHS[name]
    plan = analyse(rows, columns, n, size)
    full, b = matrix(rows, columns, n, size), np.random.default_rng(1).normal(size=size)
    x, singular, signs = solved(plan, full[rows, columns], b)
    np.testing.assert_allclose(x, np.linalg.solve(full, b), rtol=1e-9, atol=1e-10)
    assert not singular
    np.testing.assert_array_equal(signs, np.sign(plain_pivots(full, plan.order))[n:])
    assert sorted(plan.order) == list(range(size))
    for i in range(n, size):
        assert plan.place[columns[(rows == i) & (columns < n)]].max() < plan.place[i]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_paths_are_the_last_axis_and_equal_constraints_are_singular_in_any_unit(dtype):
    rods, beads = chain(12)
    rows, columns, n, size = pattern([*rods, rods[4]], beads)
    plan = analyse(rows, columns, n, size)
    fine = matrix(rows, columns, n, size)
    equal, undefined = fine.copy(), fine.copy()
    equal[-1, :n], equal[:n, -1] = equal[n + 4, :n], equal[:n, n + 4]
    undefined[0, 0] = np.nan
    unit = np.where(np.arange(size) < n, 1.0, 1e-6)[:, None]
    matrices = [fine, fine * unit, fine / unit, equal, equal * unit, equal / unit, undefined]
    entries = np.stack([m[rows, columns] for m in matrices], axis=1).astype(dtype)
    b = np.random.default_rng(2).normal(size=(size, len(matrices))).astype(dtype)
    x, singular, signs = solved(plan, entries, b)
    assert singular.tolist() == [False, False, False, True, True, True, True]
    assert x.dtype == signs.dtype == dtype
    assert signs.shape == (size - n, len(matrices))
    expected = np.stack([np.linalg.solve(m, y) for m, y in zip(matrices[:3], b.T, strict=False)], axis=1)
    bound = 1e4 * np.finfo(dtype).eps * np.abs(expected).max(axis=0)
    assert np.all(np.abs(x[:, :3] - expected) <= bound)


def test_vmap():
    rows, columns, n, size = GRAPHS["diamond"]
    plan = analyse(rows, columns, n, size)
    entries = jnp.asarray([matrix(rows, columns, n, size, seed)[rows, columns] for seed in range(3)])
    batched = jax.jit(jax.vmap(lambda entries: plan.factorize(entries).solve(jnp.ones(size))))(entries)
    np.testing.assert_allclose(batched.T, solved(plan, entries.T, np.ones((size, 3)))[0], rtol=1e-12)


def test_size_of_the_work():
    short, long = (analyse(*pattern(*chain(beads))) for beads in (1000, 2000))
    assert short.levels <= 14
    assert long.operations < 2.3 * short.operations
    assert short.operations < 30 * 1000
    bordered, longer = (analyse(*pattern(*chain(beads), centre=True)) for beads in (1000, 2000))
    assert bordered.operations < short.operations + 100 * 1000
    assert longer.operations < 2.3 * bordered.operations
    assert set(bordered.order[-3:]) == {3999, 4000, 4001}
    assert analyse(*pattern(*net(16))).operations < 600 * 480


def test_stages_that_are_coupled_do_not_fill_in():
    """A chain that hangs from a point: multipliers do not wait for all motions; those of a constraint go in order."""
    short, long = (analyse(*stages([(0, 0), *chain(beads)[0]], beads, 3)) for beads in (200, 400))
    assert long.operations < 2.2 * short.operations
    assert long.operations < 5000 * 400
    assert long.levels <= 100
    place, n = long.place, 9 * 400
    multipliers = place[n:].reshape(2, 400)
    assert np.mean(multipliers.max(axis=0) < place[:n].max()) > 0.9
    assert np.all(multipliers[0] < multipliers[1])


def test_an_entry_is_named_once():
    with pytest.raises(ValueError, match="twice"):
        analyse(np.array([0, 0]), np.array([0, 0]), 1, 1)
