"""`python -m benchmarks.large`: chains of 16 to 10 000 beads, from the first call to the memory they take.

Each chain in a process of its own, so that its first call compiles everything and its memory is its own.  One path runs
alone, then two for each core; of three runs the median counts.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

import holonax as hx

BEADS = (16, 64, 128, 300, 1000, 3000, 10_000)
H = 2.0**-7


def main() -> None:
    """Print a table; with a number of beads, only the row of that chain, for the table."""
    if len(sys.argv) > 1:
        print(json.dumps(chain(int(sys.argv[1]))))
        return
    print(
        "| beads | engine | first call, s | one path, ns per bead-step | four paths | largest \\|g\\| | memory, MiB |"
    )
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for beads in BEADS:
        command = [sys.executable, "-m", "benchmarks.large", str(beads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print("| " + " | ".join(json.loads(done.stdout.splitlines()[-1])) + " |", flush=True)


def chain(beads: int) -> list[str]:
    """A row of the table."""
    entry = hx.systems.chain(beads)
    steps = max(8, 20_000 // beads)

    def run(paths: int, steps: int) -> tuple[float, hx.Run]:
        begin = time.perf_counter()
        found = hx.simulate(
            entry.system, hx.EulerA(), entry.start, t1=steps * H, h=H, paths=paths, save_every=None, progress=False
        )
        return time.perf_counter() - begin, found

    first, _ = run(1, 1)
    run(4, 1)
    speeds = []
    for paths in (1, 4):
        empty = statistics.median(run(paths, 1)[0] for _ in range(3))
        times = [run(paths, 1 + steps) for _ in range(3)]
        speeds.append((statistics.median(t for t, _ in times) - empty) / (steps * paths * beads) * 1e9)
        last = times[-1][1]
    off = max(float(np.abs(entry.system.g(q)).max()) for q in last.state.q)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    speed = [f"{x:.0f}" for x in speeds]
    return [str(beads), last.engine, f"{first:.1f}", *speed, f"{off:.0e}", f"{memory:.0f}"]


if __name__ == "__main__":
    main()
