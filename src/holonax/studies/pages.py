"""Studies in words and tables, for the page that tells of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.report.numbers import error_text, power, raised, rounded
from holonax.report.page import Drawn, Numbers, Sheet
from holonax.report.style import as_svg
from holonax.studies.figures import order_text, short_name
from holonax.studies.study import Curve, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_SENTENCES = 5
_WIDE = 8  # inches from which on a figure takes the width of the page
_NEAR = 0.1  # an order is as declared within its interval, or within this


def orders_in_words(study: Study) -> str:
    """What order was found, and whether that is what the method declares."""
    name = short_name(study.method)
    found = [f"{order_text(curve)} in {of}" for of, curve in study.curves.items() if np.isfinite(curve.order)]
    if not found:
        return (
            f"{study.method}: every {study.kind} error is below the noise of {study.paths} paths, which gives no order"
        )
    judged = {_judged(curve, study.declared) for curve in study.curves.values() if np.isfinite(curve.order)}
    verdict = judged.pop() if len(judged) == 1 else "not all as"
    listed = found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
    return f"{name} converges with {study.kind} order {listed}: {verdict} declared ({study.declared:g})"


def _judged(curve: Curve, declared: float) -> str:
    low, high = curve.interval
    low, high = (low, high) if np.isfinite(high - low) else (curve.order, curve.order)
    if min(low, curve.order - _NEAR) <= declared <= max(high, curve.order + _NEAR):
        return "as"
    return "more than" if curve.order > declared else "less than"


def study_sheet(
    title: str,
    studies: Sequence[Study],
    figures: Mapping[str, tuple[Figure, str]],
    specification: Mapping[str, Any],
    code: str,
    headline: str | None = None,
) -> Sheet:
    """The page of some studies; `figures` come with their captions, `code` repeats it."""
    sentences = [orders_in_words(study) for study in studies]
    if headline is not None or len(studies) > 1:
        sentences.insert(0, headline or _orders_in_short(studies))
    first, *others = sentences if len(sentences) <= _MOST_SENTENCES else sentences[:1]  # the table says the rest
    return Sheet(
        title,
        first.rstrip(".") + ".",
        lead=[sentence + "." for sentence in others],
        facts=_facts(studies),
        figures=[
            Drawn(name, as_svg(figure), caption, wide=figure.get_figwidth() > _WIDE)
            for name, (figure, caption) in figures.items()
        ],
        tables=[_orders(studies), _levels(studies)],
        notes=[f"{short_name(study.method)}, {study.kind}: {note}" for study in studies for note in study.notes],
        code=code,
        specification=specification,
    )


def _orders_in_short(studies: Sequence[Study]) -> str:
    """The order of each method in the first quantity that they have in common."""
    quantity = next(iter(studies[0].curves))
    found = (f"{short_name(study.method)} {order_text(study[quantity])}" for study in studies)
    return f"{studies[0].kind.capitalize()} order in {quantity}: {', '.join(found)}"


def _facts(studies: Sequence[Study]) -> list[tuple[str, str]]:
    facts = []
    for kind in dict.fromkeys(study.kind for study in studies):
        chosen = [study for study in studies if study.kind == kind]
        sizes = sorted({float(h) for study in chosen for h in study.h})
        facts += [
            (f"{chosen[0].paths:,}", f"paths, {kind} errors"),
            (raised(f"{power(sizes[-1])} to {power(sizes[0])}"), f"step sizes, {kind}"),
        ]
    failed = sum(int(np.max(study.failed)) for study in studies)
    return [*facts, (str(len({study.method for study in studies})), "methods"), (f"{failed:,}", "paths that failed")]


def _orders(studies: Sequence[Study]) -> Numbers:
    rows = []
    for study in studies:
        for name, curve in study.curves.items():
            low, high = curve.interval
            interval = f"{low:.2f} to {high:.2f}" if np.isfinite(high - low) else "-"
            order = (order_text(curve).partition(" ±")[0], float(curve.order))
            declared = (f"{study.declared:g}", float(study.declared))
            rows.append((short_name(study.method), study.kind, name, order, interval, declared))
    columns = ("method", "error", "of", "order", "95 % interval", "declared")
    return Numbers("orders", "Orders", columns, rows)


def _levels(studies: Sequence[Study]) -> Numbers:
    rows: list[Sequence[str | tuple[str, float]]] = []
    for study in studies:
        for name, curve in study.curves.items():
            for h, error, width, used, slope in zip(
                curve.h, curve.error, curve.half_width, curve.used, [np.nan, *curve.slopes], strict=True
            ):
                cells = (
                    (raised(power(float(h))), float(h)),
                    (rounded(float(error), float(width)), float(error)),
                    (error_text(float(width)), float(width)),
                    (f"{slope:.2f}" if np.isfinite(slope) else "-", float(slope)),
                )
                rows.append((short_name(study.method), study.kind, name, *cells, "yes" if used else "no, noise"))
    columns = (
        "method",
        "error",
        "of",
        "h",
        "size",
        "half of the 95 % interval",
        "slope to the next larger h",
        "fitted",
    )
    return Numbers("levels", "Errors at every step size", columns, rows, folded=True)
