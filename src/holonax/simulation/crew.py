"""The client's side of a run on a cluster: chunks go out as tasks, come back in any order, and are kept in theirs."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import Any, final

import numpy as np

from holonax.engines import Runner, chosen
from holonax.errors import ClusterError, InputError
from holonax.inputs.checks import instance
from holonax.mechanics.system import State
from holonax.progress import Bar
from holonax.report.page import made_with
from holonax.simulation.cluster import Dask
from holonax.simulation.exchange import Exchange
from holonax.simulation.plan import Plan
from holonax.simulation.recording import Complete
from holonax.simulation.tasks import Order, stop_run, work_on
from holonax.warn import warn

_GLANCE_SECONDS = 0.02
_AHEAD = 3  # chunks underway for each thread of a worker, those included that wait for an earlier one
_LIVES = 3  # how often Dask may give a chunk up, each time after several workers were lost with it
_LAST_SECONDS = 60.0  # that workers have to bring their chunks to safety after Ctrl-C
_LONELY_SECONDS = 30.0  # without any worker, after which the user is told
_TRAVEL = 2**26  # bytes of saved states in a chunk that is sent back whole


@contextmanager
def crew_of(cluster: Any) -> Iterator[Crew | None]:
    """The workers of a cluster; None if there is none, and this process is to do the work."""
    if cluster is None:
        yield None
        return
    instance("cluster", cluster, Dask, 'pass hx.Dask(), hx.Dask(client) or hx.Dask("tcp://...")')
    with cluster.connected() as client:
        yield Crew(client)


@final
class Crew:
    """The workers that a client knows, at least one, for a run needs to know what they can do."""

    def __init__(self, client: Any) -> None:
        self.client, self.address = client, client.scheduler.address
        self.threads = 0  # of all workers, when last looked
        self.told = False
        began = time.monotonic()
        while not self.muster():
            self.tell_if_alone(since=began)
            time.sleep(_GLANCE_SECONDS)

    def muster(self) -> int:
        """Count the threads of the workers that are there."""
        with suppress(OSError):  # if the scheduler is lost, which others find out
            self.threads = sum(self.client.nthreads().values())
        return self.threads

    def tell_if_alone(self, since: float) -> None:
        """Tell the user, once, if there is nobody to do the work."""
        if not self.told and time.monotonic() - since > _LONELY_SECONDS and not self.muster():
            self.told = True
            warn(f"the scheduler at {self.address} has no workers; the run waits for some")

    def chunks(self, plan: Plan) -> int:
        """How many there should be at least when they are sent back: enough to go round, and none too large."""
        size = 2 * plan.paths * plan.grid.times * plan.n * np.dtype(plan.dtype).itemsize
        return max(_AHEAD * self.threads, -(-size // _TRAVEL))

    def run(
        self, plan: Plan, program: Runner, exchange: Exchange, chunks: Iterable[range],
        keep: Callable[[Complete], None], *, progress: bool, remedy: str,
    ) -> None:  # fmt: skip
        """Like `run_chunks`, with workers instead of threads.

        Ctrl-C stops the workers; with an exchange that is lasting, what they have done is waited for.  If the scheduler
        is lost a ClusterError says so, with the remedy.
        """
        with Bar(plan.paths * plan.steps, "path-steps", show=progress) as bar:
            dispatch = _Dispatch(self, _Orders(plan, program), exchange, bar, remedy)
            try:
                for chunk, complete in dispatch.results(chunks):
                    keep(complete)
                    dispatch.finish(chunk)
            finally:
                dispatch.stop()


@final
class _Orders:
    """Makes the orders of one run."""

    def __init__(self, plan: Plan, program: Runner) -> None:
        self.run, self.ran_on, self.versions, self.steps = uuid.uuid4().hex, program.name, made_with(), plan.steps
        self.functions = _pickled({name: getattr(plan, name) for name in _FUNCTIONS})
        self.numbers = {one.name: getattr(plan, one.name) for one in fields(Plan) if one.name not in _FUNCTIONS}
        self.numbers["engine"] = chosen(plan.engine)  # "auto" means what it means here, for all
        self.start = State(*(np.asarray(x) for x in (plan.start.q, plan.start.p, plan.start.guess)))
        self.values = plan.values

    def __call__(self, chunk: range) -> Order:
        rows = slice(chunk.start, chunk.stop)
        start = self.start if self.start.q.ndim == 1 else State(*(x[rows] for x in self.start))
        values = self.values._replace(own={name: x[rows] for name, x in self.values.own.items()})
        numbers = self.numbers | {"start": start, "values": values}
        return Order(self.run, self.functions, numbers, chunk, self.ran_on, self.versions)


_FUNCTIONS = ("system", "method", "observe")
"""Fields of a plan that hold functions of the user's, for which programs are compiled."""


def _pickled(parts: dict[str, Any]) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(parts)
    except Exception as error:  # of any kind: it is objects of the user's that are asked for their parts
        named = {name: getattr(parts["system"], name) for name in ("lagrangian", "constraint", "noise")}
        named |= {f"observe[{name!r}]": x for name, x in parts["observe"].items()} | {"method": parts["method"]}
        name = next((name for name, part in named.items() if not _can_travel(part)), "the system")
        raise InputError(
            f"cluster: {name} cannot be sent to workers ({type(error).__name__}: {error}); leave open files, locks "
            "and the like out of what it refers to"
        ) from None


