"""Indexing with known indices: which entry goes where is settled now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from holonax.compiler.frontend.translate import Untranslatable, array_of, known, primitive
from holonax.compiler.ir.graph import Build, Node


@primitive("dynamic_slice")
def _dynamic_slice(build: Build, equation: Any, x: np.ndarray, *begin: np.ndarray) -> np.ndarray:
    sizes = equation.params["slice_sizes"]
    corner = dict(enumerate(_indices(np.array([i.item() for i in begin], object))))
    result = np.empty(sizes, object)
    for place in np.ndindex(*sizes):

        def entry(corner: dict[int, Any], place: tuple[int, ...] = place) -> Node:
            return x[tuple(min(max(i, 0), x.shape[d] - sizes[d]) + place[d] for d, i in corner.items())]

        result[place] = _chosen(build, corner, {d: x.shape[d] - sizes[d] + 1 for d in corner}, entry)
    return result


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
    begin = _indices(indices)
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
        offsets = dict(zip(window, (place[offset] for offset in numbers.offset_dims), strict=True))

        def entry(corner: dict[int, Any], offsets: dict[int, int] = offsets, nothing: Any = result[place]) -> Any:
            inside = all(0 <= i <= x.shape[d] - sizes[d] for d, i in corner.items())
            if not inside and fills:
                return nothing
            there = [int(np.clip(corner.get(d, 0), 0, x.shape[d] - sizes[d])) for d in range(x.ndim)]
            return x[tuple(i + offsets.get(d, 0) for d, i in enumerate(there))]

        result[place] = _chosen(build, corner, {d: x.shape[d] - sizes[d] + 1 for d in corner}, entry)
    return result


MOST_CHOICES = 16
"""Places that an index which depends on the state may point to."""


def _indices(array: np.ndarray) -> np.ndarray:
    """Numbers where they are known, nodes where they depend on the state."""
    result = np.empty(array.shape, object)
    for i in np.ndindex(array.shape):
        node: Any = array[i]
        result[i] = int(node.value) if node.is_constant else node
    return result


def _chosen(
    build: Build, corner: dict[int, Any], choices: dict[int, int], entry: Callable[[dict[int, Any]], Node]
) -> Node:
    """The entry at a corner; where an index depends on the state, one of all entries that it may point to."""
    for d, index in corner.items():
        if isinstance(index, Node):
            if choices[d] > MOST_CHOICES:
                raise Untranslatable(f"an index that depends on the state, into {choices[d]} places")
            value = _chosen(build, corner | {d: choices[d] - 1}, choices, entry)
            for i in range(choices[d] - 2, -1, -1):
                here = build("less_equal", index, build.number(i, index.dtype))
                value = build("select", here, _chosen(build, corner | {d: i}, choices, entry), value)
            return value
    return entry(corner)


def _fill(equation: Any, aval: Any) -> Any:
    value = equation.params.get("fill_value")
    if value is not None:
        return value
    return np.nan if aval.dtype.kind == "f" else np.iinfo(aval.dtype).min if aval.dtype.kind == "i" else 0


@primitive("scatter-add", "scatter", "scatter_add", "scatter-mul", "scatter_mul")
def _scatter(build: Build, equation: Any, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    numbers, name = equation.params["dimension_numbers"], equation.primitive.name
    begin = _indices(indices)
    batch = [d for d in range(updates.ndim) if d not in numbers.update_window_dims]
    window = [d for d in range(x.ndim) if d not in (*numbers.inserted_window_dims, *numbers.operand_batching_dims)]
    clips = "CLIP" in str(equation.params["mode"])
    if clips and any(not isinstance(i, Node) and i < 0 for i in begin.flat):
        raise Untranslatable("a negative index")
    result = x.copy()
    for place in np.ndindex(updates.shape):
        row = tuple(place[d] for d in batch)
        there: list[Any] = [0] * x.ndim
        for d, i in zip(numbers.scatter_dims_to_operand_dims, begin[row], strict=True):
            there[d] = i
        for d, e in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
            there[d] = row[e]
        for d, offset in zip(window, numbers.update_window_dims, strict=True):
            there[d] += place[offset]
        for condition, target in _targets(build, there, x.shape):
            old, new = result[target], updates[place]
            new = old + new if "add" in name else old * new if "mul" in name else new
            result[target] = build("select", condition, new, old)  # type: ignore[arg-type]
    return result


def _targets(build: Build, there: list[Any], shape: tuple[int, ...]) -> Iterator[tuple[Node, tuple[int, ...]]]:
    """Places that an update may go to, each with its condition; what is outside is dropped."""
    for d, index in enumerate(there):
        if isinstance(index, Node):
            if shape[d] > MOST_CHOICES:
                raise Untranslatable(f"an index that depends on the state, into {shape[d]} places")
            for i in range(shape[d]):
                here = build("equal", index, build.number(i, index.dtype))
                for condition, target in _targets(build, [*there[:d], i, *there[d + 1 :]], shape):
                    yield here & condition, target
            return
    if all(0 <= i < size for i, size in zip(there, shape, strict=True)):
        yield build.number(True, "bool"), tuple(there)
