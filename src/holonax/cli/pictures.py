"""`holonax view` and `holonax plot`: a run to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from holonax.cli import naming
from holonax.cli.options import AsJson, MethodName
from holonax.cli.stored import StoreName, stored_run
from holonax.cli.terminal import say_wrapped, show_json
from holonax.errors import InputError
from holonax.report.files import prepare_folder, whole_file
from holonax.simulation.simulate import simulate

_FRAMES = 300


def view(
    what: Annotated[str, typer.Argument(help="The folder of a stored run, or a system as for `holonax run`.")],
    out: Annotated[Path | None, typer.Option(help="The page; left out, it is named after the run.")] = None,
    method: MethodName = "Kicked",
    t1: Annotated[float, typer.Option(help="End time, of a system.")] = 10.0,
    h: Annotated[str, typer.Option(help="Step size, of a system.")] = "2^-6",
    paths: Annotated[int, typer.Option(help="Number of paths, of a system.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the noise, of a system.")] = 0,
    as_json: AsJson = False,
) -> int:
    """Write a page that plays the paths of a run on their manifold; it opens in a browser, without a network.

    Example: holonax view run.zarr --out pendulum.html

    Example: holonax view torus
    """
    if Path(what).is_dir() or what.endswith(".zarr"):
        run, name = stored_run(Path(what)), Path(what).stem
    else:
        entry, size = naming.find_system(what), naming.find_step_size(h)
        every = max(1, round(t1 / size) // _FRAMES)
        options: dict[str, Any] = {"paths": paths, "seed": seed, "save_every": every, "on_failure": "mark"}
        run = simulate(entry.system, naming.find_method(method), entry.start, t1=t1, h=size, **options)
        name = entry.name
    file = Path(f"{name.replace(' ', '_')}.html") if out is None else out
    prepare_folder(file.parent)
    page = run.view(file, title=name)
    if as_json:
        show_json({"page": str(file), "bytes": file.stat().st_size, "notes": list(page.notes)})
        return 0
    for note in page.notes:
        say_wrapped(note)
    say_wrapped(f"{file}: {file.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return 0


def plot(
    store: StoreName,
    out: Annotated[Path | None, typer.Option(help="The figure: .png, .svg or .pdf; left out, named after it.")] = None,
    as_json: AsJson = False,
) -> int:
    """Draw a stored run: time series with bands, histograms, and where the paths are.

    Example: holonax plot run.zarr --out run.svg
    """
    file = store.with_suffix(".png") if out is None else out
    kind = file.suffix.removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise InputError(f"{file}: a figure ends in .png, .svg or .pdf")
    prepare_folder(file.parent)
    figure = stored_run(store).plot()
    with whole_file(file) as opened:
        figure.savefig(opened, format=kind, dpi=150)
    if as_json:
        show_json({"figure": str(file)})
    else:
        say_wrapped(f"written to {file}")
    return 0
