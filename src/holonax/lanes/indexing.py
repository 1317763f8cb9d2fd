"""Indexing with known indices: which entry goes where is settled now."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from holonax.lanes.graph import Build
from holonax.lanes.translate import Untranslatable, array_of, known, primitive


@primitive("dynamic_slice")
def _dynamic_slice(build: Build, equation: Any, x: np.ndarray, *begin: np.ndarray) -> np.ndarray:
    sizes = equation.params["slice_sizes"]
    return np.asarray(x[_window(x.shape, sizes, begin)], object)


@primitive("dynamic_update_slice")
def _dynamic_update(build: Build, equation: Any, x: np.ndarray, update: np.ndarray, *begin: np.ndarray) -> np.ndarray:
    result = x.copy()
    result[_window(x.shape, update.shape, begin)] = update
    return result


def _window(shape: tuple, sizes: tuple, begin: tuple) -> tuple:
    corner = [int(known(i, "an index").item()) for i in begin]
    corner = [min(max(i, 0), size - window) for i, size, window in zip(corner, shape, sizes, strict=True)]
    return tuple(slice(i, i + window) for i, window in zip(corner, sizes, strict=True))


@primitive("gather")
def _gather(build: Build, equation: Any, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    begin = known(indices, "an index")
    aval = equation.outvars[0].aval
    batch = [d for d in range(len(aval.shape)) if d not in numbers.offset_dims]
    window = [d for d in range(x.ndim) if d not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    fills = "FILL" in str(equation.params["mode"])
    result = array_of([build.number(_fill(equation, aval), aval.dtype.name)] * prod(aval.shape), aval.shape)
    for place in np.ndindex(aval.shape):
        row = tuple(place[d] for d in batch)
        corner = dict(zip(numbers.start_index_map, begin[row], strict=True))
        corner |= {
            d: row[e] for d, e in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
        }
        inside = all(0 <= i <= x.shape[d] - sizes[d] for d, i in corner.items())
        if inside or not fills:
            there = [int(np.clip(corner.get(d, 0), 0, x.shape[d] - sizes[d])) for d in range(x.ndim)]
            for d, offset in zip(window, numbers.offset_dims, strict=True):
                there[d] += place[offset]
            result[place] = x[tuple(there)]
    return result


def _fill(equation: Any, aval: Any) -> Any:
    value = equation.params.get("fill_value")
    if value is not None:
        return value
    return np.nan if aval.dtype.kind == "f" else np.iinfo(aval.dtype).min if aval.dtype.kind == "i" else 0


@primitive("scatter-add", "scatter", "scatter_add", "scatter-mul", "scatter_mul")
def _scatter(build: Build, equation: Any, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    numbers, name = equation.params["dimension_numbers"], equation.primitive.name
    begin = known(indices, "an index")
    batch = [d for d in range(updates.ndim) if d not in numbers.update_window_dims]
    window = [d for d in range(x.ndim) if d not in (*numbers.inserted_window_dims, *numbers.operand_batching_dims)]
    clips = "CLIP" in str(equation.params["mode"])
    if clips and begin.size and (begin < 0).any():
        raise Untranslatable("a negative index")
    result = x.copy()
    for place in np.ndindex(updates.shape):
        row = tuple(place[d] for d in batch)
        there = [0] * x.ndim
        for d, i in zip(numbers.scatter_dims_to_operand_dims, begin[row], strict=True):
            there[d] = int(i)
        for d, e in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
            there[d] = row[e]
        for d, offset in zip(window, numbers.update_window_dims, strict=True):
            there[d] += place[offset]
        if all(0 <= i < size for i, size in zip(there, x.shape, strict=True)):  # what is outside is dropped
            old, new = result[tuple(there)], updates[place]
            result[tuple(there)] = old + new if "add" in name else old * new if "mul" in name else new
    return result
