"""Results of observables as arrays by name, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from holonax import observables
from holonax.observables import mean_force
from holonax.store.arrays import Variable
from holonax.store.records import Record

_AXES = ("edges",)  # fields whose axis is never that of the times or paths


def as_record(observed: Mapping[str, Any], paths: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Words and arrays for a record of the results of so many paths."""
    kinds = {name: type(result).__name__ for name, result in observed.items()}
    arrays = {f"{name}:{field}": np.asarray(x) for name, result in observed.items() for field, x in _fields(result)}
    return {"kinds": kinds, "paths": paths}, arrays


def from_record(record: Record | None) -> dict[str, Any]:
    """The results again; those of an observable of the user's own have the same fields."""
    if record is None:
        return {}
    found = {}
    for name, kind in record.words["kinds"].items():
        own = f"{name}:"
        values = {key.removeprefix(own): x[()] for key, x in record.arrays.items() if key.startswith(own)}
        made = getattr(observables, kind, None) or getattr(mean_force, kind, None) or SimpleNamespace
        found[name] = made(**values)
    return found


def named(observed: Mapping[str, Any], over: Mapping[str, str], paths: int) -> Iterator[tuple[str, tuple, np.ndarray]]:
    """Each field of each result with a name such as `energy_mean`, and the names of its axes."""
    for name, result in observed.items():
        times = f"{name}_time"
        for field, value in _fields(result):
            x = np.asarray(value)
            axes = [f"{name}_{field}_{k}" for k in range(x.ndim)]
            if x.ndim and field not in _AXES and over[name] == "paths":
                axes[0] = times
            elif x.ndim and field not in _AXES and over[name] == "time" and len(x) == paths:
                axes[0] = "path"
            yield (times if field == "t" and over[name] == "paths" else f"{name}_{field}"), tuple(axes), x


def variables_of(observed: Mapping[str, Any], over: Mapping[str, str], paths: int) -> dict[str, tuple[Variable, Any]]:
    """The same as arrays of a store, with their values; each is one file."""
    found = {}
    for name, axes, x in named(observed, over, paths):
        x = x if x.dtype.kind in "iuf" else x.astype(float)
        shape = tuple(max(1, size) for size in x.shape)
        found[name] = Variable(name, axes, x.shape, shape, x.dtype.name, 0), x
    return found


def _fields(result: Any) -> Iterator[tuple[str, Any]]:
    if is_dataclass(result):
        return ((field.name, getattr(result, field.name)) for field in fields(result))
    return iter(vars(result).items())
