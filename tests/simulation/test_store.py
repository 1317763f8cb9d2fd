"""Runs that are kept in a store: the same to the last bit, however they were interrupted, extended or damaged."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import holonax as hx
from holonax.simulation import keeping, stored
from holonax.simulation.keeping import Keeper
from holonax.simulation.segments import Stepper
from holonax.store import files
from holonax.store.ledger import lock_of
from support import AVAILABLE, heavy, mostly

E = hx.systems.pendulum()
ARGUMENTS = {"h": 2.0**-6, "seed": 3, "save_every": 2, "progress": False}
SEEN = {
    "energy": hx.Mean(E.system.energy, every=4),
    "height": hx.Histogram(lambda q, p: q[2], [-1.0, 0.0, 1.0]),
    "along": hx.Moments(lambda q, p: q, over="time"),
    "far": hx.Max(lambda q, p: q[0], every=3),
    "memory": hx.Autocorrelation(lambda q, p: q[2], 5),
}


def simulate(**options):
    options = {"t1": 3.0, "paths": 70, **ARGUMENTS, **options}
    return hx.simulate(E.system, hx.EulerA(), E.start, **options)


def same(run, whole):
    """Every byte of the arrays."""
    for name in ("t", "q", "p", "status", "failed_step", "residual", "iterations"):
        one, other = (np.asarray(getattr(x, name)) for x in (run, whole))
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes(), name
    for one, other in zip(run.state[:2], whole.state[:2], strict=True):
        assert one.tobytes() == other.tobytes()
    assert list(run.observed) == list(whole.observed)
    for name, result in whole.observed.items():
        for field, value in vars(result).items():
            assert np.asarray(getattr(run.observed[name], field)).tobytes() == np.asarray(value).tobytes(), (
                name,
                field,
            )
    return True


class Interrupt:
    """Stops the work at its so-and-so-many-th word, as Ctrl-C would, or at once as SIGKILL would."""

    def __init__(self, monkeypatch, after, kill):
        self.left, self.kill = after, kill
        run = Keeper.run

        def interrupted(keeper, chunk, notify):
            def counted(done):
                notify(done)
                self.left -= 1
                if self.left < 0:
                    raise keeping.Stopped if not self.kill else Killed

            return run(keeper, chunk, counted)

        monkeypatch.setattr(Keeper, "run", interrupted)


class Killed(BaseException):
    """Nothing is committed any more."""


@pytest.fixture
def often(monkeypatch):
    """Commit after every call of the engine."""
    monkeypatch.setattr(keeping, "COMMIT_SECONDS", 0.0)


@pytest.fixture(scope="module")
def whole():
    return simulate(observe=SEEN)


@pytest.mark.parametrize("kill", [False, True])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(tmp_path, monkeypatch, often, whole, kill):
    store, interruptions = tmp_path / "run.zarr", -1
    while interruptions < 0 or not hx.open(store).complete:
        interruptions += 1
        with monkeypatch.context() as patch, suppress(keeping.Stopped, Killed):
            Interrupt(patch, interruptions % 5, kill)
            simulate(observe=SEEN, store=store)
    assert interruptions >= 2
    assert same(hx.resume(store, observe=SEEN), whole)


@pytest.mark.parametrize(("name", "method"), [("torus", hx.Kicked()), heavy("ellipsoid", hx.EulerA())], ids=str)
@pytest.mark.parametrize("engine", mostly(AVAILABLE))
def test_every_engine_goes_on_bit_for_bit(tmp_path, monkeypatch, often, optimised, engine, name, method):
    monkeypatch.setattr(Stepper, "_learn", lambda *_: None)  # calls stay short: ten words for each chunk
    e, store = getattr(hx.systems, name)(), tmp_path / "run.zarr"
    arguments = {"t1": 8.0, "h": 2.0**-6, "paths": 20, "seed": 1, "engine": engine, "progress": False}
    arguments["observe"] = {"energy": hx.Mean(e.system.energy, every=2)}
    whole = hx.simulate(e.system, method, e.start, **arguments)
    with monkeypatch.context() as patch:
        Interrupt(patch, 5, kill=True)
        with pytest.raises(Killed):
            hx.simulate(e.system, method, e.start, store=store, **arguments)
    begun = hx.open(store)
    assert begun.progress.max() > 0
    assert not begun.complete
    assert same(hx.resume(store, progress=False), whole)


def test_paths_that_failed_stay_where_they_are(tmp_path, monkeypatch, often):
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: q @ q - 1.0, lambda q: 4.0 * q, n=2)
    start = hx.start(system, [[1.0, 0.0]] * 6, [[0.0, 1.0 + 2 * k] for k in range(6)])
    arguments = {"t0": 1.0, "t1": 9.0, "h": 0.0625, "on_failure": "mark", "progress": False}
    whole = hx.simulate(system, hx.EulerA(), start, **arguments)
    assert 0 < np.count_nonzero(whole.status) < 6
    with monkeypatch.context() as patch:
        Interrupt(patch, 2, kill=True)
        with pytest.raises(Killed):
            hx.simulate(system, hx.EulerA(), start, store=tmp_path / "run.zarr", **arguments)
    run = hx.resume(tmp_path / "run.zarr", system, on_failure="mark", progress=False)
    assert run.first_step == 16
    assert same(run, whole)
    with pytest.raises(hx.SimulationError, match="of 6 paths failed"):
        hx.resume(tmp_path / "run.zarr", system)


def test_neighbour_lists_are_made_again(tmp_path, monkeypatch, often):
    near = hx.pairs(1.5, skin=0.4, box=6.0)
    system = hx.System(
        lambda q, v, *, near: 0.5 * v @ v - near.sum(lambda r2: 2.0 * (1.5**2 - r2) ** 2, q), parameters={"near": near}
    )
    x = np.stack(np.meshgrid([0.0, 2.0, 4.0], [0.0, 3.0], [0.0, 3.0]), axis=-1).reshape(-1)
    start = hx.start(system, q=x, v=np.sin(np.arange(36.0)))
    arguments = {"t1": 1.0, "h": 2.0**-6, "paths": 2, "progress": False, "observe": {"H": hx.Mean(system.energy)}}
    whole = hx.simulate(system, hx.Rattle(), start, **arguments)
    with monkeypatch.context() as patch:
        Interrupt(patch, 9, kill=True)
        with pytest.raises(Killed):
            hx.simulate(system, hx.Rattle(), start, store=tmp_path / "run.zarr", **arguments)
    assert same(hx.resume(tmp_path / "run.zarr", system, progress=False), whole)


@pytest.mark.parametrize("save_every", [2, heavy(None)])
def test_a_run_is_extended(tmp_path, save_every):
    store = tmp_path / "run.zarr"
    seen = {name: SEEN[name] for name in ("energy", "height", "memory")} | {"end": hx.Mean(E.system.energy)}
    options = {"observe": seen, "save_every": save_every}
    simulate(store=store, **options)
    assert same(hx.resume(store, t1=4.0, observe=seen), simulate(t1=4.0, **options))
    longer = simulate(t1=4.0, paths=100, **options)
    assert same(hx.resume(store, paths=100, observe=seen), longer)
    assert same(simulate(t1=4.0, paths=100, store=store, **options), longer)
    with xarray.open_zarr(store) as dataset:
        assert dataset.equals(longer.to_xarray())


def test_another_run_is_refused(tmp_path):
    store = tmp_path / "run.zarr"
    simulate(store=store, observe={"energy": hx.Mean(E.system.energy)})
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    seen = {"energy": hx.Mean(E.system.energy)}
    for words, options in {
        "seed = 4 instead of 3": {"seed": 4},
        "save_every = 4 instead of 2": {"save_every": 4},
        "h = 0.03125 instead of 0.015625": {"h": 2.0**-5},
        "dtype = 'float32' instead of 'float64'": {"dtype": "float32"},
        "t1 = 3.0 already, beyond t1 = 2.0": {"t1": 2.0},
        "paths = 70 already, beyond paths = 7": {"paths": 7},
        "every = 4 instead of None": {"observe": {"energy": hx.Mean(E.system.energy, every=4)}},
        "another function in observe": {"observe": {"energy": hx.Mean(lambda q, p: q[0])}},
        r"observe = \[\] instead": {"observe": None},
    }.items():
        with pytest.raises(hx.InputError, match=words):
            simulate(store=store, **{"observe": seen, **options})
    with pytest.raises(hx.InputError, match="another system than 3 coordinates"):
        hx.resume(store, hx.systems.pendulum(sigma=0.5).system)
    other = hx.start(E.system, [0.0, 1.0, 0.0])
    with pytest.raises(hx.InputError, match=r"start\.q differs"):
        hx.simulate(E.system, hx.EulerA(), other, t1=3.0, paths=70, store=store, observe=seen, **ARGUMENTS)
    simulate(store=tmp_path / "few.zarr", observe={"energy": hx.Mean(E.system.energy, over="all")}, paths=3)
    with pytest.raises(hx.InputError, match="whose batches depend"):
        hx.resume(tmp_path / "few.zarr", t1=5.0)
    assert before == {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def swinging(**parameters):
    return hx.System(
        lambda q, v, *, mass, gravity: 0.5 * mass * v @ v - gravity @ q,
        lambda q, *, length: q @ q - length**2,
        parameters={"mass": 1.0, "gravity": [0.0, 0.0, 9.81], "length": 1.0, **parameters},
    )


def test_a_system_with_parameters_goes_on(tmp_path):
    system, store = swinging(), tmp_path / "run.zarr"
    start = hx.start(system, [1.0, 0.0, 0.0])
    options = {"h": 2.0**-6, "progress": False}
    hx.simulate(system, hx.Rattle(), start, t1=1.0, store=store, **options)
    assert hx.open(store).how_to_go_on == f"hx.resume({str(store)!r}, system=...)"
    whole = hx.simulate(system, hx.Rattle(), start, t1=2.0, **options)
    assert same(hx.simulate(system, hx.Rattle(), start, t1=2.0, store=store, **options), whole)
    assert same(hx.resume(store, system, t1=2.0), whole)
    for name, value in (("mass", 2.0), ("gravity", [0.0, 0.0, 1.62])):
        with pytest.raises(hx.InputError, match=rf"another run: parameter\.{name} differs"):
            hx.simulate(system.replace(**{name: value}), hx.Rattle(), start, t1=2.0, store=store, **options)


def test_paths_with_parameters_of_their_own_are_added(tmp_path):
    system, store, masses = swinging(), tmp_path / "run.zarr", np.linspace(1.0, 2.0, 40)
    start = hx.start(system, [1.0, 0.0, 0.0])
    options = {"t1": 1.0, "h": 2.0**-6, "progress": False}
    hx.simulate(system, hx.Rattle(), start, parameters={"mass": masses[:20]}, store=store, **options)
    whole = hx.simulate(system, hx.Rattle(), start, parameters={"mass": masses}, **options)
    assert same(hx.simulate(system, hx.Rattle(), start, parameters={"mass": masses}, store=store, **options), whole)
    with pytest.raises(hx.InputError, match=r"parameter\.mass differs"):
        hx.simulate(system, hx.Rattle(), start, parameters={"mass": masses[::-1]}, store=store, **options)


def test_a_run_is_opened_with_its_system(tmp_path):
    system, store = swinging(), tmp_path / "run.zarr"
    run = hx.simulate(system, hx.Rattle(), hx.start(system, [1.0, 0.0, 0.0]), t1=1.0, h=2.0**-6, store=store)
    assert hx.open(store).model is None
    assert hx.open(store, swinging()).model is not None
    assert hx.open(store, swinging()).view().html == run.view().html
    with pytest.raises(
        hx.InputError, match="holds a run of another system, 3 coordinates, 1 constraint, no stochastic"
    ):
        hx.open(store, E.system)
    with pytest.raises(hx.StoreError, match="is not there"):
        hx.open(tmp_path / "nowhere.zarr")


def test_what_cannot_be_found_again_is_asked_for(tmp_path):
    system = hx.System(lambda q, v, *, k: 0.5 * v @ v - 0.5 * k * q @ q, parameters={"k": 2.0}, n=1)
    start = hx.start(system, [1.0])
    arguments = {"t1": 1.0, "h": 0.125, "store": tmp_path / "run.zarr", "progress": False}
    stiff = hx.simulate(system, hx.Rattle(), start, parameters={"k": [1.0, 2.0, 3.0]}, **arguments)
    with pytest.raises(hx.InputError, match=r"pass it again: hx\.resume"):
        hx.resume(tmp_path / "run.zarr")
    run = hx.resume(tmp_path / "run.zarr", system, t1=2.0)
    np.testing.assert_array_equal(run.parameters["k"], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(run.q[:, :9], stiff.q[:, :9])
    simulate(store=tmp_path / "seen.zarr", observe=SEEN)
    with pytest.raises(hx.InputError, match=r"observe\['height'\].* pass the observables again"):
        hx.resume(tmp_path / "seen.zarr")


def test_damage_is_found_repaired_and_told(tmp_path, whole):
    store = tmp_path / "run.zarr"
    run = simulate(store=store, observe=SEEN)
    chunks = sorted(store.glob("q/c/*/0/0"))
    assert len(chunks) == 3
    chunks[0].write_bytes(chunks[0].read_bytes()[:-30])
    data = bytearray(chunks[1].read_bytes())
    data[100] ^= 4
    chunks[1].write_bytes(data)
    record = store / "status" / "records" / "chunk-2"
    record.write_bytes(record.read_bytes()[:1000])
    with pytest.raises(hx.StoreError, match=r"is damaged; hx\.resume"):
        run.q[0]
    with pytest.warns(UserWarning, match="computed again") as caught:
        again = hx.resume(store, observe=SEEN)
    told = sorted(str(warning.message) for warning in caught)  # threads find it in any order
    assert len(told) == 3
    assert "paths 0 to 31 were computed again, for there was damage in q/c/0/0/0" in told[0]
    assert same(again, whole)
    (store / "p" / "c" / "1" / "0" / "0").unlink()
    with pytest.warns(UserWarning, match="p/c/1/0/0, which is missing"):
        assert same(hx.resume(store, observe=SEEN), whole)


def test_a_store_is_locked_while_it_is_written(tmp_path, whole):
    store = tmp_path / "run.zarr"
    simulate(store=store, observe=SEEN)
    lock = lock_of(store)
    assert not lock.exists()
    here = {"host": os.uname().nodename, "pid": os.getpid(), "boot": "", "began": "", "key": "x"}
    here["space"] = os.readlink("/proc/self/ns/pid")
    here["boot"] = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    here["began"] = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    lock.write_text(json.dumps(here))
    with pytest.raises(hx.StoreError, match=f"is being written by process {os.getpid()}"):
        hx.resume(store, observe=SEEN)
    assert hx.open(store).complete  # to read is allowed
    lock.write_text(json.dumps(here | {"host": "elsewhere"}))
    with pytest.raises(hx.StoreError, match="on elsewhere; wait for it"):
        hx.resume(store, observe=SEEN)
    lock.write_text(json.dumps(here | {"pid": 2**22 - 1, "space": "of a container"}))
    with pytest.raises(hx.StoreError, match="is being written by process"):
        hx.resume(store, observe=SEEN)
    for nobody in ("[1]", "5", "null", '{"pid": 1}'):
        lock.write_text(nobody)
        assert same(hx.resume(store, observe=SEEN), whole)
    for stale in ({"began": "1"}, {"pid": 2**22 - 1}, {"boot": "another"}):
        lock.write_text(json.dumps(here | stale))
        assert same(hx.resume(store, observe=SEEN), whole)
        assert not lock.exists()


def test_a_full_disk_is_told_and_survived(tmp_path, monkeypatch, whole, often):
    store, write, left = tmp_path / "run.zarr", files.write_whole, [40]

    def until_full(path, data, *, durable=True):
        left[0] -= 1
        if left[0] < 0:
            with files.writing(path):
                raise OSError(28, "No space left on device")
        write(path, data, durable=durable)

    with monkeypatch.context() as patch:
        for module in ("holonax.store.files", "holonax.store.records", "holonax.store.arrays"):
            patch.setattr(f"{module}.write_whole", until_full)
        with pytest.raises(hx.StoreError, match="No space left on device; free some space"):
            simulate(store=store, observe=SEEN)
    partly = hx.open(store)
    assert not partly.complete
    assert same(hx.resume(store, observe=SEEN), whole)


def test_a_folder_that_cannot_be_written_or_is_something_else(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hx.InputError, match="is not a store"):
        simulate(store=tmp_path / "file")
    with pytest.raises(hx.InputError, match="is not a store"):
        simulate(store=tmp_path)
    with pytest.raises(hx.StoreError, match=r"cannot write .*(Read-only|denied|No such|Not a dir|not permitted)"):
        simulate(store="/proc/run.zarr")
    with pytest.raises(hx.StoreError, match="is not there"):
        hx.open(tmp_path / "nothing.zarr")
    with pytest.raises(hx.InputError, match="must be the name of a folder"):
        simulate(store=3)
    for memory in ("much", -1, "1 XB", True, [1]):
        with pytest.raises(hx.InputError, match="must be a size such as"):
            simulate(store=tmp_path / "run.zarr", memory=memory)
    with pytest.raises(hx.InputError, match="is not enough"):
        simulate(store=tmp_path / "run.zarr", memory="1MB")
    with pytest.raises(hx.InputError, match="more than memory = 0 MiB; write them to disk with store="):
        simulate(memory="1kB")
    assert not (tmp_path / "run.zarr" / "zarr.json").exists()


def test_xarray_and_netcdf_read_it(tmp_path, whole):
    run = simulate(store=tmp_path / "run.zarr", observe=SEEN)
    with xarray.open_zarr(tmp_path / "run.zarr") as dataset:
        assert dataset.q.dims == ("path", "time", "coordinate")
        assert dataset.equals(whole.to_xarray())
        assert dataset.equals(run.to_xarray())
        assert dataset.attrs["method"] == "EulerA"
        assert dataset.q.attrs["long_name"] == "positions"
        np.testing.assert_array_equal(dataset.energy_mean.sel(energy_time=1.0), whole.observed["energy"].mean[16])
    for number, one in enumerate((run, whole)):
        one.to_netcdf(tmp_path / f"{number}.nc")
        with xarray.open_dataset(tmp_path / f"{number}.nc") as dataset:
            assert dataset.equals(whole.to_xarray())


def test_units_are_in_stores_datasets_and_figures(tmp_path):
    system = hx.System(lambda q, v: 0.5 * v @ v, units={"q": "nm", "time": "ps"})
    start = hx.start(system, [1.0], [1.0])
    for store in (None, tmp_path / "run.zarr"):
        run = hx.simulate(system, hx.EulerA(), start, t1=1.0, h=0.5, store=store)
        run.to_netcdf(tmp_path / "run.nc")
        for data in (run.to_xarray(), xarray.load_dataset(tmp_path / "run.nc")):
            assert [data[name].attrs.get("units") for name in ("q", "time", "p", "status")] == ["nm", "ps", None, None]
        axes = run.plot().axes
        assert [axes[0].get_xlabel(), axes[1].get_xlabel(), axes[1].get_ylabel()] == ["t (ps)", "q[0] (nm)", "p[0]"]
    for bad in ("nm", {"q": 1}, {"length": "nm"}):
        with pytest.raises(hx.InputError, match="units"):
            hx.System(lambda q, v: 0.5 * v @ v, units=bad)


def test_arrays_on_disk_behave_like_arrays(tmp_path, whole):
    import pickle

    run = simulate(store=tmp_path / "run.zarr", observe=SEEN)
    lazy, known = run.q, whole.q
    assert (lazy.shape, lazy.dtype, lazy.ndim, len(lazy), lazy.nbytes) == (
        known.shape,
        known.dtype,
        3,
        70,
        known.nbytes,
    )
    for index in (3, (slice(None), -1), (..., 0), ([1, 5, 2], 4), (slice(2, 9, 3), slice(None, None, 7)), known > 0.5):
        np.testing.assert_array_equal(lazy[index], known[index])
    with pytest.raises(IndexError):
        lazy[70]
    np.testing.assert_array_equal(2 * lazy - run.p**2, 2 * known - whole.p**2)
    assert np.abs(lazy).max() == np.abs(known).max()
    assert lazy.mean(axis=0).tobytes() == known.mean(axis=0).tobytes()
    again = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(again.q[5], known[5])
    assert again.origin == "pendulum()"
    assert repr(again).splitlines()[:4] == repr(whole).splitlines()[:4]


def test_a_run_knows_its_system(tmp_path):
    run = simulate(paths=2)
    assert run.model == E.system
    assert run.origin == "pendulum()"
    simulate(paths=2, store=tmp_path / "run.zarr")
    opened = hx.open(tmp_path / "run.zarr")
    assert opened.model.energy(opened.q[0, 0], opened.p[0, 0]) == E.system.energy(E.start.q, E.start.p)
    assert hx.systems.chain(beads=3).system.replace().origin == "chain(beads=3)"


LONG = """
    import sys, time
    import holonax as hx
    from holonax.simulation import keeping
    keeping.COMMIT_SECONDS = 0.05
    e = hx.systems.chain(3, 0.3)
    seen = {"z": hx.Moments(lambda q, p: q[2], every=16)}
    arguments = dict(t1=40.0, h=2.0**-9, paths=200, seed=5, save_every=64, observe=seen, progress=False)
    print("ready", flush=True)
    run = hx.simulate(e.system, hx.Rattle(), e.start, store=sys.argv[1] if len(sys.argv) > 1 else None, **arguments)
    print("done", flush=True)
