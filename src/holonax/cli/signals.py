"""Being asked to stop, by SIGINT or SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


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
        yield received
    finally:
        for number, old in handled.items():
            signal.signal(number, old)
