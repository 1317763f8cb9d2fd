"""Langevin dynamics against the independent oracle, and the oracle against what the equations imply."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
import langevin_oracle as exact
import oracle
from support import heavy

SPLITTINGS = ["BAOAB", "OBABO", "ABOBA", "OABAO", "BOAOB", "BAOAOAB", "OBAOABO", "OAOBOAO", "OAB", "AOBO"]
FRICTION, TEMPERATURE = 0.7, 0.6


# ---- The oracle itself -----------------------------------------------------------------------------------------------


def increments(processes, h, steps, seed):
    """(h, dW, H) of the given number of steps."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield h, np.sqrt(h) * rng.normal(size=processes), np.sqrt(h / 12) * rng.normal(size=processes)


def frictions(s):
    """One friction for all coordinates, and one for each."""
    return FRICTION, np.linspace(0.3, 1.5, s.n)


def moving(s, size=1.0):
    """The start with a random momentum in the cotangent space."""
    return s.q0, exact.project(s, s.q0, size * np.random.default_rng(0).normal(size=s.n))


def linear_part(f, size):
    """The matrix of an affine function."""
    return np.stack([f(e) - f(np.zeros(size)) for e in np.eye(size)], axis=-1)


@pytest.mark.parametrize("name", sorted(oracle.ORACLES.keys() & exact.MECHANICS.keys()))
def test_the_systems_are_those_of_the_other_oracle(name):
    s, other = exact.MECHANICS[name], oracle.ORACLES[name]
    rng = np.random.default_rng(1)
    q, v = s.q0 + 0.3 * rng.normal(size=s.n), rng.normal(size=s.n)
    np.testing.assert_allclose(s.q0, other.q0, atol=1e-15)
    np.testing.assert_allclose(s.v0, other.v0, atol=1e-15)
    np.testing.assert_allclose(s.momentum(q, v), other.L_v(q, v), atol=1e-14)
    np.testing.assert_allclose(s.dK(q, v) - s.dU(q), other.L_q(q, v), atol=1e-14)
    np.testing.assert_allclose(s.G(q), other.G(q), atol=1e-14)
    none = np.zeros(other.m)
    q, p = exact.rattle(s, s.q0, other.p0, 0.1)
    q1, p1 = oracle.step("Rattle", other, s.q0, other.p0, 0.1, none, none)
    np.testing.assert_allclose(q, q1, atol=1e-13)
    np.testing.assert_allclose(p, p1, atol=1e-13)


@pytest.mark.parametrize("name", exact.MECHANICS)
def test_the_steps_of_the_oracle_stay_on_the_cotangent_bundle(name):
    s, splitting = exact.MECHANICS[name], "BAOAOAB"
    for friction in frictions(s):
        q, p = moving(s)
        for noise in increments(s.n, 0.1, 2, seed=2):
            q, p = exact.langevin(s, q, p, *noise, friction, TEMPERATURE, splitting)
            assert np.abs(s.g(q)).max(initial=0.0) < 1e-12
            assert np.abs(s.G(q) @ s.velocity(q, p)).max(initial=0.0) < 1e-12


@pytest.mark.parametrize("name", exact.MECHANICS)
def test_the_drift_of_the_oracle_is_symmetric(name):
    s = exact.MECHANICS[name]
    q, p = moving(s)
    there = exact.drift(s, q, p, 0.1, inner=2)
    back = exact.drift(s, *there, -0.1, inner=2)
    assert np.abs(there[0] - q).max() > 1e-3
    np.testing.assert_allclose(back, (q, p), atol=1e-13)


@pytest.mark.parametrize("name", ["pendulum", "even_ellipsoid", "rigid_body", "chain"])
def test_without_friction_the_oracle_is_reversible(name):
    s = exact.MECHANICS[name]
    q, p = moving(s)
    noise = next(increments(s.n, 0.1, 1, seed=3))
    q1, p1 = exact.langevin(s, q, p, *noise, 0.0, TEMPERATURE)
    q2, p2 = exact.langevin(s, q1, -p1, *noise, 0.0, TEMPERATURE)
    np.testing.assert_allclose(q2, q, atol=1e-12)
    np.testing.assert_allclose(-p2, p, atol=1e-12)


