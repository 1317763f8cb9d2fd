"""The command line (extra `cli`): every command is a function of a module of its own, and is named here.

Results go to stdout, everything else to stderr, an error as one line.  A command returns its exit code: 0, 1 when paths
failed, 2 for input or files that cannot be used, 130 and 143 after SIGINT and SIGTERM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

try:
    import typer
    from rich.console import Console as _  # noqa: F401
    from typer.core import TyperGroup
except ImportError:
    sys.exit("the command line needs typer and rich: pip install 'holonax[cli]'")

from holonax.cli.cache import cache
from holonax.cli.catalogue import list_all
from holonax.cli.converge import converge
from holonax.cli.demo import demo
from holonax.cli.explain import explain
from holonax.cli.guard import EXIT_CODES, REFUSED, guarded
from holonax.cli.new import new
from holonax.cli.pictures import plot, view
from holonax.cli.run import run
from holonax.cli.signals import stoppable
from holonax.cli.stored import resume, show
from holonax.cli.terminal import complain, console, width

_WIDEST = 80  # columns of help: longer lines are hard to read


class Group(TyperGroup):
    """The commands, each with its whole sentence in the help, however narrow the terminal is."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(limit=1000)) for name, one in self.commands.items()])


app = typer.Typer(
    cls=Group,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Structure-preserving simulation of constrained, stochastic mechanical systems.",
    epilog=EXIT_CODES,
)
COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_all,
    "demo": demo,
    "new": new,
    "run": run,
    "resume": resume,
    "show": show,
    "plot": plot,
    "view": view,
    "converge": converge,
    "explain": explain,
    "cache": cache,
}
for _name, _command in COMMANDS.items():
    app.command(_name, epilog=EXIT_CODES)(guarded(_command))


def main() -> None:
    """Entry point: exit codes and single lines for what can go wrong, also in the arguments and by signals."""
    if hasattr(console.file, "reconfigure"):
        console.file.reconfigure(errors="backslashreplace")  # an ASCII terminal shows what it can
    with stoppable() as received:
        try:
            arguments = sys.argv[1:] or ["--help"]
            shape = {"prog_name": "holonax", "terminal_width": min(width(), _WIDEST)}
            code = app(arguments, standalone_mode=False, **shape)
        except Exception as error:
            if not hasattr(error, "format_message"):  # what the classes of typer's usage errors have in common
                raise
            complain(f"{error.format_message()} (holonax --help says more)")
            code = REFUSED
    if received:
        os._exit(128 + received[-1])  # an orderly exit now and then ends in a segmentation fault of threads at work
    sys.exit(code)