"""


def killed(store, generator):
    """Kill a process that works on the store at a random moment; whether it was done by then."""
    command = [sys.executable, "-c", textwrap.dedent(LONG), str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "ready"
        while not (store / "zarr.json").exists() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(generator.uniform(0.0, 1.5))
        process.send_signal(signal.SIGKILL)
        return process.stdout.readline().strip() == "done"


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.study)])
def test_killed_processes_leave_what_can_be_gone_on_with(tmp_path, kills):
    generator, store, number = np.random.default_rng(kills), tmp_path / "0.zarr", 0
    e = hx.systems.chain(3, 0.3)
    seen = {"z": hx.Moments(lambda q, p: q[2], every=16)}
    arguments = {"t1": 40.0, "h": 2.0**-9, "paths": 200, "seed": 5, "save_every": 64, "observe": seen}
    whole = hx.simulate(e.system, hx.Rattle(), e.start, progress=False, **arguments)
    for _ in range(kills):
        if killed(store, generator):
            number += 1
            store = tmp_path / f"{number}.zarr"
    if (store / "zarr.json").exists():
        partly = hx.open(store)
        print(f"{number} complete before the last kill; {np.mean(partly.progress) / partly.steps:.1%} of the last one")
        known = (partly.progress[:, None] >= np.arange(0, 40 * 2**9 + 1, 64)) & (partly.status[:, None] == 0)
        assert (np.asarray(partly.q)[known] == whole.q[known]).all()  # what is said to be done is there
    assert same(hx.simulate(e.system, hx.Rattle(), e.start, store=store, progress=False, **arguments), whole)


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, whole, often):
    class Impatient(stored._Summaries):
        def add(self, chunk):
            super().add(chunk)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stored, "_Summaries", Impatient)
        with pytest.raises(hx.Interrupted, match=r"go on with hx\.resume\('.*run\.zarr', observe=\.\.\.\)") as caught:
            simulate(store=tmp_path / "run.zarr", observe=SEEN)
    assert "\n" not in str(caught.value)
    run = caught.value.result
    assert run.progress[0] == 192
    np.testing.assert_array_equal(run.q[:32], whole.q[:32])
    with xarray.open_zarr(tmp_path / "run.zarr") as dataset:
        assert dataset.attrs["state"] == "interrupted"
    assert same(hx.resume(tmp_path / "run.zarr", observe=SEEN), whole)


def test_a_run_is_read_while_it_is_written(tmp_path, monkeypatch, often, whole):
    store, commit, looks = tmp_path / "run.zarr", keeping.Kept.commit, []

    def looked_at(kept, segment):
        point = commit(kept, segment)
        run = hx.open(store)
        looks.append(int(run.progress.sum()))
        known = (run.progress[:, None] >= np.arange(0, 193, 2)) & (run.status[:, None] == 0)
        assert (run.q[:][known] == whole.q[known]).all()
        with xarray.open_zarr(store) as dataset:
            assert dataset.attrs["state"] == "running"
            assert np.isnan(dataset.q.values).any() or hx.open(store).complete  # others write meanwhile
        assert set(np.unique(run.status)) <= {0, -2}
        return point

    monkeypatch.setattr(keeping.Kept, "commit", looked_at)
    simulate(store=store, observe=SEEN)
    assert len(looks) > 5


def test_memory_stays_below_the_bound(tmp_path):
    code = """
        import sys
        from pathlib import Path
        import holonax as hx
        e = hx.systems.pendulum()
        run = hx.simulate(e.system, hx.EulerA(), e.start, t1=2.0, h=2.0**-7, paths=2**15, store=sys.argv[1],
                          memory="700MiB", progress=False)
        # not getrusage, which counts what the process was before it became this program
        most = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        print(run.q.nbytes * 2, 1024 * int(most.split()[1]))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "run.zarr")]
    size, most = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert size > 400e6
    print(f"{size / 2**20:.0f} MiB of states, {most / 2**20:.0f} MiB resident at most")
    assert most < 700 * 2**20


