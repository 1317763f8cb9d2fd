"""How many threads take a kernel through its steps: all that there are, or one, whichever was faster lately.

Threads that wait for each other lose more than they gain where another program is busy on one of their cores, and
nobody knows that beforehand.  The bits do not depend on it.
"""

from __future__ import annotations

from typing import final

RARELY = 32
"""The slower way is tried again after so many times the seconds that it would take."""

WORTH_CALLING = 0.005
"""Seconds of a call from which on it is worth while to call other threads, which takes some ten-thousandths."""


@final
class Pace:
    """Seconds per step, by the number of threads, when each was last taken."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.since = 0.0  # the slower way was tried, in seconds

    def choose(self, threads: int, steps: int) -> int:
        """So many threads, or one, for the next steps."""
        if 1 not in self.seconds or steps * self.seconds[1] < WORTH_CALLING:
            return 1
        if threads not in self.seconds:
            return threads
        best, other = sorted((threads, 1), key=lambda number: self.seconds[number])
        if self.since > RARELY * steps * self.seconds[other]:
            self.since = 0.0
            return other
        return best

    def note(self, threads: int, steps: int, seconds: float) -> None:
        """How long steps took."""
        self.seconds[threads] = seconds / steps
        self.since += seconds
