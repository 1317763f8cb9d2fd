"""What a run file wants observed: quantities by name, and what is gathered of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np

from holonax.cli import naming
from holonax.errors import InputError, shown
from holonax.inputs.checks import unknown
from holonax.observables import Autocorrelation, Histogram, Max, Mean, Moments, Observable
from holonax.systems.entry import Entry

_KINDS: dict[str, type[Observable]] = {kind.__name__: kind for kind in (Mean, Moments, Max, Histogram, Autocorrelation)}
_COORDINATE = re.compile(r"([qp])(?:\[(\d+)\])?")


@final
@dataclass(frozen=True)
class Source:
    """Where a run file takes its system from.

    Attributes:
        name: the system as the run file names it.
        file: the Python file that it comes from; None for the catalogue.
        folder: that of the run file, to which names of files are relative.
    """

    name: str
    file: str | None
    folder: Path

    @staticmethod
    def of(name: str, folder: Path) -> Source:
        """From the name of a system: `pendulum(noise=None)` or `file.py:name`."""
        file, _, _ = name.rpartition(":")
        return Source(name, file if file.endswith(".py") else None, folder)

    def entry(self) -> Entry:
        """The system; this is where its file is executed."""
        return naming.find_system(self.name if self.file is None else str(self.folder / self.name))

    def in_file(self, key: str, text: str) -> str | None:
        """The place of something in the system's file, None if the text names no file; no other file is executed."""
        file, _, _ = text.rpartition(":")
        if not file.endswith(".py"):
            return None
        if file != self.file:
            its = "the catalogue, and has no file" if self.file is None else f"{self.file}: move it there"
            raise InputError(
                f"{key} = {shown(text)}: a run file executes no file but that of its system, which is from {its}"
            )
        return str(self.folder / text)


def read_observables(asked: Any, entry: Entry, source: Source) -> dict[str, Observable]:
    """Observables by name from `[observe.NAME]` with `of`, `kind` and the options of that kind."""
    if not isinstance(asked, dict):
        raise InputError(f'observe = {shown(asked)}: must be tables, such as [observe.energy] with kind = "Mean"')
    return {name: _observable(f"observe.{name}", name, table, entry, source) for name, table in asked.items()}


def _observable(place: str, name: str, table: Any, entry: Entry, source: Source) -> Observable:
    if not isinstance(table, dict):
        raise InputError(f'{place} = {shown(table)}: must be a table, such as {{of = "energy", kind = "Mean"}}')
    given = dict(table)
    kind = given.pop("kind", "Mean")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"{place}.kind: " + unknown(f"kind {shown(kind)}", str(kind), list(_KINDS)))
    quantity = _quantity(f"{place}.of", given.pop("of", name), entry, source)
    takes = {key: one for key, one in inspect.signature(_KINDS[kind]).parameters.items() if key != "fn"}
    for key in given:
        if key not in takes:
            raise InputError(unknown(f"key {shown(key)} in {place}", key, ["of", "kind", *takes]))
    for key, one in takes.items():
        if one.default is one.empty and key not in given:
            raise InputError(f"{place}.{key} is missing; a {kind} needs it, such as {_EXAMPLES[key]}")
    if "edges" in given:
        given["edges"] = _edges(f"{place}.edges", given["edges"])
    try:
        return _KINDS[kind](quantity, **given)
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{place}: {error}") from error


_EXAMPLES = {"edges": "edges = {from = -1, to = 1, bins = 40}", "lags": "lags = 100"}
_MOST_BINS = 10**6


def _edges(place: str, value: Any) -> Any:
    """Edges one by one, or so many bins from one number to another."""
    if not isinstance(value, dict):
        return value
    if set(value) != {"from", "to", "bins"}:
        raise InputError(f"{place} = {shown(value)}: write {_EXAMPLES['edges']}, or all of them in a list")
    low, high, bins = value["from"], value["to"], value["bins"]
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (low, high))
    if not numbers or type(bins) is not int or not 1 <= bins <= _MOST_BINS or not low < high:
        raise InputError(f"{place} = {shown(value)}: needs from < to and 1 to {_MOST_BINS} bins; {_EXAMPLES['edges']}")
    return np.linspace(low, high, bins + 1).tolist()


def _quantity(place: str, name: Any, entry: Entry, source: Source) -> Callable[..., Any]:
    """The function of (q, p) that a name stands for."""
    if not isinstance(name, str):
        raise InputError(f'{place} = {shown(name)}: must be a name, such as {place.rpartition(".")[2]} = "energy"')
    if name == "energy":
        return entry.system.energy
    if name in entry.symmetries:
        return entry.symmetries[name]
    if coordinate := _COORDINATE.fullmatch(name):
        letter, index = coordinate.groups()
        if index is not None and int(index) >= entry.n:
            raise InputError(
                f"{place} = {shown(name)}: there are {entry.n} coordinates, {letter}[0] to {letter}[{entry.n - 1}]"
            )
        return _coordinate(letter, None if index is None else int(index))
    if found := source.in_file(place, name):
        return naming.find_function(found)
    known = ["energy", *entry.symmetries, "q", "p", "q[0]", "p[0]", "file.py:name"]
    raise InputError(f"{place}: " + unknown(f"quantity {shown(name)}", name, known))


@cache  # one function for one coordinate: programs are compiled for functions
def _coordinate(letter: str, index: int | None) -> Callable[..., Any]:
    if letter == "q":
        return (lambda q, p: q) if index is None else (lambda q, p: q[index])
    return (lambda q, p: p) if index is None else (lambda q, p: p[index])
