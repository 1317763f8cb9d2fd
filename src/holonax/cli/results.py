"""Runs and studies on disk: figures (PNG, SVG), numbers (CSV, JSON) and one HTML page that opens without a network."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.report.files import prepare_folder, whole_file, write_text
from holonax.report.page import Sheet, made_with
from holonax.simulation.run import Run
from holonax.studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_run(directory: Path, record: Mapping[str, Any], run: Run) -> None:
    """Write the ends of the paths, what is known of the run besides, and a page on it."""
    with whole_file(directory / "ends.npz") as file:
        np.savez(file, t=run.t, q=run.q, p=run.p, status=run.status)
    write_text(directory / "run.json", to_json({"versions": made_with(), **record}))
    run.report(directory / "index.html")


def write_studies(
    directory: Path,
    sheet: Sheet,
    studies: Sequence[Study],
    figures: Mapping[str, tuple[Figure, str]],
    specification: Mapping[str, Any],
) -> Path:
    """Write everything into `directory`; the path of the page."""
    prepare_folder(directory)
    for name, (figure, _) in figures.items():
        for kind in ("png", "svg"):
            with whole_file(directory / f"{name}.{kind}") as file:
                figure.savefig(file, format=kind, dpi=150)
    rows = [row for study in studies for row in study.rows()]
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_text(directory / "results.csv", table.getvalue())
    write_text(directory / "results.json", to_json(study_record(sheet.title, studies, specification)))
    page = directory / "index.html"
    write_text(page, sheet.html())
    return page


def study_record(title: str, studies: Sequence[Study], specification: Mapping[str, Any]) -> dict[str, Any]:
    """All that studies found, for programs."""
    return {
        "title": title,
        "specification": {"versions": made_with(), **specification},
        "studies": [dict(study.specification) | {"kind": study.kind, "method": study.method} for study in studies],
        "results": [row for study in studies for row in study.rows()],
        "notes": [note for study in studies for note in study.notes],
    }


def to_json(record: Any) -> str:
    """JSON that every reader accepts: numbers that are not finite become null."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if isinstance(value, float):
            return value if np.isfinite(value) else None
        return value if isinstance(value, (str, int, bool, type(None))) else str(value)

    return json.dumps(plain(record), indent=2, allow_nan=False) + "\n"
