"""Array programs on GPUs without one: kernels with a block of threads per path, compiled as C++, against LLVM's."""

import shutil
import sys
from queue import SimpleQueue

import jax.numpy as jnp
import numpy as np
import pytest
from stand_in import cupy

import holonax as hx
from holonax import engines
from holonax.compiler.arrays import solve
from holonax.compiler.arrays.program import compile_arrays
from holonax.engines.cuda import array_runner, runner
from holonax.engines.cuda import device as on_device
from holonax.engines.cuda.array_kernel import Shape, block_kernel

COMPILER = shutil.which("g++") or shutil.which("clang++")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


@pytest.fixture
def device(tmp_path, monkeypatch):
    """A stand-in for CuPy, on which everything is too large for a thread."""
    module = cupy(tmp_path, COMPILER)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(on_device, "_idle", SimpleQueue())
    for target in ("TARGET", "LONG"):
        monkeypatch.setattr(runner, target, getattr(runner, target)._replace(most=50))
    engines.prepared.cache_clear()
    yield module
    engines.prepared.cache_clear()  # what was made with it


def shaped(monkeypatch, threads, blocks):
    monkeypatch.setattr(array_runner, "block_shape", lambda program, shared: Shape(threads, blocks))


def compare(system, method, start, h=2.0**-6, steps=4, paths=4, **more):
    """The same paths by both engines."""
    asked = {"t1": steps * h, "h": h, "seed": 1, "on_failure": "mark", "progress": False, "paths": paths} | more
    found, expected = (hx.simulate(system, method, start, engine=engine, **asked) for engine in ("cuda", "llvm"))
    assert found.engine == "cuda"
    assert "loops over arrays" in found.reason
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(found.failed_step, expected.failed_step)
    for name, counted in expected.counts.items():
        np.testing.assert_array_equal(found.counts[name], counted)
    for one, other in ((found.q, expected.q), (found.p, expected.p), (found.state.q, expected.state.q)):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    if expected.state.v is not None:
        np.testing.assert_allclose(found.state.v, expected.state.v, rtol=0, atol=1e-12)
    return found


LANGEVIN = hx.Langevin(friction=1.0, temperature=1.0)


@pytest.mark.parametrize(
    ("name", "size", "method", "threads"),
    [
        ("chain", (12,), hx.EulerA(), 64),
        pytest.param("net", (3, 3), hx.Rattle(), 32, marks=pytest.mark.study),
        pytest.param("chain", (40,), hx.EulerA(), 64, marks=pytest.mark.study),
        pytest.param("chain", (40,), hx.Kicked(), 128, marks=pytest.mark.study),
        pytest.param("ring", (30,), hx.Rattle(), 64, marks=pytest.mark.study),
        pytest.param("water", (3,), LANGEVIN, 64, marks=pytest.mark.study),
        pytest.param("net", (4, 5), hx.Lobatto(3), 64, marks=pytest.mark.study),
    ],
    ids=str,
)
def test_the_same_paths_as_on_a_cpu(name, size, method, threads, device, monkeypatch):
    """With so little shared memory that some arrays are elsewhere; more paths than blocks."""
    shaped(monkeypatch, threads, 8)
    e = getattr(hx.systems, name)(*size)
    compare(e.system, method, e.start, h=1e-3 if name == "water" else 2.0**-6)


def test_parameters_starts_and_outcomes(device, monkeypatch):
    """Each path has its own; what is saved is not all that there is."""
    shaped(monkeypatch, 32, 1)
    system = hx.System(
        lambda q, v, *, mass, spring: 0.5 * mass * v @ v - 0.5 * spring @ q**2,
        constraint=lambda q: jnp.stack([q[:3] @ q[:3] - 1.0, q[3:] @ q[3:] - 1.0]),
        parameters={"mass": 1.0, "spring": np.ones(6)},
    )
    own = {"mass": np.array([1.0, 1.5, 2.0]), "spring": np.linspace(0.0, 1.0, 18).reshape(3, 6)}
    q = np.random.default_rng(0).normal(size=(3, 2, 3))
    start = hx.start(system, (q / np.linalg.norm(q, axis=2, keepdims=True)).reshape(3, 6), parameters=own)
    method = hx.Langevin(friction=1.0, temperature=1.0, splitting="OBABO", metropolis=True)
    found = compare(system, method, start, h=0.1, steps=6, parameters=own, paths=3, save_every=4)
    assert sum(found.counts.values()).tolist() == [6] * 3


