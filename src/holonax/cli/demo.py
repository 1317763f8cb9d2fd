"""`holonax demo`: the paper's experiment, the stochastically perturbed spherical pendulum, with a page of its results.

First what each method keeps and costs, then the strong and the weak error of some of them, as the paper's two figures
show them for one, then which method to use for a wanted error.
"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from matplotlib.figure import Figure

from holonax.cli import naming
from holonax.cli.options import AsJson
from holonax.cli.results import study_record, write_studies
from holonax.cli.terminal import say_wrapped, show_json, show_table
from holonax.methods import VPRK, EulerA, EulerPrinted, Kicked, Lobatto32, Rattle
from holonax.methods.base import Method
from holonax.methods.tableau import Tableau
from holonax.observables import Mean
from holonax.progress import duration
from holonax.report.files import prepare_folder
from holonax.report.numbers import error_text, rounded
from holonax.report.page import Numbers
from holonax.simulation.run import Run
from holonax.simulation.simulate import simulate
from holonax.studies.efficiency import WorkPrecision, work_precision
from holonax.studies.figures import convergence_figure, methods_figure, order_text, short_name
from holonax.studies.orders import strong_order, weak_orders
from holonax.studies.pages import study_sheet
from holonax.studies.study import Study
from holonax.systems.entry import Entry

TITLE = "The stochastically perturbed spherical pendulum"
WANTED = 1e-4
OBSERVABLES = {
    "q_z": lambda q, p: q[2],
    "q_x^2": lambda q, p: q[0] ** 2,
    "p_y": lambda q, p: p[1],
    "H": lambda q, p: 0.5 * p @ p + q[2],
}


class Size(NamedTuple):
    """How much is measured."""

    methods: tuple[Method, ...]
    strong: dict[str, Any]
    weak: dict[str, Any]
    erratum_levels: range | None  # of h = 2^-k


FULL = Size(
    (EulerA(), EulerPrinted(), Rattle(), Kicked(), Lobatto32()),
    {"t1": 1.0, "h": [2.0**-k for k in range(5, 10)], "paths": 512, "seed": 0},
    {"t1": 1.0, "h": [2.0**-k for k in range(3, 7)], "paths": 8192, "seed": 0},
    range(2, 10),
)
SMALL = Size(
    (EulerA(), Rattle(), Kicked()),
    {"t1": 1.0, "h": [2.0**-k for k in range(4, 8)], "paths": 256, "seed": 0},
    {"t1": 1.0, "h": [2.0**-k for k in range(3, 6)], "paths": 4096, "seed": 0},
    None,
)


def demo(
    full: Annotated[bool, typer.Option("--full", help="All methods and more paths: a few minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for figures, numbers and page.")] = Path("out/demo"),
    as_json: AsJson = False,
) -> int:
    """Repeat the paper's experiment on the pendulum, and write a page on it.

    Example: holonax demo
    """
    begin = time.perf_counter()
    prepare_folder(out)
    size, entry = FULL if full else SMALL, naming.find_system("pendulum")
    kept = [_kept(entry, method) for method in (Method.examples() if full else size.methods)]
    work = work_precision(entry.system, size.methods, entry.start, **size.strong)
    weak = weak_orders(entry.system, size.methods, entry.start, observables=OBSERVABLES, **size.weak)
    studies = [*work.studies, *weak]
    ratio = work.times_cheaper(Kicked(), EulerA(), WANTED)
    headline = _headline(ratio, weak[0])
    specification = {"system": "pendulum", "strong": size.strong, "weak": size.weak, "times_cheaper_at_1e-4": ratio}
    figures = _figures(work, weak, None if size.erratum_levels is None else _erratum_3(size.erratum_levels))
    command = shlex.join(["holonax", *sys.argv[1:]])
    sheet = study_sheet(TITLE, studies, figures, specification, command, headline)
    tables = [*sheet.tables[:1], _structure_table(kept), *sheet.tables[1:]]
    sheet = replace(sheet, tables=tables, frame=_paths_to_see(entry).view(title=TITLE).html)
    page = write_studies(out, sheet, studies, figures, specification)
    if as_json:
        show_json(study_record(TITLE, studies, specification) | {"headline": headline, "page": str(page)})
        return 0
    _show_structure(kept)
    for kind, chosen in (("Strong", work.studies), ("Weak", weak)):
        rows = [(short_name(study.method), f"{study.declared:g}", *_orders(study)) for study in chosen]
        show_table(f"{kind} orders at t = 1", ("method", "declared", *chosen[0].curves), rows)
    say_wrapped(headline)
    say_wrapped(f"{page} and its figures and numbers written in {duration(time.perf_counter() - begin)}")
    return 0


class Kept(NamedTuple):
    """What a method keeps of the pendulum, and what it costs."""

    method: str
    constraint: float
    hidden: float
    energy: float
    stderr: float
    seconds: float


def _kept(entry: Entry, method: Method) -> Kept:
    """Constraints, energy and time of a method: 32 paths to t = 5 in steps of 1/64, the same noise for all."""
    energy, seconds = Mean(OBSERVABLES["H"]), []
    for _ in range(2):  # the first call compiles
        begin = time.perf_counter()
        run = simulate(
            entry.system, method, entry.start, t1=5.0, h=1 / 64, paths=32, save_every=8, observe={"H": energy}
        )
        seconds.append(time.perf_counter() - begin)
    g = float(np.abs(np.sum(run.q**2, axis=-1) - 1.0).max())
    hidden = float(np.abs(2.0 * np.sum(run.q * run.p, axis=-1)).max())
    H = run.observed["H"]
    return Kept(naming.name_of(method), g, hidden, float(H.mean[-1]), float(H.stderr[-1]), seconds[1])


def _paths_to_see(entry: Entry) -> Run:
    """Paths for the viewer of the page."""
    return simulate(entry.system, Kicked(), entry.start, t1=10.0, h=1 / 64, paths=300, save_every=4)


_STRUCTURE = "What each method keeps: 32 paths to t = 5 in steps of 1/64, the same noise for all"
_COLUMNS = ("method", "|g(q)|", "|g'(q) v|", "E H", "+-", "seconds")


def _texts(kept: Kept) -> tuple[str, ...]:
    energy = (rounded(kept.energy, kept.stderr), error_text(kept.stderr))
    return (kept.method, f"{kept.constraint:.1e}", f"{kept.hidden:.1e}", *energy, f"{kept.seconds:.2g}")


def _show_structure(kept: list[Kept]) -> None:
    show_table(_STRUCTURE, _COLUMNS, [_texts(one) for one in kept])


def _structure_table(kept: list[Kept]) -> Numbers:
    rows: list[list[str | tuple[str, float]]] = [[one.method, *_sortable(one)] for one in kept]
    return Numbers("structure", _STRUCTURE, _COLUMNS, rows)


def _sortable(kept: Kept) -> list[tuple[str, float]]:
    _, *numbers = kept
    return list(zip(_texts(kept)[1:], map(float, numbers), strict=True))


def _orders(study: Study) -> list[str]:
    return [order_text(curve).replace("±", "+-") for curve in study.curves.values()]


def _headline(ratio: float, weak: Study) -> str:
    """The two findings, in words, as far as the numbers bear them out."""
    cheaper = f"Kicked reaches a strong error of 1e-4 in {ratio:.0f} times less time than EulerA"
    curve = weak["q_z"]
    low, high = curve.interval
    if low > 0.8 and high < 1.2:
        return f"{cheaper}; the weak error of EulerA has slope 1, and not the 3/2 that the paper reads off (erratum E4)"
    return f"{cheaper}; the weak error of EulerA in q_z has slope {order_text(curve)}"


def _erratum_3(levels: range) -> Study:
    """RATTLE with the obvious weights, from step sizes where it looks like order 2 down to where it is of order 1."""
    weighted = VPRK(Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], kappa=[1, -1]))
    entry = naming.find_system("pendulum(sigma=0.5)")
    return strong_order(entry.system, weighted, entry.start, t1=1.0, h=[2.0**-k for k in levels], paths=256, refine=8)


def _figures(work: WorkPrecision, weak: list[Study], erratum: Study | None) -> dict[str, tuple[Figure, str]]:
    """The figures, each with a caption that says what is to be seen."""
    strong = list(work.studies)
    figures = {
        "strong_methods": (
            methods_figure(strong, "q", (1.0, 1.5)),
            "Kicked gains half an order. Strong error of q against step size: the same noise for all methods, so that "
            "a curve that is lower at the same h is better on every path, and a steeper one wins in the end.",
        ),
        "work_precision": (
            work.plot(),
            "What an error costs. Left, in steps: a method of higher order needs fewer. Right, in measured time: its "
            "steps are dearer, and it still wins.",
        ),
        "weak_methods": (
            methods_figure(weak, "H", (1.0, 2.0)),
            "Errors of the mean energy. Kicked is of weak order 2, EulerA and Rattle of 1. Crosses are levels whose "
            "error is below the noise of the paths; they are not fitted.",
        ),
        "strong_error": (
            convergence_figure(strong[:1]),
            "The paper's first figure. Strong errors of EulerA in position and momentum fall with slope 1.",
        ),
        "weak_error": (
            convergence_figure(weak[:1]),
            "The paper's second figure. Weak errors of EulerA in four observables: slope 1, where the paper reads off "
            "3/2 (erratum E4).",
        ),
    }
    if erratum is not None:
        figures["erratum_3"] = (
            convergence_figure([erratum]),
            "RATTLE with kappa = (1, -1) only looks like order 2. The curve is steep at large h and bends to slope 1 "
            "at small h: such weights do not raise the strong order (erratum E3, sigma = 0.5).",
        )
    return figures
