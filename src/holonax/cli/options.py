"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holonax.cli.guard import OnFailure

METHODS = "EulerA, Lobatto:4, VPRK:RATTLE or another of holonax list, or file.py:name"
SYSTEMS = "A name from the catalogue, with arguments as in pendulum:noise=None, or file.py:name."

SystemName = Annotated[str, typer.Argument(help=SYSTEMS)]
MethodName = Annotated[str, typer.Option("--method", "-m", help=f"{METHODS}.")]
MethodNames = Annotated[list[str], typer.Option("--method", "-m", help=f"{METHODS}; may be repeated.")]
Paths = Annotated[int, typer.Option(help="Number of paths.")]
Seed = Annotated[int, typer.Option(help="Seed of the noise.")]
EndTime = Annotated[float, typer.Option(help="End time.")]
Out = Annotated[Path | None, typer.Option(help="Folder for figures, numbers and page.")]
Failures = Annotated[OnFailure, typer.Option(metavar="WHAT", help="If paths fail: exit with 1 (raise) or 0 (mark).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
