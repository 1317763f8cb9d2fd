"""What a worker of a cluster does: a chunk of paths, in one of its threads.

An `Order` is what travels to it.  The functions of the user are pickled once for a run, and unpickled once by a worker,
which compiles for them; starts and parameters that each path has of its own go with the chunk of that path.
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, final

import jax
import numpy as np

from holonax.engines import Runner, runner
from holonax.errors import ClusterError, InputError, StoreError
from holonax.report.page import made_with
from holonax.simulation.chunks import Notify, Stopped
from holonax.simulation.keeping import COMMIT_SECONDS, Keeper, Repaired
from holonax.simulation.plan import Plan
from holonax.simulation.recording import Complete, Recorder
from holonax.simulation.segments import Stepper
from holonax.simulation.shapes import Shapes
from holonax.store.files import read_whole, write_whole
from holonax.store.ledger import records_of
from holonax.store.records import DamageError, Records

_REPORT_SECONDS = 0.5  # from one word on how far a chunk is to the next
_PARCEL = 2**25  # bytes of saved states that are sent at a time
_SYSTEMS = 8  # whose functions a worker keeps


class Order(NamedTuple):
    """A chunk of a run, for a worker."""

    run: str  # a name of its own
    functions: bytes  # fields of the plan that hold functions of the user's
    numbers: Mapping[str, Any]  # the others; of the start and of parameters, what concerns the chunk
    chunk: range
    ran_on: str  # name of the engine
    versions: Mapping[str, str]


class Errand(ABC):
    """What is to be done with the chunk; travels with the order."""

    @abstractmethod
    def do(self, stepper: Stepper, chunk: range, notify: Notify) -> Any:
        """Do it, and return what the client asks for."""


def work_on(order: Order, errand: Errand) -> Any:
    """The task; None if the run was stopped before there was anything to return."""
    plan = Plan(**_loaded(order.functions), **order.numbers)
    program = _program(plan, order)
    notify = _Report(order)
    try:
        notify(0)
        with _own_device():
            return errand.do(Stepper(plan, program, order.chunk.start), order.chunk, notify)
    except Stopped:
        return None


@lru_cache(maxsize=_SYSTEMS)
def _loaded(pickled: bytes) -> dict[str, Any]:
    """The same objects for the same bytes, for programs are remembered by the functions in them."""
    import cloudpickle

    try:
        return cloudpickle.loads(pickled)
    except Exception as error:  # whatever modules of the user's do when they are imported
        raise ClusterError(
            f"a worker cannot load the system: {type(error).__name__}: {error}; its environment must have the modules "
            "that the functions of the system and the observables are from"
        ) from error


_alone = threading.Lock()  # of the threads of a worker, one compiles


def _program(plan: Plan, order: Order) -> Runner:
    """The program that the client has as well, of the same name and made by the same versions, or a ClusterError."""
    here = made_with()
    for name in ("holonax", "jax", "machine"):
        if here[name] != order.versions[name]:
            raise ClusterError(
                f"a worker has {name} {here[name]} and the client {order.versions[name]}, whose last digits may "
                "differ; give both the same environment"
            )
    try:
        with _alone:
            program = runner(plan.engine, plan.form, plan.method, plan.n, plan.dtype)
    except InputError as error:
        raise ClusterError(f"a worker cannot do what the client can: {error}") from None
    if program.name != order.ran_on:
        raise ClusterError(f"a worker runs this on the engine {program.name!r} and the client on {order.ran_on!r}")
    return program


_devices: dict[int, Any] = {}  # of threads


def _own_device() -> AbstractContextManager[Any]:
    """Let each thread of a worker use another device of JAX's, if there are several."""
    there = jax.local_devices()
    if len(there) == 1:
        return nullcontext()
    return jax.default_device(_devices.setdefault(threading.get_ident(), there[len(_devices) % len(there)]))


# What client and worker tell each other meanwhile.

_stopped: set[str] = set()


def stop_run(run: str) -> None:
    """Called in every worker: chunks of this run are no longer wanted."""
    _stopped.add(run)


@final
class _Report:
    """Tells the client how far a chunk is, every now and then; raises `Stopped` if nobody wants it any more."""

    def __init__(self, order: Order) -> None:
        from distributed import get_worker

        self.order, self.worker = order, get_worker()
        self.last = time.monotonic()

    def __call__(self, done: int) -> None:
        if self.order.run in _stopped:
            raise Stopped
        if time.monotonic() - self.last > _REPORT_SECONDS:
            self.last = time.monotonic()
            self.worker.log_event(self.order.run, [self.order.chunk.start, done])


# Without a store.