def test_results_do_not_depend_on_cores_and_chunks(monkeypatch, whole):
    from holonax import engines

    runner = engines.runner("llvm", E.system, hx.EulerA(), 3, "float64")
    for workers, chunk in ((1, 4096), (5, 32), (2, 64)):
        monkeypatch.setattr(runner, "workers", workers)
        monkeypatch.setattr(runner, "chunk", chunk)
        monkeypatch.setitem(runner.quick, 32, 64 + workers)
        assert same(simulate(observe=SEEN), whole)


def test_functions_keep_their_fingerprint_in_another_process():
    from holonax.mechanics.closures import fingerprint_of
    from support import python

    code = """
import holonax as hx, jax, jax.numpy as jnp
from holonax.mechanics.closures import fingerprint_of
s = hx.System(lambda q, v: 0.5 * v @ v - jax.nn.softplus(q[0]) - jnp.linalg.norm(q), lambda q: q @ q - 1.0, n=3)
print(fingerprint_of(s, 3))
"""
    one = python(code)
    system = hx.System(
        lambda q, v: 0.5 * v @ v - jax.nn.softplus(q[0]) - jnp.linalg.norm(q), lambda q: q @ q - 1.0, n=3
    )
    assert fingerprint_of(system, 3) == one
    changed = hx.System(lambda q, v: 0.5 * v @ v - jnp.linalg.norm(q), lambda q: q @ q - 1.0, n=3)
    assert fingerprint_of(changed, 3) != one


