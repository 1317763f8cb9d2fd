"""`run.report`: a page on a run, with what was found in words, figures, tables, and the viewer of its paths."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.errors import InputError, shown
from holonax.methods.text import written
from holonax.numerics.newton import Status
from holonax.observables.autocorrelation import AutocorrelationResult
from holonax.observables.histogram import HistogramResult
from holonax.observables.mean import MeanResult
from holonax.progress import duration
from holonax.report.files import write_text
from holonax.report.numbers import count, power, raised, rounded, with_error
from holonax.report.page import Drawn, Numbers, Sheet
from holonax.report.style import COLOURS, as_svg, house, panels

if TYPE_CHECKING:
    from holonax.simulation.run import Run
    from holonax.viewer.drawing import Drawing

_ROWS = 40  # of a table


def write_report(run: Run, file: str | PathLike[str], drawing: Drawing | None = None, title: str | None = None) -> Path:
    """Write the page of a run."""
    if not isinstance(file, (str, PathLike)) or not str(file):
        raise InputError(f"file = {shown(file)}: pass the name of a page to write, such as run.html")
    path = Path(file)
    write_text(path, run_sheet(run, drawing, title).html())
    return path


def run_sheet(run: Run, drawing: Drawing | None = None, title: str | None = None) -> Sheet:
    """What is on the page of a run."""
    status = np.asarray(run.status)
    failed = int(np.count_nonzero(status > 0))
    frame, notes = _viewer(run, drawing, title)
    total, running = len(status) * run.steps, run.seconds["running"]
    facts = [
        (count(len(status)), "paths"),
        (count(run.steps), f"steps of h = {raised(power(run.h))}"),
        (count(failed), "paths that failed"),
        (f"{np.asarray(run.residual).max(initial=0.0):.1e}", "largest residual of Newton"),
        (duration(running), "to run"),
    ]
    if not run.observed:  # whose compilation counts as running
        facts.append((count(total / max(running, 1e-9)), "path-steps per second"))
    return Sheet(
        title=f"{written(run.method)} on {run.origin or run.system}" if title is None else title,
        headline=_headline(run, failed),
        lead=[f"{name}: {_in_words(result)}." for name, result in run.observed.items() if name != _foremost(run)],
        facts=facts,
        figures=[*_paths_figure(run), *(one for item in run.observed.items() for one in _figure(*item))],
        tables=[_status_table(status), *(one for item in run.observed.items() for one in _table(*item))],
        notes=[*_failures(status, failed), *notes],
        code=_code(run),
        specification=_specification(run),
        frame=frame,
    )


def _headline(run: Run, failed: int) -> str:
    """How the paths fared, and the first mean that was observed."""
    paths = len(run.status)
    if not run.complete:
        fared = f"{count(paths)} paths on their way to t = {run.t1:g}"
    elif failed:
        fared = f"{count(failed)} of {count(paths)} paths failed on the way to t = {run.t1:g}"
    else:
        which = "The path" if paths == 1 else f"All {count(paths)} paths"
        fared = f"{which} reached t = {run.t1:g}, every equation solved to {np.max(run.residual):.0e}"
    name = _foremost(run) if failed < paths else None
    return f"{fared}." if name is None else f"{fared}; mean {name} {_in_words(run.observed[name])}."


def _foremost(run: Run) -> str | None:
    """The first mean that was observed: it is in the headline."""
    return next((name for name, result in run.observed.items() if isinstance(result, MeanResult)), None)


def _in_words(result: Any) -> str:
    """The last mean, or what comes closest to it."""
    if isinstance(result, MeanResult):
        mean, error = np.asarray(result.mean), np.asarray(result.stderr)
        at = f" at t = {result.t[-1]:g}" if mean.ndim and len(mean) == len(result.t) else ""
        if not mean.ndim:
            return with_error(float(mean), float(error))
        if mean.ndim == 1 and at:
            return with_error(float(mean[-1]), float(error[-1])) + at
        return f"{mean.size} means, from {mean.min():.4g} to {mean.max():.4g}"
    if isinstance(result, HistogramResult):
        return f"{count(float(np.sum(result.count)))} values in {len(result.edges) - 1} bins"
    if isinstance(result, AutocorrelationResult):
        times = np.asarray(result.integrated_time)
        known = times[np.isfinite(times)]
        if not known.size:
            return "the lags do not reach far enough for a correlation time"
        return f"correlation time {known.mean():.3g}"
    return f"{type(result).__name__.removesuffix('Result').lower()} of {count(float(np.sum(result.count)))} values"


def _paths_figure(run: Run) -> list[Drawn]:
    """The quick look, where there is something to see."""
    if len(run.t) < 2:
        return []
    caption = (
        "The paths at a glance. Left, means over time with the band that holds the middle 90 % of the paths; "
        "centre, momentum against position, with dots where the paths are at the end; right, how they are spread then."
    )
    return [Drawn("paths", as_svg(run.plot()), caption, wide=True)]


def _figure(name: str, result: Any) -> list[Drawn]:
    """A mean over time with its error, a histogram, or an autocorrelation, of a single number."""
    with house():
        figure, (axis,) = panels(1)
        axis.grid(visible=True)
        if isinstance(result, MeanResult) and np.ndim(result.mean) == 1 and 2 < len(result.t) == len(result.mean):
            low, high = (result.mean + sign * 1.96 * result.stderr for sign in (-1, 1))
            axis.fill_between(result.t, low, high, color=COLOURS[0], alpha=0.25, linewidth=0)
            axis.plot(result.t, result.mean, color=COLOURS[0])
            axis.set(xlabel="t", ylabel=f"E {name}")
            caption = f"Mean of {name} over the paths. The band is its 95 % interval, 1.96 standard errors each way."
        elif isinstance(result, HistogramResult) and result.density.ndim == 1:
            axis.stairs(result.density, result.edges, fill=True, color=COLOURS[0], alpha=0.6)
            axis.set(xlabel=name, ylabel="density")
            caption = f"Where {name} is. Estimated density of {count(float(np.sum(result.count)))} values."
        elif isinstance(result, AutocorrelationResult) and np.ndim(result.autocorrelation) == 1:
            axis.plot(result.t, result.autocorrelation, color=COLOURS[0])
            axis.set(xlabel="lag", ylabel=f"autocorrelation of {name}")
            caption = f"How long {name} is remembered. At lag 0 it is 1; where it is 0 the values are uncorrelated."
        else:
            return []
    return [Drawn(f"observed_{name}", as_svg(figure), caption)]


def _table(name: str, result: Any) -> list[Numbers]:
    """Means over time, as many rows as can be read."""
    if not (isinstance(result, MeanResult) and np.ndim(result.mean) == 1 and len(result.t) == len(result.mean)):
        return []
    chosen = np.unique(np.linspace(0, len(result.t) - 1, _ROWS).round().astype(int))
    rows = []
    for i in chosen:
        mean, error = float(result.mean[i]), float(result.stderr[i])
        paths = (f"{int(result.count[i]):,}", float(result.count[i]))
        time = (f"{result.t[i]:.6g}", float(result.t[i]))
        rows.append([time, (rounded(mean, error), mean), (with_error(0.0, error).partition("± ")[2], error), paths])
    return [Numbers(f"means_{name}", f"Mean of {name}", ("t", "mean", "standard error", "paths"), rows, folded=True)]


def _status_table(status: np.ndarray) -> Numbers:
    numbers, counts = np.unique(status, return_counts=True)
    rows = [
        (
            "not run yet" if number < 0 else Status(int(number)).name,
            (f"{times:,}", float(times)),
            "" if number < 0 else Status(int(number)).advice if number else "every step was solved",
        )
        for number, times in zip(numbers, counts.tolist(), strict=True)
    ]
    return Numbers("statuses", "How the paths fared", ("status", "paths", "what it means"), rows)


def _failures(status: np.ndarray, failed: int) -> list[str]:
    if not failed:
        return []
    worst = Status(int(np.bincount(status[status > 0]).argmax()))
    return [f"{count(failed)} of {count(len(status))} paths failed, most of them with {worst.name}: {worst.advice}"]


def _viewer(run: Run, drawing: Drawing | None, title: str | None) -> tuple[str, list[str]]:
    """The page that plays the paths, and what it leaves out; nothing for what has no place in space."""
    if len(run.t) < 2:
        return "", []
    try:
        page = run.view(drawing=drawing, title=title)
    except InputError as reason:
        return "", [f"The paths are not drawn in space: {reason}"]
    return page.html, list(page.notes)


def _code(run: Run) -> str:
    """Lines that make the run again, as far as they are known."""
    file, _, name = (run.origin or "").rpartition(":")
    if run.origin is None:
        entry = "...  # hx.Entry(name, system, start) of yours"
    else:
        entry = f"...  # {name} of {file}" if file.endswith(".py") else f"hx.systems.{run.origin}"
    observed = ", observe=..." if run.observed else ""
    saved = round(run.steps / (len(run.t) - 1)) if len(run.t) > 1 else None
    times = f"t0={run.t0!r}, t1={run.t1!r}, h={run.h!r}, paths={len(run.status)}, seed={run.seed}"
    return (
        f"import holonax as hx\n\nentry = {entry}\nmethod = hx.Method.parse({str(run.method)!r})\n"
        f"run = hx.simulate(entry.system, method, entry.start, {times}, save_every={saved}{observed})\n"
        'run.report("run.html")'
    )


def _specification(run: Run) -> dict[str, Any]:
    values = {name: np.array2string(np.asarray(x), threshold=6) for name, x in run.parameters.items()}
    return {
        "system": f"{run.origin}: {run.system}" if run.origin else run.system,
        **{f"parameter {name}": text for name, text in values.items()},
        "method": str(run.method),
        "h": run.h,
        "t0": run.t0,
        "t1": run.t1,
        "steps": run.steps,
        "paths": len(run.status),
        "seed": run.seed,
        "first step of the noise": run.first_step,
        "engine": f"{run.engine}: {run.reason}",
        "seconds to compile": f"{run.seconds['compiling']:.3g}",
        "store": run.store or "none",
    }
