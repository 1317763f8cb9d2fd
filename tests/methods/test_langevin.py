"""The constrained Langevin equation: structure, invariant measure, and the exactly unbiased version."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import holonax as hx
from holonax.methods.langevin import metropolis
from support import FIVE_SIGMA, chi_squared, entry, heavy, quick_jit, tangent_basis

BAOAB = hx.Langevin(1.0, 1.0)


@functools.cache
def quiet(name):
    """A catalogue system without its stochastic potentials, and its start."""
    return dataclasses.replace(entry(name).system, noise=None), entry(name).start


@functools.cache
def chain(beads):
    return dataclasses.replace(hx.systems.chain(beads).system, noise=None), hx.systems.chain(beads).start


@functools.cache
def curve():
    """A system on an ellipse with position-dependent mass and a gyroscopic term, and its exact density in the angle."""
    axes = jnp.array([1.0, 0.6])

    def mass(q):
        return jnp.eye(2) * (1.0 + 0.5 * q[0] ** 2) + 0.4 * jnp.outer(q, q)

    def potential(q):
        return 0.7 * q[0] - 0.5 * q[1]

    def lagrangian(q, v):
        return 0.5 * v @ mass(q) @ v + (1.0 + q[0]) * (q[0] * v[1] - q[1] * v[0]) - potential(q)

    def density(angle):
        q, tangent = (
            axes * jnp.array([jnp.cos(angle), jnp.sin(angle)]),
            axes * jnp.array([-jnp.sin(angle), jnp.cos(angle)]),
        )
        return jnp.sqrt(tangent @ mass(q) @ tangent) * jnp.exp(-potential(q) / 0.8)

    return hx.System(lagrangian, lambda q: jnp.sum((q / axes) ** 2) - 1.0, n=2), density


# Structure.


@pytest.mark.parametrize(
    ("name", "method"),
    [
        heavy("pendulum", hx.Langevin(0.7, 1.3)),
        heavy("pendulum", hx.Langevin(0.7, 1.3, "BAOA", inner=2)),
        ("pendulum", hx.Langevin(0.7, 1.3, core=hx.EulerA())),
        heavy("ellipsoid", hx.Langevin(0.7, 1.3, "OBABO")),
        heavy("ellipsoid", hx.Langevin(0.7, 1.3, core=hx.Lobatto(3))),
        heavy("rigid_body", hx.Langevin(0.7, 1.3)),
    ],
    ids=str,
)
def test_a_step_contracts_the_volume_of_phase_space_evenly(name, method):
    system, start = quiet(name)
    n, h = len(start.q), 0.1
    noise = hx.increments(system, h=h, steps=1, seed=3, method=method)

    def flow(z):
        state, report = method.step(system, hx.State(z[:n], z[n:]), jax.tree.map(lambda x: x[0], noise))
        return jnp.concatenate([state.q, state.p]), report.status

    D, status = quick_jit(jax.jacfwd(flow, has_aux=True))(jnp.concatenate([start.q, start.p]))
    assert int(status) == 0
    form = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    before = tangent_basis(system, start.q, start.p)
    after = np.asarray(D) @ before
    ratio = np.sqrt(np.linalg.det(after.T @ form @ after) / np.linalg.det(before.T @ form @ before))
    k = system.sizes(n)[0]
    assert ratio == pytest.approx(np.exp(-0.7 * h * (n - k)), abs=1e-11)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("pendulum", BAOAB),
        heavy("pendulum", hx.Langevin(1.0, 1.0, inner=3)),
        heavy("pendulum", hx.Langevin(1.0, 1.0, metropolis=True)),
        heavy("pendulum", hx.Langevin((1.0, 0.0, 3.0), 1.0)),
        heavy("ellipsoid", BAOAB),
        heavy("ellipsoid", hx.Langevin(1.0, 1.0, inner=3)),
        heavy("torus", hx.Langevin(1.0, 1.0, metropolis=True)),  # no gyroscopic term
        heavy("ellipsoid", hx.Langevin((1.0, 0.0, 3.0), 1.0)),
    ],
    ids=str,
)
def test_constraints_hold_to_round_off_at_every_step(name, method):
    system, start = quiet(name)
    run = hx.simulate(system, method, start, t1=50.0, h=0.05, paths=32, seed=1)
    v = jax.jit(jax.vmap(jax.vmap(system.velocity)))(run.q, run.p)
    assert np.abs(jax.vmap(jax.vmap(system.g))(run.q)).max() < 1e-13
    assert np.abs(jax.vmap(jax.vmap(system.hidden))(run.q, v)).max() < 1e-12


def test_without_friction_the_step_is_a_symmetric_composition_of_order_two():
    system, start = quiet("pendulum")
    energies = []
    for h in (0.1, 0.05):
        run = hx.simulate(system, hx.Langevin(0.0, 1.0), start, t1=10.0, h=h)
        energy = 0.5 * (run.p[0] ** 2).sum(axis=1) + run.q[0, :, 2]
        energies.append(np.abs(energy - energy[0]).max())
    assert energies[0] / energies[1] == pytest.approx(4.0, abs=0.5)


@pytest.mark.study
@pytest.mark.parametrize("method", [BAOAB, hx.Langevin(1.0, 1.0, "OBABO")], ids=str)
def test_the_same_wiener_path_at_any_step_size(method):
    system, start = quiet("pendulum")
    study = hx.strong_order(system, method, start, t1=1.0, h=[2.0**-k for k in range(5, 8)], paths=256, seed=0)
    assert study["q"].order == pytest.approx(1.0, abs=0.1)
    assert study["p"].order == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("engine", "name", "method"),
    [
        ("llvm", "pendulum", hx.Langevin(1.0, 1.0, metropolis=True)),
        heavy("xla", "pendulum", hx.Langevin(1.0, 1.0, metropolis=True)),
        heavy("llvm", "ellipsoid", hx.Langevin(1.0, 1.0, "OBABO")),
        heavy("llvm", "torus", hx.Langevin((1.0, 2.0, 0.5), 1.0, core=hx.Rattle())),
    ],
    ids=str,
)
def test_engines_take_the_same_paths(engine, name, method):
    system, start = quiet(name)
    noise = hx.increments(system, h=0.125, steps=100, seed=5, path=6, method=method)
    path = quick_jit(hx.integrate, static_argnums=(0, 1))(system, method, start, noise)
    run = hx.simulate(system, method, start, t1=12.5, h=0.125, paths=8, seed=5, engine=engine)
    np.testing.assert_allclose(run.q[6], path.q, atol=1e-9, rtol=0)
    np.testing.assert_allclose(run.p[6], path.p, atol=1e-9, rtol=0)
    for number, outcome in enumerate(method.outcomes):
        assert run.counts[outcome][6] == np.count_nonzero(path.report.outcome == number)


# The invariant measure.


@pytest.mark.parametrize(
    ("x", "method"), [*((x, BAOAB) for x in (0.5, 1.0, 2.0, 5.0)), (2.0, hx.Langevin((0.5, 1.0, 3.0), 1.0))], ids=str
)
def test_the_pendulum_at_temperature_one(x, method):
    system = hx.systems.pendulum(noise=None, gravity=x).system
    start = hx.start(system, q=[1.0, 0.0, 0.0])
    seen = {"z": hx.Mean(lambda q, p: jnp.array([q[2], q[2] ** 2]), over="all", after=400, every=4)}
    run = hx.simulate(system, method, start, t1=60.0, h=0.025, paths=512, seed=2, save_every=None, observe=seen)
    langevin = 1 / np.tanh(x) - 1 / x
    off = run.observed["z"].mean - np.array([-langevin, 1 - 2 * langevin / x])
    assert (np.abs(off) < 5 * run.observed["z"].stderr).all()
    assert (run.observed["z"].stderr < 0.01).all()


def test_metropolis_is_unbiased_where_others_are_not():
    x, h = 5.0, 0.3
    system = hx.systems.pendulum(noise=None, gravity=x).system
    start = hx.start(system, q=[0.0, 0.0, -1.0])
    seen = {"z": hx.Mean(lambda q, p: q[2], over="all", after=40, every=2)}
    off = {}
    for method in (BAOAB, hx.Langevin(1.0, 1.0, metropolis=True)):
        run = hx.simulate(system, method, start, t1=240.0, h=h, paths=2048, seed=2, save_every=None, observe=seen)
        off[method.metropolis] = (run.observed["z"].mean + 1 / np.tanh(x) - 1 / x) / run.observed["z"].stderr
    assert off[False] > 8
    assert abs(off[True]) < 5


@pytest.mark.parametrize("name", ["pendulum", heavy("rigid_body"), heavy("chain"), "ellipsoid"])
def test_equipartition(name):
    system, start = chain(10) if name == "chain" else quiet(name)
    h, t1, paths = (0.025, 20.0, 2048) if name == "chain" else (0.05, 15.0, 4096)
    run = hx.simulate(system, BAOAB, start, t1=t1, h=h, paths=paths, seed=4, save_every=None)

    @jax.jit
    @jax.vmap
    def twice_kinetic(q, p):
        return (p - system.momentum(q, jnp.zeros_like(q))) @ system.velocity(q, p)

    n = start.q.shape[0]
    free = n - system.sizes(n)[0]
    assert stats.kstest(twice_kinetic(run.q[:, 0], run.p[:, 0]), stats.chi2(free).cdf).pvalue > FIVE_SIGMA
    assert stats.kstest(twice_kinetic(run.q[:, 0], run.p[:, 0]), stats.chi2(free + 1).cdf).pvalue < FIVE_SIGMA


@pytest.mark.parametrize("options", [{}, heavy({"core": hx.Rattle()}), heavy({"splitting": "OBABO"})], ids=str)
def test_position_dependent_mass_and_gyroscopic_term(options):
    system, density = curve()
    start = hx.start(system, q=[1.0, 0.0])
    run = hx.simulate(
        system, hx.Langevin(1.0, 0.8, **options), start, t1=15.0, h=0.05, paths=16384, seed=6, save_every=None
    )
    angles = np.arctan2(run.q[:, 0, 1] / 0.6, run.q[:, 0, 0])
    assert chi_squared(angles, density) > FIVE_SIGMA
    assert chi_squared(angles, lambda angle: density(angle) * (1 + 0.1 * jnp.cos(angle))) < FIVE_SIGMA


def poloidal_angles():
    """End of many chains on a torus, with a step so large that Newton sometimes finds another sheet."""
    system = dataclasses.replace(hx.systems.torus().system, noise=None, lagrangian=lambda q, v: 0.5 * v @ v)
    start = hx.start(system, q=[1.5, 0.0, 0.0])
    method = hx.Langevin(1.0, 1.0, metropolis=True)
    with pytest.warns(hx.StepSizeWarning, match="smaller h"):
        run = hx.simulate(system, method, start, t1=100.0, h=2.0, paths=32768, seed=7, save_every=None)
    q = run.q[:, 0]
    return np.arctan2(q[:, 2], np.hypot(q[:, 0], q[:, 1]) - 1.0), run.counts


def test_the_way_back_is_checked(monkeypatch):
    """Proposals that do not come back are refused: some 11 300 of 1.6 million, most of which have no solution at all.
    What is left without that check is irreversible because the way back cannot be solved.
    """

    def density(angle):
        return 1.0 + 0.5 * jnp.cos(angle)  # of the surface measure

    angles, counts = poloidal_angles()
    assert chi_squared(angles, density) > FIVE_SIGMA
    monkeypatch.setattr(metropolis, "comes_back", lambda *_: True)
    angles, unchecked = poloidal_angles()
    assert chi_squared(angles, density) < FIVE_SIGMA
    assert counts["irreversible"].sum() > unchecked["irreversible"].sum() + 10_000


@pytest.mark.parametrize("options", [{}, heavy({"splitting": "OBABO"}), heavy({"metropolis": True})], ids=str)
def test_a_force_along_the_normal_does_not_matter(options):
    """U is constant on the sphere; its large gradient there must not lead Newton to the other side."""
    free, steep = (
        hx.System(lambda q, v, c=c: 0.5 * v @ v - c * q @ q, lambda q: q @ q - 1.0, n=3) for c in (0.0, 10.0)
    )
    method = hx.Langevin(1.0, 0.01, **options)
    ends = []
    for system in (free, steep):
        start = hx.start(system, q=[0.0, 0.0, 1.0])
        ends.append(hx.simulate(system, method, start, t1=5.0, h=0.5, paths=64).q)
    np.testing.assert_allclose(*ends, atol=1e-9)


@pytest.mark.parametrize("method", [hx.Langevin((2.0, 1.0, 0.5), 1.0, "OBABO"), BAOAB], ids=str)
def test_the_velocity_in_a_start_is_only_a_guess(method):
    system, start = quiet("pendulum")
    one, other = (
        hx.simulate(system, method, state, t1=1.0, h=0.125, seed=1) for state in (start, hx.State(start.q, start.p))
    )
    np.testing.assert_allclose(one.p, other.p, atol=1e-12)


# When steps are too large.


def test_chains_with_too_large_a_step_say_so_and_stay_where_they_are():
    system, start = quiet("pendulum")
    with pytest.warns(hx.StepSizeWarning, match=r"chain \d+ \d+% \(\d+ unsolved, .* of 50\).*use a smaller h"):
        run = hx.simulate(system, hx.Langevin(1.0, 1.0, metropolis=True), start, t1=75.0, h=1.5, paths=64)
    assert (run.status == 0).all()
    assert (sum(run.counts.values()) == 50).all()
    moved = np.abs(np.diff(run.q, axis=1)).max(axis=2) > 1e-12
    np.testing.assert_array_equal(moved.sum(axis=1), run.counts["accepted"])
    assert run.counts["unsolved"].sum() > run.counts["accepted"].sum() > 0


def test_without_metropolis_such_a_path_stops():
    system, start = quiet("pendulum")
    with pytest.raises(hx.SimulationError, match="use a smaller h") as caught:
        hx.simulate(system, BAOAB, start, t1=100.0, h=2.0, paths=16)
    run = caught.value.run
    assert (run.status != 0).any()
    assert np.isfinite(run.q).all()
    assert np.abs((run.q**2).sum(axis=-1) - 1).max() < 1e-13


# What is refused.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"friction": -1.0}, "friction = -1.0"),
        ({"friction": (1.0, np.nan)}, "friction = .*nan"),
        ({"temperature": -2.0}, "temperature = -2.0"),
        ({"splitting": "BAB"}, "splitting = 'BAB'"),
        ({"splitting": "BAXAB"}, "splitting = 'BAXAB'"),
        ({"inner": 0}, "inner = 0"),
        ({"core": hx.EulerMaruyama()}, "not a symplectic method"),
        ({"core": hx.EulerA(), "metropolis": True}, "must be symmetric"),
        ({"splitting": "OAB", "metropolis": True}, "'AB' is not"),
        ({"splitting": "OAOBAO", "metropolis": True}, "neighbours"),
    ],
    ids=str,
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(hx.InputError, match=message):
        hx.Langevin(**{"friction": 1.0, "temperature": 1.0} | options)


@pytest.mark.parametrize(
    ("system", "method", "message"),
    [
        (entry("pendulum").system, BAOAB, "3 stochastic potentials"),
        (quiet("pendulum")[0], hx.Langevin((1.0, 2.0), 1.0), "2 numbers for n = 3"),
        (hx.System(lambda q, v: 0.25 * (v @ v) ** 2 + v @ v), BAOAB, "not quadratic"),
        (hx.System(lambda q, v: v[0] ** 2 + v[1] ** 2 - v[2] ** 2), BAOAB, "positive definite"),
        (
            hx.System(lambda q, v: 0.5 * v @ v + q[0] * v[1]),
            hx.Langevin(1.0, 1.0, metropolis=True),
            "gyroscopic term",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_systems_that_do_not_fit_are_refused(system, method, message):
    with pytest.raises(hx.InputError, match=message):
        hx.simulate(system, method, hx.start(system, q=[1.0, 0.0, 0.0]), t1=1.0, h=0.5)


@pytest.mark.study
def test_frames_leave_the_identity():
    """There a constraint is a sum of products of zeros, and has no magnitude by which to judge a quick solution."""
    one = np.eye(2)
    system = hx.System(
        lambda q, v: 0.5 * v @ v + q[0],
        lambda q: (q.reshape(2, 2).T @ q.reshape(2, 2) - one)[np.triu_indices(2)],
        n=4,
    )
    method, start = hx.Langevin(1.0, 1.0, metropolis=True), hx.start(system, one.ravel())
    run = hx.simulate(system, method, start, t1=0.1, h=0.01, paths=4, engine="llvm")
    assert run.counts["accepted"].sum() == 40
    noise = hx.increments(system, h=0.01, steps=10, seed=0, path=2, method=method)
    assert np.abs(run.q[2] - hx.integrate(system, method, start, noise).q).max() < 1e-13