@pytest.mark.parametrize("name", exact.MECHANICS)
def test_the_bath_of_the_oracle_keeps_the_covariance_of_the_canonical_momentum(name):
    s, t = exact.MECHANICS[name], 0.4
    q, p = moving(s)
    onto = linear_part(lambda x: exact.project(s, q, x), s.n)
    canonical = TEMPERATURE * onto @ s.M(q) @ onto.T
    zero = np.zeros(s.n)
    for friction in frictions(s):
        D = linear_part(lambda x, f=friction: exact.bath(s, q, x, t, zero, f, TEMPERATURE)[1], s.n)
        N = linear_part(lambda w, f=friction: exact.bath(s, q, p, t, w, f, TEMPERATURE)[1], s.n)
        np.testing.assert_allclose(D @ canonical @ D.T + t * N @ N.T, canonical, atol=1e-13)
        rest = s.momentum(q, zero)  # the mean stays at rest
        np.testing.assert_allclose(exact.bath(s, q, rest, t, zero, friction, TEMPERATURE)[1], rest, atol=1e-14)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_baths_of_a_step_have_independent_noise(number):
    n, h = 2, 0.3
    t, size = h / number, n * -(-number // 2)

    def all_of_them(x):
        return np.concatenate(exact.wiener(n, h, x[:size], x[size:], number, t))

    A = linear_part(all_of_them, 2 * size)
    covariance = A @ np.diag([h] * size + [h / 12] * size) @ A.T
    np.testing.assert_allclose(covariance, t * np.eye(n * number), atol=1e-15)


def test_the_core_of_a_splitting():
    cores = {"BAOAB": "ABBA", "OBABO": "BAB", "ABOBA": "BAAB", "OABAO": "ABA", "OBAB": "BAB", "ABOOBA": "BAAB"}
    assert {splitting: exact.core_of(splitting) for splitting in cores} == cores


# ---- The library -----------------------------------------------------------------------------------------------------


def even_ellipsoid():
    """The ellipsoid without its gyroscopic term: a Lagrangian even in v."""
    axes = jnp.array([1.0, 1.3, 0.8])

    def lagrangian(q, v):
        u = jnp.array([jnp.sin(q[1]), jnp.cos(q[2]), q[0]])
        return 0.5 * v @ v + 0.15 * (u @ v) ** 2 - q[2] - 0.2 * q[0] ** 2

    return hx.System(lagrangian, constraint=lambda q: jnp.sum((q / axes) ** 2) - 1.0, n=3)


def plane():
    def lagrangian(q, v):
        (x, y), (vx, vy) = q, v
        kinetic = 0.5 * (2 + y**2) * vx**2 + 0.5 * x * vx * vy + 0.5 * (1 + x**2) * vy**2
        return kinetic + 0.4 * (x * vy - y * (1 + x) * vx) - (x**4 / 4 + y**2 / 2 + 0.3 * x * y)

    return hx.System(lagrangian, n=2)


def wave():
    return hx.System(
        lambda q, v: 0.5 * v @ v - 0.5 * q[0] ** 2, constraint=lambda q: q[1] - 0.5 * jnp.cos(3 * q[0]), n=2
    )


@functools.cache
def system(name):
    match name:
        case "even_ellipsoid":
            return even_ellipsoid()
        case "plane":
            return plane()
        case "wave":
            return wave()
        case "chain":
            return dataclasses.replace(hx.systems.chain(beads=3).system, noise=None)
    return dataclasses.replace(getattr(hx.systems, name)().system, noise=None)


def compare(name, method, step, start, h, steps):
    """Run the method and the oracle's `step` side by side; the reports of the one, and the outcomes of the other."""
    s, reports, outcomes = exact.MECHANICS[name], [], []
    advance = jax.jit(lambda q, p, noise: method.step(system(name), hx.State(q, p), noise))
    state, (q, p) = hx.State(*start), start
    for noise in increments(method.noises(system(name), s.n), h, steps, seed=0):
        state, report = advance(state.q, state.p, hx.Increment(*(jnp.asarray(x) for x in noise)))
        q, p, *outcome = step(s, q, p, *noise)
        np.testing.assert_allclose(state.q, q, atol=1e-10, rtol=0)
        np.testing.assert_allclose(state.p, p, atol=1e-10, rtol=0)
        reports.append(report)
        outcomes += outcome
    assert np.abs(p - start[1]).max() > 1e-2  # forces and noise do something
    return reports, outcomes


def agree(name, friction=FRICTION, **options):
    """Compare one Langevin method with the oracle over five steps."""
    method = hx.Langevin(friction=friction, temperature=TEMPERATURE, **options)
    core = {"core": exact.rattle} if "core" in options else {}
    step = functools.partial(exact.langevin, friction=friction, temperature=TEMPERATURE, **options | core)
    reports, _ = compare(name, method, step, moving(exact.MECHANICS[name]), h=0.1, steps=5)
    assert all(int(report.status) == 0 for report in reports)


@pytest.mark.parametrize(
    ("name", "splitting"),
    [
        ("pendulum", "BAOAB"),
        heavy("pendulum", "OAOBOAO"),
        heavy("ellipsoid", "OBABO"),
        heavy("ellipsoid", "AOBO"),
        heavy("rigid_body", "BAOAB"),
        heavy("chain", "OBAOABO"),
        heavy("plane", "OAB"),
    ],
)
def test_a_splitting_agrees_with_the_oracle(name, splitting):
    agree(name, splitting=splitting)


@pytest.mark.study
@pytest.mark.parametrize("splitting", SPLITTINGS)
@pytest.mark.parametrize("name", ["pendulum", "ellipsoid", "rigid_body", "chain", "plane"])
def test_every_splitting_agrees_with_the_oracle(name, splitting):
    agree(name, splitting=splitting)


@pytest.mark.study
@pytest.mark.parametrize("name", ["ellipsoid", "plane"])
def test_several_inner_steps_agree_with_the_oracle(name):
    agree(name, inner=3)


@pytest.mark.parametrize("name", ["pendulum", heavy("plane")])
def test_a_method_as_core_agrees_with_the_oracle(name):
    agree(name, core=hx.Rattle())


@pytest.mark.parametrize(("name", "splitting"), [heavy("pendulum", "BAOAB"), ("plane", "OABAO")])
def test_one_friction_per_coordinate_agrees_with_the_oracle(name, splitting):
    s = exact.MECHANICS[name]
    agree(name, friction=tuple(float(f) for f in frictions(s)[1]), splitting=splitting)


@pytest.mark.study
def test_one_friction_per_coordinate_agrees_with_the_oracle_around_a_core():
    agree("ellipsoid", friction=(0.3, 0.0, 1.5), core=hx.Rattle())


def outcomes(name, h, steps, start=None, friction=FRICTION, **options):
    """Compare one Metropolis method with the oracle; the outcomes that occurred. Slow motion allows for large steps."""
    start = moving(exact.MECHANICS[name], size=0.3) if start is None else start
    method = hx.Langevin(friction=friction, temperature=0.1, metropolis=True, **options)
    core = {"core": exact.rattle} if "core" in options else {}
    step = functools.partial(exact.metropolis, friction=friction, temperature=0.1, **options | core)
    reports, occurred = compare(name, method, step, start, h, steps)
    assert [int(report.outcome) for report in reports] == occurred
    return set(occurred)


BOTH = {exact.ACCEPTED, exact.REJECTED}


@pytest.mark.parametrize("splitting", ["BAOAB", heavy("OBABO")])
def test_metropolis_agrees_with_the_oracle(splitting):
    assert outcomes("pendulum", 1.3, 20, splitting=splitting) >= BOTH


@pytest.mark.study
def test_metropolis_agrees_with_the_oracle_where_the_mass_depends_on_the_position():
    assert outcomes("even_ellipsoid", 0.7, 20) >= BOTH


@pytest.mark.study
def test_metropolis_agrees_with_the_oracle_with_everything_at_once():
    assert outcomes("even_ellipsoid", 0.9, 8, friction=(0.3, 0.0, 1.5), inner=2, splitting="OBABO") >= {exact.ACCEPTED}


@pytest.mark.study
def test_metropolis_agrees_with_the_oracle_around_a_core():
    assert outcomes("even_ellipsoid", 0.9, 15, core=hx.Rattle()) >= BOTH


@pytest.mark.study
def test_metropolis_agrees_with_the_oracle_on_a_chain():
    assert outcomes("chain", 0.7, 7) >= BOTH


@pytest.mark.study
def test_metropolis_agrees_with_the_oracle_where_a_step_is_not_solved():
    """No multiplier brings the tip of a tangent longer than the radius back to the sphere."""
    s = exact.PENDULUM
    start = s.q0, s.momentum(s.q0, s.v0)
    assert outcomes("pendulum", 1.5, 1, start, splitting="OBABO", friction=0.0) == {exact.UNSOLVED}


@pytest.mark.study
def test_metropolis_agrees_with_the_oracle_where_a_step_cannot_be_undone():
    s = exact.WAVE
    start = s.q0, s.momentum(s.q0, s.v0)
    assert outcomes("wave", 0.5, 1, start, splitting="OBABO", friction=0.0) == {exact.IRREVERSIBLE}
