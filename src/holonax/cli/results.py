"""Runs and studies on disk: figures (PNG, SVG), numbers (CSV, JSON) and one HTML page that opens without a network."""

from __future__ import annotations

import csv
import html
import io
import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from holonax.cli.files import prepare_folder, whole_file, write_text
from holonax.simulation.run import Run
from holonax.studies.study import Study
from holonax.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .2rem .8rem; text-align: right; }
th { border-bottom: 2px solid #888; } td:first-child, th:first-child { text-align: left; }
tr:nth-child(even) { background: #f4f4f4; } pre { background: #f4f4f4; padding: 1rem; overflow-x: auto; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; } .note { color: #a40; }
"""


def versions() -> dict[str, str]:
    """What a result depends on besides its parameters."""
    return {
        "holonax": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "backend": jax.default_backend(),
    }


def write_run(directory: Path, specification: Mapping[str, Any], run: Run) -> None:
    """Write the ends of the paths, what was asked, and the energy that the run observed."""
    with whole_file(directory / "ends.npz") as file:
        np.savez(file, t=run.t, q=run.q, p=run.p, status=run.status)
    energy = run.observed["energy"]
    record = {
        "specification": specification,
        "versions": versions(),
        "done": len(run.status),
        "failed": int(np.count_nonzero(run.status)),
        "energy": {"t": energy.t.tolist(), "mean": energy.mean.tolist(), "stderr": energy.stderr.tolist()},
    }
    write_text(directory / "run.json", to_json(record))


def write_studies(
    directory: Path,
    title: str,
    studies: Sequence[Study],
    figures: Mapping[str, Figure],
    specification: Mapping[str, Any],
) -> Path:
    """Write everything into `directory`; the path of the page."""
    prepare_folder(directory)
    drawings = {}
    for name, figure in figures.items():
        for kind in ("png", "svg"):
            with whole_file(directory / f"{name}.{kind}") as file:
                figure.savefig(file, format=kind, dpi=150)
        drawings[name] = _inline(figure)
    full = {"versions": versions(), **specification}
    rows = [row for study in studies for row in study.rows()]
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_text(directory / "results.csv", table.getvalue())
    record = {
        "title": title,
        "specification": full,
        "studies": [dict(study.specification) | {"kind": study.kind, "method": study.method} for study in studies],
        "results": rows,
        "notes": [note for study in studies for note in study.notes],
    }
    write_text(directory / "results.json", to_json(record))
    page = directory / "index.html"
    write_text(page, _page(title, studies, drawings, full))
    return page


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


def _inline(figure: Figure) -> str:
    """A figure as an SVG element, without the XML prologue that names outside addresses."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    drawing = buffer.getvalue()
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    return drawing[drawing.index("<svg") :]


def _page(title: str, studies: Sequence[Study], drawings: Mapping[str, str], specification: Mapping[str, Any]) -> str:
    rows = []
    for study in studies:
        for name, curve in study.curves.items():
            low, high = curve.interval
            cells = (
                study.method,
                study.kind,
                name,
                f"{curve.order:.3f}",
                f"[{low:.3f}, {high:.3f}]",
                f"{study.declared:g}",
            )
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    figures = "".join(
        f"<figure id='{html.escape(name)}'>{drawing}<figcaption>{html.escape(name)}</figcaption></figure>"
        for name, drawing in drawings.items()
    )
    notes = "".join(
        f"<p class='note'>{html.escape(study.method)}: {html.escape(note)}</p>"
        for study in studies
        for note in study.notes
    )
    tables = "".join(f"<pre>{html.escape(study.table())}</pre>" for study in studies)
    header = "<tr><th>method</th><th>error</th><th>of</th><th>order</th><th>95 % interval</th><th>declared</th></tr>"
    parameters = html.escape(to_json(specification))
    return (
        f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
        f"<link rel='icon' href='data:,'><style>{_STYLE}</style></head><body><h1>{html.escape(title)}</h1>"
        f"<table id='orders'>{header}{''.join(rows)}</table>{notes}{figures}<h2>Levels</h2>{tables}"
        f"<h2>Specification</h2><pre>{parameters}</pre></body></html>\n"
    )
