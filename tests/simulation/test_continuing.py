"""Runs that go on from the end of others, runs that are interrupted, and what a run tells of itself."""

import pickle
import signal
import subprocess
import sys
import textwrap
import time

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import engines
from support import AVAILABLE, heavy, mostly, unless_too_large


@pytest.mark.parametrize(("name", "method"), [("pendulum", hx.Rattle()), heavy("ellipsoid", hx.EulerA())], ids=str)
@pytest.mark.parametrize("engine", mostly(AVAILABLE))
def test_two_halves_equal_the_whole(engine, name, method, optimised):
    e = getattr(hx.systems, name)()
    arguments = {"h": 2.0**-6, "paths": 40, "seed": 3, "engine": engine}
    seen = {"energy": hx.Mean(e.system.energy, every=8)}
    options = {"t1": 2.0, "save_every": 8, "observe": seen}
    whole = unless_too_large(hx.simulate, e.system, method, e.start, **options, **arguments)
    if whole is None:
        return
    first = hx.simulate(e.system, method, e.start, t1=0.625, save_every=None, **arguments)
    second = hx.simulate(e.system, method, first.state, t0=first.t1, t1=2.0, save_every=8, observe=seen, **arguments)
    assert (first.first_step, second.first_step) == (0, 40)
    np.testing.assert_array_equal(second.q, whole.q[:, 5:])
    np.testing.assert_array_equal(second.p, whole.p[:, 5:])
    np.testing.assert_array_equal(second.state.q, whole.state.q)
    np.testing.assert_allclose(second.observed["energy"].mean, whole.observed["energy"].mean[5:], rtol=1e-14)


@pytest.mark.parametrize("function", [jnp.exp, heavy(jnp.tan), heavy(jnp.sin)], ids=lambda function: function.__name__)
@pytest.mark.parametrize("engine", mostly(AVAILABLE))
def test_functions_that_are_carried_are_begun_by_the_kernels(engine, function):
    system = hx.System(lambda q, v: 0.5 * v @ v, noise=lambda q: jnp.sum(function(0.3 * q)), n=2)
    start = hx.start(system, [0.3, 0.2], [0.1, 0.0])
    run = hx.simulate(system, hx.Rattle(), start, t1=0.5, h=0.125, seed=2, engine=engine)
    assert engines.runner(engine, system, hx.Rattle(), 2, "float64").program.functions
    path = hx.integrate(system, hx.Rattle(), start, hx.increments(system, h=0.125, steps=4, seed=2))
    np.testing.assert_allclose(run.q[0], path.q, atol=1e-14)


def test_the_end_is_there_also_where_it_is_not_saved():
    e = hx.systems.torus()
    arguments = {"h": 0.0625, "paths": 5, "seed": 1}
    saved = hx.simulate(e.system, hx.Kicked(), e.start, t1=0.625, **arguments)
    seldom = hx.simulate(e.system, hx.Kicked(), e.start, t1=0.625, save_every=4, **arguments)
    np.testing.assert_array_equal(seldom.state.q, saved.q[:, -1])
    np.testing.assert_array_equal(seldom.state.p, saved.p[:, -1])
    assert not np.array_equal(seldom.q[:, -1], saved.q[:, -1])


