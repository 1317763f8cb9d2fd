"""Runs on a Dask cluster: the same to the last bit, whoever computes them, and whatever is lost on the way."""

import _thread
import importlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import cloudpickle
import numpy as np
import pytest
from distributed import Client, LocalCluster
from test_store import same

import holonax as hx
from holonax import engines
from holonax.simulation import cluster, crew, exchange, keeping, tasks
from holonax.simulation.plan import Plan
from holonax.simulation.segments import Stepper
from holonax.simulation.shapes import Shapes
from holonax.store.ledger import records_of
from support import heavy

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # or workers would import this file

SYSTEM = hx.System(
    lambda q, v, *, mass: 0.5 * mass * v @ v, lambda q: q @ q - 1.0, lambda q: 4.0 * q, n=2, parameters={"mass": 1.0}
)
PATHS = 300
START = hx.start(SYSTEM, [[1.0, 0.0]] * PATHS, [[0.0, 1.0 + 0.03 * k] for k in range(PATHS)])
SEEN = {"mean": hx.Mean(lambda q, p: q * p[1], every=4), "along": hx.Moments(lambda q, p: q[0], over="time")}
ARGUMENTS = {
    "t0": 1.0, "t1": 9.0, "h": 0.0625, "seed": 3, "save_every": 3, "observe": SEEN, "on_failure": "mark",
    "parameters": {"mass": np.linspace(1.0, 1.1, PATHS)}, "progress": False,
}  # fmt: skip


def simulate(**options):
    return hx.simulate(SYSTEM, hx.EulerA(), START, **ARGUMENTS | options)


@pytest.fixture(scope="module")
def workers():
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit=None) as workers:
        yield workers


@pytest.fixture(scope="module")
def client(workers):
    with Client(workers, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def whole():
    """By one thread."""
    program = engines.runner("auto", SYSTEM.form, hx.EulerA(), 2, "float64")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "workers", 1)
        run = simulate()
    assert 0 < np.count_nonzero(run.status) < PATHS
    return run


@contextmanager
def meanwhile(action, store):
    """Do something while a run is underway: once its first chunk is complete."""
    done = []

    def wait():
        while not list(records_of(store).folder.glob("chunk-*")):
            time.sleep(0.01)
        done.append(hx.open(store).complete)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()
    assert done == [False]


def slowly():
    """In a worker: every chunk takes a while."""
    fast = tasks._Report.__call__

    def report(self, done):
        time.sleep(0.05)
        fast(self, done)

    tasks._Report.__call__ = report
    tasks._Report.fast = fast


def as_before():
    tasks._Report.__call__ = getattr(tasks._Report, "fast", tasks._Report.__call__)


@pytest.fixture
def slow(client):
    client.run(slowly)
    yield
    client.run(as_before)


@pytest.mark.parametrize("count", [heavy(1), 3])
def test_the_number_of_workers_changes_no_bit(tmp_path, workers, client, whole, count):
    assert same(simulate(), whole)  # by all cores
    workers.scale(count)
    client.wait_for_workers(count)
    assert same(simulate(cluster=hx.Dask(client)), whole)
    assert same(simulate(cluster=hx.Dask(client), store=tmp_path / "run.zarr"), whole)


def test_a_store_that_workers_do_not_see_is_written_by_the_client(tmp_path, monkeypatch, client, whole):
    monkeypatch.setattr(exchange, "sees", lambda store, run: False)
    client.run(setattr, tasks, "_PARCEL", 0)  # the way of a chunk is cut into as many tasks as there can be
    asked = []
    ask = exchange.ToStore.ask
    monkeypatch.setattr(exchange.ToStore, "ask", lambda self, chunk: asked.append(chunk) or ask(self, chunk))
    assert same(simulate(cluster=hx.Dask(client), store=tmp_path / "run.zarr"), whole)
    assert len(asked) > len(set(asked)) > 3
    (tmp_path / "run.zarr" / "q" / "c" / "1" / "0" / "0").write_bytes(b"")
    with pytest.warns(UserWarning, match="paths 32 to 63 were computed again"):
        assert same(resumed(tmp_path / "run.zarr", cluster=hx.Dask(client)), whole)


def resumed(store, **options):
    return hx.resume(store, SYSTEM, observe=SEEN, on_failure="mark", progress=False, **options)


def test_a_lost_worker_changes_nothing(tmp_path, client, whole, slow):
    store, victim = tmp_path / "run.zarr", next(iter(client.run(os.getpid).values()))
    with meanwhile(lambda: os.kill(victim, signal.SIGKILL), store):
        run = simulate(cluster=hx.Dask(client), store=store)
    assert same(run, whole)
    assert victim not in client.run(os.getpid).values()


def test_an_interrupted_run_goes_on_anywhere(tmp_path, client, whole, slow):
    store = tmp_path / "run.zarr"
    with (
        meanwhile(_thread.interrupt_main, store),
        pytest.raises(hx.Interrupted, match=r"go on with hx\.resume") as found,
    ):
        simulate(cluster=hx.Dask(client), store=store)
    assert 0 < found.value.result.progress.mean() < 128
    half = tmp_path / "half.zarr"
    shutil.copytree(store, half)
    assert same(resumed(half), whole)
    assert same(resumed(store, cluster=hx.Dask(client)), whole)


CLUSTER = """
import time
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        time.sleep(600)
"""


