"""Moves, reductions and products of arrays, and noise.

What a primitive does to entries it does to their numbers: the table of a result is what the primitive makes of the
table of its operand.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive

from holonax.compiler.arrays.kinds import Kind
from holonax.compiler.arrays.lists import gather_by_path, scatter_by_path
from holonax.compiler.arrays.matrices import dense, stays_whole
from holonax.compiler.arrays.translate import Translation, handler
from holonax.compiler.arrays.values import Ref, Table, fixed, known_values
from holonax.compiler.frontend.translate import PRIMITIVES, array_of, look, sizes_of_scan, translate_closed
from holonax.compiler.ir.graph import Build, Node, Untranslatable
from holonax.mechanics import noise

MOST_LENGTHS = 16
"""Lengths of sums that have a loop each."""

MOST_ROUNDS = 64
"""Of a loop in a user's function, which is written out."""


def _moved(translation: Translation, equation: Any, x: Ref, *_: Any) -> Any:
    tables = PRIMITIVES[equation.primitive.name](None, equation, x.table)
    if isinstance(tables, list):
        return [Ref(x.array, np.asarray(table).astype(np.int64)) for table in tables]
    return Ref(x.array, np.asarray(tables).astype(np.int64))


for _name in (
    "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "rev", "slice", "split", "tile", "unstack",
):  # fmt: skip
    handler(_name)(_moved)


@handler("concatenate", "stack")
def _side_by_side(translation: Translation, equation: Any, *inputs: Ref) -> Ref:
    tables = _numbered(inputs)
    return translation.joined(list(inputs), PRIMITIVES[equation.primitive.name](None, equation, *tables))


def _numbered(inputs: tuple[Ref, ...]) -> list[Table]:
    """The entries of several arrays, numbered through."""
    ends = np.cumsum([0, *(x.table.size for x in inputs)])
    return [begin + np.arange(x.table.size).reshape(x.table.shape) for x, begin in zip(inputs, ends, strict=False)]


@handler("pad")
def _pad(translation: Translation, equation: Any, x: Ref, value: Ref) -> Ref:
    table, outside = _numbered((x, value))
    result = np.full(equation.outvars[0].aval.shape, outside)
    spread = [
        low + (inner + 1) * np.arange(size)
        for (low, _, inner), size in zip(equation.params["padding_config"], table.shape, strict=True)
    ]
    kept = [(places >= 0) & (places < size) for places, size in zip(spread, result.shape, strict=True)]
    inside = [places[keep] for places, keep in zip(spread, kept, strict=True)]
    result[np.ix_(*inside)] = table[np.ix_(*map(np.flatnonzero, kept))]
    return translation.joined([x, value], result)


@handler("iota")
def _iota(translation: Translation, equation: Any, *_: Any) -> Ref:
    shape, axis = equation.params["shape"], equation.params["dimension"]
    counts = np.arange(shape[axis], dtype=equation.params["dtype"])
    return fixed(np.broadcast_to(counts.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape))


@handler("empty", "empty2")
def _zeros(translation: Translation, equation: Any, *_: Any) -> Ref:
    aval = equation.outvars[0].aval
    return fixed(np.zeros(aval.shape, aval.dtype))


@handler("platform_index")
def _platform(translation: Translation, equation: Any) -> Ref:
    return fixed(np.int32(equation.params["platforms"].index(None)))


# Indexing.


def _constant(ref: Ref) -> np.ndarray:
    values = known_values(ref)
    if values is None:
        raise Untranslatable("an index that depends on the state")
    return values


@handler("gather")
def _gather(translation: Translation, equation: Any, x: Ref, indices: Ref) -> Ref:
    if known_values(indices) is None:
        return gather_by_path(translation, equation, x, indices)
    parameters = {**equation.params, "fill_value": -1}
    numbers = np.asarray(lax.gather_p.bind(np.asarray(x.table), _constant(indices), **parameters))
    if (numbers < 0).any():
        raise Untranslatable("an index out of range")
    return Ref(x.array, numbers.astype(np.int64))


@handler("dynamic_slice")
def _dynamic_slice(translation: Translation, equation: Any, x: Ref, *begin: Ref) -> Ref:
    sizes = equation.params["slice_sizes"]
    corner = [int(_constant(i)) for i in begin]
    window = zip(corner, x.table.shape, sizes, strict=True)
    return x[tuple(slice(c := min(max(i, 0), old - new), c + new) for i, old, new in window)]


@handler("dynamic_update_slice")
def _dynamic_update(translation: Translation, equation: Any, x: Ref, update: Ref, *begin: Ref) -> Ref:
    old, new = _numbered((x, update))
    corner = [int(_constant(i)) for i in begin]
    window = zip(corner, old.shape, new.shape, strict=True)
    old[tuple(slice(c := min(max(i, 0), size - part), c + part) for i, size, part in window)] = new
    return translation.joined([x, update], old)


