"""Long programs on GPUs without one: kernels with loops over links, compiled as C++, against the plain step."""

import shutil
import sys
from queue import SimpleQueue

import jax.numpy as jnp
import numpy as np
import pytest
from stand_in import cupy

import holonax as hx
from holonax.compiler import compile_step
from holonax.compiler.ir.graph import TooLong
from holonax.compiler.passes.rerolling import Rolled
from holonax.engines import plain
from holonax.engines.cuda import device as on_device
from holonax.engines.cuda import runner
from support import heavy

COMPILER = shutil.which("g++") or shutil.which("clang++")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

PATHS = 32
LANGEVIN = hx.Langevin(friction=1.0, temperature=1.0)


@pytest.fixture
def device(tmp_path, monkeypatch):
    """A stand-in for CuPy, on which everything is long."""
    module = cupy(tmp_path, COMPILER)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(on_device, "_idle", SimpleQueue())
    monkeypatch.setattr(runner, "TARGET", runner.TARGET._replace(most=50))
    return module


def walked(made, start, parameters, h, first, stop, stride):
    """Paths that stop in the middle and go on: rows that are recorded, where they end, and how they fare."""
    parameters = {name: np.broadcast_to(x, (PATHS, *np.shape(x)[-1:])) for name, x in parameters.items()}
    states = hx.State(*(np.broadcast_to(np.asarray(x), (PATHS, x.shape[-1])) for x in (start.q, start.p, start.guess)))
    carried, rows, middle = made.begin(states, parameters), [], (first + stop) // 2
    for begin, end in ((first, middle), (middle, stop)):
        carried, *recorded = made.advance(carried, range(PATHS), 1, h, begin, end, stride, 7)
        rows.append([np.asarray(x)[: end // stride - begin // stride] for x in recorded])
    return np.concatenate(rows, axis=1), made.places(carried), made.fate(carried)


def compare(system, method, start, h, steps, parameters=None, atol=1e-9, dtype="float64"):
    """The same paths by the kernel and by the plain step."""
    made = runner.prepare(system.form, method, system.n, dtype)
    layout = made.program.layout
    assert any(isinstance(part, Rolled) for parts in layout.parts.values() for part in parts)
    by = made, plain.prepare(system.form, method, system.n, dtype)
    (rows, ends, fate), (expected_rows, expected_ends, expected) = (
        walked(x, start, parameters or {}, h, 2, 2 + steps, 3) for x in by
    )
    np.testing.assert_array_equal(fate.status, expected.status)
    np.testing.assert_array_equal(fate.failed_step, expected.failed_step)
    np.testing.assert_allclose(rows, expected_rows, rtol=0, atol=atol)
    np.testing.assert_allclose(ends, expected_ends, rtol=0, atol=atol)
    return fate, layout.places


@pytest.mark.study
def test_paths_that_fail_and_steps_in_doubt(device):
    """Steps so large that some paths have to go back, take a step again and go on, and others fail."""
    chain = hx.systems.chain(32)
    fate, places = compare(chain.system, hx.EulerA(), chain.start, 0.125, 14)
    assert places.twins  # there is a state in memory that a path may go back from
    assert 0 < np.count_nonzero(fate.status) < PATHS
    assert len(device.launches) > 4  # by turns, the kernel and the one for steps in doubt


@pytest.mark.parametrize(
    ("beads", "method"),
    [
        (32, hx.EulerA()),
        heavy(40, hx.Rattle()),
        heavy(33, hx.Kicked()),
        heavy(36, LANGEVIN),
    ],
    ids=str,
)
def test_chains(beads, method, device):
    chain = hx.systems.chain(beads)
    system = hx.System(chain.system.lagrangian, constraint=chain.system.constraint, n=chain.n)
    _, places = compare(system if method is LANGEVIN else chain.system, method, chain.start, 2.0**-6, 16)
    assert places.twins  # states lie in memory, and change places with those of the next step


@pytest.mark.study
def test_single_precision(device):
    chain = hx.systems.chain(32)
    compare(chain.system, hx.EulerA(), chain.start, 2.0**-6, 10, atol=1e-3, dtype="float32")


@pytest.mark.study
def test_parameters_in_memory(device):
    """Loops over springs read their strengths, which differ from path to path, from memory."""
    beads = 60

    def lagrangian(q, v, *, spring):
        return 0.5 * v @ v - 0.5 * jnp.sum(spring * jnp.diff(q) ** 2) + jnp.sum(jnp.cos(q))

    system = hx.System(lagrangian, noise=lambda q: 0.1 * jnp.sin(q), parameters={"spring": np.ones(beads - 1)}, n=beads)
    draw = np.random.default_rng(0)
    spring = 1.0 + draw.random((PATHS, beads - 1))
    start = hx.start(system, draw.random((PATHS, beads)), parameters={"spring": spring})
    compare(system, hx.Rattle(), start, 2.0**-4, 12, parameters={"spring": spring})
    assert len(device.launches) == 2  # sines that are carried have been begun: no step was in doubt


@pytest.mark.study
def test_which_chains_are_long():
    def compiled(beads, target):
        chain = hx.systems.chain(beads)
        return compile_step(chain.system.form, hx.EulerA(), chain.n, "float64", target, times=1)

    assert compiled(16, runner.TARGET).layout is None
    with pytest.raises(TooLong, match="30000"):
        compiled(32, runner.TARGET)
    assert compiled(64, runner.LONG).layout.code_size < 2000


@pytest.mark.study
def test_what_does_not_repeat_itself_is_left_to_blocks(device, monkeypatch):
    monkeypatch.setattr(runner, "MOST_CODE", 1000)
    chain = hx.systems.chain(12)
    made = runner.prepare(chain.system.form, hx.EulerA(), chain.n, "float64")
    assert isinstance(made, runner.CudaArrayRunner)
    assert "do not repeat themselves" in made.how
