"""`python -m benchmarks.large [name ...]`: large systems on the CPU, what is asked of them beside what is measured.

Each case runs in a process of its own, on as many cores as it says, so that its first call compiles everything and its
memory is its own.  After five minutes it is stopped; what it had found by then is in the table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

LIMIT = 300
"""Seconds that a case may take."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a number: at most `bound`, or at least; None if it is only reported."""

    what: str
    unit: str
    bound: float | None = None
    least: bool = False

    def bounds(self) -> str:
        """In words."""
        return "" if self.bound is None else f"{'≥' if self.least else '≤'} {self.bound:g} {self.unit}".rstrip()

    def holds(self, value: float) -> str:
        """Whether a number is as asked."""
        if self.bound is None:
            return ""
        return "yes" if (value >= self.bound if self.least else value <= self.bound) else "no"


@dataclass(frozen=True)
class Case:
    """What a process measures, by the keys of its numbers, and on how many cores."""

    title: str
    cores: int
    asked: dict[str, Asked]


def _chain(beads: int, first: float, speed: float) -> Case:
    return Case(
        f"chain of {beads} beads, EulerA, 8 paths or more",
        1,
        {
            "first": Asked("first call", "s", first),
            "speed": Asked("per bead-step and path", "ns", speed),
            "violation": Asked("largest \\|g\\| over \\|g'\\|\\|q\\|", "", 1e-12),
            "memory": Asked("resident memory", "MiB", 1536 if beads == 10_000 else None),
        },
    )


def _alone(method: str, rival: str) -> Case:
    return Case(
        f"chain of 1000 beads, one path, {method}",
        2,
        {
            "speed": Asked("per bead-step", "ns", 600),
            "ratio": Asked(f"speed over that of OpenMM, CPU, {rival}", "", 5, least=True),
            "bonds": Asked("largest error of a bond", "", 1e-12),
            "rival": Asked("OpenMM, per bead-step", "ns"),
            "rival bonds": Asked("OpenMM, largest error of a bond", ""),
            "exact": Asked("OpenMM, Reference, tolerance 1e-12, per bead-step", "ns"),
        },
    )


def _shared(title: str, speed: Asked) -> Case:
    return Case(
        f"{title}, one path",
        2,
        {
            "first": Asked("first call", "s", 30),
            "speed": speed,
            "ratio": Asked("speed over that of one thread", ""),
        },
    )


def _dense(title: str) -> Case:
    return Case(
        title,
        1,
        {
            "first": Asked("first call", "s", 15),
            "speed": Asked("per step and path", "us"),
            "ratio": Asked("speed over that of plain JAX", "", 10, least=True),
        },
    )


CASES = {
    "chain-64": _chain(64, 5, 100),
    "chain-1000": _chain(1000, 10, 100),
    "chain-10000": _chain(10_000, 30, 130),
    "alone-euler": _alone("EulerA", "Verlet"),
    "alone-rattle": _alone("Rattle", "Verlet"),
    "alone-langevin": _alone("Langevin", "LangevinMiddle"),
    "alone-10000": _shared("chain of 10000 beads, EulerA", Asked("per bead-step", "ns")),
    "alone-water": _shared("125 waters, all pairs, Rattle", Asked("per step", "us")),
    "water": Case(
        "64 waters, all pairs, Rattle",
        1,
        {
            "first": Asked("first call", "s", 15),
            "speed": Asked("per step and path, 8 paths", "us"),
            "ratio": Asked("speed over that of plain JAX", "", 20, least=True),
            "violation": Asked("largest \\|g\\| after 1 ps, nm²", ""),
            "drift": Asked("drift of the energy over the kinetic energy", "/ps"),
        },
    ),
    "dimers": Case("27 Lennard-Jones dimers, EulerA", 1, {"first": Asked("first call", "s", 15)}),
    "regression-20": _dense('lifted regression, 20 data, sample(measure="delta")'),
    "regression-60": _dense('lifted regression, 60 data, sample(measure="delta")'),
    "stiefel": _dense("Stiefel(20, 5), EulerA"),
}
HEADER = "| | | asked | measured | holds | |\n| --- | --- | ---: | ---: | --- | --- |"


def main() -> None:
    """Print a table of all cases, or of those that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description="Large systems on the CPU.")
    parser.add_argument("case", nargs="*", help=f"which to run, of {', '.join(CASES)}; all if left out")
    names = parser.parse_args().case or list(CASES)
    if unknown := sorted(set(names) - set(CASES)):
        parser.error(f"unknown case {', '.join(unknown)}; choose from {', '.join(CASES)}")
    print(HEADER, flush=True)
    for name in names:
        for line in lines(name):
            print(f"| {' | '.join(line)} |", flush=True)


def lines(name: str) -> Iterator[list[str]]:
    """The lines of a case, also of what it did not find."""
    case, (found, end) = CASES[name], measured(name)
    for number, (key, asked) in enumerate(case.asked.items()):
        value, note = found.get(key, (None, end))
        shown = ["", ""] if value is None else [f"{value:.3g} {asked.unit}".rstrip(), asked.holds(value)]
        yield [case.title if number == 0 else "", asked.what, asked.bounds(), *shown, note]


def measured(name: str) -> tuple[dict[str, tuple[float, str]], str]:
    """What the process of a case found: numbers with notes, and how it ended."""
    command = [sys.executable, "-m", "benchmarks.large_process", name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False)
        output, last = done.stdout, (done.stderr.decode().strip().splitlines() or [""])[-1]
        end = f"ended with code {done.returncode}: {last}"[:200].replace("|", "\\|") if done.returncode else "missing"
    except subprocess.TimeoutExpired as stopped:
        output, end = stopped.stdout or b"", f"no result in {LIMIT} s"
    found = [json.loads(line) for line in output.decode().splitlines() if line.startswith("[")]
    return {key: (value, note) for key, value, note in found}, end


if __name__ == "__main__":
    main()