def _can_travel(part: Any) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(part)
    except Exception:
        return False
    return True


@final
class _Dispatch:
    """Tasks underway, and what has come of them."""

    def __init__(self, crew: Crew, orders: _Orders, exchange: Exchange, bar: Bar, remedy: str) -> None:
        self.crew, self.client, self.orders, self.exchange, self.bar = crew, crew.client, orders, exchange, bar
        self.remedy = remedy
        self.underway: dict[range, Any] = {}  # the futures
        self.complete: dict[range, Complete] = {}  # those that wait for an earlier one
        self.lives: dict[range, int] = {}
        self.steps: dict[int, int] = {}  # path-steps done, by the first path of a chunk
        self.finished = 0  # those of chunks that are kept
        self.last = time.monotonic()  # that something came
        self.client.subscribe_topic(orders.run, self.note)

    def results(self, chunks: Iterable[range]) -> Iterator[tuple[range, Complete]]:
        """Of the chunks, in their order; never many underway."""
        source, waiting = iter(chunks), deque[range]()
        while True:
            room = _AHEAD * max(1, self.crew.muster())
            while len(waiting) < room and (chunk := next(source, None)) is not None:
                waiting.append(chunk)
                self.send(chunk)
            if not waiting:
                return
            while waiting[0] not in self.complete:
                self.look()
            while waiting and waiting[0] in self.complete:
                first = waiting.popleft()
                yield first, self.complete.pop(first)

    def send(self, chunk: range) -> None:
        """Ask a worker for a chunk, or for a part of its way."""
        errand = self.exchange.ask(chunk)
        if isinstance(errand, Complete):
            self.complete[chunk] = errand
            return
        key = f"holonax-{self.orders.run}-{chunk.start}-{uuid.uuid4().hex[:8]}"
        self.underway[chunk] = self.client.submit(work_on, self.orders(chunk), errand, key=key, pure=False)

    def look(self) -> None:
        """Take what has come meanwhile, or wait a moment."""
        self.check_scheduler()
        come = [chunk for chunk, future in self.underway.items() if future.status != "pending"]
        for chunk in come:
            self.take(chunk, self.underway.pop(chunk))
        if come:
            self.last = time.monotonic()
        else:
            self.crew.tell_if_alone(since=self.last)
            time.sleep(_GLANCE_SECONDS)
        self.bar.update(self.finished + sum(list(self.steps.values())))

    def take(self, chunk: range, future: Any) -> None:
        """One task that is over, in one way or another."""
        if future.status == "finished":
            complete = self.exchange.receive(chunk, future.result())
            if complete is None:
                self.send(chunk)
            else:
                self.complete[chunk] = complete
        elif future.status == "error" and not _is_loss(future.exception()):
            future.result()  # raises it, with the worker's traceback
        else:
            self.check_scheduler()
            self.lost(chunk)

    def lost(self, chunk: range) -> None:
        """Ask again for a chunk that several workers were lost with."""
        self.lives[chunk] = self.lives.get(chunk, _LIVES) - 1
        if not self.lives[chunk]:
            raise ClusterError(
                f"workers were lost again and again while they ran paths {chunk.start} to {chunk.stop - 1}, perhaps "
                f"for want of memory: give them more, or save less; {self.remedy}"
            )
        self.send(chunk)

    def check_scheduler(self) -> None:
        """Raise if it is gone: nobody knows what its workers do."""
        if self.client.status != "running":
            raise ClusterError(f"the scheduler at {self.crew.address} is lost; {self.remedy}")

    # Progress, and the end.

    def note(self, event: Any) -> None:
        """What a worker tells of a chunk."""
        first, done = event[1]
        self.steps[first] = done

    def finish(self, chunk: range) -> None:
        """A chunk is kept."""
        self.steps.pop(chunk.start, None)
        self.finished += len(chunk) * self.orders.steps

    def stop(self) -> None:
        """Let nobody work on this run any more."""
        if self.client.status != "running":
            return
        self.client.unsubscribe_topic(self.orders.run)
        if not self.underway:
            return
        with suppress(KeyboardInterrupt, OSError):
            self.client.run(stop_run, self.orders.run, on_error="ignore")
            end = time.monotonic() + _LAST_SECONDS
            while (
                self.exchange.lasting and self.underway and time.monotonic() < end and self.client.status == "running"
            ):
                self.drain()
        self.client.cancel(list(self.underway.values()))

    def drain(self) -> None:
        """Keep what workers have brought to safety."""
        for chunk in [chunk for chunk, future in self.underway.items() if future.status != "pending"]:
            future = self.underway.pop(chunk)
            if future.status == "finished" and (answer := future.result()) is not None:
                self.exchange.receive(chunk, answer)
        time.sleep(_GLANCE_SECONDS)


def _is_loss(error: BaseException) -> bool:
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)