@pytest.mark.study
def test_the_loss_of_the_scheduler_is_reported(tmp_path):
    """And its worker, which goes on for a while, does no harm."""
    store, script = tmp_path / "run.zarr", tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        address = process.stdout.readline().decode().strip()
        with Client(address, set_as_default=False) as client:
            client.run(slowly)
        with meanwhile(process.kill, store), pytest.raises(hx.ClusterError, match=r"is lost; .* go on with hx.resume"):
            simulate(cluster=hx.Dask(address), store=store, observe=None)
    assert same(hx.resume(store, SYSTEM, on_failure="mark", progress=False), simulate(observe=None))


def test_a_worker_whose_chunk_was_given_to_another_writes_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "COMMIT_SECONDS", 0.0)
    unused = {"first_step": None, "paths": None, "engine": "auto", "dtype": "float64"}
    plan = Plan.of(SYSTEM, hx.EulerA(), START, **{k: x for k, x in ARGUMENTS.items() if k != "progress"}, **unused)
    stepper = Stepper(plan, engines.runner("auto", plan.form, plan.method, plan.n, plan.dtype))
    records, told = records_of(tmp_path), []
    errand = tasks.Keeping(tmp_path, Shapes.of(plan, 32, 8), "this run")
    with pytest.raises(hx.ClusterError, match="does not see"):
        errand.do(stepper, range(32), told.append)
    for name, words in {tasks.TOKEN: {"run": "another run"}, "claim-0": {"by": "another worker"}}.items():
        records.write(tasks.TOKEN, {"run": "this run"}, {})
        told.clear()

        def notify(done, name=name, words=words):
            told.append(done)
            records.write(name, words, {})

        with pytest.raises(hx.ClusterError, match="was given to others"):
            errand.do(stepper, range(32), notify)
        assert len(told) == 1
        assert records.read("chunk-0").words["step"] == told[0] / 32 < plan.steps


def test_progress_is_that_of_all_chunks(monkeypatch, client, slow):
    shown = []
    monkeypatch.setattr(crew.Bar, "update", lambda bar, done: shown.append(done / bar.total))
    client.run(setattr, tasks, "_REPORT_SECONDS", 0.0)
    simulate(cluster=hx.Dask(client))
    assert shown == sorted(shown)
    assert any(0 < x * PATHS % 64 != PATHS % 64 for x in shown)  # with parts of chunks, which have 64 paths
    assert 0.5 < shown[-1] <= 1


def test_what_cannot_be_a_cluster_is_refused(monkeypatch):
    with pytest.raises(hx.InputError, match=r"hx.Dask\(3\): must be a distributed.Client or the address"):
        hx.Dask(3)
    with pytest.raises(hx.InputError, match=r"cluster = 'tcp://127.0.0.1:1'.*pass hx.Dask"):
        simulate(cluster="tcp://127.0.0.1:1")
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.5)
    for address, words in {"tcp://127.0.0.1:1": "no scheduler answers there", "nowhere://x": "nowhere"}.items():
        with pytest.raises(hx.ClusterError, match=words):
            simulate(cluster=hx.Dask(address))


def test_what_cannot_travel_is_named(client):
    lock = threading.Lock()
    seen = {"x": hx.Mean(lambda q, p: q[0]), "y": hx.Mean(lambda q, p: (lock, q[1])[1])}
    with pytest.raises(hx.InputError, match=r"observe\['y'\] cannot be sent to workers .*lock"):
        simulate(observe=seen, cluster=hx.Dask(client))


def test_modules_that_workers_do_not_have_are_named(tmp_path, monkeypatch, client):
    (tmp_path / "only_here.py").write_text("def height(q, p):\n    return q[1]")
    monkeypatch.syspath_prepend(tmp_path)
    seen = {"height": hx.Mean(importlib.import_module("only_here").height)}
    with pytest.raises(hx.ClusterError, match=r"a worker cannot load the system: .*only_here"):
        simulate(observe=seen, cluster=hx.Dask(client))


@pytest.mark.study
def test_a_chunk_that_every_worker_is_lost_with_is_given_up(monkeypatch, workers, client):
    def deadly(q, p):
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return q[0]

    monkeypatch.setattr(workers.scheduler, "allowed_failures", 0)
    monkeypatch.setattr(crew, "_LIVES", 2)
    with pytest.raises(hx.ClusterError, match="workers were lost again and again while they ran paths 0 to"):
        simulate(observe={"x": hx.Mean(deadly)}, cluster=hx.Dask(client))


@pytest.mark.study
def test_a_cluster_of_our_own(whole):
    assert same(simulate(cluster=hx.Dask()), whole)


@pytest.mark.study
def test_threads_of_a_worker_use_several_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0", "memory_limit": None}
    more = {"t1": 1.0, "h": 0.0625, "paths": 5000, "engine": "xla", "progress": False}  # chunks have 2048 paths
    more["observe"] = {"mean": hx.Mean(lambda q, p: q)}
    start = hx.start(SYSTEM, [1.0, 0.0], [0.0, 1.0])
    with LocalCluster(**options, env={"XLA_FLAGS": flags}) as workers, Client(workers, set_as_default=False) as client:
        run = hx.simulate(SYSTEM, hx.EulerA(), start, **more, cluster=hx.Dask(client))
        assert list(client.run(lambda: len(set(tasks._devices.values()))).values()) == [2]
    assert same(run, hx.simulate(SYSTEM, hx.EulerA(), start, **more))
