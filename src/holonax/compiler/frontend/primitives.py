"""The primitives that ordinary `jax.numpy` code of small systems produces, one line each where one is enough."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from holonax.compiler.frontend.translate import Untranslatable, array_of, primitive
from holonax.compiler.ir.graph import Build, Node, combined
from holonax.compiler.ir.operations import OPERATIONS
from holonax.compiler.ir.simplify import integer_power


def _each(function: Callable[..., Node]) -> Callable[..., np.ndarray]:
    """Entry by entry."""

    def handler(build: Build, equation: Any, *inputs: np.ndarray) -> np.ndarray:
        shape = equation.outvars[0].aval.shape
        entries = [np.broadcast_to(x, shape).flat for x in inputs]
        return array_of([function(build, *x) for x in zip(*entries, strict=True)], shape)

    return handler


def _same(name: str) -> Callable[..., Node]:
    return lambda build, *x: build(name, *x)


ELEMENTWISE = {"integer_pow", "convert_element_type", "bitcast_convert_type", "select_n", "round"}
"""Primitives that do the same with every entry: those with parameters, and whatever `_elementwise` translates."""


def _elementwise(*names: str, function: Callable[..., Node]) -> None:
    """Translate primitives by a function of a build and one node for each argument."""
    ELEMENTWISE.update(names)
    primitive(*names)(_each(function))


for _name, _operation in OPERATIONS.items():
    _elementwise(*_operation.primitives, function=_same(_name))


def _sign(build: Build, x: Node) -> Node:
    zero, one = build.number(0, x.dtype), build.number(1, x.dtype)
    return build("select", build("greater", x, zero), one, build("select", build("less", x, zero), -one, x))


def _quotient(build: Build, x: Node, y: Node) -> Node:
    if x.dtype in ("float64", "float32"):
        return x / y
    if x.is_constant and y.is_constant:
        return build.number(int(x.value) // int(y.value) if x.value * y.value >= 0 else -(-x.value // y.value), x.dtype)
    return build("convert", _whole_ratio(build, x, y), dtype=x.dtype)


def _remainder(build: Build, x: Node, y: Node) -> Node:
    if x.is_constant and y.is_constant:
        return build.number(np.fmod(x.value, y.value), x.dtype)
    if x.dtype in ("float64", "float32"):
        raise Untranslatable("a remainder of numbers that are not whole and depend on the state")
    a, b = (build("convert", z, dtype="float64") for z in (x, y))
    return build("convert", a - b * _whole_ratio(build, x, y), dtype=x.dtype)


def _whole_ratio(build: Build, x: Node, y: Node) -> Node:
    """X / y without its fraction, as a floating-point number: exact for whole numbers below 2^53."""
    ratio = build("convert", x, dtype="float64") / build("convert", y, dtype="float64")
    negative = build("less", ratio, build.number(0, "float64"))
    return build("select", negative, build("ceil", ratio), build("floor", ratio))


def _power(build: Build, x: Node, y: Node) -> Node:
    return build("power", x, build("convert", y, dtype=x.dtype))


_elementwise("sign", function=_sign)
_elementwise("div", function=_quotient)
_elementwise("rem", function=_remainder)
_elementwise("pow", function=_power)
_elementwise("square", function=lambda build, x: x * x)
_elementwise("one_minus_square", function=lambda build, x: (1.0 + x) * (1.0 - x))  # since JAX 0.11
_elementwise("rsqrt", function=lambda build, x: 1.0 / build("sqrt", x))
_elementwise("logistic", function=lambda build, x: 1.0 / (1.0 + build("exp", -x)))
_elementwise("exp2", function=lambda build, x: build("exp", x * float(np.log(2.0))))
_elementwise("log2", function=lambda build, x: build("log", x) * float(1.0 / np.log(2.0)))
_elementwise("erfc", function=lambda build, x: 1.0 - build("erf", x))
_elementwise("clamp", function=lambda build, low, x, high: build("minimum", build("maximum", x, low), high))
primitive("copy", "copy_p", "stop_gradient", "reduce_precision")(lambda build, equation, x: x)


@primitive("optimization_barrier")
def _barrier(build: Build, equation: Any, *inputs: np.ndarray) -> list:
    return list(inputs)


@primitive("round")
def _round(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    if int(equation.params["rounding_method"]) != 1:
        raise Untranslatable("rounding half away from zero")
    return _each(_same("rint"))(build, equation, x)


@primitive("integer_pow")
def _integer_power(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    return _each(lambda build, x: integer_power(build, x, equation.params["y"]))(build, equation, x)


@primitive("convert_element_type")
def _convert(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    dtype = equation.params["new_dtype"].name
    if dtype == "bool":
        return _each(lambda build, x: build("not_equal", x, build.number(0, x.dtype)))(build, equation, x)
    return _each(lambda build, x: build("convert", x, dtype=dtype))(build, equation, x)


@primitive("bitcast_convert_type")
def _bitcast(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    dtype = equation.params["new_dtype"].name
    if x.size and np.dtype(x.flat[0].dtype).itemsize != np.dtype(dtype).itemsize:
        raise Untranslatable("a bitcast to a type of another size")
    return _each(lambda build, x: build("bitcast", x, dtype=dtype))(build, equation, x)


@primitive("select_n")
def _select(build: Build, equation: Any, which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    def choose(build: Build, which: Node, *cases: Node) -> Node:
        if which.dtype == "bool":
            return build("select", which, cases[1], cases[0])
        result = cases[-1]
        for i in range(len(cases) - 2, -1, -1):
            result = build("select", build("equal", which, build.number(i, which.dtype)), cases[i], result)
        return result

    return _each(choose)(build, equation, which, *cases)


# Reductions.


def _reduce(build: Build, equation: Any, x: np.ndarray, combine: Callable, empty: Any) -> np.ndarray:
    axes, shape = equation.params["axes"], equation.outvars[0].aval.shape
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(*kept, *axes).reshape(prod(shape), prod(x.shape[axis] for axis in axes))
    dtype = equation.outvars[0].aval.dtype.name

    def total(row: np.ndarray) -> Node:
        return combined(combine, list(row)) if len(row) else build.number(empty, dtype)

    return array_of([total(row) for row in rows], shape)


for _primitive, _name, _empty in (
    ("reduce_sum", "add", 0), ("reduce_prod", "multiply", 1), ("reduce_max", "maximum", -np.inf),
    ("reduce_min", "minimum", np.inf), ("reduce_and", "and", True), ("reduce_or", "or", False),
):  # fmt: skip
    primitive(_primitive)(
        lambda build, equation, x, name=_name, empty=_empty: _reduce(
            build, equation, x, lambda a, b: build(name, a, b), empty
        )
    )


@primitive("argmax", "argmin")
def _argument(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    better = "greater" if equation.primitive.name == "argmax" else "less"
    (axis,), dtype = equation.params["axes"], equation.params["index_dtype"].name
    rows = np.moveaxis(x, axis, -1)

    def place(row: np.ndarray) -> Node:
        best, where = row[0], build.number(0, dtype)
        for i, entry in enumerate(row[1:], 1):
            here = build(better, entry, best)
            best, where = build("select", here, entry, best), build("select", here, build.number(i, dtype), where)
        return where

    return array_of([place(row) for row in rows.reshape(-1, rows.shape[-1])], rows.shape[:-1])


def _accumulate(build: Build, equation: Any, x: np.ndarray, name: str) -> np.ndarray:
    rows = np.moveaxis(x, equation.params["axis"], 0).copy()
    order = range(len(rows) - 2, -1, -1) if equation.params["reverse"] else range(1, len(rows))
    before = 1 if equation.params["reverse"] else -1
    for i in order:
        for j in np.ndindex(rows.shape[1:]):
            rows[(i, *j)] = build(name, rows[(i + before, *j)], rows[(i, *j)])
    return np.moveaxis(rows, 0, equation.params["axis"])


for _primitive, _name in (
    ("cumsum", "add"),
    ("cumprod", "multiply"),
    ("cummax", "maximum"),
    ("cummin", "minimum"),
):
    primitive(_primitive)(partial(_accumulate, name=_name))


@primitive("dot_general")
def _dot(build: Build, equation: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    (contract_x, contract_y), (batch_x, batch_y) = equation.params["dimension_numbers"]
    free_x = [d for d in range(x.ndim) if d not in (*contract_x, *batch_x)]
    free_y = [d for d in range(y.ndim) if d not in (*contract_y, *batch_y)]
    batches, terms = prod(x.shape[d] for d in batch_x), prod(x.shape[d] for d in contract_x)
    rows, columns = prod(x.shape[d] for d in free_x), prod(y.shape[d] for d in free_y)
    left = x.transpose(*batch_x, *free_x, *contract_x).reshape(batches, rows, terms)
    right = y.transpose(*batch_y, *free_y, *contract_y).reshape(batches, columns, terms)
    aval = equation.outvars[0].aval
    dtype = aval.dtype.name

    def product(a: Node, b: Node) -> Node:
        return build("convert", a, dtype=dtype) * build("convert", b, dtype=dtype)  # they may be of different types

    products = [
        build.total([product(a, b) for a, b in zip(row, column, strict=True)], dtype)
        for ours, theirs in zip(left, right, strict=True)
        for row in ours
        for column in theirs
    ]
    return array_of(products, aval.shape)


# What only moves entries.


@primitive("broadcast_in_dim")
def _broadcast(build: Build, equation: Any, x: np.ndarray, *_: Any) -> np.ndarray:
    shape, places = equation.params["shape"], equation.params["broadcast_dimensions"]
    spread = [1] * len(shape)
    for size, place in zip(x.shape, places, strict=True):
        spread[place] = size
    return np.broadcast_to(x.reshape(spread), shape)


@primitive("reshape", "squeeze", "expand_dims")
def _reshape(build: Build, equation: Any, x: np.ndarray, *_: Any) -> np.ndarray:
    return x.reshape(equation.outvars[0].aval.shape)


@primitive("iota")
def _iota(build: Build, equation: Any, *_: Any) -> np.ndarray:
    shape, axis = equation.params["shape"], equation.params["dimension"]
    counts = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    dtype = equation.params["dtype"].name
    return array_of([build.number(i, dtype) for i in np.broadcast_to(counts, shape).flat], shape)


@primitive("empty", "empty2")
def _zeros(build: Build, equation: Any, *_: Any) -> np.ndarray:
    aval = equation.outvars[0].aval
    return array_of([build.number(0, aval.dtype.name)] * prod(aval.shape), aval.shape)


@primitive("tile")
def _tile(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    return np.tile(x, equation.params["reps"])


@primitive("transpose")
def _transpose(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    return x.transpose(equation.params["permutation"])


@primitive("rev")
def _reverse(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    return np.flip(x, equation.params["dimensions"])


@primitive("concatenate")
def _concatenate(build: Build, equation: Any, *inputs: np.ndarray) -> np.ndarray:
    return np.concatenate(inputs, equation.params["dimension"])


@primitive("stack")
def _stack(build: Build, equation: Any, *inputs: np.ndarray) -> np.ndarray:
    return np.stack(inputs, equation.params.get("axis", equation.params.get("dimension", 0)))


@primitive("unstack")
def _unstack(build: Build, equation: Any, x: np.ndarray) -> list:
    return [np.asarray(part, object) for part in np.moveaxis(x, equation.params.get("axis", 0), 0)]


@primitive("split")
def _split(build: Build, equation: Any, x: np.ndarray) -> list:
    return np.split(x, np.cumsum(equation.params["sizes"])[:-1], equation.params["axis"])


@primitive("slice")
def _slice(build: Build, equation: Any, x: np.ndarray) -> np.ndarray:
    begin, end, strides = (equation.params[name] for name in ("start_indices", "limit_indices", "strides"))
    return np.asarray(x[tuple(map(slice, begin, end, strides or [1] * x.ndim))], object)


@primitive("pad")
def _pad(build: Build, equation: Any, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    shape = equation.outvars[0].aval.shape
    result = array_of([value.item()] * prod(shape), shape)
    for place in np.ndindex(x.shape):
        there = tuple(
            low + i * (inner + 1) for i, (low, _, inner) in zip(place, equation.params["padding_config"], strict=True)
        )
        if all(0 <= i < size for i, size in zip(there, shape, strict=True)):
            result[there] = x[place]
    return result


@primitive("platform_index")
def _platform(build: Build, equation: Any) -> np.ndarray:
    return array_of([build.number(equation.params["platforms"].index(None), "int32")], ())