def test_what_is_left_of_a_run_without_its_description_is_not_taken_for_another(tmp_path, whole):
    """After an `rm -r` that was interrupted, say."""
    store = tmp_path / "run.zarr"
    simulate(store=store, seed=4)
    (store / "zarr.json").unlink()
    assert same(simulate(store=store, observe=SEEN), whole)


def test_a_description_that_was_changed_is_found_out(tmp_path):
    store = tmp_path / "run.zarr"
    simulate(store=store)
    text = (store / "zarr.json").read_text()
    (store / "zarr.json").write_text(text.replace('"seed": 3', '"seed": 5'))
    for call in (hx.open, hx.resume):
        with pytest.raises(hx.StoreError, match=r"its zarr\.json is not as it was written"):
            call(store)


@pytest.mark.parametrize("name", ["../evil", "a/b", "a:b", "a\0", ".a", "", 1])
def test_names_of_observables_stay_in_the_store(tmp_path, name):
    with pytest.raises(hx.InputError, match="the name of an observable is that of arrays on the disk"):
        simulate(store=tmp_path / "run.zarr", observe={name: hx.Mean(E.system.energy)})


def test_options_of_observables_may_be_numbers_of_numpy(tmp_path):
    seen = {"energy": hx.Mean(E.system.energy, every=np.int64(4)), "z": hx.Histogram(E.system.energy, np.arange(3.0))}
    run = simulate(store=tmp_path / "run.zarr", observe=seen)
    assert same(hx.resume(tmp_path / "run.zarr"), run)


