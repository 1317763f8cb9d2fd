"""Rows measured in a process of their own: with cores, a device or a memory of their own, and free to crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict

from benchmarks.measure import Row


def rows(module: str, *arguments: str, **environment: str) -> list[Row]:
    """Run `python -m module arguments` with additional environment variables, and take the rows that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode == 0:
        return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return [Row(arguments[0], "all", None, None, None, None, f"ended with code {done.returncode}: {last}"[-300:])]


def hand_over(found: Iterable[Row]) -> None:
    """In the child: print the rows, for `rows` in the parent."""
    print(json.dumps([asdict(row) for row in found]))
