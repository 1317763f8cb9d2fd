"""`hx.open`: a stored run, complete or not."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np

from holonax.errors import InputError, StoreError
from holonax.inputs.checks import instance
from holonax.inputs.parameters import Values
from holonax.mechanics.closures import fingerprint_of
from holonax.mechanics.redundancy import without_redundant
from holonax.mechanics.system import State, System
from holonax.simulation.observed import from_record
from holonax.simulation.origin import from_catalogue
from holonax.simulation.run import Run
from holonax.simulation.specification import FORMAT, began, method_again, name_of_begins
from holonax.store.arrays import described
from holonax.store.lazy import LazyArray
from holonax.store.ledger import records_of
from holonax.store.records import DamageError, Record

_SMALL = 2**26  # bytes of an array that is read at once


def open_run(store: str | PathLike[str], system: System | None = None) -> Run:
    """The run in a store, as `hx.simulate` returns it; also while it is being written, by another process or this one.

    Positions and momenta are read where they are looked at.  What is not there yet is NaN.  Nothing is run but the
    functions of holonax's own catalogue: a system from elsewhere is not known, and `run.model` is None, unless it is
    passed here: then the page of `run.view` has its manifold, and its energy.
    """
    folder = Path(store)
    words = described(folder)
    if words.get("holonax") != FORMAT:
        raise StoreError(
            f"{folder} is not a run of holonax, or one of another version: its format is {words.get('holonax')}"
        )
    record = _record(folder, name_of_begins(words["paths"]))
    if record is None:
        raise StoreError(f"{folder}: what the run began with is missing")
    start, parameters = began(record)
    if system is not None:
        _check_system(folder, words, system, start, parameters)
    outcomes = method_again(folder, words["method"]).outcomes
    fate = {name: _of_paths(folder, name) for name in ("status", "failed_step", "residual", "iterations")}
    return Run(
        np.asarray(LazyArray(folder, "time")), LazyArray(folder, "q"), LazyArray(folder, "p"),  # type: ignore[arg-type]
        **fate, counts={name: _of_paths(folder, f"counts_{name}") for name in outcomes},
        observed=from_record(_record(folder, "observed")), ends=_StoredEnds(folder, words),  # type: ignore[arg-type]
        system=words["system"], method=method_again(folder, words["method"]), parameters=parameters,
        h=words["h"], t1=words["t1"], steps=words["steps"], seed=words["seed"], first_step=words["first_step"],
        engine=words["ran_on"], reason=words["reason"], seconds=words["seconds"],
        observes_functions=any(one["method"] is None for one in words["observe"].values()),
        t0=words["t0"], over={name: one["over"] for name, one in words["observe"].items()},
        model=from_catalogue(words["origin"]) if system is None else system, origin=words["origin"], store=folder,
        progress=_of_paths(folder, "done"),
    )  # fmt: skip


def _check_system(
    store: Path, words: dict[str, Any], system: System, start: State, parameters: dict[str, np.ndarray]
) -> None:
    """Raise if a system is not the one that ran."""
    instance("system", system, System, "pass an hx.System")
    if system.redundant == "allow":  # the run had those constraints alone that were independent at its start
        system = without_redundant(system, start.q, Values.of(system.parameters, parameters))
    if fingerprint_of(system, start.q.shape[-1]) != words["fingerprint"]:
        raise InputError(f"{store} holds a run of another system, {words['system']}; pass that one, or none")


def _record(store: Path, name: str) -> Record | None:
    try:
        return records_of(store).read(name)
    except DamageError:
        raise StoreError(f"{store}: the record {name!r} is damaged; hx.resume({str(store)!r}) may repair it") from None


def _of_paths(store: Path, name: str) -> Any:
    """One number for each path; in memory, unless there are very many."""
    array = LazyArray(store, name)
    return np.asarray(array) if array.nbytes <= _SMALL else array


@final
class _StoredEnds:
    """Where the paths are at the end, from the records of their chunks."""

    def __init__(self, store: Path, words: dict[str, Any]) -> None:
        self.store, self.paths, self.chunk = store, int(words["paths"]), int(words["chunk_paths"])

    @cached_property
    def _parts(self) -> list[dict[str, np.ndarray]]:
        parts = []
        for index in range(-(-self.paths // self.chunk)):
            record = _record(self.store, f"chunk-{index}")
            if record is None:
                raise InputError(f"chunk {index} of {self.store} has not begun; go on with hx.resume first")
            parts.append({name: x for name, x in record.arrays.items() if name.startswith("at.")})
        return parts

    @property
    def q(self) -> np.ndarray:
        """Positions (paths, n)."""
        return np.concatenate([part["at.q"] for part in self._parts])

    @property
    def p(self) -> np.ndarray:
        """Momenta (paths, n)."""
        return np.concatenate([part["at.p"] for part in self._parts])

    def velocities(self) -> np.ndarray | None:
        """Of all paths; None if the engine has none."""
        return np.concatenate([part["at.v"] for part in self._parts]) if "at.v" in self._parts[0] else None
