"""Work in threads that the main thread need not wait for: Ctrl-C is answered at once, whatever they are doing.

Python delivers signals to the main thread, and only between two of its own instructions: not while it compiles, or
waits for a pool to finish.  So long work is done by daemon threads, and the main thread just glances at them.
"""

from __future__ import annotations

import atexit
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar, final
from weakref import WeakSet

_GLANCE_SECONDS = 0.1

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_background(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of one call."""
    (result,) = in_order(lambda _: function(*arguments), [None], 1, lambda: None)
    return result


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int, meanwhile: Callable[[], None]
) -> Generator[Result, None, None]:
    """The results of `function`, computed by several threads, in the order of the items; never many ahead.

    What is pending when the caller stops asking, or is interrupted, is dropped.
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
            if started < workers:  # the first item need not wait for the last thread
                thread = threading.Thread(target=context.copy().run, args=(work,), daemon=True)
                thread.start()
                _threads.add(thread)
                started += 1
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


_threads: WeakSet[threading.Thread] = WeakSet()
_LAST_SECONDS = 2.0


@atexit.register
def _let_finish() -> None:
    """Give threads that are still at work, after an interrupt, a moment before what they work with is gone."""
    end = time.monotonic() + _LAST_SECONDS
    for thread in list(_threads):
        thread.join(max(0.0, end - time.monotonic()))


def _wait(future: Future[Result], meanwhile: Callable[[], None]) -> Result:
    while True:
        try:
            return future.result(timeout=_GLANCE_SECONDS)
        except TimeoutError:
            if future.done():  # in the meantime, or the function itself raised it
                return future.result()
            meanwhile()
