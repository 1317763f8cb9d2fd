"""Work in threads that the main thread need not wait for: Ctrl-C is answered at once, whatever they are doing.

Python delivers signals to the main thread, and only between two of its own instructions: not while it compiles, or
waits for a pool to finish.  So long work is done by daemon threads, and the main thread just glances at them.  Threads
wait for more work when theirs is done: to start one takes half a millisecond, in which a GPU could compute already.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar, final

_GLANCE_SECONDS = 0.1
_HEAD_START_SECONDS = 0.002

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_background(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of one call."""
    (result,) = in_order(lambda _: function(*arguments), [None], 1, lambda: None)
    return result


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    meanwhile: Callable[[], None],
    begun: threading.Event | None = None,
) -> Generator[Result, None, None]:
    """The results of `function`, computed by several threads, in the order of the items; never many ahead.

    What is pending when the caller stops asking, or is interrupted, is dropped.  The first thread may have a head
    start, until its work has `begun`, of two milliseconds at most: if all began at once they would take turns with
    Python's interpreter, and none would be quick.
    """
    tasks: SimpleQueue[tuple[Future[Result], Item] | None] = SimpleQueue()
    context = contextvars.copy_context()

    def work() -> None:
        while (task := tasks.get()) is not None:
            future, item = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(item))
                except BaseException as error:  # also an interrupt: it is for whoever asks
                    future.set_exception(error)

    started = 0
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(Future())
            tasks.put((pending[-1], item))
            if begun and started == 1 < workers:
                begun.wait(_HEAD_START_SECONDS)
            if started < workers:  # the first item need not wait for the last thread
                started += 1  # before it is, or an interrupt in between would leave it waiting for ever
                in_thread(partial(context.copy().run, work))
            if len(pending) > 2 * workers:
                yield _wait(pending.popleft(), meanwhile)
        while pending:
            yield _wait(pending.popleft(), meanwhile)
    finally:
        for future in pending:
            future.cancel()
        for _ in range(started):
            tasks.put(None)


def at_once(function: Callable[[int], Result], number: int) -> Result:
    """The result of `function(0)`, where so many calls, each with its number, run at the same time and need each other.

    If some thread cannot be started, or the caller is interrupted before all are, none of them begins.  Once they have
    begun they go on to their end, whoever waits for them.
    """
    gate = _Gate(number)
    calls = in_order(lambda i: function(i) if gate.passed() else None, range(number), number, lambda: None)
    try:
        first, *_ = list(calls)
    finally:
        gate.close()
    assert first is not None  # for all have passed
    return first


@final
class _Gate:
    """Opens when so many threads are there, unless it was closed before: all of them pass, or none."""

    def __init__(self, number: int) -> None:
        self.missing, self.opens = number, threading.Condition()
        self.decision: bool | None = None

    def passed(self) -> bool:
        """Wait for the others; whether all may pass."""
        with self.opens:
            self.missing -= 1
            if self.missing == 0:
                self._decide(True)
            self.opens.wait_for(lambda: self.decision is not None)
            return bool(self.decision)

    def close(self) -> None:
        """Let nobody pass if nobody has."""
        with self.opens:
            self._decide(False)

    def _decide(self, decision: bool) -> None:
        if self.decision is None:
            self.decision = decision
            self.opens.notify_all()


def in_thread(task: Callable[[], None]) -> None:
    """Begin a task that raises nothing, in a thread whose last task is over, or in a new one."""
    try:
        tasks = _idle.pop()
    except IndexError:
        tasks = SimpleQueue()
        threading.Thread(target=_serve, args=(tasks,), daemon=True).start()
    done = threading.Event()
    _underway.add(done)
    tasks.put((task, done))


_idle: list[SimpleQueue[tuple[Callable[[], None], threading.Event]]] = []  # of threads without work; the latest is last
_underway: set[threading.Event] = set()
_LAST_SECONDS = 2.0


def _serve(tasks: SimpleQueue[tuple[Callable[[], None], threading.Event]]) -> None:
    while True:
        task, done = tasks.get()
        try:
            task()
        finally:
            del task  # and all that it refers to
            _underway.discard(done)
            done.set()
        _idle.append(tasks)


def _forget_threads() -> None:
    """In a fork, where they are not."""
    _idle.clear()
    _underway.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@atexit.register
def _let_finish() -> None:
    """Give threads that are still at work, after an interrupt, a moment before what they work with is gone."""
    end = time.monotonic() + _LAST_SECONDS
    for done in list(_underway):
        done.wait(max(0.0, end - time.monotonic()))


def _wait(future: Future[Result], meanwhile: Callable[[], None]) -> Result:
    while True:
        try:
            return future.result(timeout=_GLANCE_SECONDS)
        except TimeoutError:
            if future.done():  # in the meantime, or the function itself raised it
                return future.result()
            meanwhile()
