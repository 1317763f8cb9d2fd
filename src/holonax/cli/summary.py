"""What the command line says of a run: in tables for people, and as a record for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from holonax.cli.terminal import complain, say_wrapped, show_table
from holonax.numerics.newton import Status
from holonax.observables.autocorrelation import AutocorrelationResult
from holonax.observables.histogram import HistogramResult
from holonax.observables.maximum import MaxResult
from holonax.observables.mean import MeanResult
from holonax.observables.moments import MomentsResult
from holonax.report.numbers import error_text, rounded
from holonax.simulation.run import Run
from holonax.systems.entry import Entry

_ROWS = 11  # of a time series in a table
_ENTRIES = 8  # of a quantity with several


def run_record(specification: dict[str, Any], run: Run) -> dict[str, Any]:
    """All but the paths themselves."""
    return {
        "specification": specification,
        "done": len(run.status),
        "failed": int(np.count_nonzero(np.asarray(run.status) > 0)),
        "statuses": status_counts(np.asarray(run.status)),
        "engine": run.engine,
        "reason": run.reason,
        "seconds": run.seconds,
        "largest_residual": float(np.asarray(run.residual).max(initial=0.0)),
        "observed": {name: result_record(result) for name, result in run.observed.items()},
    }


def result_record(result: Any) -> dict[str, Any]:
    """The arrays of an observable's result, as lists."""
    named = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    return {name: np.asarray(value).tolist() for name, value in named.items() if np.ndim(value) or np.isscalar(value)}


def status_counts(status: np.ndarray) -> dict[str, int]:
    """How many paths have which status, by name; those that have not run yet count as such."""
    numbers, counts = np.unique(status, return_counts=True)
    names = ("not run yet" if number < 0 else Status(int(number)).name for number in numbers)
    return dict(zip(names, counts.tolist(), strict=True))


def show_run(title: str, entry: Entry, run: Run) -> None:
    """What was observed, how well the equations were solved, and which paths failed."""
    say_wrapped(title)
    show_results(run)
    if not run.complete:
        return
    g = np.abs([entry.system.g(q) for q in run.ends.q[:100]]).max(initial=0.0)
    residual = np.asarray(run.residual).max(initial=0.0)
    say_wrapped(f"largest |g(q)| at the end (first 100 paths): {g:.1e}; largest Newton residual: {residual:.1e}")
    complain_of_failures(run)


def show_results(run: Run) -> None:
    """What was observed, a table for each."""
    for name, result in run.observed.items():
        _show_result(name, result)


def complain_of_failures(run: Run) -> None:
    """One line on stderr, if paths failed."""
    status = np.asarray(run.status)
    failures = status[status > 0]
    if len(failures):
        counts = np.bincount(failures)
        worst = Status(int(counts.argmax()))
        often = f"{counts.max()} of them with status {worst.name}"
        complain(f"{len(failures)} of {len(status)} paths failed, {often}: {worst.advice}")


def _show_result(name: str, result: Any) -> None:
    """A table of one observable."""
    match result:
        case MeanResult():
            _show_means(name, result)
        case MomentsResult():
            columns = ("", f"mean {name}", "variance", "skewness", "kurtosis")
            _show_entries(name, columns, [result.mean, result.variance, result.skewness, result.kurtosis])
        case MaxResult():
            _show_entries(name, ("", f"max {name}", "t", "path"), [result.max, result.t, result.path])
        case AutocorrelationResult():
            _show_entries(name, ("", f"correlation time of {name}"), [result.integrated_time])
        case HistogramResult():
            _show_histogram(name, result)


def _show_means(name: str, result: MeanResult) -> None:
    """A row for each of some times, if it is a number over the paths; otherwise a row for each entry."""
    if np.ndim(result.mean) != 1 or len(result.mean) != len(result.t):
        _show_entries(name, ("", f"E {name}", "+-"), [result.mean, result.stderr])
        return
    chosen = np.unique(np.linspace(0, len(result.t) - 1, _ROWS).round().astype(int))
    rows = [
        (
            f"{result.t[i]:.4g}",
            rounded(float(result.mean[i]), float(result.stderr[i])),
            error_text(float(result.stderr[i])),
            str(result.count[i]),
        )
        for i in chosen
    ]
    show_table("", ("t", f"E {name}", "+-", "paths"), rows)


def _show_entries(name: str, columns: tuple[str, ...], arrays: list[np.ndarray]) -> None:
    """A row for each entry of some arrays of one shape; the last ones if there are many."""
    shape = np.shape(arrays[0])
    flat = [
        np.broadcast_to(np.asarray(x).reshape(np.shape(x) + (1,) * (len(shape) - np.ndim(x))), shape) for x in arrays
    ]
    places = list(np.ndindex(shape))
    rows = []
    for place in places[-_ENTRIES:]:
        label = f"{name}[{','.join(map(str, place))}]" if place else name
        rows.append((label, *(f"{x[place]:.6g}" if np.isfinite(x[place]) else "-" for x in flat)))
    show_table("", columns, rows)
    if len(places) > _ENTRIES:
        say_wrapped(f"the last {_ENTRIES} of {len(places)} entries of {name}; --json prints all")


_BAR = 30


def _show_histogram(name: str, result: HistogramResult) -> None:
    """A bar for each of some twenty ranges, of all entries together."""
    counts = result.counts.reshape(-1, result.counts.shape[-1]).sum(axis=0)
    width = -(-len(counts) // 20)
    starts = range(0, len(counts), width)
    grouped = [int(counts[i : i + width].sum()) for i in starts]
    most = max([*grouped, 1])
    rows = [
        (f"{result.edges[i]:.3g}", str(number), "#" * round(_BAR * number / most))
        for i, number in zip(starts, grouped, strict=True)
    ]
    show_table("", (f"{name} from", "values", ""), rows)
    outside = {"below": result.below, "above": result.above, "not a number": result.undefined}
    told = [f"{int(np.sum(number))} {where}" for where, number in outside.items() if np.sum(number)]
    if told:
        say_wrapped(f"outside of the edges: {', '.join(told)}")
