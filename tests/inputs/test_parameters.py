"""Parameters are arguments: new values without a new program, one for all paths or one per path."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import engines
from holonax.engines import llvm
from support import AVAILABLE, compilations, heavy, mostly

GRAVITY = np.array([9.81, 1.62, 3.7])
MASS = np.array([2.0, 0.01, 50.0])
LENGTH = np.array([1.0, 2.0, 0.5])
STRENGTH = np.array([0.3, 0.01, 2.0])
EACH = {"gravity": GRAVITY, "mass": MASS, "length": LENGTH, "strength": STRENGTH}
NUMBERS = {"t1": 0.5, "h": 2.0**-7, "seed": 3, "progress": False}


def lagrangian(q, v, *, gravity, mass):
    return 0.5 * mass * v @ v - mass * gravity * q[2]


def constraint(q, *, length):
    return q @ q - length**2


def noise(q, *, strength):
    return strength * q[0]


PENDULUM = hx.System(lagrangian, constraint, noise, parameters={name: x[0] for name, x in EACH.items()})


def constants(i):
    """The system of path i, with numbers instead of parameters."""
    return hx.System(
        lambda q, v: lagrangian(q, v, gravity=GRAVITY[i], mass=MASS[i]),
        lambda q: constraint(q, length=LENGTH[i]),
        lambda q: noise(q, strength=STRENGTH[i]),
    )


def starts():
    return hx.start(PENDULUM, q=LENGTH[:, None] * np.array([1.0, 0.0, 0.0]), parameters=EACH)


def plainly(monkeypatch):
    """From now on the plain engine is what engine="xla" means."""
    monkeypatch.setitem(engines.ENGINES, "xla", engines.plain)
    monkeypatch.setattr(engines.plain, "missing", lambda: None, raising=False)
    engines.prepared.cache_clear()


@pytest.fixture(
    params=[
        *mostly(AVAILABLE),
        heavy("plain"),
    ]
)
def engine(request, monkeypatch):
    if request.param == "plain":
        plainly(monkeypatch)
        yield "xla"
        engines.prepared.cache_clear()
    else:
        yield request.param


def test_one_per_path_is_as_separate_runs(engine):
    kinetic = hx.Mean(lambda q, p, *, mass: 0.5 * p @ p / mass, over="time")
    observe = {"energy": hx.Mean(PENDULUM.energy, over="time"), "kinetic": kinetic}
    run = hx.simulate(PENDULUM, hx.EulerA(), starts(), parameters=EACH, engine=engine, observe=observe, **NUMBERS)
    assert run.parameters.keys() == EACH.keys()
    for i in range(3):
        own, start = constants(i), hx.start(constants(i), q=[LENGTH[i], 0.0, 0.0])
        observe = {
            "energy": hx.Mean(own.energy, over="time"),
            "kinetic": hx.Mean(lambda q, p, i=i: 0.5 * p @ p / MASS[i], over="time"),
        }
        alone = hx.simulate(own, hx.EulerA(), start, paths=3, engine=engine, observe=observe, **NUMBERS)
        np.testing.assert_allclose(run.q[i], alone.q[i], atol=1e-12)
        np.testing.assert_allclose(run.p[i], alone.p[i], atol=1e-12 * MASS[i])
        for name in observe:
            np.testing.assert_allclose(run.observed[name].mean[i], alone.observed[name].mean[i], rtol=1e-9)
        values = {name: x[i] for name, x in EACH.items()}
        shared = hx.simulate(PENDULUM, hx.EulerA(), start, parameters=values, paths=3, engine=engine, **NUMBERS)
        np.testing.assert_array_equal(shared.q[i], run.q[i])


@pytest.mark.parametrize("method", [hx.Kicked(), heavy(hx.Lobatto32()), heavy(hx.EulerMaruyama())], ids=str)
def test_methods_know_parameters(method):
    run = hx.simulate(PENDULUM, method, starts(), parameters=EACH, **NUMBERS)
    alone = hx.simulate(constants(1), method, hx.start(constants(1), q=[2.0, 0.0, 0.0]), paths=3, **NUMBERS)
    np.testing.assert_allclose(run.q[1], alone.q[1], atol=1e-11)


def test_langevin_knows_parameters():
    names = ("gravity", "mass", "length")
    system = hx.System(lagrangian, constraint, parameters={name: EACH[name][0] for name in names})
    own = hx.System(constants(1).lagrangian, constants(1).constraint)
    method, each = hx.Langevin(1.0, 0.5), {name: EACH[name] for name in names}
    run = hx.simulate(system, method, starts(), parameters=each, **NUMBERS)
    alone = hx.simulate(own, method, hx.start(own, q=[2.0, 0.0, 0.0]), paths=3, **NUMBERS)
    np.testing.assert_allclose(run.q[1], alone.q[1], atol=1e-11)


def test_single_precision():
    run = hx.simulate(PENDULUM, hx.EulerA(), starts(), parameters=EACH, dtype="float32", **NUMBERS)
    double = hx.simulate(PENDULUM, hx.EulerA(), starts(), parameters=EACH, **NUMBERS)
    assert run.q.dtype == np.float32
    np.testing.assert_allclose(run.q, double.q, atol=1e-3)


@pytest.mark.study
def test_arrays_in_a_long_chain():
    """Arrays of parameters, in a program that is large enough for loops."""
    beads = 24

    def chain(q, v, *, masses, stiffness):
        q, v = q.reshape(beads, 3), v.reshape(beads, 3)
        return 0.5 * masses @ jnp.sum(v**2, axis=1) - masses @ q[:, 2] - 0.5 * jnp.sum((stiffness @ q) ** 2)

    def links(q):
        q = jnp.concatenate([jnp.zeros((1, 3)), q.reshape(beads, 3)])
        return jnp.sum((q[1:] - q[:-1]) ** 2, axis=1) - 1.0

    rng = np.random.default_rng(0)
    masses, stiffness = rng.uniform(0.5, 2.0, (2, beads)), rng.normal(size=(1, beads)) * np.eye(1, beads)
    system = hx.System(chain, links, parameters={"masses": masses[0], "stiffness": stiffness})
    q = np.cumsum(np.tile([0.6, 0.0, -0.8], (beads, 1)), axis=0).ravel()
    options = {"parameters": {"masses": masses}, "t1": 0.25, "h": 2.0**-7, "engine": "llvm"}
    run = hx.simulate(system, hx.EulerA(), hx.start(system, q), **options)
    for i in range(2):
        own = hx.System(lambda q, v, i=i: chain(q, v, masses=masses[i], stiffness=stiffness), links)
        alone = hx.simulate(own, hx.EulerA(), hx.start(own, q), t1=0.25, h=2.0**-7)
        np.testing.assert_allclose(run.q[i], alone.q[0], atol=1e-11)


@pytest.mark.parametrize("each", [heavy(False), True])
def test_many_numbers(each):
    """As many as in the data of a posterior: loops over them read them from memory."""
    data = np.random.default_rng(0).normal(size=(3, 300))
    system = hx.System(lambda q, v, *, data: 0.5 * v @ v - jnp.mean(jnp.cos(q[0] - data)), parameters={"data": data[0]})
    start = hx.start(system, q=[1.0])
    given = {"data": data} if each else {}
    run = hx.simulate(system.replace(data=data[1]), hx.EulerA(), start, engine="llvm", parameters=given, **NUMBERS)
    assert engines.runner("llvm", system.form, hx.EulerA(), 1, "float64").program.layout is not None
    for i, path in enumerate(run.q):
        own = system.replace(data=data[i if each else 1])
        one = hx.integrate(own, hx.EulerA(), start, hx.increments(own, h=NUMBERS["h"], steps=64, seed=3, path=i))
        np.testing.assert_allclose(path, one.q, atol=1e-13)


@pytest.mark.study
def test_steps_that_are_taken_again_know_parameters():
    """Noise so strong that trials come to nothing."""
    strong = PENDULUM.replace(strength=8.0)
    start = hx.start(strong, q=[1.0, 0.0, 0.0])
    numbers = {"t1": 2.0, "h": 0.25, "paths": 8, "seed": 1, "on_failure": "mark", "progress": False}
    run = hx.simulate(strong, hx.Rattle(), start, engine="llvm", parameters={"mass": np.linspace(1, 2, 8)}, **numbers)
    program = engines.runner("llvm", strong.form, hx.Rattle(), 3, "float64")
    assert program.again.kernel is not None
    for path in range(8):
        system = strong.replace(mass=np.linspace(1, 2, 8)[path])
        increments = hx.increments(system, h=0.25, steps=8, seed=1, path=path)
        one = hx.integrate(system, hx.Rattle(), start, increments)
        if not run.status[path] and not int(one.report.status.max()):
            np.testing.assert_allclose(run.q[path], one.q, atol=1e-9)


def test_a_new_value_compiles_nothing(monkeypatch):
    make, kernels = llvm.machine_code, []
    monkeypatch.setattr(llvm, "machine_code", lambda *x: kernels.append("kernel") or make(*x))
    increments = hx.increments(PENDULUM, h=2.0**-7, steps=8, seed=0)

    def everything(system, parameters):
        start = hx.start(system, q=[1.0, 0.0, 0.0])
        seen = {"energy": hx.Mean(system.energy)}
        hx.simulate(system, hx.EulerB(), start, engine="llvm", parameters=parameters, observe=seen, paths=2, **NUMBERS)
        hx.integrate(system, hx.EulerB(), start, increments)

    everything(PENDULUM, None)
    everything(PENDULUM, {"gravity": [1.0, 2.0]})
    assert kernels
    kernels.clear()
    with compilations() as compiled:
        everything(PENDULUM.replace(gravity=1.62, mass=3.0), None)
        everything(PENDULUM, {"gravity": [1.0, 3.0]})
    assert compiled == kernels == []


def test_derivatives_with_respect_to_parameters():
    start = hx.start(PENDULUM, q=[1.0, 0.0, 0.0])
    increments = hx.increments(PENDULUM, h=0.01, steps=20, seed=0)

    def height(gravity):
        return hx.integrate(PENDULUM.replace(gravity=gravity), hx.Rattle(), start, increments).q[-1, 2]

    difference = (height(9.81 + 1e-5) - height(9.81 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(height)(9.81), difference, rtol=1e-7)
    heights = jax.vmap(height)(jnp.array([9.81, 1.62]))
    np.testing.assert_allclose(heights, [height(9.81), height(1.62)], atol=1e-14)


@pytest.mark.study
def test_derivatives_of_a_start_that_depends_on_parameters():
    def height(length):
        system = PENDULUM.replace(length=length)
        start = hx.start(system, q=length * jnp.array([1.0, 0.0, 0.0]))
        increments = hx.increments(PENDULUM, h=0.01, steps=10, seed=0)
        return hx.integrate(system, hx.EulerA(), start, increments).q[-1, 2]

    difference = (height(1.0 + 1e-5) - height(1.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(height)(1.0), difference, rtol=1e-6, atol=1e-9)


def test_what_is_observed_of_another_system_is_its_own():
    other = hx.System(lambda q, v, *, mass: 0.5 * mass * v @ v, parameters={"mass": 5.0}, n=3)
    start = hx.start(PENDULUM, q=[1.0, 0.0, 0.0])
    numbers = NUMBERS | {"t1": NUMBERS["h"]}
    run = hx.simulate(PENDULUM, hx.EulerA(), start, observe={"its": hx.Mean(other.energy)}, **numbers)
    np.testing.assert_allclose(run.observed["its"].mean[-1], run.p[0, -1] @ run.p[0, -1] / 10.0, rtol=1e-13)
    heavier = PENDULUM.replace(mass=5.0)
    run = hx.simulate(PENDULUM, hx.EulerA(), start, observe={"its": hx.Mean(heavier.energy)}, **numbers)
    np.testing.assert_allclose(run.observed["its"].mean[-1], heavier.energy(run.q[0, -1], run.p[0, -1]), rtol=1e-13)


@pytest.mark.study
def test_mean_force_with_parameters():
    """A(r) = -2 T log r of a particle at distance r, one r per path."""
    system = hx.System(
        lambda q, v: 0.5 * v @ v, lambda q, *, radius: jnp.sqrt(q @ q) - radius, n=3, parameters={"radius": 2.0}
    )
    radii = np.array([1.0, 2.0, 4.0])
    start = hx.start(system, radii[:, None] * np.array([1.0, 0.0, 0.0]), parameters={"radius": radii})
    force = hx.MeanForce(system, temperature=1.0, over="time")
    run = hx.simulate(
        system, hx.Langevin(1.0, 1.0), start, t1=20.0, h=0.1, parameters={"radius": radii}, observe={"force": force}
    )
    found = run.observed["force"]
    np.testing.assert_array_less(np.abs(found.force + 2 / radii), 5 * found.stderr)


def test_runs_continue_with_their_parameters():
    whole = hx.simulate(PENDULUM, hx.EulerA(), starts(), parameters=EACH, **NUMBERS)
    half = hx.simulate(PENDULUM, hx.EulerA(), starts(), parameters=EACH, **NUMBERS | {"t1": 0.25})
    rest = hx.simulate(PENDULUM, hx.EulerA(), half.state, t0=0.25, parameters=half.parameters, **NUMBERS)
    np.testing.assert_array_equal(rest.q[:, -1], whole.q[:, -1])


def test_a_system_is_known_by_its_functions_and_values():
    assert PENDULUM.replace(mass=2.0) == PENDULUM
    assert hash(PENDULUM.replace(mass=2.0)) == hash(PENDULUM)
    assert PENDULUM.replace(mass=3.0) != PENDULUM
    assert PENDULUM.replace(mass=3.0).form == PENDULUM.form
    assert pickle.loads(pickle.dumps(PENDULUM)) == PENDULUM
    with pytest.raises(TypeError):
        PENDULUM.parameters["mass"] = 3.0
    given = np.array([1.0, 2.0])
    system = hx.System(lambda q, v, *, a: a @ v**2, parameters={"a": given})
    given[0] = 7.0
    assert system.parameters["a"][0] == 1.0


BAD = {
    "unknown in replace": (lambda: PENDULUM.replace(gravty=3.0), r"no parameter 'gravty' \(did you mean gravity\?"),
    "unknown in simulate": (
        lambda: simulated(parameters={"g": 1.0}),
        r"no parameter 'g'; choose one of gravity, .*, or say its value: hx.System\(..., parameters",
    ),
    "missing": (
        lambda: hx.System(lagrangian, parameters={"gravity": 1.0}),
        r"lagrangian asks for 'mass'.*hx.System\(..., parameters=\{'mass': 1.0\}\)",
    ),
    "not asked for": (
        lambda: hx.System(lambda q, v: v @ v, parameters={"mass": 1.0}),
        r"asks for the parameter 'mass'; write it as a keyword-only argument",
    ),
    "positional": (
        lambda: hx.System(lambda q, v, mass: mass * v @ v, parameters={"mass": 1.0}),
        r"called with \(q, v\).*parameters after a \*",
    ),
    "shape": (
        lambda: simulated(parameters={"mass": [[1.0, 2.0]]}),
        r"'mass'\] has shape \(1, 2\); it must be \(\)",
    ),
    "shape in replace": (lambda: PENDULUM.replace(mass=[1.0, 2.0]), r"mass has shape \(2,\).*hx.simulate"),
    "lengths": (
        lambda: simulated(parameters={"mass": [1.0, 2.0], "gravity": [1.0, 2.0, 3.0]}),
        "different numbers of paths: 'gravity' 3, 'mass' 2",
    ),
    "paths": (lambda: simulated(parameters={"mass": [1.0, 2.0]}, paths=3), "paths = 3 but parameters are given for 2"),
    "starts": (
        lambda: hx.simulate(PENDULUM, hx.EulerA(), starts(), parameters={"mass": [1.0, 2.0]}, **NUMBERS),
        "3 states but parameters for 2 paths",
    ),
    "not a mapping": (lambda: hx.System(lagrangian, parameters=[9.81]), "name them"),
    "not a number": (lambda: PENDULUM.replace(mass="heavy"), r"parameters\['mass'\] = 'heavy'"),
    "nan": (lambda: simulated(parameters={"mass": np.nan}), r"parameters\['mass'\] = nan is not a number"),
    "observable": (
        lambda: simulated(observe={"m": hx.Mean(lambda q, p, *, mas: mas)}),
        r"fn asks for 'mas'.*did you mean mass\?",
    ),
    "off the manifold": (
        lambda: simulated(parameters={"length": [1.0, 2.0]}),
        r"g\(q\) = 3 is not zero.*path 1 of 2.*for other parameters\? pass these to hx.start too",
    ),
    "traced": (
        lambda: jax.grad(lambda m: simulated(parameters={"mass": m}).q.sum())(1.0),
        "parameters is traced.*hx.integrate",
    ),
    "traced in the system": (
        lambda: jax.grad(lambda m: hx.simulate(PENDULUM.replace(mass=m), hx.EulerA(), starts(), **NUMBERS).q.sum())(
            1.0
        ),
        "system.parameters is traced.*hx.integrate",
    ),
}


def simulated(system=PENDULUM, **options):
    return hx.simulate(system, hx.EulerA(), hx.start(PENDULUM, q=[1.0, 0.0, 0.0]), **NUMBERS, **options)


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_parameters_is_said(case):
    attempt, words = BAD[case]
    with pytest.raises(hx.HolonaxError, match=words):
        attempt()