@handler("scatter-add", "scatter_add", "scatter")
def _scatter(translation: Translation, equation: Any, x: Ref, indices: Ref, updates: Ref) -> Ref:
    if known_values(indices) is None and equation.primitive.name != "scatter":
        return scatter_by_path(translation, equation, x, indices, updates)
    targets = _targets(equation, x, _constant(indices), updates)
    if equation.primitive.name == "scatter":
        old, new = _numbered((x, updates))
        flat, inside = old.reshape(-1), targets >= 0
        flat[targets[inside]] = new.reshape(-1)[inside]
        return translation.joined([x, updates], flat.reshape(old.shape))
    total = sums_by_target(translation, updates.flat, targets, x.table.size)
    return translation.operation("add", x, Ref(total.array, total.table.reshape(x.table.shape)))


def _targets(equation: Any, x: Ref, indices: np.ndarray, updates: Ref) -> Table:
    """Numbers of the entries that updates go to, -1 for those that are dropped: what a gather would fetch."""
    numbers = equation.params["dimension_numbers"]
    removed = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    windows = iter(numbers.update_window_dims)
    sizes = tuple(1 if d in removed else updates.table.shape[next(windows)] for d in range(x.table.ndim))
    dimensions = lax.GatherDimensionNumbers(
        offset_dims=numbers.update_window_dims,
        collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims,
        operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )
    entries = np.arange(x.table.size).reshape(x.table.shape)
    clips = "CLIP" in str(equation.params["mode"])
    mode = lax.GatherScatterMode.CLIP if clips else lax.GatherScatterMode.FILL_OR_DROP
    found = lax.gather(entries, indices, dimensions, sizes, mode=mode, fill_value=-1)
    return np.asarray(found).astype(np.int64).reshape(-1)


def sums_by_target(translation: Translation, terms: Ref, targets: Table, size: int) -> Ref:
    """Entry i is the sum of the terms whose target is i; those of target -1 are left out."""
    order = np.argsort(targets, kind="stable")
    order = order[np.searchsorted(targets[order], 0) :]
    counts = np.bincount(targets[order], minlength=size)
    begins = np.cumsum(counts) - counts
    if len(np.unique(counts)) > MOST_LENGTHS:
        return _sums_of_blocks(translation, terms[order], counts, begins)
    parts: list[Ref] = [fixed(np.zeros(1, terms.array.dtype))]
    table = np.zeros(size, np.int64)
    used = 1
    for count in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == count)
        members = order[begins[rows][:, None] + np.arange(count)]
        parts.append(translation.combined("add", terms[members]))
        table[rows] = used + np.arange(len(rows))
        used += len(rows)
    return translation.joined(parts, table)


def _sums_of_blocks(translation: Translation, terms: Ref, counts: Table, begins: Table) -> Ref:
    """Sums of many different lengths, of terms in order: first of up to so many terms, then of these.

    A loop for each length would be as many loops as there are particles, where each pair of them is named once.
    """
    rows = np.repeat(np.arange(len(counts)), counts)
    block = (np.arange(len(rows)) - begins[rows]) // MOST_LENGTHS
    first = np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(block) != 0)))
    partial = sums_by_target(
        translation, terms, np.repeat(np.arange(len(first)), np.diff(np.append(first, len(rows)))), len(first)
    )
    return sums_by_target(translation, partial, rows[first], len(counts))


# Reductions and products.


def _reduced(translation: Translation, equation: Any, x: Ref, name: str, empty: Any) -> Ref:
    axes, aval = equation.params["axes"], equation.outvars[0].aval
    kept = [axis for axis in range(x.table.ndim) if axis not in axes]
    width = prod(x.table.shape[axis] for axis in axes)
    if width == 0:
        return fixed(np.full(aval.shape, empty, aval.dtype))
    rows = x.table.transpose(*kept, *axes).reshape(*aval.shape, width)
    return translation.combined(name, Ref(x.array, rows))


for _primitive, _operation, _empty in (
    ("reduce_sum", "add", 0), ("reduce_prod", "multiply", 1), ("reduce_max", "maximum", -np.inf),
    ("reduce_min", "minimum", np.inf), ("reduce_and", "and", True), ("reduce_or", "or", False),
):  # fmt: skip
    handler(_primitive)(partial(_reduced, name=_operation, empty=_empty))


