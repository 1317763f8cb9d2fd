"""`holonax show` and `holonax resume`: runs that are kept in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from holonax.cli import naming
from holonax.cli.guard import OnFailure, failure_code, whole_or_part
from holonax.cli.options import AsJson, Failures
from holonax.cli.summary import complain_of_failures, result_record, show_results, status_counts
from holonax.cli.terminal import say_wrapped, show_json
from holonax.errors import InputError
from holonax.progress import duration
from holonax.simulation.opening import open_run
from holonax.simulation.resuming import resume as go_on
from holonax.simulation.run import Run
from holonax.store.arrays import described

StoreName = Annotated[Path, typer.Argument(help="The folder of a run, such as run.zarr.")]


def stored_run(store: Path) -> Run:
    """A stored run; of a system from a file with that system, if the file is still there and has the same in it."""
    origin = described(store).get("origin")
    if origin is None or ".py:" not in origin:
        return open_run(store)
    try:
        return open_run(store, naming.find_system(origin).system)
    except InputError:
        return open_run(store)


def show(store: StoreName, as_json: AsJson = False) -> int:
    """Tell what a stored run is, how far it is, how its paths fare and how large it is.

    Example: holonax show run.zarr
    """
    run, told = stored_run(store), described(store)
    record = _record(run, told, store)
    if as_json:
        show_json(record | {"observed": {name: result_record(one) for name, one in run.observed.items()}})
        return 0
    say_wrapped(
        f"{store}: {record['state']}, {record['done']:.1%} of {record['paths']} paths x {record['steps']} steps"
    )
    for name, text in _lines(run, record).items():
        say_wrapped(f"  {name:<9}{text}", indent=" " * 11)
    show_results(run)
    if not run.complete and record["state"] != "running":
        say_wrapped(f"go on with: holonax resume {store}")
    return 0


def resume(
    store: StoreName,
    t1: Annotated[float | None, typer.Option(help="A later end time, to extend the run.")] = None,
    paths: Annotated[int | None, typer.Option(help="More paths, to extend the run.")] = None,
    memory: Annotated[str | None, typer.Option(help="What the process may have, such as 1GiB.")] = None,
    on_failure: Failures = OnFailure.RAISE,
    as_json: AsJson = False,
) -> int:
    """Go on with a stored run after an interruption, or extend it.

    Example: holonax resume run.zarr --t1 20
    """
    origin = described(store).get("origin")
    system = naming.find_system(origin).system if origin is not None and ".py:" in origin else None
    options: dict[str, Any] = {"t1": t1, "paths": paths, "memory": memory, "on_failure": "mark"}
    try:
        run = whole_or_part(go_on, store, system, **options)
    except InputError as error:
        if "observe" not in str(error):
            raise
        raise InputError(f"{error}; or run its run file once more, which goes on with the store") from error
    if as_json:
        show_json(_record(run, described(store), store))
    else:
        say_wrapped(f"{store}: {_done(run):.1%} done")
        show_results(run)
    complain_of_failures(run)
    return failure_code(bool((np.asarray(run.status) > 0).any()), on_failure)


def _done(run: Run) -> float:
    return 1.0 if run.progress is None else float(np.mean(np.asarray(run.progress))) / run.steps


def _record(run: Run, told: dict[str, Any], store: Path) -> dict[str, Any]:
    """What is known of a stored run but its paths, for programs."""
    return {
        "store": str(store),
        "state": told["state"],
        "done": _done(run),
        "system": run.origin or run.system,
        "method": str(run.method),
        "h": run.h,
        "t0": run.t0,
        "t1": run.t1,
        "steps": run.steps,
        "paths": len(run.status),
        "seed": run.seed,
        "times_saved": len(run.t),
        "coordinates": run.q.shape[-1],
        "dtype": str(run.q.dtype),
        "engine": run.engine,
        "statuses": status_counts(np.asarray(run.status)),
        "seconds": run.seconds,
        "bytes": sum(file.stat().st_size for file in store.rglob("*") if file.is_file()),
        "versions": told.get("versions", {}),
        "observables": list(told["observe"]),
    }


def _lines(run: Run, record: dict[str, Any]) -> dict[str, str]:
    """The same, for people."""
    size, whole = record["bytes"], run.q.size * run.q.dtype.itemsize * 2
    spent = duration(sum(run.seconds.values()))
    return {
        "system": record["system"] if run.origin is None else f"{run.origin}: {run.system}",
        "method": str(run.method),
        "time": f"{run.t0:g} to {run.t1:g} in steps of h = {run.h:g}; {len(run.t)} times saved",
        "noise": f"seed {run.seed}, steps from number {run.first_step} on",
        "engine": f"{run.engine}: {run.reason}; {spent} so far",
        "statuses": ", ".join(f"{number} {name}" for name, number in record["statuses"].items()),
        "size": f"{size / 2**20:.1f} MiB on disk; q and p are {whole / 2**20:.1f} MiB in memory",
        "observed": ", ".join(record["observables"]) or "nothing",
        "versions": ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
    }
