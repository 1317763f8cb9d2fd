"""A progress bar for long work: the one module below the command line that writes to the terminal."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

_PATIENCE = 2.0
_shown: ContextVar[bool] = ContextVar("shown", default=False)
_REFRESH = 0.2
_WINDOW = 50  # looks that the rate is taken over: ten seconds
_WIDTH, _LEAST = 30, 8  # characters of the bar


@contextmanager
def notes(show: bool) -> Iterator[None]:
    """Let what is done inside tell of long work that cannot say how far it is."""
    token = _shown.set(show and _is_watched())
    try:
        yield
    finally:
        _shown.reset(token)


def note(text: str, seconds: float) -> None:
    """Tell of work that will take that long, if it is worth telling."""
    if _shown.get() and seconds > _PATIENCE:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _is_watched() -> bool:
    """Whether somebody looks at stderr: on a terminal, or in a notebook."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    shell = sys.modules.get("IPython")
    return "ipykernel" in sys.modules and shell is not None and hasattr(shell.get_ipython(), "kernel")


def duration(seconds: float) -> str:
    """A time that somebody waits for.

    >>> duration(0.0123), duration(75.4), duration(7300), duration(200000)
    ('12 ms', '1 min 15 s', '2 h 01 min', '2 d 7 h')
    """
    if not math.isfinite(seconds):
        return "unknown time"
    if seconds < 0.1:
        return f"{1e3 * seconds:.2g} ms"
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


class Bar:
    """Fraction done, rate, time left and more on stderr, once the work has lasted two seconds, if somebody looks.

    Args:
        total: all that is to be done.
        unit: in what it is counted.
        show: whether to show anything.
        told: what there is to tell besides, such as how many paths failed; asked for when the line is drawn.
    """

    def __init__(self, total: float, unit: str, *, show: bool, told: Callable[[], str] = str) -> None:
        self.total, self.unit, self.told = total, unit, told
        self.shown = show and _is_watched()
        self.begin = self.last = time.monotonic()
        self.seen: deque[tuple[float, float]] = deque([(self.begin, 0.0)], maxlen=_WINDOW)  # times, and what was done
        self.drawn = 0  # characters of the line

    def __enter__(self) -> Bar:
        return self

    def update(self, done: float) -> None:
        """Tell how much is done."""
        if not self.shown:
            return
        now = time.monotonic()
        if now - self.begin < _PATIENCE or now - self.last < _REFRESH:
            return
        self.last = now
        self.seen.append((now, done))
        line = self.line(done, shutil.get_terminal_size().columns)
        sys.stderr.write(f"\r{line:<{self.drawn}}")
        sys.stderr.flush()
        self.drawn = len(line)

    def line(self, done: float, columns: int) -> str:
        """The line in so many columns: what matters least is left out first.

        The rate is that of the last seconds: what was there before, as in a store that is gone on with, took no time.
        """
        (first, before), (last, _) = self.seen[0], self.seen[-1]
        rate = (done - before) / (last - first) if last > first else 0.0
        fraction = min(1.0, done / self.total)
        left = duration((self.total - done) / rate) if rate > 0 else "unknown time"
        parts = [f"{fraction:5.1%}", f"{left} left", self.told(), f"{rate:.3g} {self.unit}/s"]
        text = "  ".join(part for part in parts if part)
        room = columns - len(text) - 5
        if room >= _LEAST:
            width = min(room, _WIDTH)
            text = f"[{'#' * round(width * fraction):<{width}}] {text}"
        return text[: columns - 1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn:
            sys.stderr.write("\n")
