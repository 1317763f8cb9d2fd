"""The driver of chunks: threads run them, a bar shows how far they are, and Ctrl-C stops them.

`simulate` and the studies cut their paths into chunks, and say what is done with one and what is kept of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Generic, TypeVar, final

from holonax.background import in_order
from holonax.progress import Bar

Result = TypeVar("Result")

Notify = Callable[[int], None]
"""What the work on a chunk calls with the path-steps that it has done so far."""


_SHARE = 4


def cut(paths: int, size: int, least: int | None = None) -> Iterator[range]:
    """Chunks of consecutive paths, all of that size but the last.

    With `least`, a chunk is no more than a quarter of what is left, down to that size (guided self-scheduling): when
    the last one is computed, little is left to be stored.
    """
    first = 0
    while left := paths - first:
        own = size if least is None else min(size, max(1, left // _SHARE // least) * least)
        yield range(first, first := first + min(own, left))


def run_chunks(
    work: Callable[[range, Notify], Result],
    chunks: Iterable[range],
    keep: Callable[[Result], None],
    *,
    workers: int,
    total: int,
    progress: bool,
    told: Callable[[], str] = str,
) -> None:
    """Do some work on every chunk, several at a time, and keep the results in the order of the chunks.

    Args:
        work: `work(chunk, notify)`, called in another thread; calls `notify` several times in a second, which raises
            `Stopped` in that thread if nobody waits for the chunk any more.
        chunks: the paths of each chunk.
        keep: `keep(result)`, called in this thread.
        workers: how many chunks are worked on at a time.
        total: path-steps of all chunks.
        progress: show a progress bar on work longer than two seconds.
        told: what the bar tells besides, such as how many paths failed so far.

    Ctrl-C, like an error in a chunk, is raised here at once, while the threads stop when they next notify.  What was
    kept by then is the first few chunks, each of them complete.
    """
    with Bar(total, "path-steps", show=progress, told=told) as bar:
        overseer = _Overseer(work, bar)
        try:
            with closing(in_order(overseer.run, chunks, workers, overseer.show, overseer.begun)) as results:
                for chunk, result in results:
                    keep(result)
                    overseer.finish(chunk)
                    overseer.show()
        finally:
            overseer.stopping.set()


class Stopped(BaseException):
    """Raised in the thread of a chunk whose result is no longer wanted; not for `except Exception` to catch."""


@final
class _Overseer(Generic[Result]):
    """What the threads and their caller tell each other: how far each chunk is, and when to stop."""

    def __init__(self, work: Callable[[range, Notify], Result], bar: Bar) -> None:
        self.work, self.bar = work, bar
        self.finished = 0  # path-steps of chunks that are kept
        self.underway: dict[range, int] = {}  # path-steps of the others
        self.stopping, self.begun = threading.Event(), threading.Event()

    # In the threads of the chunks.

    def run(self, chunk: range) -> tuple[range, Result]:
        """Work on one chunk."""
        notify = partial(self.note, chunk)
        notify(0)
        return chunk, self.work(chunk, notify)

    def note(self, chunk: range, done: int) -> None:
        """Note how far a chunk is."""
        if self.stopping.is_set():
            raise Stopped
        if chunk in self.underway:  # by a second note: its paths are at their start
            self.begun.set()
        self.underway[chunk] = done

    # In the thread of the caller.

    def finish(self, chunk: range) -> None:
        """Note that a chunk is complete; from then on it costs no time to count it."""
        self.finished += self.underway.pop(chunk)

    def show(self) -> None:
        """Show how much is done by now."""
        self.bar.update(self.finished + sum(list(self.underway.values())))  # a list, for threads add to it meanwhile
