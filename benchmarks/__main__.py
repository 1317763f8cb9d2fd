"""`python -m benchmarks [--quick] [case ...]`: run the cases on one core of this machine and write `results/`."""

from __future__ import annotations

import argparse

from benchmarks import children, report
from benchmarks.measure import pin_to_one_core

CASES = (
    "pendulum-euler-a",
    "pendulum-rattle",
    "pendulum-kicked",
    "pendulum-lobatto32",
    "rigid-body",
    "ellipsoid",
    "chain-8",
    "chain-64",
    "paths",
    "threads",
)


def main() -> None:
    """Check the references, run every case in a process of its own, print and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed of holonax on one core.")
    parser.add_argument("case", nargs="*", help=f"which to run, of {', '.join(CASES)}; all if left out")
    parser.add_argument("--quick", action="store_true", help="shorter runs, for a look; writes nothing")
    parser.add_argument("--no-check", action="store_true", help="trust the references in C")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.case) - set(CASES)):
        parser.error(f"unknown case {', '.join(unknown)}; choose from {', '.join(CASES)}")

    pin_to_one_core()
    if not arguments.no_check:
        from benchmarks import check

        check.check()
    rows = []
    for name in arguments.case or CASES:
        new = children.rows("benchmarks.cases", name, "quick" if arguments.quick else "full")
        print(report.markdown(new), flush=True)
        rows += new
    if not arguments.quick:
        name = "-".join(["cpu", *arguments.case])
        print("written:", report.write(name, rows, "Path-steps per second on one core"))


if __name__ == "__main__":
    main()
