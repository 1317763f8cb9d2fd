"""The catalogue: found by itself, on its manifold, and every method runs on every entry."""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from support import GEOMETRIC, OTHERS, UNIT, entry, heavy, pairs, random_increment, two_form_defect, walk


@pytest.mark.parametrize("name", hx.systems.names())
def test_a_name_leads_to_its_entry(name):
    assert entry(name).name == name


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match=r"no system 'trebuchet'; choose one of .*chain"):
        hx.systems.trebuchet()


@pytest.mark.parametrize(("name", "method"), pairs(OTHERS, GEOMETRIC), ids=str)
def test_manifold_form_and_symmetries(name, method):
    system, start, unit = entry(name).system, entry(name).start, UNIT.get(name, 1.0)
    end, g, hidden = walk(system, method, start, hx.increments(system, h=0.02 * unit, steps=500, seed=1))
    assert g < 1e-12
    assert hidden < 1e-12
    for J in entry(name).symmetries.values():
        assert abs(float(J(end.q, end.p) - J(start.q, start.p))) < 1e-12
    increment = random_increment(system, len(start.q), 0.05 * unit, 7)
    assert two_form_defect(system, method, [(end.q, end.p)], increment) < 1e-11


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: hx.systems.pendulum(noise="pink"), "noise = 'pink': choose one of 'sine', 'linear', 'axial', None"),
        (lambda: hx.systems.oscillator(noise="pink"), "choose one of 'additive', 'multiplicative'"),
        (lambda: hx.systems.chain(beads=0), "beads = 0: a chain has at least 1 bead"),
        (lambda: hx.systems.ring(beads=2), "beads = 2: a ring has at least 3 beads"),
        (lambda: hx.systems.ring(beads=4.5), "beads = 4.5"),
        (lambda: hx.systems.net(rows=0), "rows = 0: a net has at least 1 row"),
        (lambda: hx.systems.net(columns=0), "columns = 0: a net has at least 1 column"),
        (lambda: hx.systems.diamond(distances=4), "distances = 4: four atoms have 5 or 6 distances fixed"),
        (lambda: hx.systems.water(molecules=0), "molecules = 0: a box has at least 1 molecule"),
        (lambda: hx.systems.water(density=0), "density = 0.0: must be positive"),
        (lambda: hx.systems.water(temperature=-1), "temperature = -1.0: it is in kelvin and at least 0"),
    ],
)
def test_wrong_choices(build, message):
    with pytest.raises(hx.InputError, match=message):
        build()


def test_period_of_the_planar_pendulum():
    e = hx.systems.pendulum(noise=None)
    theta = 2.0
    start = hx.start(e.system, q=[np.sin(theta), 0.0, -np.cos(theta)])
    period = e.facts["planar_period"](theta)
    assert abs(period - 8.3497) < 1e-3  # 4 K(sin 1), by tables
    run = hx.simulate(e.system, hx.Lobatto(4), start, t1=period, h=period / 100, save_every=None)
    np.testing.assert_allclose(run.q[0, -1], start.q, atol=1e-8)
    np.testing.assert_allclose(run.p[0, -1], start.p, atol=1e-8)


def check_mean_energy(e, method):
    seen = {"H": hx.Mean(e.system.energy)}
    run = hx.simulate(e.system, method, e.start, t1=1.0, h=0.05, paths=2000, save_every=None, observe=seen)
    assert abs(run.observed["H"].mean[0] - e.facts["mean_energy"](1.0)) < 5 * run.observed["H"].stderr[0]


def test_mean_energy_of_the_chain():
    check_mean_energy(hx.systems.chain(beads=2), hx.Kicked())


@pytest.mark.study
@pytest.mark.parametrize(
    ("name", "arguments"), [("diamond", {}), ("diamond", {"distances": 6}), ("net", {}), ("chain", {})]
)
def test_mean_energy_where_the_noise_is_additive(name, arguments):
    check_mean_energy(getattr(hx.systems, name)(sigma=0.5, **arguments), hx.Kicked())


@pytest.mark.parametrize(
    ("e", "n", "k"),
    [
        (lambda: hx.systems.ring(8), 24, 8),
        (lambda: hx.systems.net(2, 5), 30, 18),
        (lambda: hx.systems.diamond(6), 12, 6),
        heavy(lambda: hx.systems.ring(3), 9, 3),
        heavy(lambda: hx.systems.ring(9), 27, 9),
        heavy(lambda: hx.systems.net(1, 1), 3, 1),
        heavy(lambda: hx.systems.water(1), 9, 3),
    ],
)
def test_numbers_of_coordinates_and_constraints(e, n, k):
    found = e()
    assert (found.n, found.k) == (n, k)


def test_a_net_hangs_from_its_upper_edge_alone():
    """Rods of one column: a double pendulum with the rods and the rest of the chain of two beads."""
    net, chain = hx.systems.net(2, 1), hx.systems.chain(2)
    q = np.random.default_rng(0).normal(size=6)
    np.testing.assert_allclose(net.system.g(q), chain.system.g(q), atol=1e-14)
    assert float(net.system.energy(q, q)) == float(chain.system.energy(q, q))


def test_the_noise_of_the_multiplicative_oscillator_depends_on_the_state():
    e = hx.systems.oscillator(noise="multiplicative")
    assert float(e.system.kick(jnp.array([2.0]), jnp.ones(1))[0]) == 1.0
    assert float(e.system.kick(jnp.array([1.0]), jnp.ones(1))[0]) == 0.5
