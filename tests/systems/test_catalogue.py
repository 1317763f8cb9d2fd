"""The catalogue: found by itself, on its manifold, and every method runs on every entry."""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from support import GEOMETRIC, OTHERS, entry, pairs, random_increment, two_form_defect, walk


@pytest.mark.parametrize("name", hx.systems.names())
def test_a_name_leads_to_its_entry(name):
    assert entry(name).name == name


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match=r"no system 'trebuchet'; choose one of .*chain"):
        hx.systems.trebuchet()


@pytest.mark.parametrize(("name", "method"), pairs(OTHERS, GEOMETRIC), ids=str)
def test_manifold_form_and_symmetries(name, method):
    system, start = entry(name).system, entry(name).start
    end, g, hidden = walk(system, method, start, hx.increments(system, h=0.02, steps=500, seed=1))
    assert g < 1e-12
    assert hidden < 1e-12
    for J in entry(name).symmetries.values():
        assert abs(float(J(end.q, end.p) - J(start.q, start.p))) < 1e-12
    increment = random_increment(system, len(start.q), 0.05, 7)
    assert two_form_defect(system, method, [(end.q, end.p)], increment) < 1e-11


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: hx.systems.pendulum(noise="pink"), "noise = 'pink': choose one of 'sine', 'linear', 'axial', None"),
        (lambda: hx.systems.oscillator(noise="pink"), "choose one of 'additive', 'multiplicative'"),
        (lambda: hx.systems.chain(beads=0), "beads = 0: a chain has at least 1 bead"),
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


def test_mean_energy_of_the_chain():
    e = hx.systems.chain(beads=2)
    seen = {"H": hx.Mean(e.system.energy)}
    run = hx.simulate(e.system, hx.Kicked(), e.start, t1=1.0, h=0.05, paths=2000, save_every=None, observe=seen)
    assert abs(run.observed["H"].mean[0] - e.facts["mean_energy"](1.0)) < 5 * run.observed["H"].stderr[0]


def test_the_noise_of_the_multiplicative_oscillator_depends_on_the_state():
    e = hx.systems.oscillator(noise="multiplicative")
    assert float(e.system.kick(jnp.array([2.0]), jnp.ones(1))[0]) == 1.0
    assert float(e.system.kick(jnp.array([1.0]), jnp.ones(1))[0]) == 0.5
