"""`holonax run`: one ensemble, and a summary of it."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from holonax.cli import naming
from holonax.cli.guard import OnFailure, failure_code, whole_or_part
from holonax.cli.options import SYSTEMS, AsJson, EndTime, Failures, MethodName, Out, Paths, Seed
from holonax.cli.results import write_run
from holonax.cli.runfile import Specification, blaming, is_run_file, read_run_file
from holonax.cli.summary import complain_of_failures, run_record, show_run
from holonax.cli.terminal import say_wrapped, show_json
from holonax.errors import InputError
from holonax.observables import Mean
from holonax.progress import duration
from holonax.report.files import prepare_folder
from holonax.simulation.simulate import simulate

_IN_A_FILE = ("method", "t1", "h", "paths", "seed", "store", "on_failure")
_ROWS, _FRAMES = 10, 300  # times at which the energy is observed, and at which states are kept in a store


def run(
    context: typer.Context,
    system: Annotated[str, typer.Argument(help=f"{SYSTEMS} Or a run file, such as run.toml, which says all.")],
    method: MethodName = "Kicked",
    t1: EndTime = 1.0,
    h: Annotated[str, typer.Option(help="Step size, such as 0.01 or 2^-6.")] = "2^-6",
    paths: Paths = 1000,
    seed: Seed = 0,
    store: Annotated[Path | None, typer.Option(help="Keep the run in this folder, such as run.zarr.")] = None,
    out: Out = None,
    on_failure: Failures = OnFailure.RAISE,
    as_json: AsJson = False,
) -> int:
    """Simulate one ensemble and print a summary.

    Example: holonax run pendulum --method Kicked --t1 10 --h 2^-6 --paths 1000

    Example: holonax run examples/pendulum.toml
    """
    if is_run_file(system):
        _only_in_the_file(context, system)
        asked = read_run_file(Path(system))
        on_failure = OnFailure(asked.options.pop("on_failure", on_failure))
    else:
        asked = _from_options(system, method, t1, h, paths, seed, store)
    if out is not None:
        prepare_folder(out)
    begin = time.perf_counter()
    options = asked.options | {"on_failure": "mark"}
    with blaming(asked.file):
        result = whole_or_part(simulate, asked.entry.system, asked.method, asked.entry.start, **options)
    seconds = time.perf_counter() - begin
    record = run_record(asked.asked, result)
    if as_json:
        show_json(record)
        complain_of_failures(result)
    else:
        told = f"{len(result.status)} paths to t = {result.t1:g}, h = {result.h:g}, in {duration(seconds)}"
        show_run(f"{asked.method} on {asked.name}: {told}", asked.entry, result)
    if out is not None:
        write_run(out, record, result)
        if not as_json:
            say_wrapped(f"written to {out}")
    return failure_code(bool((np.asarray(result.status) > 0).any()), on_failure)


def _from_options(
    system: str, method: str, t1: float, h: str, paths: int, seed: int, store: Path | None
) -> Specification:
    entry, chosen, size = naming.find_system(system), naming.find_method(method), naming.find_step_size(h)
    if not 0 < t1 / size < math.inf:
        raise InputError(f"t1 = {t1} is {t1 / size} steps of h = {size:g}; both must be positive and finite")
    asked = {"system": system, "method": str(chosen), "t1": t1, "h": size, "paths": paths, "seed": seed}
    steps = round(t1 / size)
    energy = Mean(entry.system.energy, every=_part_of(steps, _ROWS))
    kept = {"save_every": None} if store is None else {"save_every": _part_of(steps, _FRAMES), "store": store}
    options: dict[str, Any] = {"t1": t1, "h": size, "paths": paths, "seed": seed, **kept}
    return Specification(system, entry, chosen, options | {"observe": {"energy": energy}}, asked)


def _part_of(steps: int, times: int) -> int:
    """Every how many steps to look, so often or somewhat more often, if possible at the last step too."""
    most = max(1, steps // times)
    return next((every for every in range(most, max(most // 4, most - 1000), -1) if steps % every == 0), most)


def _only_in_the_file(context: typer.Context, file: str) -> None:
    """Raise if an option would contradict a run file."""
    for name in _IN_A_FILE:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} beside the run file {file}: write {name} into the file, and leave {option} out")
