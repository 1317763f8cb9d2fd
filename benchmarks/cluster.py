"""Throughput of one and of two workers of a Dask cluster on this machine.

    python -m benchmarks.cluster [seconds]

Each worker is a process with one thread.  A run lasts about so many seconds (60 if not said) with one worker; both are
done once briefly before, so that no compiling is measured.  Seconds of processors tell whether the workers had them: on
a machine with other work they take longer than that.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import holonax as hx

PATHS, H, BRIEF = 65_536, 2.0**-8, 4096

ENTRY = hx.systems.pendulum()
OBSERVE = {"energy": hx.Mean(ENTRY.system.energy, every=1024)}


def seconds_of(client: Any, steps: int) -> float:
    """Of one run, with an observable, its states not saved."""
    begin = time.perf_counter()
    hx.simulate(
        ENTRY.system, hx.EulerA(), ENTRY.start, t1=steps * H, h=H, paths=PATHS, save_every=None, observe=OBSERVE,
        progress=False, cluster=hx.Dask(client),
    )  # fmt: skip
    return time.perf_counter() - begin


def main() -> None:
    """Print path-steps per second, and their ratio."""
    from distributed import Client, LocalCluster

    wanted = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    found, steps = [], 0
    for count in (1, 2):
        with (
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            seconds_of(client, BRIEF)  # every worker compiles
            steps = steps or BRIEF * max(1, round(wanted / seconds_of(client, BRIEF)))
            before = sum(client.run(time.process_time).values())
            seconds = seconds_of(client, steps)
            busy = sum(client.run(time.process_time).values()) - before
        found.append(PATHS * steps / seconds)
        who = "1 worker" if count == 1 else f"{count} workers"
        print(f"{who}: {seconds:.1f} s, {busy:.1f} s of processors, {found[-1]:.3g} path-steps/s", flush=True)
    print(f"ratio {found[1] / found[0]:.2f}")


if __name__ == "__main__":
    main()
