"""Rows of arrays at numbers that a path knows, such as those of its list of neighbours: fetched, or added to.

Numbers that are known beforehand are tables, and cost nothing.  These cost an array of numbers, and loads and stores at
places of their own for every path.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from holonax.compiler.arrays.matrices import shared, whole_array
from holonax.compiler.arrays.pieces import identity
from holonax.compiler.arrays.translate import Translation
from holonax.compiler.arrays.values import Fixed, Ref, Scattered, Selected, fixed, known_number
from holonax.compiler.ir.graph import Untranslatable
from holonax.compiler.ir.operations import FLOATS


def gather_by_path(translation: Translation, equation: Any, x: Ref, indices: Ref) -> Ref:
    """Whole rows of an array."""
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    shape, rows = x.table.shape, indices.table.shape[:-1]
    if (
        numbers.start_index_map != (0,)
        or numbers.collapsed_slice_dims != (0,)
        or numbers.operand_batching_dims
        or sizes[1:] != shape[1:]
        or numbers.offset_dims != tuple(range(len(rows), len(rows) + len(shape) - 1))
    ):
        raise Untranslatable("an index that depends on the state, other than rows of an array")
    number, width = indices[..., 0], prod(shape[1:])
    inside = _clipped(translation, number, shape[0] - 1)
    if (same := known_number(x)) is not None:
        found = fixed(np.full((*rows, *shape[1:]), same))
    else:
        places, whole = _each_of_row(translation, inside, width), whole_array(translation, x)
        key = ("selected", whole, identity(places))
        chosen = shared(translation, key, lambda: Selected(whole, places))
        found = Ref(chosen, np.arange(chosen.size).reshape(*rows, *shape[1:]))
    if equation.params["mode"] != GatherScatterMode.FILL_OR_DROP:
        return found
    fill = equation.params["fill_value"]
    if fill is None and x.array.dtype not in FLOATS:
        raise Untranslatable("whole numbers at an index that depends on the state and may be out of range")
    other = fixed(np.full(found.table.shape, np.nan if fill is None else fill, x.array.dtype))
    good = _repeated(translation.operation("equal", number, inside), width)
    return translation.operation("select", good[np.arange(good.table.size).reshape(found.table.shape)], found, other)


def scatter_by_path(translation: Translation, equation: Any, x: Ref, indices: Ref, updates: Ref) -> Ref:
    """Terms added to whole rows of an array."""
    numbers, mode = equation.params["dimension_numbers"], equation.params["mode"]
    shape, rows = x.table.shape, indices.table.shape[:-1]
    if (
        numbers.scatter_dims_to_operand_dims != (0,)
        or numbers.inserted_window_dims != (0,)
        or numbers.operand_batching_dims
        or numbers.update_window_dims != tuple(range(len(rows), len(rows) + len(shape) - 1))
        or updates.table.shape != (*rows, *shape[1:])
    ):
        raise Untranslatable("an index that depends on the state, other than rows of an array")
    if x.array.dtype not in FLOATS:
        raise Untranslatable("sums of whole numbers at an index that depends on the state")
    width, number = prod(shape[1:]), indices[..., 0]
    inside = _clipped(translation, number, shape[0] - 1)
    places = _each_of_row(translation, inside, width)
    if mode == GatherScatterMode.FILL_OR_DROP:
        good = _repeated(translation.operation("equal", number, inside), width)
        places = translation.operation("select", good, places, fixed(np.asarray(x.table.size, places.array.dtype)))
    terms = updates.flat
    key = ("scattered", identity(terms), identity(places), x.table.size)
    total = shared(translation, key, lambda: Scattered(terms, places, x.table.size))
    return translation.operation("add", x, Ref(total, np.arange(total.size).reshape(shape)))


def _clipped(translation: Translation, number: Ref, most: int) -> Ref:
    """Numbers from 0 to the last one."""
    low, high = (fixed(np.asarray(x, number.array.dtype)) for x in (0, most))
    return translation.operation("minimum", translation.operation("maximum", number, low), high)


def _each_of_row(translation: Translation, number: Ref, width: int) -> Ref:
    """Numbers of all entries of rows."""
    whole = number.array.dtype
    begin = translation.operation("multiply", number, fixed(np.asarray(width, whole)))
    if width == 1:
        return begin.flat
    offsets = np.tile(np.arange(width, dtype=whole), begin.table.size)
    key = ("offsets", width, whole, len(offsets))
    return translation.operation("add", _repeated(begin, width), shared(translation, key, lambda: Fixed(offsets)).all)


def _repeated(x: Ref, times: int) -> Ref:
    """A vector in which each entry is repeated."""
    return Ref(x.array, np.repeat(x.table.reshape(-1), times))
