"""The command line: `holonax list`, `run`, `converge`, `explain` (extra `cli`).

Results go to stdout, everything else to stderr, an error as one line.  A command returns its exit code: 0, 1 when paths
failed, 2 for input or files that cannot be used, 130 and 143 after SIGINT and SIGTERM.
"""

from __future__ import annotations

import errno
import functools
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

from holonax.cli.files import prepare_folder
from holonax.cli.naming import find_method, find_step_size, find_step_sizes, find_system, name_of, users_error
from holonax.cli.results import write_run, write_studies
from holonax.cli.signals import stoppable
from holonax.engines.explain import explain as explained
from holonax.errors import HolonaxError, InputError, Interrupted, SimulationError
from holonax.methods.base import Method
from holonax.methods.tableaux import TABLEAUX
from holonax.methods.text import required_arguments
from holonax.numerics.newton import Status
from holonax.observables import Mean
from holonax.simulation.run import Run
from holonax.studies.figures import convergence_figure
from holonax.studies.orders import strong_orders, weak_orders
from holonax.systems.entry import Entry

try:
    import typer
    from rich.console import Console
    from rich.table import Table
except ImportError:
    sys.exit("the command line needs typer and rich: pip install 'holonax[cli]'")

from holonax import systems
from holonax.simulation.simulate import simulate

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Structure-preserving simulation of constrained, stochastic mechanical systems.",
)
# Names are the user's: whatever is in brackets or between colons is meant as it stands.
console = Console(markup=False, emoji=False, highlight=False)
complaints = Console(markup=False, emoji=False, highlight=False, stderr=True)

FAILED, REFUSED, INTERRUPTED = 1, 2, 128 + signal.SIGINT
_NAME = 16  # width at which a name may be folded


class OnFailure(StrEnum):
    """What paths that failed mean for the exit code."""

    RAISE = "raise"
    MARK = "mark"


_METHODS = "EulerA, Lobatto:4, Langevin:1,0.5,metropolis=True, VPRK:RATTLE, 'VPRK(lobatto(4))', ..., or file.py:name"
_SYSTEMS = "A name from the catalogue, with arguments as in pendulum:noise=None, or file.py:name."
SystemName = Annotated[str, typer.Argument(help=_SYSTEMS)]
MethodName = Annotated[str, typer.Option("--method", "-m", help=f"{_METHODS}.")]
MethodNames = Annotated[list[str], typer.Option("--method", "-m", help=f"{_METHODS}; may be repeated.")]
Paths = Annotated[int, typer.Option(help="Number of paths.")]
Seed = Annotated[int, typer.Option(help="Seed of the noise.")]
EndTime = Annotated[float, typer.Option(help="End time.")]
Out = Annotated[Path | None, typer.Option(help="Folder for figures, numbers and page.")]
Failures = Annotated[OnFailure, typer.Option(help="If paths fail: exit with 1 (raise) or 0 (mark).")]


def _guarded(command: Callable[..., int]) -> Callable[..., None]:
    """The command, with whatever goes wrong in it as one line and an exit code; only our own bugs have a traceback."""

    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            _check_device()
            text, code = "", command(*arguments, **options)
        except KeyboardInterrupt as error:  # here, because typer has an opinion of its own on it
            text, code = str(error) or "interrupted; what is not shown above is lost", INTERRUPTED
        except SimulationError as error:
            text, code = str(error), FAILED
        except HolonaxError as error:
            text, code = str(error), REFUSED
        except Exception as error:
            text, code = users_error(error) or "", REFUSED
            if not text and isinstance(error, OSError) and error.errno == errno.ENOSPC:
                text = f"cannot write the output: {error.strerror}"
            elif not text:
                raise
        if text:
            _complain(text)
        raise typer.Exit(code)

    return guarded


