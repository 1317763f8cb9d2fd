"""A progress bar for long work: the one module below the command line that writes to the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

_PATIENCE = 2.0
_shown: ContextVar[bool] = ContextVar("shown", default=False)
_REFRESH = 0.2
_WIDTH = 30


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
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class Bar:
    """Fraction done, rate and time left on stderr, once the work has lasted two seconds, on a terminal or notebook."""

    def __init__(self, total: float, unit: str, *, show: bool) -> None:
        self.total, self.unit = total, unit
        self.shown = show and _is_watched()
        self.begin = self.last = time.monotonic()
        self.drawn = False

    def __enter__(self) -> Bar:
        return self

    def update(self, done: float) -> None:
        """Tell how much is done."""
        now = time.monotonic()
        if not self.shown or now - self.begin < _PATIENCE or now - self.last < _REFRESH:
            return
        self.last, self.drawn = now, True
        fraction, rate = done / self.total, done / (now - self.begin)
        bar = "#" * round(_WIDTH * fraction)
        left = (self.total - done) / rate if rate else float("inf")
        text = f"\r[{bar:<{_WIDTH}}] {fraction:5.1%}  {rate:.3g} {self.unit}/s  {left:.0f} s left "
        sys.stderr.write(text)
        sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn:
            sys.stderr.write("\n")