@handler("dot_general")
def _dot(translation: Translation, equation: Any, x: Ref, y: Ref) -> Ref:
    (contract_x, contract_y), (batch_x, batch_y) = equation.params["dimension_numbers"]
    a, b = x.table, y.table
    free_x = [d for d in range(a.ndim) if d not in (*contract_x, *batch_x)]
    free_y = [d for d in range(b.ndim) if d not in (*contract_y, *batch_y)]
    batches, terms = prod(a.shape[d] for d in batch_x), prod(a.shape[d] for d in contract_x)
    left = a.transpose(*batch_x, *free_x, *contract_x).reshape(batches, -1, 1, terms)
    right = b.transpose(*batch_y, *free_y, *contract_y).reshape(batches, 1, -1, terms)
    aval = equation.outvars[0].aval
    if terms == 0:
        return fixed(np.zeros(aval.shape, aval.dtype))
    sizes = batches, left.shape[1], terms, right.shape[2]
    if stays_whole(translation, (x, y), *sizes[1:]):
        both = [Ref(x.array, left), Ref(y.array, right.swapaxes(-1, -2))]
        return dense(translation, "product", both, sizes)[np.arange(prod(aval.shape)).reshape(aval.shape)]
    dtype = aval.dtype.name  # the factors may be of different types
    factors = [translation.converted(Ref(x.array, left), dtype), translation.converted(Ref(y.array, right), dtype)]
    total = translation.combined("add", translation.operation("multiply", *factors))
    return Ref(total.array, total.table.reshape(aval.shape))


def _accumulated(translation: Translation, equation: Any, x: Ref, name: str) -> Ref:
    """Sums of the first 1, 2, 3, ... rows, by doubling: log2 of their number of additions."""
    axis = equation.params["axis"]
    flip = (lambda t: np.flip(t, 0)) if equation.params["reverse"] else (lambda t: t)
    rows = Ref(x.array, flip(np.moveaxis(x.table, axis, 0)))
    size, step = len(rows.table), 1
    while step < size:
        later = translation.operation(name, rows[step:], rows[:-step])
        numbers = _numbered((rows[:step], later))
        rows = translation.joined([rows[:step], later], np.concatenate(numbers))
        step *= 2
    return Ref(rows.array, np.moveaxis(flip(rows.table), 0, axis))


for _primitive, _operation in (
    ("cumsum", "add"),
    ("cumprod", "multiply"),
    ("cummax", "maximum"),
    ("cummin", "minimum"),
):
    handler(_primitive)(partial(_accumulated, name=_operation))


@handler("scan")
def _scan(translation: Translation, equation: Any, *inputs: Ref) -> list:
    parameters = equation.params
    consts, carried = sizes_of_scan(parameters)
    length = parameters["length"]
    if length > MOST_ROUNDS:
        raise Untranslatable(f"a loop of {length} iterations (slices and index arrays need none)")
    own, carry, xs = inputs[:consts], list(inputs[consts : consts + carried]), inputs[consts + carried :]
    rows: dict[int, list] = {}
    for i in reversed(range(length)) if parameters["reverse"] else range(length):
        results = look(translation.closed(parameters["jaxpr"], [*own, *carry, *(x[i] for x in xs)]))
        carry, rows[i] = results[:carried], results[carried:]
    stacked = []
    for j, variable in enumerate(equation.outvars[carried:]):
        parts = [rows[i][j] for i in range(length)]
        stacked.append(translation.joined(parts, np.arange(prod(variable.aval.shape)).reshape(variable.aval.shape)))
    return [*carry, *stacked]


# Noise.


def _register(drawn: Primitive, function: Any) -> None:
    """Two numbers for each block, by one formula each; as they share most of it, they are computed together."""

    def formulas(types: tuple[Any, ...]) -> list[Kind]:
        traced = jax.make_jaxpr(function)(*types)
        build = Build()
        arrays = [
            array_of([build.fresh("unknown", t.dtype.name) for _ in range(prod(t.shape))], t.shape) for t in types
        ]
        (pair,) = translate_closed(build, traced, arrays)
        inputs: list[Node] = [node for array in arrays for node in array.flat]
        return [Kind(inputs, node) for node in pair.flat]

    @handler(drawn.name)
    def draw(translation: Translation, equation: Any, *inputs: Ref) -> Ref:
        block = inputs[3].table.size
        types = tuple(
            jax.ShapeDtypeStruct((1,) if i == 3 else x.table.shape, x.array.dtype) for i, x in enumerate(inputs)
        )
        key = (drawn.name, tuple((t.shape, str(t.dtype)) for t in types))
        if key not in translation.kinds:
            translation.kinds[key] = formulas(types)  # type: ignore[assignment]
        single: list[Ref] = []
        for i, x in enumerate(inputs):
            single += [x.flat] if i == 3 else [Ref(x.array, np.full(block, entry)) for entry in x.table.reshape(-1)]
        pair = [translation.formula(kind, *single) for kind in translation.kinds[key]]  # type: ignore[attr-defined]
        return translation.joined(pair, np.arange(2 * block).reshape(2, block).T)


_register(noise.normal_pairs_p, noise.normal_pairs)
_register(noise.random_words_p, noise.random_words)
