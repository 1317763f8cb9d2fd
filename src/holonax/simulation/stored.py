"""Runs that are kept in a store: made, gone on with, extended, opened."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from holonax.engines import Runner
from holonax.errors import InputError, Interrupted, StoreError
from holonax.simulation.chunks import Notify, cut, run_chunks
from holonax.simulation.crew import Crew
from holonax.simulation.exchange import exchange_for
from holonax.simulation.keeping import Keeper
from holonax.simulation.observed import as_record, variables_of
from holonax.simulation.opening import open_run
from holonax.simulation.plan import Plan
from holonax.simulation.recording import Complete, results_of
from holonax.simulation.run import Run
from holonax.simulation.segments import Stepper
from holonax.simulation.shapes import Shapes
from holonax.simulation.sizes import Sizes, sizes_for, workers_for
from holonax.simulation.specification import (
    begins,
    check_array_names,
    check_extension,
    check_same,
    name_of_begins,
    specification,
)
from holonax.simulation.tally import Tally
from holonax.simulation.tasks import TOKEN
from holonax.store.arrays import describe, described
from holonax.store.ledger import lock_of, records_of
from holonax.store.lock import locked
from holonax.store.records import DamageError
from holonax.warn import warn

_PUBLISH_SECONDS = 10.0  # from one time that readers are shown the observables to the next
_LAST_SECONDS = 60.0  # that chunks have to be committed after Ctrl-C


def execute_stored(
    plan: Plan, program: Runner, store: Path, memory: float, progress: bool, crew: Crew | None, *, reason: str,
    compiling: float,
) -> Run:  # fmt: skip
    """Do what is planned, as far as it is not in the store yet, and return the run that is there then."""
    with _nothing_left_behind(store), locked(lock_of(store)):
        job = _Job.begin(plan, program, store, memory, crew)
        job.attributes |= {"reason": reason, "seconds": {"compiling": compiling, "running": job.before}}
        job.announce("running")
        for name in records_of(store).names():
            if name.startswith(name_of_begins("")) and name != name_of_begins(plan.paths):
                records_of(store).remove(name)  # of the run before it was extended
        job.run(progress, crew)
    return replace(open_run(store), model=plan.system)


@contextmanager
def _nothing_left_behind(store: Path) -> Iterator[None]:
    """Remove the folders that were made for a run which is then refused, if nothing is in them."""
    new = not store.exists()
    try:
        yield
    except BaseException:
        for folder in (records_of(store).folder, store / "status", store) if new else ():
            with suppress(OSError):  # there is something in it
                folder.rmdir()
        raise


@final
@dataclass(eq=False)
class _Job:
    """The work on one store, by the process that holds its lock."""

    plan: Plan
    program: Runner
    store: Path
    shapes: Shapes
    workers: int
    attributes: dict[str, Any]
    before: float  # seconds that it ran before
    began: float = field(default_factory=time.perf_counter)

    @staticmethod
    def begin(plan: Plan, program: Runner, store: Path, memory: float, crew: Crew | None) -> _Job:
        """Make a store, or check that one is of this run."""
        check_array_names(plan.observe)
        wanted = specification(plan, program.name)
        if not (store / "zarr.json").exists():
            sizes = sizes_for(plan, program, memory, crew.threads if crew else program.workers)
            _clear(store)
            records_of(store).write(name_of_begins(plan.paths), {}, begins(plan))
            there = None
        else:
            there = described(store)
            check_same(store, there, wanted)
            sizes = Sizes(there["chunk_paths"], there["chunk_times"], 0)
            sizes = sizes._replace(workers=workers_for(plan, program, sizes, memory))
        shapes = Shapes.of(plan, sizes.paths, sizes.times)
        attributes = wanted | {"chunk_paths": sizes.paths, "chunk_times": sizes.times}
        before = there["seconds"]["running"] if there else 0.0
        job = _Job(plan, program, store, shapes, sizes.workers, attributes, before)
        if there is not None:
            job.extend(there)
        shapes.write_coordinates(store, plan.times)
        return job

    def extend(self, there: Mapping[str, Any]) -> None:
        """Make room for later times and more paths; what would then be out of date is removed first."""
        check_begins(self.plan, self.store, there["paths"])
        check_extension(self.plan, there)
        records = records_of(self.store)
        for array in self.store.glob("*/zarr.json"):
            if array.parent.name not in self.shapes.variables:  # results of observables
                shutil.rmtree(array.parent)
        if there["steps"] < self.plan.steps and self.plan.save_every is None:
            for name in ("q", "p"):
                shutil.rmtree(self.store / name / "c", ignore_errors=True)
        if there["paths"] < self.plan.paths:
            if there["paths"] % self.shapes.chunk:
                records.remove(f"chunk-{there['paths'] // self.shapes.chunk}")
            records.write(name_of_begins(self.plan.paths), {}, begins(self.plan))
        if (there["paths"], there["steps"]) != (self.plan.paths, self.plan.steps):
            records.remove("observed")

    def announce(self, state: str, more: Mapping[str, Any] | None = None) -> None:
        """Write what the store is, and how it stands."""
        self.attributes["seconds"]["running"] = self.before + time.perf_counter() - self.began
        variables = [*self.shapes.variables.values(), *(more or {}).values()]
        describe(self.store, variables, self.attributes | {"state": state})

    def run(self, progress: bool, crew: Crew | None) -> None:
        """All chunks; those that are complete are only looked at."""
        program = self.program.beside(min(self.workers, -(-self.plan.paths // self.shapes.chunk)))
        keeper = Keeper(self.plan, self.shapes, self.store, Stepper(self.plan, program), program.block)
        summaries = _Summaries(self)
        watch = _Watch(keeper)
        total = self.plan.paths * self.plan.steps
        chunks = cut(self.plan.paths, self.shapes.chunk)
        keeper.records.remove(TOKEN)  # workers of a former run, who may not know that it is over, write no more
        try:
            if crew:
                exchange = exchange_for(keeper, crew.client)
                remedy = f"what is done is in the store; go on with hx.resume({str(self.store)!r})"
                crew.run(self.plan, self.program, exchange, chunks, summaries.add, progress=progress, remedy=remedy)
            else:
                run_chunks(
                    watch.work, chunks, summaries.add, workers=self.workers, total=total, progress=progress,
                    told=summaries.told,
                )  # fmt: skip
        except KeyboardInterrupt:
            watch.wait()
            summaries.publish()
            self.announce("interrupted")
            run = replace(open_run(self.store), model=self.plan.system)
            done = float(np.mean(np.asarray(run.progress))) / self.plan.steps
            message = f"interrupted after {done:.1%} of the work, which is in the store; go on with {run.how_to_go_on}"
            raise Interrupted(message, run) from None
        except BaseException:
            watch.wait()  # nobody may write once the lock is given back
            raise
        self.say(keeper)
        found = summaries.publish()
        arrays = variables_of(found, {name: seen.over for name, seen in self.plan.observe.items()}, self.plan.paths)
        for variable, values in arrays.values():
            variable.write_all(self.store, values)
        self.announce("complete", {name: variable for name, (variable, _) in arrays.items()})

    def say(self, keeper: Keeper) -> None:
        """Warn of chunks that were damaged and computed again."""
        for paths, what in keeper.repaired:
            warn(
                f"{self.store}: paths {paths.start} to {paths.stop - 1} were computed again, for there was damage in "
                f"{what}"
            )


@final
class _Summaries:
    """What all complete chunks have observed, for readers."""

    def __init__(self, job: _Job) -> None:
        self.plan, self.records = job.plan, records_of(job.store)
        self.tallies = {name: Tally(observable) for name, observable in job.plan.observe.items()}
        self.paths = self.chunks = self.failures = 0
        self.number = -(-job.plan.paths // job.shapes.chunk)  # of chunks
        self.last = time.monotonic()

    def add(self, chunk: Complete) -> None:
        """Join a chunk to those before it."""
        for name, tally in self.tallies.items():
            tally.extend(chunk.summaries[name])
        self.paths += chunk.paths
        self.chunks += 1
        self.failures += chunk.failures
        if time.monotonic() - self.last > _PUBLISH_SECONDS:
            self.publish()

    def told(self) -> str:
        """For the progress bar."""
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.chunks} of {self.number} chunks on disk{failed}"

    def publish(self) -> dict[str, Any]:
        """Write the results of the paths that are complete, all of them at once."""
        if not self.paths or not self.tallies:
            return {}
        results = results_of(self.plan, {name: tally.nodes for name, tally in self.tallies.items()})
        self.records.write("observed", *as_record(results, self.paths))
        self.last = time.monotonic()
        return results


@final
class _Watch:
    """Knows which chunks are being worked on, so that one can wait until they are safe."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper, self.busy, self.change = keeper, 0, threading.Condition()

    def work(self, chunk: range, notify: Notify) -> Complete:
        """Run one chunk."""
        with self.change:
            self.busy += 1
        try:
            return self.keeper.run(chunk, notify)
        finally:
            with self.change:
                self.busy -= 1
                self.change.notify_all()

    def wait(self) -> None:
        """Wait until no chunk is being worked on; at most a minute, or until the next Ctrl-C."""
        with suppress(KeyboardInterrupt), self.change:
            self.change.wait_for(lambda: self.busy == 0, timeout=_LAST_SECONDS)


def _clear(store: Path) -> None:
    """Remove what is left of a run whose description is gone: it is not known which run that was."""
    records = records_of(store)
    for name in records.names():
        if name.startswith(_OURS):
            records.remove(name)
    for array in store.glob("*/zarr.json"):
        shutil.rmtree(array.parent / "c", ignore_errors=True)


_OURS = (name_of_begins(""), "chunk-", "observed", TOKEN)  # how names of records begin


def check_begins(plan: Plan, store: Path, paths: int) -> None:
    """Raise unless a plan begins with the numbers that are stored for so many paths, or with these and more paths."""
    try:
        record = records_of(store).read(name_of_begins(paths))
    except DamageError:
        record = None
    if record is None:
        raise StoreError(f"{store}: what the run began with is missing or damaged; begin another store")
    wanted = begins(plan)
    for name, old in record.arrays.items():
        new = wanted.get(name, np.zeros(0))
        more = old.shape == (paths, *old.shape[1:]) and new.shape == (plan.paths, *old.shape[1:])
        if not np.array_equal(new[:paths] if more else new, old):
            raise InputError(f"{store} holds another run: {name} differs. Give what it has, or another store=")
