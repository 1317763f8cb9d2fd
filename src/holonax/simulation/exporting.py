"""Runs as datasets of xarray, and as netCDF files."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.errors import StoreError
from holonax.methods.text import written
from holonax.simulation.observed import named
from holonax.simulation.shapes import words_of

if TYPE_CHECKING:
    from holonax.simulation.run import Run

_SLAB = 2**25  # bytes that are copied at a time


def dataset(run: Run) -> Any:
    """A run as a dataset; that of a store reads what is looked at."""
    xarray = _xarray()
    if run.store is not None:
        return xarray.open_zarr(run.store, consolidated=True, chunks=None)
    states, paths = ("path", "time", "coordinate"), run.q.shape[0]
    data: dict[str, Any] = {"q": (states, run.q), "p": (states, run.p)}
    for name in ("status", "failed_step", "residual", "iterations"):
        data[name] = ("path",), getattr(run, name)
    data["done"] = ("path",), np.full(paths, run.steps)
    data |= {f"counts_{name}": (("path",), x) for name, x in run.counts.items()}
    data |= {name: (axes, x) for name, axes, x in named(run.observed, run.over, paths)}
    units = run.units
    data = {name: (axes, x, words_of(name, units)) for name, (axes, x) in data.items()}
    coordinates = {"path": np.arange(paths), "time": run.t, "coordinate": np.arange(run.q.shape[2])}
    axes = {name: ((name,), x, words_of(name, units)) for name, x in coordinates.items()}
    return xarray.Dataset(data, coords=axes, attrs=_attributes(run))


def write_netcdf(run: Run, file: str | PathLike[str]) -> None:
    """Everything but positions and momenta first, then these, some paths at a time: they may be larger than memory."""
    try:
        import h5netcdf
    except ImportError:
        raise StoreError("to_netcdf needs h5netcdf: pip install 'holonax[store]'") from None
    content = dataset(run)
    plain = {
        name: x if isinstance(x, (str, int, float)) else json.dumps(x)
        for name, x in content.attrs.items()
        if x is not None
    }
    small = content.drop_vars(["q", "p"])
    small.attrs = plain
    small.to_netcdf(Path(file), engine="h5netcdf", mode="w")
    with h5netcdf.File(file, "a") as target:
        for name, states in (("q", run.q), ("p", run.p)):
            paths, times, n = states.shape
            some = max(1, _SLAB // (times * n * states.dtype.itemsize))
            options = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
            made = target.create_variable(name, ("path", "time", "coordinate"), states.dtype, **options)
            made.attrs.update(content[name].attrs)
            for first in range(0, paths, some):
                made[first : first + some] = states[first : first + some]


def _attributes(run: Run) -> dict[str, Any]:
    return {
        "system": run.system, "origin": run.origin, "method": written(run.method), "t0": run.t0, "t1": run.t1,
        "h": run.h, "steps": run.steps, "first_step": run.first_step, "paths": run.q.shape[0], "seed": run.seed,
        "ran_on": run.engine, "dtype": str(run.q.dtype), "state": "complete",
    }  # fmt: skip


def _xarray() -> Any:
    try:
        import xarray
    except ImportError:
        raise StoreError("to_xarray needs xarray: pip install 'holonax[store]'") from None
    return xarray