class Recorded(NamedTuple):
    """A chunk on its way to the client's recorder."""

    complete: Complete  # without velocities
    velocities: np.ndarray | None
    arrays: list[np.ndarray]


@final
@dataclass(frozen=True)
class Recording(Errand):
    """Record the chunk, to be sent back."""

    def do(self, stepper: Stepper, chunk: range, notify: Notify) -> Recorded:
        """Run it to its end."""
        recorder = Recorder(stepper.plan, stepper.runner.block, chunk)
        complete = recorder.record(chunk, stepper.segments(chunk), notify)
        fetch = complete.velocities
        velocities = None if fetch is None else fetch()[: len(chunk)]
        return Recorded(complete._replace(velocities=None), velocities, recorder.arrays)


# With a store that workers see.

TOKEN = "cluster"
"""Record in a store of the run whose workers may write there; as long as there is such a run."""


def sees(store: Path, run: str) -> bool:
    """Called in a worker: whether it sees the store, and that this run is the one that may write there."""
    with suppress(StoreError, DamageError):
        record = records_of(store).read(TOKEN)
        return record is not None and record.words["run"] == run
    return False


class Done(NamedTuple):
    """A chunk that is in the store now."""

    complete: Complete
    repaired: list[Repaired]


@final
@dataclass(frozen=True)
class Keeping(Errand):
    """Take the chunk to its end in the store itself."""

    store: Path
    shapes: Shapes
    run: str

    def do(self, stepper: Stepper, chunk: range, notify: Notify) -> Done:
        """Run it, as long as no other worker has been given the same chunk."""
        if not sees(self.store, self.run):
            raise ClusterError(f"a worker does not see {self.store}, which others see; let all of them, or none")
        claim = _Claim(records_of(self.store), chunk.start // self.shapes.chunk)

        def still(done: int) -> None:
            if not (sees(self.store, self.run) and claim.holds()):
                raise ClusterError("the chunk was given to others")
            notify(done)

        keeper = Keeper(stepper.plan, self.shapes, self.store, stepper, stepper.runner.block)
        complete = keeper.run(chunk, still)
        claim.drop()
        return Done(complete, keeper.repaired)


@final
class _Claim:
    """Who works on a chunk of a store.

    A worker that has lost its scheduler goes on for a while.  Whoever is given its chunk then claims that, and the
    former one writes nothing more.
    """

    def __init__(self, records: Records, index: int) -> None:
        self.records, self.name, self.own = records, f"claim-{index}", {"by": uuid.uuid4().hex}
        records.write(self.name, self.own, {})

    def holds(self) -> bool:
        """Whether nobody else has claimed it since."""
        record = self.records.read(self.name)
        return record is not None and record.words == self.own

    def drop(self) -> None:
        """The chunk is complete."""
        self.records.remove(self.name)


# With a store that they do not see.


class Parcel(NamedTuple):
    """Files of a chunk by their names in the store, the record last, and what is known of it if it is complete."""

    files: dict[str, bytes]
    complete: Complete | None


@final
@dataclass(frozen=True)
class Sending(Errand):
    """Take the chunk further, in a store of the worker's own that lasts as long as the task, and send its files.

    `files` are those that it takes to go on.  A part of the way is a task, so that no parcel is large, and little work
    is lost with a worker.
    """

    shapes: Shapes
    files: Mapping[str, bytes]
    done: int  # path-steps of the chunk

    def do(self, stepper: Stepper, chunk: range, notify: Notify) -> Parcel:
        """Run it for some seconds, or until there is enough to be sent."""
        began = time.monotonic()
        plan = stepper.plan
        saved = 2 * plan.n * np.dtype(plan.dtype).itemsize / plan.grid.stride  # bytes of a path-step

        def not_too_far(done: int) -> None:
            notify(done)
            if time.monotonic() - began > COMMIT_SECONDS or (done - self.done) * saved > _PARCEL:
                raise Stopped

        with TemporaryDirectory(prefix="holonax-") as folder:
            store = Path(folder)
            for name, data in self.files.items():
                write_whole(store / name, data, durable=False)
            keeper = Keeper(plan, self.shapes, store, stepper, stepper.runner.block, sent=True)
            try:
                complete = keeper.run(chunk, not_too_far)
            except Stopped:
                complete = None
            return Parcel(dict(_files_in(store)), complete)


def _files_in(store: Path) -> Iterator[tuple[str, bytes]]:
    records = records_of(store).folder
    for file in sorted((x for x in store.rglob("*") if x.is_file()), key=lambda x: x.parent == records):
        yield str(file.relative_to(store)), read_whole(file) or b""
