"""`holonax explain`: what the compiler makes of a method on a system."""

from __future__ import annotations

from typing import Annotated

import typer

from holonax.cli import naming
from holonax.cli.options import METHODS, AsJson, SystemName
from holonax.cli.terminal import show_json, show_table
from holonax.engines.explain import explain as explained


def explain(
    system: SystemName,
    method: Annotated[str, typer.Argument(help=f"{METHODS}.")] = "Kicked",
    engine: Annotated[str, typer.Option(help="llvm, cuda, xla, or auto.")] = "auto",
    as_json: AsJson = False,
) -> int:
    """Tell what the compiler makes of a method on a system: equations, operations, loops, seconds.

    Example: holonax explain pendulum Kicked
    """
    entry = naming.find_system(system)
    found = explained(entry.system, naming.find_method(method), n=entry.n, engine=engine)
    if as_json:
        show_json({"title": found.title, **dict(found.rows)})
    else:
        show_table(found.title, ("", ""), found.rows)
    return 0