def test_the_number_of_the_first_step():
    e = hx.systems.pendulum()
    arguments = {"h": 0.125, "t1": 1.0 + 0.3, "t0": 0.3, "paths": 3}
    odd = hx.simulate(e.system, hx.EulerA(), e.start, **arguments)
    assert odd.first_step == 0  # 0.3 is no multiple of 0.125
    same = hx.simulate(e.system, hx.EulerA(), e.start, t1=1.0, h=0.125, paths=3)
    np.testing.assert_array_equal(odd.q, same.q)
    later = hx.simulate(e.system, hx.EulerA(), e.start, first_step=7, **arguments)
    assert later.first_step == 7
    assert not np.array_equal(later.q, same.q)
    noise = hx.increments(e.system, h=0.125, steps=8, seed=0, path=2, first_step=7)
    np.testing.assert_allclose(hx.integrate(e.system, hx.EulerA(), e.start, noise).q, later.q[2], atol=1e-13)
    with pytest.raises(hx.InputError, match="from first_step = 4294967295 on"):
        hx.increments(e.system, h=0.125, steps=2, seed=0, first_step=2**32 - 1)
    with pytest.raises(hx.InputError, match="first_step = -1: steps are numbered from 0 on"):
        hx.simulate(e.system, hx.EulerA(), e.start, first_step=-1, **arguments)
    with pytest.raises(hx.InputError, match="beyond the counter of the noise"):
        hx.simulate(e.system, hx.EulerA(), e.start, first_step=2**31 - 4, **arguments)


def test_a_failing_step_is_counted_from_the_start_of_its_run():
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: q @ q - 1.0, lambda q: 0.1 * q, n=2)
    start = hx.start(system, [[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 40.0]])
    run = hx.simulate(system, hx.EulerA(), start, t0=1.0, t1=2.0, h=0.0625, on_failure="mark")
    assert run.first_step == 16
    np.testing.assert_array_equal(run.failed_step, [-1, 0])


def test_a_run_tells_of_itself_on_one_screen_and_can_be_pickled():
    e = hx.systems.pendulum()
    run = hx.simulate(e.system, hx.Kicked(), e.start, t1=1.0, h=2.0**-6, paths=300, seed=7, engine="llvm")
    text = repr(run)
    assert len(text.splitlines()) < 12
    assert max(map(len, text.splitlines())) < 160
    for part in ("300 paths", "64 steps of h = 0.015625", "Kicked", "seed 7", "llvm: asked for", "0 paths"):
        assert part in text
    again = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(again.q, run.q)
    assert repr(again) == text


def test_the_warning_of_a_fallback_points_at_the_caller():
    system = hx.System(lambda q, v: 0.5 * v @ v - jnp.sum(jnp.cumsum(jnp.sort(q)) ** 2), n=3)
    with pytest.warns(UserWarning, match="cannot translate") as caught:
        run = hx.simulate(system, hx.EulerA(), hx.start(system, [0.3, 0.2, 0.1]), t1=0.5, h=0.25)
    assert caught[0].filename == __file__
    assert run.engine == "plain"
    assert "cannot translate" in run.reason


LONG = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background of a shell
    import holonax as hx
    e = hx.systems.chain(8, 0.3)
    hx.simulate(e.system, hx.Rattle(), e.start, t1=1.0, h=2.0**-6)
    print("ready", flush=True)
    try:
        hx.simulate(e.system, hx.Rattle(), e.start, t1=2.0**10, h=2.0**-10, paths=200000, save_every=None)
    except hx.Interrupted as interrupted:
        print("done", len(interrupted.result.status), flush=True)
    except KeyboardInterrupt:
        print("done nothing", flush=True)
"""


@pytest.mark.parametrize("wait", [0.3, heavy(2.0)])
def test_ctrl_c_is_answered_at_once(wait):
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(LONG)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert process.stdout.readline().startswith("done")
        answered = time.monotonic() - begin
        print(f"answered after {answered:.2f} s")
        assert process.wait(timeout=30) == 0
    assert answered < 10.0  # well below one second on an idle machine


def test_a_run_that_is_interrupted_at_once_has_no_paths(monkeypatch):
    e = hx.systems.pendulum()

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("holonax.simulation.simulate.run_chunks", interrupted)
    with pytest.raises(hx.Interrupted, match="0 of 7 paths are done; a run with store=") as caught:
        hx.simulate(
            e.system, hx.EulerA(), e.start, t1=1.0, h=0.25, paths=7, observe={"energy": hx.Mean(e.system.energy)}
        )
    run = caught.value.result
    assert (run.q.shape, run.observed, run.state.q.shape) == ((0, 5, 3), {}, (0, 3))
    assert "Run of no paths" in repr(run)
