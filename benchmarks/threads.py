"""One thread against all of them: the latter in a process of its own, because this one is pinned to one core."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from benchmarks import children
from benchmarks.measure import Row, allow_cores, schedulable_cores

CASE = "pendulum, EulerA, threads"


def rows(count: int, steps: int) -> list[Row]:
    """The C by hand and holonax with as many threads as this process may use."""
    import holonax as hx  # after the process has its cores
    from benchmarks.contestants import constraint, holonax, pendulum_in_c
    from benchmarks.measure import measure

    entry, paths, name = hx.systems.pendulum(), 65536, "1 thread" if count == 1 else f"{count} threads"
    contestants = [
        *pendulum_in_c("euler_a", paths=paths, steps=steps, threads=count, suffix=f", {name}"),
        holonax(entry, hx.EulerA(), "llvm", paths=paths, steps=steps, who=f"holonax, llvm, {name}"),
    ]
    return measure(CASE, contestants, constraint(entry.system))


def one_and_all(quick: bool) -> list[Row]:
    """Rows of both; ratios are to one thread of the first."""
    steps = 64 if quick else 512
    alone = rows(1, steps)
    together = children.rows("benchmarks.threads", json.dumps(schedulable_cores()), str(steps))
    first = next((row.path_steps_per_second for row in alone if row.path_steps_per_second), None)
    for row in together:
        ratio = row.path_steps_per_second / first if first and row.path_steps_per_second else None
        alone.append(replace(row, case=CASE, ratio=ratio))
    return alone


def main() -> None:
    """In the child: use the given cores."""
    cores, steps = json.loads(sys.argv[1]), int(sys.argv[2])
    allow_cores(cores)
    children.hand_over(rows(len(cores), steps))


if __name__ == "__main__":
    main()
