"""Run files: a run as a TOML file, checked to its last key before anything runs.

A run file is data.  The one thing that it can have executed is the Python file of its system, if it names one: methods
and observables of the user's own come from that file too.
"""

from __future__ import annotations

import math
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from holonax.cli import naming
from holonax.cli.observing import Source, read_observables
from holonax.engines import ENGINES
from holonax.errors import HolonaxError, InputError, shown
from holonax.inputs.checks import choice, number_of_steps, unknown
from holonax.mechanics.start import start
from holonax.methods.base import Method
from holonax.observables import Mean
from holonax.systems.entry import Entry

_LARGEST = 2**20  # bytes of a run file

KEYS = {
    "system": 'system = "pendulum", "mine.py:entry", or {name = "chain", beads = 8}',
    "start": "start = {q = [1, 0, 0], v = [0, 1, 0.5]}",
    "parameters": "parameters = {gravity = 9.81}",
    "method": 'method = "Kicked", or {name = "Langevin", friction = 1, temperature = 0.5}',
    "h": 'h = 0.01, or h = "2^-6"',
    "t0": "t0 = 0",
    "t1": "t1 = 10",
    "paths": "paths = 1000",
    "seed": "seed = 0",
    "save": 'save = 8 (every 8th step), or save = "end"',
    "observe": '[observe.energy] with kind = "Mean"',
    "engine": 'engine = "auto"',
    "dtype": 'dtype = "float64"',
    "on_failure": 'on_failure = "raise"',
    "store": 'store = "run.zarr"',
    "memory": 'memory = "1GiB"',
    "cluster": 'cluster = "tcp://host:8786"',
}
"""Every key with an example of its use."""

_NEEDED = ("system", "t1", "h")


@final
@dataclass(frozen=True)
class Specification:
    """What is to be run.

    Attributes:
        name: the system as the file names it.
        entry: the system, with the start that the file asks for.
        method: the integrator.
        options: arguments of `simulate`.
        asked: all of that, as it was written.
        file: the run file, if it is from one.
    """

    name: str
    entry: Entry
    method: Method
    options: dict[str, Any]
    asked: dict[str, Any]
    file: Path | None = None


def is_run_file(text: str) -> bool:
    """Whether an argument names a run file rather than a system."""
    return text.endswith(".toml")


@contextmanager
def blaming(path: Path | None) -> Iterator[None]:
    """Let errors in the input name the run file that it is from."""
    try:
        yield
    except InputError as error:
        text = str(error)
        if path is None or text.startswith(str(path)):
            raise
        raise InputError(f"{path}: {text}") from error


def read_run_file(path: Path) -> Specification:
    """What a run file asks for, or an InputError that names the file, the key, its value and what is allowed."""
    with blaming(path):
        return _specification(_table(path), path)


def _table(path: Path) -> dict[str, Any]:
    """The file as TOML."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; a run file is a text file in TOML")
    if not path.is_file():
        others = [one.name for one in sorted(path.parent.glob("*.toml"))] if path.parent.is_dir() else []
        raise InputError(f"{path} is not a file" + (f"; there is {', '.join(others[:5])}" if others else ""))
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path} has more than {_LARGEST // 2**20} MiB; a run file is a page of text")
        table = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text: byte {error.start} is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path} is not a run file: its tables are nested too deeply") from None
    if not table:
        raise InputError(f"{path} is empty; a run needs {', '.join(KEYS[key] for key in _NEEDED)}")
    return table


def _specification(table: dict[str, Any], path: Path) -> Specification:
    for key in table:
        if key not in KEYS:
            raise InputError(unknown(f"key {shown(key)}", key, list(KEYS)))
    for key in _NEEDED:
        if key not in table:
            raise InputError(f"{key} is missing; write {KEYS[key]}")
    _finite("", table)
    h = _step_size(table["h"])
    t0, t1 = (_number(key, table.get(key, 0.0)) for key in ("t0", "t1"))
    steps = number_of_steps(t0, t1, h)
    options: dict[str, Any] = {"h": h, "t0": t0, "t1": t1}
    for key in ("paths", "seed"):
        if key in table:
            options[key] = _whole(key, table[key])
    for key, known in _CHOICES.items():
        if key in table:
            choice(key, table[key], known)
            options[key] = table[key]
    for key in ("store", "memory", "cluster"):
        if key in table:
            options[key] = _SITES[key](table[key], path.parent)
    options["save_every"] = _save(table, steps)
    if "parameters" in table:
        options["parameters"] = _of_kind("parameters", table["parameters"], dict, "a table of numbers")
    name = _call("system", table["system"])
    source = Source.of(name, path.parent)
    method_name = _call("method", table.get("method", "Kicked"))
    naming.find_method("Kicked" if source.in_file("method", method_name) else method_name)  # before a file is executed
    entry = source.entry()
    method = naming.find_method(source.in_file("method", method_name) or method_name)
    if "start" in table:
        entry = _with_start(entry, table["start"], options.get("parameters"))
    if "store" in options:
        _check_disk(path.parent, options, steps, entry.n)
    options["observe"] = read_observables(table.get("observe", {}), entry, source)
    if not options["observe"] and "store" not in options:  # or nothing would come of the run
        options["observe"] = {"energy": Mean(entry.system.energy, every=max(1, steps // 10))}
    return Specification(name, entry, method, options, table, path)


_CHOICES = {
    "engine": ("auto", *ENGINES),
    "dtype": ("float64", "float32"),
    "on_failure": ("raise", "mark"),
}


def _finite(place: str, value: Any) -> None:
    """Raise at the first number that is not finite: TOML has nan and inf, and a run has no use for them."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{place} = {value}: must be finite")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        _finite(f"{place}[{key}]" if isinstance(value, list) else f"{place}.{key}".lstrip("."), part)


