"""The engine on GPUs without one: its kernels, compiled as C++, give the same paths as LLVM's."""

import shutil
import sys
import threading
from queue import SimpleQueue

import jax.numpy as jnp
import numpy as np
import pytest
from stand_in import cupy

import holonax as hx
from holonax import engines
from holonax.compiler.ir.operations import OPERATIONS, Library
from holonax.engines.cuda import device as on_device
from holonax.engines.cuda import runner
from holonax.simulation.plan import Plan
from holonax.simulation.segments import Stepper
from support import bent_curve, entry, heavy

COMPILER = shutil.which("g++") or shutil.which("clang++")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


@pytest.fixture
def device(tmp_path, monkeypatch):
    """A stand-in for CuPy, and chunks so small that there are several."""
    module = cupy(tmp_path, COMPILER)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(on_device, "_idle", SimpleQueue())
    monkeypatch.setattr(runner.CudaRunner, "least", 128)
    yield module
    engines.prepared.cache_clear()  # what was made with it


def compare(system, method, start, h, steps, **arguments):
    """The same paths by both engines."""
    asked = {"t1": steps * h, "h": h, "seed": 1, "on_failure": "mark", "progress": False} | arguments
    found, expected = (hx.simulate(system, method, start, engine=engine, **asked) for engine in ("cuda", "llvm"))
    assert found.engine == "cuda"
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(found.failed_step, expected.failed_step)
    np.testing.assert_array_equal(found.iterations, expected.iterations)
    for name, counted in expected.counts.items():
        np.testing.assert_array_equal(found.counts[name], counted)
    alive = expected.status == 0
    assert alive.any()
    for one, other in ((found.q, expected.q), (found.p, expected.p), (found.state.q, expected.state.q)):
        np.testing.assert_allclose(one[alive], other[alive], rtol=0, atol=1e-10)
    return found, expected


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("pendulum", hx.Rattle()),
        heavy("pendulum", hx.EulerA()),
        heavy("ellipsoid", hx.EulerA()),
        heavy("ellipsoid", hx.Lobatto(3)),
        heavy("rigid_body", hx.Kicked()),
        heavy("chain", hx.Rattle()),
    ],
    ids=str,
)
def test_the_source_does_what_the_others_do(name, method, device):
    e = entry(name)
    compare(e.system, method, e.start, 2.0**-6, 32, paths=64)


def test_steps_in_doubt(device):
    system, start = bent_curve()
    compare(system, hx.Rattle(), start, 0.25, 16, paths=64)
    assert len(device.launches) > 5  # by turns, the kernel and the one for steps in doubt


@pytest.mark.study
def test_every_function_of_one_argument(device):
    rows = [row for row in OPERATIONS.values() if isinstance(row.llvm, Library) and "{1}" not in row.cuda]
    places = np.array([0.5 if np.isfinite(row.xla(0.5)) else 1.5 for row in rows])

    def potential(q):
        return sum(x * row.xla(x) for x, row in zip(q, rows, strict=True))

    system = hx.System(lambda q, v: 0.5 * v @ v - potential(q), n=len(rows))
    compare(system, hx.EulerA(), hx.start(system, places), 2.0**-6, 1, paths=64)


def test_starts_and_parameters_of_each_path(device):
    """Several chunks, the last of them padded; a run that goes on; an end that is not saved; a matrix of numbers."""
    system = hx.System(
        lambda q, v, *, mass, spring: 0.5 * mass * v @ v - 0.5 * q @ spring @ q - q[1],
        constraint=lambda q: q @ q - 1.0,
        noise=lambda q, *, strength: strength * q[0],
        parameters={"mass": 1.0, "spring": np.eye(2), "strength": 0.3},
    )
    paths = 700
    angle, mass = np.linspace(0.0, 3.0, paths), np.linspace(1.0, 2.0, paths)
    spring = np.linspace(0.0, 1.0, paths)[:, None, None] * np.array([[1.0, 0.2], [0.2, 2.0]])
    own = {"mass": mass, "spring": spring}
    start = hx.start(system, np.stack([np.cos(angle), np.sin(angle)], axis=1), parameters=own)
    first, _ = compare(system, hx.EulerA(), start, 2.0**-6, 10, parameters=own, save_every=4)
    assert device.launches == [128] * 6
    compare(system, hx.EulerA(), first.state, 2.0**-6, 10, t0=10 * 2.0**-6, t1=20 * 2.0**-6, parameters=own)


