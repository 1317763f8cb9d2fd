"""`python -m benchmarks.scaling [--quick]`: cost against size; draws docs/figures/large_systems.svg.

Every size of every system in a process of its own, on one core, with `EulerA`: the first call, then steps of one path
and of eight.  A size that takes longer than five minutes ends its curve.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.large import LIMIT
from benchmarks.measure import pin_to_one_core

if TYPE_CHECKING:
    import holonax as hx

PICTURE = Path(__file__).parent.parent / "docs" / "figures" / "large_systems.svg"
SIZES = {
    "chain": (16, 64, 128, 300, 1000, 3000, 10_000),
    "ring": (16, 64, 128, 300, 1000, 3000, 10_000),
    "net": (4, 6, 8, 12, 16, 24, 32),  # beads along a side
    "star": (16, 64, 128, 300, 1000, 3000),
}
QUICK = {"chain": (8, 16, 32), "ring": (8, 16, 32), "net": (2, 4), "star": (8, 32)}
PATHS = {1: "--", 8: "-"}


class Point(NamedTuple):
    """What is measured of a system of a size."""

    beads: int
    engine: str
    first: float  # seconds
    per_step: list[float]  # nanoseconds per bead-step and path, for each of PATHS


def main() -> None:
    """Measure, print a table, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description="Cost against size.")
    parser.add_argument("--quick", action="store_true", help="few and small sizes, for a look")
    sizes = QUICK if parser.parse_args().quick else SIZES
    print("| system | beads | engine | first call, s | one path, ns per bead-step | eight paths |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    found: dict[str, list[Point]] = {}
    for name, numbers in sizes.items():
        found[name] = []
        for size in numbers:
            if (point := in_a_process(name, size)) is None:
                break
            found[name].append(point)
            speeds = " | ".join(f"{x:.0f}" for x in point.per_step)
            print(f"| {name} | {point.beads} | {point.engine} | {point.first:.1f} | {speeds} |", flush=True)
    draw(found)
    print("written:", PICTURE)


def in_a_process(name: str, size: int) -> Point | None:
    """The numbers of one size; None if that takes too long."""
    command = [sys.executable, "-c", f"from benchmarks.scaling import measure; measure({name!r}, {size})"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None
    return Point(*json.loads(done.stdout.splitlines()[-1]))


def measure(name: str, size: int) -> None:
    """In the process: print the numbers."""
    pin_to_one_core()
    import holonax as hx
    from benchmarks.contestants import H
    from benchmarks.large_cases import holonax, per_step, seconds
    from benchmarks.large_systems import star

    make: Callable[..., hx.Entry] = star if name == "star" else getattr(hx.systems, name)
    entry = make(*([size, size] if name == "net" else [size]))
    beads = entry.n // 3
    runs: list[Callable[[int], hx.Run]] = [holonax(entry.system, hx.EulerA(), entry.start, H, paths) for paths in PATHS]
    first = seconds(partial(runs[0], 1))
    most = min(max(32, 200_000 // beads), 4096)  # the noise heats a system: it must not become too fast for its steps
    each = [per_step([run], most, repetitions=7)[0] / paths for run, paths in zip(runs, PATHS, strict=True)]
    speeds = [1e9 * seconds_per_path / beads for seconds_per_path in each]
    print(json.dumps([beads, runs[-1](1).engine, first, speeds]))


def draw(found: dict[str, list[Point]]) -> None:
    """Cost of a step on the left, that of the first call on the right."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "large systems"  # the same names in every drawing
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for colour, (name, points) in enumerate(found.items()):
        beads = [point.beads for point in points]
        for number, (paths, style) in enumerate(PATHS.items()):
            label = f"{name}, {paths} path{'s' if paths > 1 else ''}"
            speeds = [point.per_step[number] for point in points]
            left.loglog(beads, speeds, f"o{style}", color=f"C{colour}", label=label, markersize=4)
        right.loglog(beads, [point.first for point in points], "o-", color=f"C{colour}", label=name, markersize=4)
    left.set(xlabel="beads", ylabel="ns per bead-step and path", title="steps of EulerA, one core")
    right.set(xlabel="beads", ylabel="seconds", title="first call")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
