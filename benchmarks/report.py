"""Results as a markdown table and as JSON, with the machine they come from."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Row

FOLDER = Path(__file__).with_name("results")
PACKAGES = (
    "holonax",
    "jax",
    "jaxlib",
    "numpy",
    "llvmlite",
    "cupy",
    "diffrax",
    "torch",
    "torchsde",
    "openmm",
    "mici",
    "arviz-stats",
)
HEADER = "| | path-steps/s | ratio | largest \\|g\\| | compiled in | |\n| --- | ---: | ---: | ---: | ---: | --- |"


def machine() -> dict[str, str | int]:
    """Processor, cores, system, compiler and versions."""
    about: dict[str, str | int] = {"processor": _processor(), "cores": os.cpu_count() or 1}
    about["system"] = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    about["compiler"] = _first_line("cc", "--version")
    if gpu := _first_line("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"):
        about["gpu"] = gpu
    for package in PACKAGES:
        for name in (package, f"{package}-cuda12x", f"{package}-cuda13x"):
            try:
                about[package] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
    return about


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    facts = dict([part.strip() for part in line.split(":", 1)] for line in lines if ":" in line)
    name = facts.get("model name", platform.processor() or "unknown")
    extensions = " ".join(x for x in ("avx2", "avx512f") if x in facts.get("flags", "").split())
    return f"{name} (family {facts.get('cpu family', '?')}, model {facts.get('model', '?')}; {extensions})"


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else ""


def _line(row: Row) -> str:
    if row.path_steps_per_second is None:
        return f"| {row.who} | | | | | {row.note} |"
    ratio = f"{row.ratio:.2g}" if row.ratio < 1 else f"{row.ratio:.2f}"
    numbers = f"{row.path_steps_per_second:.2e} | {ratio} | {row.violation:.0e} | {row.compile_seconds:.2f} s"
    return f"| {row.who} | {numbers} | {row.note} |"


def markdown(rows: Sequence[Any], header: str = HEADER, line: Callable[[Any], str] = _line) -> str:
    """One table per case; rows with other columns bring a header and a way to write a row."""
    parts = []
    for case in dict.fromkeys(row.case for row in rows):
        lines = [line(row) for row in rows if row.case == case]
        parts.append("\n".join([f"### {case}", "", header, *lines]))
    return "\n\n".join(parts) + "\n"


def write(name: str, rows: Sequence[Any], heading: str, table: Callable[[Sequence[Any]], str] = markdown) -> Path:
    """Write `results/name.md` and `results/name.json`; returns the former."""
    FOLDER.mkdir(exist_ok=True)
    about, when = machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    document = {"when": when, "machine": about, "rows": [asdict(row) for row in rows]}
    (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    facts = "\n".join(f"- {key}: {value}" for key, value in about.items())
    page = FOLDER / f"{name}.md"
    page.write_text(f"# {heading}\n\n{when}\n\n{facts}\n\n{table(rows)}")
    return page
