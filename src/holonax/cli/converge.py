"""`holonax converge`: strong or weak orders, measured."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import numpy as np
import typer

from holonax.cli import naming
from holonax.cli.guard import OnFailure, failure_code, whole_or_part
from holonax.cli.options import AsJson, EndTime, Failures, MethodNames, Out, Paths, Seed, SystemName
from holonax.cli.results import study_record, write_studies
from holonax.cli.terminal import complain, say_wrapped, show_json, show_table
from holonax.report.files import prepare_folder
from holonax.report.numbers import error_text, power, rounded
from holonax.studies.figures import convergence_figure, order_text
from holonax.studies.orders import strong_orders, weak_orders
from holonax.studies.pages import study_sheet
from holonax.studies.study import Study


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
    as_json: AsJson = False,
) -> int:
    """Measure strong or weak orders of one or several methods on common noise.

    Example: holonax converge pendulum -m EulerA -m Kicked --h 2^-4..2^-8 --paths 500 --out out/strong
    """
    chosen, sizes = [naming.find_method(name) for name in method], naming.find_step_sizes(h)
    entry = naming.find_system(system)
    if out is not None:
        prepare_folder(out)
    arguments: dict[str, Any] = {"t1": t1, "h": sizes, "paths": paths, "seed": seed, "on_failure": "mark"}
    if weak:
        seen = {f"q{i}": (lambda q, p, i=i: q[i]) for i in range(min(entry.n, 3))} | {"energy": entry.system.energy}
        studies = whole_or_part(weak_orders, entry.system, chosen, entry.start, observables=seen, **arguments)
    else:
        studies = whole_or_part(strong_orders, entry.system, chosen, entry.start, **arguments)
    specification = {"system": system, "methods": method, **arguments, "kind": "weak" if weak else "strong"}
    title = f"{'Weak' if weak else 'Strong'} convergence on {system}"
    if as_json:
        show_json(study_record(title, studies, specification))
    for study in studies:
        if not as_json:
            _show_study(study)
        if study.failed.any():
            note = f"{study.method}: {study.notes[0]}"  # the one on paths that failed
            complain(note)
    if out is not None:
        figures = {"convergence": (convergence_figure(studies), _CAPTION)}
        sheet = study_sheet(title, studies, figures, specification, shlex.join(["holonax", *sys.argv[1:]]))
        page = write_studies(out, sheet, studies, figures, specification)
        if not as_json:
            say_wrapped(f"written to {page}")
    return failure_code(any(study.failed.any() for study in studies), on_failure)


_CAPTION = (
    "Error against step size, both on logarithmic scales. The slope of a curve is its order, printed beside it with "
    "half the width of its 95 % interval; the dotted line has the declared order. Bars are 95 % intervals; a level "
    "with a cross is noise and not fitted."
)


def _show_study(study: Study) -> None:
    """Orders in a sentence, then a table of the levels for each quantity."""
    say_wrapped(f"{study.kind} errors of {study.method}, {study.paths} paths, against {study.reference}")
    for name, curve in study.curves.items():
        order = order_text(curve).replace("±", "+-")
        rows = [
            (
                power(float(h)),
                rounded(float(error), float(width)),
                error_text(float(width)),
                f"{slope:.2f}" if np.isfinite(slope) else "",
                "" if used else "noise",
            )
            for h, error, width, used, slope in zip(
                curve.h, curve.error, curve.half_width, curve.used, [np.nan, *curve.slopes], strict=True
            )
        ]
        title = f"{name}: order {order}, declared {study.declared:g}"
        show_table(title, ("h", "error", "+-", "slope", ""), rows)
    for note in study.notes:
        say_wrapped(f"note: {note}", indent="  ")
