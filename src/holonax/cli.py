"""The command line: `holonax list`, `holonax run`, `holonax converge` (extra `cli`)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from holonax.errors import HolonaxError, Interrupted
from holonax.methods.base import Method
from holonax.naming import find_method, find_step_sizes, find_system
from holonax.observables import Mean
from holonax.report import to_json, versions, write_report
from holonax.studies.figures import convergence_figure
from holonax.studies.orders import strong_orders, weak_orders

try:
    import typer
    from rich.console import Console
    from rich.table import Table
except ImportError:
    sys.exit("the command line needs typer and rich: pip install 'holonax[cli]'")

from holonax import systems
from holonax.ensemble import simulate

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Structure-preserving simulation of constrained, stochastic mechanical systems.",
)
console = Console()

SystemName = Annotated[str, typer.Argument(help="A name from the catalogue, or file.py:name.")]
MethodNames = Annotated[
    list[str], typer.Option("--method", "-m", help="EulerA, Rattle, Lobatto:4, Kicked:midpoint, ...; may be repeated.")
]
Paths = Annotated[int, typer.Option(help="Number of paths.")]
Seed = Annotated[int, typer.Option(help="Seed of the noise.")]
EndTime = Annotated[float, typer.Option(help="End time.")]
Out = Annotated[Path | None, typer.Option(help="Folder for figures, numbers and page.")]


@app.command("list")
def list_all() -> None:
    """Methods with orders, structure and cost; systems with their sizes.

    Example: holonax list
    """
    columns = ("method", "order", "strong", "weak", "symplectic", "symmetric", "on T*S", "unknowns")
    table = Table(*columns, title="Methods")
    for method in Method.examples():
        flags = (method.symplectic, method.symmetric, method.keeps_manifold)
        orders = (str(method.order), f"{method.strong_order:g}", str(method.weak_order))
        table.add_row(str(method), *orders, *("yes" if flag else "no" for flag in flags), method.cost)
    console.print(table)
    table = Table("system", "n", "k", "m", "conserved", "known in closed form", title="Systems")
    for name in systems.names():
        entry = find_system(name)
        sizes = (str(entry.n), str(entry.k), str(entry.m))
        table.add_row(name, *sizes, ", ".join(entry.symmetries), ", ".join(entry.facts))
    console.print(table)


@app.command()
def run(
    system: SystemName,
    method: Annotated[
        str, typer.Option("--method", "-m", help="EulerA, Rattle, Lobatto:4, Kicked:midpoint, ...")
    ] = "Kicked",
    t1: EndTime = 1.0,
    h: Annotated[str, typer.Option(help="Step size, such as 0.01 or 2^-6.")] = "2^-6",
    paths: Paths = 1000,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Simulate one ensemble and print a summary.

    Example: holonax run pendulum --method Kicked --t1 10 --h 2^-6 --paths 1000
    """
    entry, chosen, size = find_system(system), find_method(method), find_step_sizes(h)[0]
    steps = round(t1 / size)
    every = max(1, steps // 10)
    seen = {"energy": Mean(entry.system.energy, every=every)}
    begin = time.perf_counter()
    options = {"save_every": None, "observe": seen, "on_failure": "mark"}
    result = _whole_or_part(
        simulate, entry.system, chosen, entry.start, t1=t1, h=size, paths=paths, seed=seed, **options
    )
    seconds = time.perf_counter() - begin
    done, energy = len(result.status), result.observed["energy"]
    table = Table(
        "t", "E energy", "+-", "paths", title=f"{chosen} on {system}: {done} paths, h = {size:g}, {seconds:.1f} s"
    )
    for t, mean, error, count in zip(energy.t, energy.mean, energy.stderr, energy.count, strict=True):
        table.add_row(f"{t:.4g}", f"{mean:.6g}", f"{error:.2g}", str(count))
    console.print(table)
    g = np.abs([entry.system.g(q) for q in result.q[:100, -1]]).max(initial=0.0)
    console.print(
        f"largest |g(q)| at the end (first 100 paths): {g:.1e}; largest Newton residual: {result.residual.max():.1e}"
    )
    if result.status.any():
        console.print(f"[red]{np.count_nonzero(result.status)} paths failed; use a smaller h[/red]")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        np.savez(out / "ends.npz", t=result.t, q=result.q, p=result.p, status=result.status)
        record = {
            "specification": {
                "system": system,
                "method": str(chosen),
                "t1": t1,
                "h": size,
                "paths": paths,
                "seed": seed,
            },
            "versions": versions(),
            "energy": {"t": energy.t.tolist(), "mean": energy.mean.tolist(), "stderr": energy.stderr.tolist()},
        }
        (out / "run.json").write_text(to_json(record))
        console.print(f"written to {out}")


@app.command()
def converge(
    system: SystemName,
    method: MethodNames,
    weak: Annotated[bool, typer.Option("--weak/--strong", help="Weak or strong errors.")] = False,
    h: Annotated[str, typer.Option(help="Step sizes: 2^-4..2^-8, or 0.1,0.05.")] = "2^-4..2^-8",
    t1: EndTime = 1.0,
    paths: Paths = 500,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Measure strong or weak orders of one or several methods on common noise.

    Example: holonax converge pendulum -m EulerA -m Kicked --h 2^-4..2^-8 --paths 500 --out out/strong
    """
    entry, chosen, sizes = find_system(system), [find_method(name) for name in method], find_step_sizes(h)
    arguments: dict[str, Any] = {"t1": t1, "h": sizes, "paths": paths, "seed": seed, "on_failure": "mark"}
    if weak:
        seen = {f"q{i}": (lambda q, p, i=i: q[i]) for i in range(min(entry.n, 3))} | {"energy": entry.system.energy}
        studies = _whole_or_part(weak_orders, entry.system, chosen, entry.start, observables=seen, **arguments)
    else:
        studies = _whole_or_part(strong_orders, entry.system, chosen, entry.start, **arguments)
    for study in studies:
        console.print(study.table(), highlight=False, markup=False)
    if out is not None:
        specification = {"system": system, "methods": method, **arguments, "kind": "weak" if weak else "strong"}
        title = f"{'Weak' if weak else 'Strong'} convergence on {system}"
        figures = {"convergence": convergence_figure(studies)}
        console.print(f"written to {write_report(out, title, studies, figures, specification)}")


def _whole_or_part(function: Any, *arguments: Any, **options: Any) -> Any:
    """The result, or after Ctrl-C what was done so far."""
    try:
        return function(*arguments, **options)
    except Interrupted as interrupted:
        console.print(f"[yellow]{interrupted}[/yellow]")
        return interrupted.result


def main() -> None:
    """Entry point: errors of ours are one line, not a traceback."""
    try:
        app()
    except HolonaxError as error:
        console.print(f"[red]{error}[/red]")
        sys.exit(2)