def _of_kind(key: str, value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind):
        usage = f"; write {KEYS[key]}" if key in KEYS else ""
        raise InputError(f"{key} = {shown(value)}: must be {what}{usage}")
    return value


def _number(key: str, value: Any) -> float:
    try:
        return float(_of_kind(key, value, (int, float), "a number"))
    except OverflowError:
        raise InputError(f"{key} = {shown(value)}: too large") from None


def _whole(key: str, value: Any) -> int:
    return int(_of_kind(key, value, int, "a whole number"))


def _step_size(value: Any) -> float:
    if isinstance(value, str):
        return naming.find_step_size(value)
    return _number("h", value)


def _save(table: Mapping[str, Any], steps: int) -> int | None:
    """Every so many steps, or None for the end alone; left out, all if there is a store to keep them."""
    saved = table.get("save", 1 if "store" in table else "end")
    if saved == "end":
        return None
    if not 1 <= _of_kind("save", saved, int, 'a whole number of steps or "end"') <= steps:
        raise InputError(f'save = {saved}: must be from 1 to the {steps} steps of the run, or "end"')
    return int(saved)


def _call(key: str, value: Any) -> str:
    """A system or method as the text that names it on the command line: `chain(beads=8)`."""
    if isinstance(value, str) and value.strip():
        return value
    table = _of_kind(key, value, dict, "a name, or a table with a name")
    if not isinstance(table.get("name"), str) or not table["name"].isidentifier():
        raise InputError(f"{key} = {shown(value)}: its name is missing or no name; write {KEYS[key]}")
    for word in table:
        if not word.isidentifier():
            raise InputError(f"{key}: {shown(word)} is no name of an argument; write {KEYS[key]}")
    arguments = (f"{word}={part}" for word, part in table.items() if word != "name")
    return f"{table['name']}({', '.join(arguments)})"


def _with_start(entry: Entry, value: Any, parameters: Any) -> Entry:
    """The entry with a start of one's own."""
    table = _of_kind("start", value, dict, "a table")
    for key in table:
        if key not in ("q", "v", "p", "project"):
            raise InputError(unknown(f"key {shown(key)} in start", key, ["q", "v", "p", "project"]))
    if "q" not in table:
        raise InputError(f"start.q is missing; write {KEYS['start']}")
    try:
        begin = start(entry.system, **table, parameters=parameters)
    except InputError as error:
        raise InputError(f"start: {error}") from error
    return Entry(entry.name, entry.system, begin, entry.symmetries, entry.facts)


_SQUEEZED = 4  # times that compression may make a store smaller, at best


def _check_disk(folder: Path, options: Mapping[str, Any], steps: int, n: int) -> None:
    """Raise if a store cannot have room on its disk."""
    every = options["save_every"]
    times = 1 if every is None else steps // every + 1
    size = options.get("paths", 1) * (2 * times * n + 1) * np.dtype(options.get("dtype", "float64")).itemsize
    free = shutil.disk_usage(folder).free
    if size > _SQUEEZED * free:
        raise InputError(
            f"store: q and p at {times} times of {options.get('paths', 1)} paths need {size / 2**30:.3g} GiB, the disk "
            f"has {free / 2**30:.3g} GiB free; save less, or run fewer paths"
        )


def _store(value: Any, folder: Path) -> str:
    name = _of_kind("store", value, str, "the name of a folder")
    if not name.strip() or "\0" in name:
        raise InputError(f"store = {shown(name)}: must be the name of a folder; write {KEYS['store']}")
    return str(folder / name)


def _memory(value: Any, _: Path) -> str | int:
    return _of_kind("memory", value, (str, int), 'a size, such as "1GiB", or a number of bytes')


def _cluster(value: Any, _: Path) -> Any:
    import holonax

    if not hasattr(holonax, "Dask"):
        raise HolonaxError("cluster needs Dask: pip install 'holonax[cluster]'")
    return holonax.Dask(_of_kind("cluster", value, str, "the address of a Dask scheduler"))


_SITES: dict[str, Callable[[Any, Path], Any]] = {"store": _store, "memory": _memory, "cluster": _cluster}
