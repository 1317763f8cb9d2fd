"""Constraints that depend on each other: braced molecules, mechanisms, closed loops, and pivots that vanish."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from corpus import squared
from support import heavy

BONDS = [(i, j) for i in range(5) for j in range(i)]
UNITS = {"nm, ps, u": (1.0, 1.0, 1.0), "SI": (1e-9, 1e-12, 1.66e-27)}
METHODS = [hx.EulerA(), heavy(hx.Rattle()), heavy(hx.Kicked()), heavy(hx.Langevin(1.0, 2.5))]


def molecule(positions, bonds, masses, **options):
    lengths, masses = np.asarray(squared(positions, bonds)), np.repeat(masses, 3)
    return hx.System(
        lambda q, v: 0.5 * jnp.sum(masses * v**2),
        lambda q: squared(q.reshape(positions.shape), bonds) - lengths,
        n=positions.size,
        **options,
    )


def methane(units, bonds, **options):
    length, time, mass = UNITS[units]
    corners = np.array([[0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    positions = 0.1087 / np.sqrt(3) * length * corners
    system = molecule(positions, bonds, mass * np.array([12.011, 1.008, 1.008, 1.008, 1.008]), **options)
    return system, positions.ravel(), np.random.default_rng(0).normal(size=15) * length / time


@pytest.mark.parametrize("units", ["nm, ps, u", heavy("SI")])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_braced_methane_moves_as_one_with_nine_distances(method, units):
    length, time, mass = UNITS[units]
    if isinstance(method, hx.Langevin):
        method = hx.Langevin(1.0 / time, 2.5 * mass * (length / time) ** 2)
    braced, q, v = methane(units, BONDS, redundant="allow")
    free, *_ = methane(units, BONDS[1:])  # another choice of nine than the start makes
    start = hx.start(braced, q, v, project=True)
    assert hx.independent(braced, start).redundant == (9,)
    h = 0.002 * time
    options = {"t1": 100 * h, "h": h, "paths": 2, "seed": 1, "engine": "llvm", "progress": False}
    run, other = (hx.simulate(system, method, start, **options) for system in (braced, free))
    noise = hx.increments(braced, h=h, steps=100, seed=1, path=1, method=method)
    plain = hx.integrate(braced, method, start, noise)
    assert int(plain.report.status[-1]) == 0
    assert np.abs(run.q[:, -1] - run.q[:, 0]).max() > 0.01 * length
    for q, p in ((other.q[1], other.p[1]), (np.asarray(plain.q), np.asarray(plain.p))):
        assert np.abs(run.q[1] - q).max() < 1e-9 * length
        assert np.abs(run.p[1] - p).max() < 1e-9 * mass * length / time
    assert np.abs(jax.vmap(braced.g)(run.q[:, -1])).max() < 1e-14 * length**2


GROUND = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])


def linkage(**options):
    """A parallelogram: three cranks on a rigid coupler, of which two would do; six constraints on six coordinates."""

    def constraint(q):
        x = q.reshape(3, 2)
        cranks = jnp.sum((x - GROUND) ** 2, axis=1) - 1.0
        return jnp.concatenate([cranks, jnp.sum((x[0] - x[2]) ** 2, keepdims=True) - 4.0, 2 * x[1] - x[0] - x[2]])

    return hx.System(lambda q, v: 0.5 * v @ v - q[1], constraint, n=6, **options)


def at_angle(angle):
    return (GROUND + np.array([np.cos(angle), np.sin(angle)])).ravel(), np.tile([-np.sin(angle), np.cos(angle)], 3)


@pytest.mark.study
def test_a_parallelogram_moves_as_its_angle():
    """Three masses, one of them with a weight: an angle whose mass is 3."""
    system = linkage(redundant="allow")
    q, along = at_angle(1.0)
    start = hx.start(system, q + 0.03 * np.cos(np.arange(6)), 0.3 * along, project=True)
    np.testing.assert_allclose(system.g(start.q), 0.0, atol=1e-14)
    angle = np.arctan2(start.q[1], start.q[0])
    run = hx.simulate(system, hx.Rattle(), start, t1=0.5, h=2**-8, progress=False)
    pendulum = hx.System(lambda q, v: 1.5 * v @ v - jnp.sin(q[0]), n=1)
    rate = start.v[:2] @ np.array([-np.sin(angle), np.cos(angle)])
    exact = hx.simulate(pendulum, hx.Lobatto(5), hx.start(pendulum, [angle], [rate]), t1=0.5, h=2**-8, progress=False)
    found = np.arctan2(run.q[0, :, 1], run.q[0, :, 0])
    assert np.abs(found - exact.q[0, :, 0]).max() < 1e-5  # of order h^2
    assert np.abs(jax.vmap(system.g)(run.q[0])).max() < 1e-13


def test_a_parallelogram_stops_where_it_is_flat():
    """There the constraints have another rank: the way on is not theirs to say, whatever the step."""
    system = linkage(redundant="allow")
    q, along = at_angle(1.0)
    start = hx.start(system, q, -along)
    with pytest.raises(
        hx.SimulationError, match=r"depends most on the others.*; near a singular point a smaller h"
    ) as e:
        hx.simulate(system, hx.Rattle(), start, t1=2.0, h=0.01, progress=False)
    end = e.value.run.ends
    assert 0.0 < np.arctan2(end.q[0, 1], end.q[0, 0]) < 0.02
    assert np.abs(system.g(end.q[0])).max() < 1e-13


def ball(*others, **options):
    return hx.System(
        lambda q, v: 0.5 * v @ v - q[2],
        lambda q: jnp.stack([q @ q - 1.0, *(f(q) for f in others)]),
        n=3,
        **{"redundant": "allow"} | options,
    )


def test_a_constraint_that_is_repeated_in_other_units():
    system = ball(lambda q: 1e8 * (q @ q - 1.0), lambda q: 1e-8 * (q @ q - 1.0), lambda q: (q @ q - 1.0) ** 2)
    start = hx.start(system, [1.0, 0.0, 0.0], [0.0, 1.0, 0.5])
    assert hx.independent(system, start).redundant == (1, 2, 3)
    run = hx.simulate(system, hx.EulerA(), start, t1=1.0, h=0.01, progress=False)
    other = hx.simulate(ball(redundant="refuse"), hx.EulerA(), start, t1=1.0, h=0.01, progress=False)
    np.testing.assert_array_equal(run.q, other.q)


@pytest.mark.parametrize(
    ("other", "project", "says"),
    [
        (lambda q: q[0] - 1.0, False, "constraint 1 depends on the others at q, but not at points of S nearby"),
        (lambda q: q @ q - 1.1, False, "contradict one another"),
        (lambda q: q @ q - 1.1, True, "found no point where all constraints hold.*contradict"),
    ],
    ids=["touching", "contradicting", "contradicting, projected"],
)
def test_what_is_not_implied_is_refused(other, project, says):
    with pytest.raises(hx.StartError, match=says):
        hx.start(ball(other), [1.0, 0.0, 0.0], project=project)


@pytest.mark.parametrize("engine", ["llvm", heavy("xla")])
def test_what_is_no_longer_implied_ends_the_path(engine):
    """Named by the user, wrongly: it holds at the start alone."""
    system = ball(lambda q: q[0] - 1.0, redundant=(1,))
    start = hx.start(system, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    options = {"t1": 0.5, "h": 0.01, "engine": engine, "on_failure": "mark", "progress": False}
    run = hx.simulate(system, hx.Rattle(), start, **options)
    assert (run.status[0], run.failed_step[0]) == (hx.Status.NOT_IMPLIED, 0)
    plain = hx.integrate(system, hx.Rattle(), start, hx.increments(system, h=0.01, steps=3, seed=0, path=0))
    assert np.asarray(plain.report.status).tolist() == [hx.Status.NOT_IMPLIED] * 3
    np.testing.assert_array_equal(plain.q[-1], start.q)


def diamond(flat, bonds, **options):
    positions = np.array([[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.4, 0.9, 0.2], [1.3, 1.0, 0.6]]) * [1.0, 1.0, flat]
    return molecule(positions, bonds, [1.0, 12.0, 1.0, 12.0], **options), positions.ravel()


FIVE = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("bonds", "flat"),
    [heavy(FIVE, 0.0), heavy([*FIVE, (0, 3)], 1e-4), heavy([*FIVE, (0, 3)], 1.0), heavy(FIVE, 1.0)],
    ids=str,
)
def test_diamonds_that_are_nearly_flat(bonds, flat):
    system, q = diamond(flat, bonds, redundant="allow")
    start = hx.start(system, q, 0.4 * np.random.default_rng(1).normal(size=12), project=True)
    assert hx.independent(system, start).redundant == ()
    run = hx.simulate(system, hx.Rattle(), start, t1=1.0, h=0.01, progress=False)
    assert np.abs(jax.vmap(system.g)(run.q[0])).max() < 1e-13
    energy = jax.vmap(system.energy)(run.q[0, [0, -1]], run.p[0, [0, -1]])
    assert abs(energy[1] / energy[0] - 1.0) < 1e-3


def test_the_kept_ones_may_become_dependent_on_the_way():
    """Three atoms in line by coordinates: of the five constraints any four are dependent in some direction of space."""

    def constraint(q):
        x = q.reshape(3, 3)
        squares = jnp.array([(x[0] - x[1]) @ (x[0] - x[1]) - 1.0, (x[0] - x[2]) @ (x[0] - x[2]) - 4.0])
        return jnp.append(squares, x[1] - 0.5 * (x[0] + x[2]))

    system = hx.System(lambda q, v: 0.5 * v @ v, constraint, n=9, redundant="allow")
    start = hx.start(system, [-1.0, 0, 0, 0, 0, 0, 1, 0, 0], v=[0.0, -1, 0, 0, 0, 0, 0, 1, 0])
    message = "1 constraint left out as redundant, chosen at the start: a run that begins near this point"
    with pytest.raises(hx.SimulationError, match=message) as caught:
        hx.simulate(system, hx.Rattle(), start, t1=2.0, h=0.01)
    again = hx.start(system, caught.value.run.q[0, 150])
    assert hx.independent(system, again).redundant != hx.independent(system, start).redundant


def test_a_flat_diamond_with_six_distances_is_refused():
    system, q = diamond(0.0, [*FIVE, (0, 3)], redundant="allow")
    with pytest.raises(hx.StartError, match="but not at points of S nearby"):
        hx.start(system, q)
    system, q = diamond(1e-6, [*FIVE, (0, 3)])
    with pytest.raises(hx.StartError, match="the constraints are nearly dependent"):
        hx.start(system, q)


@pytest.mark.study
@pytest.mark.parametrize("stretched", [1e-5, 1.0])
def test_rings(stretched):
    angles = np.arange(6) * np.pi / 3
    positions = np.stack([np.cos(angles), np.sin(angles), 0.2 * (-1.0) ** np.arange(6)], axis=1) * [
        1,
        stretched,
        stretched,
    ]
    system = molecule(positions, [(i, (i + 1) % 6) for i in range(6)], np.ones(6), redundant="allow")
    start = hx.start(system, positions.ravel(), 0.4 * np.random.default_rng(1).normal(size=18), project=True)
    run = hx.simulate(system, hx.Rattle(), start, t1=1.0, h=0.01, progress=False)
    assert np.abs(jax.vmap(system.g)(run.q[0])).max() < 1e-13


@pytest.mark.study
def test_one_choice_for_all_starts():
    system = linkage(redundant="allow")
    angles = np.linspace(0.5, 2.5, 50)
    q, along = (np.array(x) for x in zip(*map(at_angle, angles), strict=True))
    start = hx.start(system, q, 0.1 * along)
    chosen = hx.independent(system, start)
    run = hx.simulate(system, hx.Rattle(), start, t1=0.1, h=0.02, save_every=None, progress=False)
    alone = hx.simulate(chosen, hx.Rattle(), start, t1=0.1, h=0.02, save_every=None, progress=False)
    np.testing.assert_array_equal(run.q, alone.q)
    with pytest.raises(hx.StartError, match="singular point"):
        hx.start(system, np.concatenate([q, [at_angle(0.0)[0]]]))


def kinetic(q, v):
    return 0.5 * v @ v


def kinetic_of_q(q):
    return kinetic(q, q)


def test_a_choice_is_part_of_a_system():
    system = hx.System(kinetic, jnp.sin, redundant=[2, 0, 2])
    assert system.redundant == (0, 2)
    assert system.sizes(4) == (2, 0)
    copied = hx.System(kinetic, noise=kinetic_of_q, redundant="allow")
    assert pickle.loads(pickle.dumps(copied)) == copied
    assert system != hx.System(system.lagrangian, jnp.sin)
    assert system.form.redundant == (0, 2)
    np.testing.assert_allclose(system.g(jnp.arange(4.0)), np.sin([1.0, 3.0]))
    with pytest.raises(hx.InputError, match="redundant names constraint 2, but there are 2"):
        system.sizes(2)
    for wrong in ("drop", 3, (-1,), (0.5,)):
        with pytest.raises(hx.InputError, match="redundant"):
            hx.System(system.lagrangian, jnp.sin, redundant=wrong)
    with pytest.raises(hx.InputError, match="not determined"):
        hx.MeanForce(system, 1.0)


@pytest.mark.study
def test_under_a_transformation_the_choice_is_made_before():
    system = ball(lambda q: 2.0 * (q @ q - 1.0))
    start = hx.start(system, [1.0, 0.0, 0.0], [0.0, 1.0, 0.5])
    noise = hx.increments(system, h=0.1, steps=2, seed=0, path=0)
    with pytest.raises(hx.InputError, match=r"hx.independent\(system, start\)"):
        jax.jit(lambda start: hx.integrate(system, hx.Rattle(), start, noise))(start)
    chosen = hx.independent(system, start)
    path = jax.jit(lambda start: hx.integrate(chosen, hx.Rattle(), start, noise))(start)
    np.testing.assert_allclose(path.q, hx.integrate(system, hx.Rattle(), start, noise).q, atol=1e-15)


def indefinite(copies):
    """Of every three coordinates the mass is [[z, 1, 0], [1, 0, 0], [0, 0, 1]]: never singular, for all z."""

    def lagrangian(q, v):
        (x, y, z), (a, b, c) = q.reshape(copies, 3).T, v.reshape(copies, 3).T
        return jnp.sum(0.5 * z * a**2 + a * b + 0.5 * c**2 - 0.5 * x**2 - 0.5 * y**2)

    system = hx.System(lagrangian, lambda q: jnp.sum(q.reshape(copies, 3) ** 2, axis=1) - 1.0, n=3 * copies)
    return system, lambda z: hx.start(
        system, np.tile([0.6, np.sqrt(0.64 - z * z), z], copies), np.tile([0.1, 0.2, 1.0], copies), project=True
    )


@pytest.mark.parametrize("engine", ["llvm", heavy("xla")])
@pytest.mark.parametrize("z", [1e-14, heavy(0.0), heavy(1e-10)])
def test_pivots_that_vanish_though_the_matrix_does_not(engine, z):
    """The compiler, which tries random states, takes z as a pivot."""
    system, start_at = indefinite(1)
    start = start_at(z)
    run = hx.simulate(system, hx.EulerA(), start, t1=0.2, h=0.01, engine=engine, progress=False)
    plain = hx.integrate(system, hx.EulerA(), start, hx.increments(system, h=0.01, steps=20, seed=0, path=0))
    assert np.abs(run.q[0] - plain.q).max() < 1e-14


@pytest.mark.study
def test_a_large_mass_with_zeros_on_its_diagonal():
    system, start_at = indefinite(40)
    small, small_start = indefinite(1)
    options = {"t1": 0.1, "h": 0.01, "progress": False}
    run = hx.simulate(system, hx.EulerA(), start_at(0.0), **options)
    one = hx.simulate(small, hx.EulerA(), small_start(0.0), **options)
    assert np.abs(run.q[0].reshape(-1, 40, 3) - one.q[0][:, None]).max() < 1e-13


@pytest.mark.study
def test_a_repeated_rod_of_a_long_chain():
    chain = hx.systems.chain(150)
    system = hx.System(
        chain.system.lagrangian,
        lambda q: jnp.append(chain.system.g(q), 3.0 * chain.system.g(q)[7]),
        n=450,
        redundant="allow",
    )
    start = hx.start(system, chain.start.q)
    assert hx.independent(system, start).redundant == (150,)
    plain = hx.System(chain.system.lagrangian, chain.system.constraint, n=450)
    options = {"t1": 0.05, "h": 0.01, "save_every": None, "progress": False}
    run, other = (hx.simulate(s, hx.EulerA(), start, **options) for s in (system, plain))
    assert np.abs(run.q - other.q).max() < 1e-12
