"""Motions that many multipliers touch: what waits for what, and steps of stars."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.engines.llvm.array_runner import ArrayRunner
from holonax.engines.plain import PlainRunner
from holonax.mechanics.system import State
from holonax.numerics.hubs import waited_for
from holonax.numerics.tape import elimination_tape
from support import heavy


def pairs_of(rows):
    """Multipliers and motions that touch each other, given the motions of each multiplier."""
    return np.repeat(np.arange(len(rows)), [len(row) for row in rows]), np.array([*itertools.chain(*rows)], np.int64)


def star(arms):
    """A rod from the hub, motions 0 to 2, to each of its arms."""
    return [[0, 1, 2, *range(3 * arm + 3, 3 * arm + 6)] for arm in range(arms)]


def test_multipliers_of_a_star_do_not_wait_for_its_hub():
    multipliers, motions = pairs_of(star(40))
    assert np.array_equal(waited_for(multipliers, motions), motions > 2)


@pytest.mark.parametrize(
    "rows",
    [
        star(8),  # few
        [[i, i + 1] for i in range(200)],  # a chain
        [list(range(50)) for _ in range(30)],  # all of them touch everything
        [[0, 1] for _ in range(40)],  # nothing but a hub
        [row + list(range(123, 483)) for row in star(40)],  # the rods have so many other motions that little is gained
    ],
    ids=["few", "chain", "dense", "hub alone", "long rows"],
)
def test_all_others_wait_for_all_motions(rows):
    assert waited_for(*pairs_of(rows)).all()


def test_multipliers_wait_for_a_hub_where_there_are_not_enough_other_motions():
    """Arms of a single motion with two constraints each, all with the hub: one of the two must wait."""
    rows = [[0, 1 + i // 2] for i in range(80)]
    multipliers, motions = pairs_of(rows)
    waits = waited_for(multipliers, motions)
    assert waits[motions > 0].all()
    assert np.array_equal(np.bincount(multipliers // 2, weights=waits & (motions == 0)), np.ones(40))


def test_those_without_a_hub_take_their_motions_first_and_make_way_for_others():
    """Gears in a row, the first of which touches the hub: each row has its own motion only if it takes the next one."""
    arms, gears = 40, 6
    first = 1 + gears * np.arange(arms)[:, None]
    hub_rows = [[0, begin] for begin in first.ravel().tolist()]
    gear_rows = [[g, g + 1] for begin in first.ravel().tolist() for g in range(begin, begin + gears - 1)]
    multipliers, motions = pairs_of([*hub_rows, *gear_rows])
    assert np.array_equal(waited_for(multipliers, motions), motions > 0)
    held = [[begin + gears - 1] for begin in first.ravel().tolist()]  # the last gear of each row stands still
    multipliers, motions = pairs_of([*hub_rows, *gear_rows, *held])
    assert waited_for(multipliers, motions).all()


def test_the_work_for_a_star_is_proportional_to_its_arms():
    def products(arms):
        multipliers, motions = pairs_of(star(arms))
        n, diagonal = 3 * arms + 3, np.arange(3 * arms + 3)
        rows = np.concatenate([diagonal, n + multipliers, motions])
        columns = np.concatenate([diagonal, motions, n + multipliers])
        return elimination_tape(rows, columns, n, n + arms).operations

    assert 1.8 < products(200) / products(100) < 2.2


def tethered(arms, mass, noise):
    """Beads on rods from one bead, which moves with them; a rod between the first two."""
    random = np.random.default_rng(0)
    x = random.normal(size=(arms + 1, 3))
    x[0] = 0.0
    x[1:] /= np.linalg.norm(x[1:], axis=1, keepdims=True)
    apart = np.sum((x[1] - x[2]) ** 2)

    def constraint(q):
        x = q.reshape(-1, 3)
        rods = jnp.sum((x[1:] - x[0]) ** 2, axis=1) - 1.0
        return jnp.append(rods, jnp.sum((x[1] - x[2]) ** 2) - apart)

    system = hx.System(lambda q, v: 0.5 * jnp.sum(mass(q) * v * v) - jnp.sum(q[2::3]), constraint, noise, n=x.size)
    return system, hx.start(system, x.ravel(), 0.3 * random.normal(size=x.size), project=True)


@pytest.mark.parametrize(
    ("method", "mass"),
    [
        (hx.Rattle(), lambda q: 1.0 + jnp.arange(q.size) % 3),
        heavy(hx.EulerA(), lambda q: 1.0 + 0.1 * jnp.sin(q)),
        heavy(hx.Lobatto32(), lambda q: jnp.ones(q.size)),
        heavy(hx.Langevin(1.0, 0.5), lambda q: jnp.ones(q.size)),
    ],
    ids=["Rattle", "EulerA-mass", "Lobatto32", "Langevin"],
)
def test_steps_of_a_star_are_those_of_the_plain_engine(method, mass, monkeypatch):
    """None of them is taken again."""
    noise = None if isinstance(method, hx.Langevin) else lambda q: 0.4 * jnp.sin(q)
    system, start = tethered(40, mass, noise)

    def ends(runner, paths):
        states = State(*(np.tile(np.asarray(x), (paths, 1)) for x in (start.q, start.p, start.guess)))
        carried, q, p = runner.advance(runner.begin(states, {}), range(paths), 5, 2.0**-6, 0, 6, 6)
        assert not runner.fate(carried).status.any()
        return np.asarray(q)[0, 0], np.asarray(p)[0, 0]

    runner = ArrayRunner(system.form, method, system.n, "float64", "a test")
    monkeypatch.setattr(ArrayRunner, "taken_again", None)
    q, p = ends(runner, runner.chunk)
    plain = PlainRunner(system.form, method, system.n, "float64")
    expected_q, expected_p = ends(plain, plain.chunk)
    assert np.abs(q - expected_q).max() < 1e-9
    assert np.abs(p - expected_p).max() < 1e-9
    assert np.abs(q - start.q).max() > 1e-3
