"""`hx.resume`: a stored run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from holonax.errors import StoreError
from holonax.mechanics.system import System
from holonax.observables import Observable
from holonax.simulation.cluster import Dask
from holonax.simulation.origin import system_again
from holonax.simulation.run import Run
from holonax.simulation.simulate import simulate
from holonax.simulation.specification import began, method_again, name_of_begins, observables_again
from holonax.store.arrays import described
from holonax.store.ledger import records_of
from holonax.store.records import DamageError


def resume(
    store: str | PathLike[str],
    system: System | None = None,
    *,
    observe: Mapping[str, Observable] | None = None,
    t1: float | None = None,
    paths: int | None = None,
    memory: str | float | None = None,
    cluster: Dask | None = None,
    on_failure: str = "raise",
    progress: bool = True,
) -> Run:
    """Go on with a run in a store, after whatever interrupted it: the end is the same, to the last bit.

    Args:
        store: its folder.
        system: the system, if it is not from the catalogue: the same as before, which is checked.
        observe: the observables, if their functions are not methods of the system.
        t1: a later end time, to extend the run.
        paths: more paths, likewise; they begin as the others do, where these all begin at one state.
        memory: as in `hx.simulate`.
        cluster: likewise.
        on_failure: likewise.
        progress: likewise.

    >>> import holonax as hx, tempfile
    >>> folder = tempfile.mkdtemp() + "/run.zarr"
    >>> entry = hx.systems.pendulum()
    >>> run = hx.simulate(entry.system, hx.EulerA(), entry.start, t1=1.0, h=2**-6, paths=10, store=folder)
    >>> longer = hx.resume(folder, t1=2.0)
    >>> longer.q.shape, longer.complete
    ((10, 129, 3), True)
    """
    folder = Path(store)
    words = described(folder)
    system = system_again(folder, words["origin"]) if system is None else system
    try:
        record = records_of(folder).read(name_of_begins(words["paths"]))
    except DamageError:
        record = None
    if record is None:
        raise StoreError(f"{folder}: what the run began with is missing or damaged; begin another store")
    start, parameters = began(record)
    if observe is None and words["observe"]:
        observe = observables_again(folder, words["observe"], system)
    return simulate(
        system, method_again(folder, words["method"]), start, t1=words["t1"] if t1 is None else t1, h=words["h"],
        t0=words["t0"], parameters=parameters, paths=words["paths"] if paths is None else paths, seed=words["seed"],
        first_step=words["first_step"], save_every=words["save_every"], observe=observe, engine=words["engine"],
        dtype=words["dtype"], on_failure=on_failure, progress=progress, store=folder, memory=memory, cluster=cluster,
    )  # fmt: skip