def test_a_run_that_is_refused_leaves_no_folder(tmp_path):
    with pytest.raises(hx.InputError, match="1 MiB is not enough"):
        simulate(store=tmp_path / "run.zarr", memory="1MiB")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_names_that_no_folder_can_have(name):
    with pytest.raises(hx.InputError, match="store = "):
        simulate(store=name)


@pytest.mark.parametrize("name", [heavy("q"), "done"])
def test_arrays_whose_description_is_damaged(tmp_path, whole, name):
    store = tmp_path / "run.zarr"
    simulate(store=store, observe=SEEN)
    for content in (None, b"{", b"\xff"):
        file = store / name / "zarr.json"
        file.unlink() if content is None else file.write_bytes(content)
        with pytest.raises(hx.StoreError, match=r"missing or damaged; hx\.resume"):
            np.asarray(hx.open(store).q)
        assert same(hx.resume(store, observe=SEEN), whole)


def test_starts_are_there_whenever_adding_paths_is_interrupted(tmp_path, monkeypatch):
    q = np.linspace(0.1, 1.0, 40)[:, None]
    system = hx.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, noise=lambda q: 0.3 * q)
    start = hx.start(system, q)
    few, options = hx.State(*(x[:20] for x in start)), {"t1": 1.0, "h": 2.0**-5, "progress": False}
    store = tmp_path / "run.zarr"
    before = hx.simulate(system, hx.EulerA(), few, store=store, **options)
    with monkeypatch.context() as patch:
        patch.setattr(stored, "describe", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            hx.simulate(system, hx.EulerA(), start, store=store, **options)
    assert same(hx.resume(store, system), before)
    whole = hx.simulate(system, hx.EulerA(), start, **options)
    assert same(hx.simulate(system, hx.EulerA(), start, store=store, **options), whole)
    assert same(hx.resume(store, system), whole)


def test_the_lock_is_held_until_nobody_writes(tmp_path, monkeypatch, often):
    """Also when it is an error that ends the run: of two chunks one fails, while the other is being written."""
    store, write, writing = tmp_path / "run.zarr", files.write_whole, threading.Event()

    def slow(path, data, **options):
        if path.name == "chunk-0":
            writing.set()
            time.sleep(0.5)
            assert lock_of(store).exists()
        if path.name == "chunk-1" and writing.wait(5.0):
            raise hx.StoreError("no space")
        write(path, data, **options)

    monkeypatch.setattr("holonax.store.records.write_whole", slow)
    with pytest.raises(hx.StoreError, match="no space"):
        simulate(store=store)
    assert hx.open(store).progress[0] > 0
