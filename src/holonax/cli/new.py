"""`holonax new`: a file with a system to begin from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from holonax.cli.options import AsJson
from holonax.cli.terminal import say_wrapped, show_json
from holonax.errors import InputError
from holonax.report.files import prepare_folder, write_text


def new(
    file: Annotated[Path, typer.Argument(help="The file to write, such as my_system.py.")],
    as_json: AsJson = False,
) -> int:
    """Write a file with a system of your own to begin from: a pendulum, with a comment on every line.

    Example: holonax new my_system.py
    """
    if file.suffix != ".py":
        raise InputError(f"{file} does not end in .py; name a Python file, such as {file.with_suffix('.py')}")
    if file.exists():
        raise InputError(f"{file} is there already; name another file")
    prepare_folder(file.parent)
    text = files("holonax.cli").joinpath("template.txt").read_text(encoding="utf-8")
    write_text(file, text.replace("FILE", str(file)))
    command = f"holonax run {file}:entry"
    if as_json:
        show_json({"file": str(file), "run": command})
    else:
        say_wrapped(f"{file} written; change it, and run it with")
        say_wrapped(f"  {command}", indent="  ")
    return 0