def test_outcomes_of_a_method(device):
    system = hx.systems.pendulum(noise=None).system
    method = hx.Langevin(friction=1.0, temperature=1.0, splitting="OBABO", metropolis=True)
    found, _ = compare(system, method, entry("pendulum").start, 0.5, 8, paths=200, save_every=None)
    assert sum(found.counts.values()).tolist() == [8] * 200
    assert all(found.counts[name].any() for name in ("accepted", "rejected"))


def test_paths_go_on_from_a_checkpoint(device):
    system = hx.systems.pendulum(noise=None).system
    method = hx.Langevin(friction=1.0, temperature=1.0, splitting="OBABO", metropolis=True)
    asked = {"t0": 0.0, "t1": 100.0, "h": 0.5, "first_step": 7, "paths": 130, "seed": 1, "save_every": 50}
    others = {"parameters": None, "observe": None, "engine": "cuda", "dtype": "float64", "on_failure": "mark"}
    plan = Plan.of(system, method, entry("pendulum").start, **asked, **others)
    stepper = Stepper(plan, engines.runner("cuda", plan.form, method, 3, "float64"))
    half = next(x.checkpoint({}) for x in stepper.segments(range(130)) if x.done >= 60)
    whole, again = (list(stepper.segments(range(130), after))[-1] for after in (None, half))
    for one, other in zip((*whole.places(), *whole.fate), (*again.places(), *again.fate), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (whole.fate.counts[:130].sum(axis=1) == 200).all()
    failed = half._replace(fate=half.fate._replace(status=half.fate.status + 1, failed_step=half.fate.status + 3))
    frozen = list(stepper.segments(range(130), failed))[-1]
    np.testing.assert_array_equal(frozen.places()[0][:130], half.state.q)
    np.testing.assert_array_equal(frozen.fate.failed_step[:130], 3)


@pytest.mark.study
def test_velocities_of_the_last_states(device):
    e = entry("torus")
    found, expected = compare(e.system, hx.EulerA(), e.start, 2.0**-6, 8, paths=200, save_every=5)
    np.testing.assert_allclose(found.state.v, expected.state.v, rtol=0, atol=1e-10)


def test_the_step_that_failed(device):
    """Numbered from the start of this run, not from where its noise begins."""
    light = hx.System(lambda q, v: 0.5 * q[0] * v @ v, n=1)
    state = hx.State(jnp.array([[0.5], [2.0]]), jnp.array([[-0.5], [1.0]]), jnp.array([[-1.0], [0.5]]))
    found, _ = compare(light, hx.EulerPrinted(), state, 0.5, 2, first_step=1000)
    assert 0 <= found.failed_step[0] < 2
    assert found.failed_step[1] == -1


def test_single_precision_on_the_device(device):
    e = entry("pendulum")
    found, expected = (
        hx.simulate(e.system, hx.Rattle(), e.start, t1=0.5, h=2.0**-6, paths=10, dtype="float32", engine=engine)
        for engine in ("cuda", "llvm")
    )
    np.testing.assert_allclose(found.q, expected.q, rtol=0, atol=1e-4)


def test_a_stream_is_used_again_and_memory_fetched_with_it(device):
    """CuPy keeps free memory for the stream that had it: new streams in every run would have to ask for new memory."""
    e = entry("pendulum")
    made = []
    device.cuda.Stream = lambda non_blocking, stream=device.cuda.Stream: made.append(1) or stream(non_blocking)
    for _ in range(3):
        hx.simulate(e.system, hx.Rattle(), e.start, t1=0.5, h=2.0**-6, paths=2000, save_every=None, engine="cuda")
    assert len(made) <= runner.WORKERS


def test_few_kernels_run_side_by_side(device):
    """Two, however large; more if they are small: the small device has room for 3 blocks, and 6 keep it busy."""
    kernel = device.RawModule(code='extern "C" __global__ void advance(int x) {}', options=("--std=c++17",))
    for threads, expected in ((1000, 2), (3 * 128, 2), (2 * 128, 3), (128, 6)):
        room, together, most = on_device.Room(kernel.get_function("advance"), 128), [], []
        gate = threading.Barrier(expected, timeout=30)

        def run(threads=threads, room=room, together=together, most=most, gate=gate):
            with room.entered(threads):
                together.append(threads)
                most.append(len(together))
                gate.wait()  # for as many as there should be
                together.pop()
                gate.wait()

        workers = [threading.Thread(target=run) for _ in range(2 * expected)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
        assert max(most) == expected