def test_steps_in_doubt_are_taken_by_the_plain_engine(device, monkeypatch):
    """Of two paths one fails, at the step that it fails at on other engines."""
    shaped(monkeypatch, 32, 1)
    light = hx.System(lambda q, v: 0.5 * q[0] * v @ v, n=1)
    state = hx.State(jnp.array([[0.5], [2.0]]), jnp.array([[-0.5], [1.0]]), jnp.array([[-1.0], [0.5]]))
    taken = []
    again = array_runner.CudaArrayRunner.taken_again
    monkeypatch.setattr(
        array_runner.CudaArrayRunner, "taken_again", lambda self, *x: taken.append(x[5]) or again(self, *x)
    )
    asked = {"t1": 1.0, "h": 0.5, "first_step": 1000, "on_failure": "mark", "progress": False}
    found, expected = (
        hx.simulate(light, hx.EulerPrinted(), state, engine=engine, **asked) for engine in ("cuda", "llvm")
    )
    assert taken
    assert found.status[0] != 0
    np.testing.assert_array_equal(found.failed_step, expected.failed_step)
    np.testing.assert_allclose(found.q, expected.q, rtol=0, atol=1e-12)


@pytest.mark.study
def test_a_path_that_cannot_begin_to_move_is_taken_by_the_plain_engine(device, monkeypatch):
    """Though its constraint holds where it is: every pivot counts as bad here."""
    shaped(monkeypatch, 32, 1)
    monkeypatch.setattr(solve, "near_signs", lambda equations: np.full(equations.tape.size, -1.0))
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: jnp.sum((q[:6] - q[6:]) ** 2) - 1.0, n=12)
    start = hx.start(system, q=np.linspace(-1, 1, 12), v=0.3 * np.ones(12), project=True)
    compare(system, hx.Langevin(1.0, 0.5), start, h=2.0**-6, steps=2, paths=2)


def test_a_single_number_in_single_precision(device, monkeypatch):
    shaped(monkeypatch, 64, 1)
    monkeypatch.setattr(array_runner.CudaArrayRunner, "taken_again", None)  # no step is in doubt
    e = hx.systems.pendulum()
    asked = {"t1": 0.125, "h": 2.0**-6, "paths": 3, "dtype": "float32", "progress": False}
    found, expected = (
        hx.simulate(e.system, hx.Rattle(), e.start, engine=engine, **asked) for engine in ("cuda", "llvm")
    )
    np.testing.assert_allclose(found.q, expected.q, rtol=0, atol=1e-5)


def test_neighbour_lists_say_that_there_is_no_kernel(device):
    q = np.stack(np.meshgrid(*[np.arange(3) * 2.0] * 3), axis=-1).reshape(-1)

    def lagrangian(q, v, *, near):
        return 0.5 * v @ v - near.sum(lambda r2: jnp.exp(-r2), q)

    gas = hx.System(lagrangian, parameters={"near": hx.pairs(1.2, 0.3, box=6.0)}, n=q.size)
    with pytest.raises(hx.InputError, match=r"neighbour lists.*engine='auto'"):
        hx.simulate(gas, hx.Rattle(), hx.start(gas, q), t1=0.01, h=0.005, engine="cuda", progress=False)


def test_shared_memory_holds_what_is_used_most():
    """Whatever there is of it is used, and more of it never leaves less in it."""
    e = hx.systems.chain(12)
    program = compile_arrays(e.system.form, hx.EulerA(), e.n, "float64", {})
    sizes = []
    for budget in (0, 500, 1000, 10_000):
        kernel = block_kernel(program, Shape(32, 1), budget)
        used = kernel.memory.used
        assert used["shared"] <= budget
        sizes.append(used["shared"])
    assert sizes == sorted(sizes)
    assert sizes[0] == 0
    assert used["scratch"] == 0
