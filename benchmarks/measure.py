"""Timing: contestants of a case in turn, again and again, so that all of them meet the same machine."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

REPETITIONS = 5


@dataclass(frozen=True)
class Row:
    """One line of a table; a contestant that could not run has a note instead of numbers."""

    case: str
    who: str
    path_steps_per_second: float | None
    ratio: float | None  # to the first contestant of the case that ran
    violation: float | None  # largest |g(q)| of the end states
    compile_seconds: float | None
    note: str = ""


@dataclass(frozen=True)
class Contestant:
    """A way to run a case.

    Attributes:
        who: its name in the table.
        path_steps: number of paths times number of steps of one run.
        run: runs once, waits until it is done and returns the end positions, of shape (paths, n).
        warm_up: compiles what `run` needs, as cheaply as possible; its time is reported as compile time.
        missing: why it cannot run on this machine, if it cannot.
        note: what a reader should know.
    """

    who: str
    path_steps: int = 0
    run: Callable[[], Any] | None = None
    warm_up: Callable[[], Any] | None = None
    missing: str = ""
    note: str = ""


def allow_cores(cores: Collection[int]) -> None:
    """Keep this process, and the threads it starts from now on, on some cores, where the system can do that."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def schedulable_cores() -> list[int]:
    """The cores that a process may use, also where this one is pinned."""
    if not hasattr(os, "sched_setaffinity"):
        return list(range(os.cpu_count() or 1))
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, mine)
    return sorted(every)


def pin_to_one_core() -> None:
    """Keep this process on one core; to be called before anything starts threads.  Its children inherit that."""
    allow_cores(schedulable_cores()[-1:])


def measure(
    case: str,
    contestants: Sequence[Contestant],
    constraint: Callable[[np.ndarray], np.ndarray],
    repetitions: int = REPETITIONS,
) -> list[Row]:
    """Warm up all contestants, then time them in turn; the median counts.  `constraint` maps (paths, n) to |g|."""
    ready: dict[str, float] = {}
    failed: dict[str, str] = {}
    for contestant in contestants:
        if contestant.run is None:
            failed[contestant.who] = contestant.missing
            continue
        try:
            ready[contestant.who] = _seconds(contestant.warm_up or contestant.run)[0]
        except Exception as error:  # whatever a contestant raises, the others still run
            failed[contestant.who] = _first_line(error)

    times: dict[str, list[float]] = {who: [] for who in ready}
    ends: dict[str, np.ndarray] = {}
    for _ in range(repetitions):
        for contestant in contestants:
            if contestant.run is None or contestant.who in failed:
                continue
            try:
                seconds, ends[contestant.who] = _seconds(contestant.run)
                times[contestant.who].append(seconds)
            except Exception as error:
                failed[contestant.who] = _first_line(error)

    rows: list[Row] = []
    first: float | None = None
    for contestant in contestants:
        who = contestant.who
        if who in failed:
            rows.append(Row(case, who, None, None, None, None, failed[who]))
            continue
        speed = contestant.path_steps / statistics.median(times[who])
        first = first or speed
        violation = float(np.max(constraint(np.asarray(ends[who]))))
        rows.append(Row(case, who, speed, speed / first, violation, ready[who], contestant.note))
    return rows


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:150]


def _seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = run()
    return time.perf_counter() - begin, result