@app.command("list")
@_guarded
def list_all() -> int:
    """Methods with orders, structure and cost; systems with their sizes.

    Example: holonax list
    """
    columns = ("method", "order", "strong", "weak", "symplectic", "symmetric", "on T*S", "unknowns")
    rows = []
    for kind in Method.listed:
        usage = f"{kind.__name__}:{','.join(required_arguments(kind))}"
        rows += [_properties(method) for method in kind.typical()] or [(usage, *[""] * (len(columns) - 1))]
    _show("Methods", columns, rows)
    tableaux = [
        f"{name}({', '.join(required_arguments(one))})" if callable(one) else name for name, one in TABLEAUX.items()
    ]
    _say(f"Tableaux: {', '.join(tableaux)}")
    rows = []
    for name in systems.names():
        entry = find_system(name)
        sizes = (str(entry.n), str(entry.k), str(entry.m))
        rows.append((name, *sizes, ", ".join(entry.symmetries), ", ".join(entry.facts)))
    _show("Systems", ("system", "n", "k", "m", "conserved", "known in closed form"), rows)
    return 0


@app.command()
@_guarded
def run(
    system: SystemName,
    method: MethodName = "Kicked",
    t1: EndTime = 1.0,
    h: Annotated[str, typer.Option(help="Step size, such as 0.01 or 2^-6.")] = "2^-6",
    paths: Paths = 1000,
    seed: Seed = 0,
    out: Out = None,
    on_failure: Failures = OnFailure.RAISE,
) -> int:
    """Simulate one ensemble and print a summary.

    Example: holonax run pendulum --method Kicked --t1 10 --h 2^-6 --paths 1000
    """
    entry, chosen, size = find_system(system), find_method(method), find_step_size(h)
    if not 0 < t1 / size < math.inf:
        raise InputError(f"t1 = {t1} is {t1 / size} steps of h = {size:g}; both must be positive and finite")
    if out is not None:
        prepare_folder(out)
    every = max(1, round(t1 / size) // 10)
    options = {"save_every": None, "observe": {"energy": Mean(entry.system.energy, every=every)}, "on_failure": "mark"}
    begin = time.perf_counter()
    result = _whole_or_part(
        simulate, entry.system, chosen, entry.start, t1=t1, h=size, paths=paths, seed=seed, **options
    )
    seconds = time.perf_counter() - begin
    _show_run(f"{chosen} on {system}: {len(result.status)} paths, h = {size:g}, {seconds:.1f} s", entry, result)
    if out is not None:
        asked = {"system": system, "method": str(chosen), "t1": t1, "h": size, "paths": paths, "seed": seed}
        write_run(out, asked, result)
        _say(f"written to {out}")
    return _failure_code(result.status.any(), on_failure)


@app.command()
@_guarded
def converge(
    system: SystemName,
    method: MethodNames,
    weak: Annotated[bool, typer.Option("--weak/--strong", help="Weak or strong errors.")] = False,
    h: Annotated[str, typer.Option(help="Step sizes: 2^-4..2^-8, or 0.1,0.05.")] = "2^-4..2^-8",
    t1: EndTime = 1.0,
    paths: Paths = 500,
    seed: Seed = 0,
    out: Out = None,
    on_failure: Failures = OnFailure.RAISE,
) -> int:
    """Measure strong or weak orders of one or several methods on common noise.

    Example: holonax converge pendulum -m EulerA -m Kicked --h 2^-4..2^-8 --paths 500 --out out/strong
    """
    entry, chosen, sizes = find_system(system), [find_method(name) for name in method], find_step_sizes(h)
    if out is not None:
        prepare_folder(out)
    arguments: dict[str, Any] = {"t1": t1, "h": sizes, "paths": paths, "seed": seed, "on_failure": "mark"}
    if weak:
        seen = {f"q{i}": (lambda q, p, i=i: q[i]) for i in range(min(entry.n, 3))} | {"energy": entry.system.energy}
        studies = _whole_or_part(weak_orders, entry.system, chosen, entry.start, observables=seen, **arguments)
    else:
        studies = _whole_or_part(strong_orders, entry.system, chosen, entry.start, **arguments)
    for study in studies:
        _say(study.table())
        if study.failed.any():
            note = f"{study.method}: {study.notes[0]}"  # the one on paths that failed
            _complain(f"{note}; this biases the errors: leave out the largest step sizes")
    if out is not None:
        specification = {"system": system, "methods": method, **arguments, "kind": "weak" if weak else "strong"}
        title = f"{'Weak' if weak else 'Strong'} convergence on {system}"
        figures = {"convergence": convergence_figure(studies)}
        _say(f"written to {write_studies(out, title, studies, figures, specification)}")
    return _failure_code(any(study.failed.any() for study in studies), on_failure)


@app.command()
@_guarded
def explain(
    system: SystemName,
    method: Annotated[str, typer.Argument(help=f"{_METHODS}.")] = "Kicked",
    engine: Annotated[str, typer.Option(help="llvm, cuda, xla, or auto.")] = "auto",
) -> int:
    """Tell what the compiler makes of a method on a system: equations, operations, loops, seconds.

    Example: holonax explain pendulum Kicked
    """
    entry = find_system(system)
    _say(repr(explained(entry.system, find_method(method), n=entry.n, engine=engine)))
    return 0


def _properties(method: Method) -> tuple[str, ...]:
    """The row of a method in the table."""
    orders = (str(method.order), f"{method.strong_order:g}", str(method.weak_order))
    flags = (method.symplectic, method.symmetric, method.keeps_manifold)
    return (name_of(method), *orders, *("yes" if flag else "no" for flag in flags), method.cost.replace(" ", ""))


def _show_run(title: str, entry: Entry, result: Run) -> None:
    """The energy in the course of time, how well the equations were solved, and which paths failed."""
    energy, failures = result.observed["energy"], result.status[result.status != 0]
    rows = [
        (f"{t:.4g}", f"{mean:.6g}", f"{error:.2g}", str(count))
        for t, mean, error, count in zip(energy.t, energy.mean, energy.stderr, energy.count, strict=True)
    ]
    _show(title, ("t", "E energy", "+-", "paths"), rows)
    g = np.abs([entry.system.g(q) for q in result.q[:100, -1]]).max(initial=0.0)
    residual = result.residual.max()
    _say(f"largest |g(q)| at the end (first 100 paths): {g:.1e}; largest Newton residual: {residual:.1e}")
    if len(failures):
        counts = np.bincount(failures)
        worst = Status(int(counts.argmax()))
        often = f"{counts.max()} of them with status {worst.name}"
        _complain(f"{len(failures)} of {len(result.status)} paths failed, {often}: {worst.advice}")


def _whole_or_part(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result, or after an interrupt what was complete by then; the exit code for that is up to `main`."""
    try:
        return function(*arguments, **options)
    except Interrupted as interrupted:
        _complain(str(interrupted))
        return interrupted.result
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted: nothing is complete yet") from None


def _failure_code(failed: bool, on_failure: OnFailure) -> int:
    return FAILED if failed and on_failure is OnFailure.RAISE else 0


def _check_device() -> None:
    """Start JAX here, where it is known what a failure means: later it is an assertion in its depths."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        wish = f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
        reason = str(error) or "it finds no such device"
        raise InputError(f"JAX does not start with {wish}: {reason}; unset JAX_PLATFORMS or set it to cpu") from None


def _show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table if it fits with whole words but for the longest names, otherwise a line for each row."""
    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    table.columns[0].overflow = "fold"
    words = [
        max(len(word) for cell in cells for word in cell.split() or [""]) for cells in zip(columns, *rows, strict=True)
    ]
    if min(words[0], _NAME) + sum(words[1:]) + 2 * len(words) <= console.width:
        console.print(table)
        return
    _say(title)
    for row in rows:
        _say(", ".join(f"{column}: {cell}" for column, cell in zip(columns, row, strict=True) if cell))


def _say(text: str) -> None:
    """Lines of a result, as they are."""
    console.print(text, soft_wrap=True)


def _complain(text: str) -> None:
    """One line on stderr, whatever characters the names in it have."""
    complaints.print("".join(c if c.isprintable() else " " for c in text), soft_wrap=True)


def main() -> None:
    """Entry point: exit codes and single lines for what can go wrong, also in the arguments and by signals."""
    if hasattr(console.file, "reconfigure"):
        console.file.reconfigure(errors="backslashreplace")  # an ASCII terminal shows what it can
    with stoppable() as received:
        try:
            code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        except Exception as error:
            if not hasattr(error, "format_message"):  # what the classes of typer's usage errors have in common
                raise
            _complain(f"{error.format_message()} (holonax --help says more)")
            code = REFUSED
    if received:
        os._exit(128 + received[-1])  # an orderly exit now and then ends in a segmentation fault of threads at work
    sys.exit(code)
