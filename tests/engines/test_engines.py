"""All engines: the same noise, the same paths, the same statuses, and one compilation per program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import compiler, engines
from holonax.engines import lanes, plain
from support import AVAILABLE, METHODS, UNIT, entry, heavy, mostly, unless_too_large

MOSTLY = mostly(AVAILABLE)
SOME = [("pendulum", hx.EulerA()), ("chain", hx.Rattle()), ("oscillator", hx.Lobatto(3))]
SOME += [("ring", hx.EulerA()), ("net", hx.EulerA()), ("diamond", hx.EulerA()), ("water", hx.EulerA())]
SOME += [heavy("pendulum", hx.EulerMaruyama()), heavy("torus", hx.EulerB()), heavy("ellipsoid", hx.EulerPrinted())]
ALL = [(name, method) for name in hx.systems.names() for method in METHODS]


def size(name):
    """Of a step."""
    return 2.0**-8 * UNIT.get(name, 1.0)


def run(name, method, engine, **arguments):
    e, h = entry(name), size(name)
    defaults = {"t1": 100 * h, "h": h, "paths": 5, "seed": 3, "save_every": 50, "progress": False}
    return hx.simulate(e.system, method, e.start, engine=engine, **(defaults | arguments))


def plain_end(name, method, path):
    e = entry(name)
    noise = hx.increments(e.system, h=size(name), steps=100, seed=3, path=path)
    return jax.jit(lambda noise: hx.integrate(e.system, method, e.start, noise))(noise)


def check_agreement(name, method, engine):
    e, result = entry(name), run(name, method, engine)
    assert isinstance(engines.runner(engine, e.system, method, e.n, "float64"), lanes.LaneRunner)
    path = plain_end(name, method, 4)
    np.testing.assert_allclose(result.q[4], path.q[::50], rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.p[4], path.p[::50], rtol=0, atol=1e-9)
    assert not result.status.any()


@pytest.mark.parametrize(("name", "method"), SOME, ids=str)
def test_the_llvm_engine_agrees_with_the_plain_step(name, method):
    check_agreement(name, method, "llvm")


@pytest.mark.parametrize(
    ("name", "method"),
    [heavy("pendulum", hx.Kicked()), ("pendulum", hx.EulerA()), heavy("ellipsoid", hx.EulerA())],
    ids=str,
)
@pytest.mark.parametrize("engine", [name for name in AVAILABLE if name != "llvm"])
def test_the_other_engines_agree_with_the_plain_step(name, method, engine):
    check_agreement(name, method, engine)


@pytest.mark.study
@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(("name", "method"), ALL, ids=str)
def test_all_engines_agree_on_everything(name, method, engine):
    path = plain_end(name, method, 4)
    if (result := unless_too_large(run, name, method, engine)) is None:
        return
    np.testing.assert_allclose(result.q[4], path.q[::50], rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.p[4], path.p[::50], rtol=0, atol=1e-9)


@pytest.mark.parametrize("engine", MOSTLY)
def test_one_step_agrees_to_round_off(engine):
    result = run("pendulum", hx.EulerA(), engine, t1=2.0**-8, save_every=1)
    path = plain_end("pendulum", hx.EulerA(), 4)
    np.testing.assert_allclose(result.q[4, 1], path.q[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.p[4, 1], path.p[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("engine", "method"),
    [("llvm", hx.Kicked()), *((heavy if name == "xla" else pytest.param)(name, hx.EulerA()) for name in AVAILABLE)],
    ids=str,
)
def test_much_noise_is_the_same_noise(engine, method):
    # 35 potentials: more than fit, as written-out code, beside a step; an odd number, and none of the last pair for dW
    many = hx.System(lambda q, v: 0.5 * v @ v, noise=lambda q: jnp.arange(1.0, 36.0) * q, n=35)
    start = hx.start(many, q=np.zeros(35), v=np.zeros(35))
    arguments = {"t1": 1.0, "h": 2.0**-4, "paths": 40, "seed": 5, "progress": False}
    result = hx.simulate(many, method, start, engine=engine, **arguments)
    noise = hx.increments(many, h=2.0**-4, steps=16, seed=5, path=39)
    np.testing.assert_allclose(result.p[39], hx.integrate(many, method, start, noise).p, rtol=0, atol=1e-12)
    made = engines.runner(engine, many, method, 35, "float64").program
    assert len(made.entries) == (engine != "cuda")


@pytest.mark.parametrize("engine", MOSTLY)
def test_single_precision(engine):
    single, double = (run("pendulum", hx.Rattle(), engine, dtype=dtype) for dtype in ("float32", "float64"))
    assert single.q.dtype == np.float32
    np.testing.assert_allclose(single.q, double.q, atol=1e-4)
    assert abs((single.q.astype(float) ** 2).sum(-1) - 1).max() < 1e-6


def test_double_precision_in_a_lagrangian_of_a_run_in_single():
    field = jnp.array([0.5, -1.0, 2.0])  # float64, so that the product of matrices has two types
    system = hx.System(lambda q, v: 0.5 * v @ v + 0.5 * v @ jnp.cross(field, q))
    start = hx.start(system, q=[1.5, 0.0, 0.0], p=[0.0, 1.0, 0.5])
    single, double = (
        hx.simulate(system, hx.EulerB(), start, t1=0.25, h=2.0**-6, dtype=dtype, engine="llvm").q
        for dtype in ("float32", "float64")
    )
    np.testing.assert_allclose(single, double, atol=1e-5)


@pytest.mark.parametrize("engine", MOSTLY)
def test_a_path_that_fails_leaves_its_neighbours_alone(engine):
    """Every seventh path moves too fast for the step: it is reported, frozen, and the others do not notice."""
    system = hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: q @ q - 1.0, noise=lambda q: 0.1 * q, n=2)
    speed = np.where(np.arange(40) % 7 == 3, 30.0, 1.0)
    start = hx.start(system, q=np.tile([1.0, 0.0], (40, 1)), v=np.stack([0 * speed, speed], axis=1))
    arguments = {"t1": 1.0, "h": 0.0625, "seed": 1, "on_failure": "mark", "progress": False}
    result = hx.simulate(system, hx.EulerA(), start, engine=engine, **arguments)
    failed = np.flatnonzero(result.status)
    np.testing.assert_array_equal(failed, np.flatnonzero(speed > 1))
    assert set(result.failed_step[failed]) == {0}
    np.testing.assert_array_equal(result.q[failed], np.broadcast_to([1.0, 0.0], (len(failed), 17, 2)))
    runner = plain.prepare(system, hx.EulerA(), 2, "float64")
    index = np.arange(32)
    carried = runner.begin(hx.State(*(np.asarray(x)[index] for x in (start.q, start.p, start.guess))), {})
    carried, q, _ = runner.advance(carried, range(32), 1, 0.0625, 0, 16, 1)
    fate = runner.fate(carried)
    np.testing.assert_array_equal(fate.status, result.status[:32])
    np.testing.assert_array_equal(fate.failed_step, result.failed_step[:32])
    np.testing.assert_allclose(result.q[:32, 1:], np.swapaxes(np.asarray(q)[:16], 0, 1), atol=1e-12)


@pytest.mark.parametrize("engine", MOSTLY)
def test_singular_and_non_finite_paths(engine):
    """A mass that vanishes where a path arrives; a potential that ends where another does."""
    arguments = {"on_failure": "mark", "progress": False, "engine": engine}
    light = hx.System(lambda q, v: 0.5 * q[0] * v @ v, n=1)
    state = hx.State(jnp.array([[0.5], [2.0]]), jnp.array([[-0.5], [1.0]]), jnp.array([[-1.0], [0.5]]))
    singular = hx.simulate(light, hx.EulerPrinted(), state, t1=1.0, h=0.5, **arguments)
    assert singular.status[0] != 0
    assert singular.status[1] == 0
    well = hx.System(lambda q, v: 0.5 * v @ v + jnp.log(q[0]), n=1)
    state = hx.State(jnp.array([[0.1], [5.0]]), jnp.array([[-1.0], [0.0]]))
    falls = hx.simulate(well, hx.EulerPrinted(), state, t1=2.0, h=0.05, **arguments)
    assert falls.status[1] == 0
    assert np.isfinite(falls.q).all()


@pytest.mark.parametrize("engine", AVAILABLE)
def test_observables_see_the_same_on_every_engine(engine):
    e = entry("pendulum")
    observed = run(
        "pendulum", hx.EulerA(), engine, paths=70, save_every=None, observe={"q": hx.Mean(lambda q, p: q, every=25)}
    ).observed["q"]
    every = hx.simulate(e.system, hx.EulerA(), e.start, t1=100 * 2.0**-8, h=2.0**-8, paths=70, seed=3, progress=False)
    np.testing.assert_allclose(observed.mean, every.q[:, ::25].mean(axis=0), atol=1e-12)
    assert observed.count.tolist() == [70] * 5


@pytest.mark.parametrize("engine", MOSTLY)
def test_one_compilation_per_system_method_type_and_engine(engine, monkeypatch):
    made = []
    original = compiler.run_passes

    def counted(*arguments):
        made.append(1)
        return original(*arguments)

    monkeypatch.setattr(compiler, "run_passes", counted)
    system = hx.System(lambda q, v: 0.5 * v @ v - q[1], constraint=lambda q: q @ q - 1.0, noise=lambda q: q[0], n=2)
    start = hx.start(system, q=[1.0, 0.0])
    first = {"t1": 0.5, "h": 0.125, "paths": 3, "engine": engine, "progress": False}
    for changed in ({}, {"paths": 50}, {"seed": 9}, {"t1": 2.0}, {"h": 0.0625}, {"save_every": 2}, {"t0": -1.0}):
        hx.simulate(system, hx.EulerA(), start, **(first | changed))
    assert len(made) == 1
    if engine == "xla":
        assert engines.runner(engine, system, hx.EulerA(), 2, "float64").compiled._cache_size() == 1
    hx.simulate(system, hx.EulerA(), start, **(first | {"dtype": "float32"}))
    hx.simulate(system, hx.EulerB(), start, **first)
    assert len(made) == 3


def test_the_choice_of_an_engine(monkeypatch):
    assert engines.automatic() == ("cuda" if "cuda" in AVAILABLE else "llvm")
    e = entry("torus")
    run = {"t1": 0.5, "h": 0.25, "engine": "llvm"}
    hx.simulate(e.system, hx.EulerB(), e.start, **run)
    monkeypatch.setattr(engines.llvm, "missing", lambda: "llvmlite is not installed (pip install llvmlite)")
    if "cuda" not in AVAILABLE:
        assert engines.automatic() == "xla"
    with pytest.raises(hx.InputError, match=r"engine = 'llvm': llvmlite is not installed.*engine='auto' chooses"):
        hx.simulate(e.system, hx.EulerB(), e.start, **run)


def test_memory_does_not_grow_with_steps_and_paths():
    """Nothing but the end states is kept: a million numbers, not a thousand million."""
    runner = engines.runner("llvm", entry("pendulum").system, hx.EulerA(), 3, "float64")
    assert runner.rows(runner.chunk, 0, 1000, 1000).nbytes == runner.chunk * 6 * 8
    assert runner.rows(runner.chunk, 0, 64, 1).nbytes <= 2**24
