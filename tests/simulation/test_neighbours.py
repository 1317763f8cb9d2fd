"""Neighbour lists: the same results as sums over all pairs, whenever lists are made, or a status."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.engines.plain import PlainRunner
from holonax.mechanics.pairs import PairList
from holonax.simulation import neighbours
from support import heavy

CUTOFF, BOND = 2.0, 0.6


def potential(r2):
    return 4 * (r2**-6 - r2**-3) - 4 * (CUTOFF**-12 - CUTOFF**-6)


def kinetic(v):
    return 0.5 * v @ v


def listed(q, v, *, near):
    return kinetic(v) - near.sum(potential, q)


def all_pairs(particles, box=None, exclude=None):
    """The same by all pairs, as users write it."""
    i, j = np.triu_indices(particles, 1)
    if exclude is not None:
        keep = ~np.isin(i * particles + j, exclude @ [particles, 1])
        i, j = i[keep], j[keep]

    def lagrangian(q, v):
        x = q.reshape(-1, 3)
        apart = x[i] - x[j]
        if box is not None:
            apart = apart - box * jnp.round(apart / box)
        r2 = jnp.sum(apart**2, axis=-1)
        within = r2 < CUTOFF**2
        return kinetic(v) - jnp.sum(jnp.where(within, potential(jnp.where(within, r2, 1.0)), 0.0))

    return lagrangian


def rods(q):
    ends = q.reshape(-1, 2, 3)
    return jnp.sum((ends[:, 0] - ends[:, 1]) ** 2, axis=-1) - BOND**2


def fluid(shape, skin, temperature=0.3, density=0.5):
    """Rigid dimers in a box: with a list, by all pairs, and a start."""
    rng = np.random.default_rng(0)
    side = (2 / density) ** (1 / 3)
    centres = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, 3) * side
    along = np.array([1.0, 0.0, 0.0]) + 0.2 * rng.normal(size=centres.shape)
    along *= BOND / 2 / np.linalg.norm(along, axis=1)[:, None]
    x = np.stack([centres - along, centres + along], axis=1).reshape(-1, 3)
    box, ends = np.maximum(np.array(shape) * side, 2 * CUTOFF), np.arange(len(x)).reshape(-1, 2)
    near = hx.pairs(CUTOFF, skin, box, exclude=ends)
    lists = hx.System(listed, rods, parameters={"near": near})
    v = np.repeat(np.sqrt(temperature) * rng.normal(size=centres.shape), 2, axis=0)  # they do not turn yet
    return lists, hx.System(all_pairs(len(x), box, ends), rods), hx.start(lists, x.ravel(), v.ravel())


def cluster(skin):
    """Particles in free space, thrown at each other."""
    x = 1.2 * np.stack(np.meshgrid(*[np.arange(2.0)] * 3), axis=-1).reshape(-1, 3)
    x += 0.05 * np.sin(np.arange(24)).reshape(-1, 3)
    v = np.zeros_like(x)
    x[0], v[0] = [-3.0, 0.1, 0.2], [4.0, 0.0, 0.0]
    lists = hx.System(listed, parameters={"near": hx.pairs(CUTOFF, skin)})
    return lists, hx.System(all_pairs(len(x))), hx.start(lists, x.ravel(), v.ravel())


def by_all_pairs(system, method, start, h, steps, **noise):
    found = hx.System(system.lagrangian, system.constraint, n=start.q.size)
    noise = hx.increments(found, h=h, steps=steps, method=method, **{"seed": 0, "path": 0} | noise)
    return hx.integrate(found, method, start, noise)


@pytest.fixture
def made(monkeypatch):
    """The steps before which lists are made."""
    steps, original = [], neighbours.Followed._make

    def make(self, q, step):
        steps.append(step)
        original(self, q, step)

    monkeypatch.setattr(neighbours.Followed, "_make", make)
    return steps


OPTIONS = {"h": 0.01, "t1": 1.0, "progress": False}


def test_a_list_that_runs_out_in_a_call_is_no_reason_to_take_steps_again(monkeypatch):
    """Forces beyond its reach are not numbers, nor are the momenta of RATTLE: the list is made anew, no more."""
    calls, original = [], PlainRunner.advance
    monkeypatch.setattr(PlainRunner, "advance", lambda *a, **k: calls.append(a) or original(*a, **k))
    system, _, start = fluid((2, 2, 1), skin=0.1, density=0.6)
    start = hx.start(system, start.q)  # at rest: they move more and more in a step
    run = hx.simulate(system, hx.Rattle(), start, engine="llvm", **OPTIONS)
    assert np.abs(run.q[0, -1] - start.q).max() > 0.1  # twice half a skin
    assert not calls


@pytest.mark.parametrize(
    ("shape", "method"),
    [
        ((2, 2, 1), hx.EulerA()),
        heavy((2, 2, 2), hx.Langevin(1.0, 0.3, metropolis=True)),
        heavy((2, 2, 2), hx.Lobatto(3)),
        heavy((4, 4, 4), hx.Rattle()),
        heavy((4, 4, 4), hx.Langevin(1.0, 0.3)),
        heavy((6, 6, 7), hx.EulerA()),
    ],
)
@pytest.mark.filterwarnings("ignore:the 'llvm' engine cannot translate neighbour lists with Lobatto")
def test_a_fluid_of_rigid_dimers_moves_as_by_all_pairs(shape, method, made):
    lists, everything, start = fluid(shape, skin=0.4)
    run = hx.simulate(lists, method, start, **OPTIONS)
    assert run.engine == ("plain" if isinstance(method, hx.Lobatto) else "llvm")
    expected = by_all_pairs(everything, method, start, 0.01, 100)
    assert len(made) >= 6
    np.testing.assert_allclose(run.q[0], expected.q, atol=1e-9, rtol=0)
    np.testing.assert_allclose(run.p[0], expected.p, atol=1e-9, rtol=0)


@pytest.mark.study
def test_what_is_observed_is_that_of_all_pairs(made):
    lists, everything, start = fluid((2, 2, 2), skin=0.4)
    observe = {"H": hx.Mean(lists.energy, every=50, over="paths")}
    run = hx.simulate(lists, hx.Rattle(), start, **OPTIONS, observe=observe)
    for i, step in enumerate((0, 50, 100)):
        energy = everything.energy(run.q[0, step], run.p[0, step])
        np.testing.assert_allclose(run.observed["H"].mean[i], energy, atol=1e-9, rtol=0)
    assert len(made) >= 6


@functools.cache
def cluster_by_all_pairs():
    _, everything, start = cluster(skin=0.5)
    return by_all_pairs(everything, hx.EulerA(), start, 0.01, 100)


def test_a_cluster_in_free_space_moves_as_by_all_pairs(made):
    lists, _, start = cluster(skin=0.5)
    run = hx.simulate(lists, hx.EulerA(), start, **OPTIONS)
    expected = cluster_by_all_pairs()
    np.testing.assert_allclose(run.q[0], expected.q, atol=1e-9, rtol=0)
    assert len(made) >= 6


def recklessly(self, runner, carried, step):
    self.reach = 1000
    return carried


def test_lists_that_are_too_old_are_found_and_steps_repeated(made, monkeypatch):
    """Calls are far too long for the skin; where nobody looks at what has moved, the test sees it."""
    lists, _, start = cluster(skin=0.2)
    expected = cluster_by_all_pairs()

    monkeypatch.setattr(neighbours.Followed, "follow", recklessly)
    run = hx.simulate(lists, hx.EulerA(), start, **OPTIONS)
    np.testing.assert_allclose(run.q[0], expected.q, atol=1e-9, rtol=0)
    assert len(made) >= 20

    monkeypatch.setattr(PairList, "reaches", lambda self, moved: jnp.array(True))
    broken = hx.System(lambda q, v, *, near: listed(q, v, near=near), parameters=dict(lists.parameters))
    run = hx.simulate(broken, hx.EulerA(), start, **OPTIONS)
    assert np.abs(run.q[0] - expected.q).max() > 1e-3


@pytest.mark.study
def test_proposals_that_a_list_does_not_reach_are_not_rejected(monkeypatch):
    """They are judged with another list."""
    method = hx.Langevin(1.0, 1.0, metropolis=True)
    lists, everything, start = cluster(skin=0.2)
    monkeypatch.setattr(neighbours.Followed, "follow", recklessly)
    run = hx.simulate(lists, method, start, **OPTIONS)
    expected = by_all_pairs(everything, method, start, 0.01, 100)
    np.testing.assert_allclose(run.q[0], expected.q, atol=1e-9, rtol=0)
    assert run.counts["accepted"][0] > 90


def test_bits_do_not_depend_on_when_lists_are_made(made, monkeypatch):
    lists, _, start = cluster(skin=0.5)
    run = hx.simulate(lists, hx.EulerA(), start, **OPTIONS)
    at_first = list(made)
    monkeypatch.setattr(neighbours, "_ANEW", 0.0)
    monkeypatch.setattr(neighbours, "_HOPED", 0.2)
    again = hx.simulate(lists, hx.EulerA(), start, **OPTIONS)
    assert len(made) - len(at_first) > 2 * len(at_first)
    np.testing.assert_array_equal(run.q, again.q)
    np.testing.assert_array_equal(run.p, again.p)
