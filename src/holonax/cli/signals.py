"""Being asked to stop, by SIGINT or SIGTERM."""

from __future__ import annotations

import signal
import sys
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

_MOMENT_SECONDS = 0.01


@contextmanager
def stoppable() -> Iterator[list[int]]:
    """Being asked to stop in either way raises KeyboardInterrupt; the list says which have come."""
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handled = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}  # nohup means it
    for number in handled:
        signal.signal(number, interrupt)
    try:
        with _raised_again(received):
            yield received
    finally:
        for number, old in handled.items():
            signal.signal(number, old)


@contextmanager
def _raised_again(received: list[int]) -> Iterator[None]:
    """An interrupt that is lost, because it came where Python lets nothing be raised, comes again a moment later.

    Such places are finalizers and callbacks of the garbage collector.  JAX has one that is called after every
    collection, and a signal that arrives in the meantime is answered there.
    """
    before = sys.unraisablehook

    def seen(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
        elif received:
            again = Timer(_MOMENT_SECONDS, interrupt_main, received[-1:])
            again.daemon = True
            again.start()

    sys.unraisablehook = seen
    try:
        yield
    finally:
        sys.unraisablehook = before
