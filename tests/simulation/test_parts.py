"""The parts of `simulate`, each by itself: the plan, the driver of chunks, the recorder."""

import dataclasses
import pickle
import threading
import time

import numpy as np
import pytest

import holonax as hx
from holonax import engines
from holonax.simulation import chunks
from holonax.simulation.chunks import Stopped, cut, run_chunks
from holonax.simulation.plan import Plan
from holonax.simulation.simulate import execute

DEFAULTS = {
    "parameters": None, "t0": 0.0, "t1": 1.0, "h": 0.125, "first_step": None, "paths": 5, "seed": 3, "save_every": 1,
    "observe": None, "engine": "auto", "dtype": "float64", "on_failure": "raise",
}  # fmt: skip


def lagrangian(q, v, *, gravity):
    return 0.5 * v @ v - gravity * q[0]


def first(q, p):
    return q[0]


FALLING = hx.System(lagrangian, n=1, parameters={"gravity": 9.81})


def plan(**arguments):
    return Plan.of(FALLING, hx.EulerA(), hx.start(FALLING, [0.0]), **(DEFAULTS | arguments))


def test_a_plan_is_a_value_that_says_all():
    observe = {"q": hx.Mean(first, every=2), "energy": hx.Mean(FALLING.energy)}
    one = plan(t0=0.5, t1=np.float32(1.5), parameters={"gravity": [1.0, 2.0, 3.0]}, paths=None, observe=observe)
    assert (one.t0, one.t1, one.steps, one.first_step, one.paths, one.n) == (0.5, 1.5, 8, 4, 3, 1)
    assert type(one.t1) is float
    np.testing.assert_array_equal(one.times, np.linspace(0.5, 1.5, 9))
    assert one.views["q"].grid.numbers.tolist() == [0, 2, 4, 6, 8]
    assert (one.stride, plan(save_every=6, observe={"q": hx.Mean(first, every=4)}).stride) == (1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.paths = 4
    asked = {"t0": 0.5, "t1": 1.5, "h": 0.125, "seed": 3, "parameters": {"gravity": [1.0, 2.0, 3.0]}}
    run = hx.simulate(FALLING, hx.EulerA(), one.start, observe=observe, **asked)
    for same in (one, pickle.loads(pickle.dumps(one))):  # another process could run it
        again = execute(same, progress=False)
        np.testing.assert_array_equal(again.q, run.q)
        np.testing.assert_array_equal(again.observed["energy"].mean, run.observed["energy"].mean)


def test_chunks_are_kept_in_order_however_long_they_take():
    kept, threads = [], set()

    def work(chunk, notify):
        time.sleep(0.05 if chunk.start == 0 else 0.0)
        threads.add(threading.current_thread())
        notify(10 * len(chunk))
        return chunk

    run_chunks(work, cut(23, 4), kept.append, workers=3, total=230, progress=False)
    assert kept == [range(4), range(4, 8), range(8, 12), range(12, 16), range(16, 20), range(20, 23)]
    assert threading.current_thread() not in threads


def test_the_bar_counts_complete_chunks_and_those_underway(monkeypatch):
    shown = []

    class Bar(chunks.Bar):
        def update(self, done):
            shown.append(done)

    monkeypatch.setattr(chunks, "Bar", Bar)

    def work(chunk, notify):
        """Two steps of each path: the first, and the second when the first has been shown."""
        notify(len(chunk))
        end = time.monotonic() + 5.0
        while 2 * chunk.start + len(chunk) not in shown:
            assert time.monotonic() < end
            time.sleep(0.01)
        notify(2 * len(chunk))

    run_chunks(work, cut(10, 4), lambda _: None, workers=1, total=20, progress=True)
    assert shown == sorted(shown)
    assert shown[-1] == 20


@pytest.mark.parametrize("where", ["in a chunk", "between chunks"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupt_or_an_error_stops_the_other_threads(error, where):
    kept, begun, stopped = [], [], threading.Event()

    def work(chunk, notify):
        begun.append(chunk.start)
        if chunk.start == 2:
            raise error
        try:
            while chunk.start > 2:
                notify(1)
                time.sleep(0.01)
        except Stopped:
            stopped.set()
            raise
        return chunk.start

    def keep(start):
        kept.append(start)
        if where == "between chunks":
            raise error

    begin = time.monotonic()
    with pytest.raises(error):
        run_chunks(work, cut(100, 1), keep, workers=2, total=100, progress=False)
    assert time.monotonic() - begin < 1.0
    assert kept == ([0, 1] if where == "in a chunk" else [0])
    assert 3 not in begun or stopped.wait(5.0)
    time.sleep(0.05)
    assert len(begun) <= 5  # what was pending does not begin any more


def test_ctrl_c_while_summaries_are_merged_leaves_no_half_of_a_chunk(monkeypatch):
    e = hx.systems.oscillator()
    arguments = {"t1": 1.0, "h": 0.25, "engine": "llvm", "save_every": 3, "observe": {"q": hx.Mean(first, every=1)}}
    part = hx.simulate(e.system, hx.EulerA(), e.start, paths=96, **arguments)
    runner = engines.runner("llvm", e.system, hx.EulerA(), 1, "float64")
    monkeypatch.setattr(runner, "workers", 1)
    monkeypatch.setattr(runner, "chunk", 32)
    combine, calls = hx.Mean.combine, []

    def interrupted(*summaries):
        calls.append(1)
        if len(calls) == 2:  # the fourth chunk: summaries are joined in pairs
            raise KeyboardInterrupt
        return combine(*summaries)

    monkeypatch.setattr(hx.Mean, "combine", interrupted)
    with pytest.raises(hx.Interrupted, match="96 of 100 paths are done") as caught:
        hx.simulate(e.system, hx.EulerA(), e.start, paths=100, **arguments)
    run = caught.value.result
    for name in ("q", "p", "status", "residual"):
        np.testing.assert_array_equal(getattr(run, name), getattr(part, name))
    np.testing.assert_array_equal(run.state.q, part.state.q)
    np.testing.assert_array_equal(run.observed["q"].mean, part.observed["q"].mean)
    assert run.observed["q"].count.tolist() == [96] * 5
