"""Indices beyond the end of an array in a traced function: NumPy raises there, JAX takes the last entry silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"}
_LARGEST_TABLE = 10**6


def out_of_range(traced: ClosedJaxpr) -> Iterator[tuple[str, Any]]:
    """Each index that is known beforehand and out of range, in words, and the equation that uses it."""
    found: list[tuple[str, Any]] = []
    _follow(traced.jaxpr, traced.consts, [None] * len(traced.jaxpr.invars), found)
    yield from found


def _follow(jaxpr: Jaxpr, constants: Any, arguments: list, found: list[tuple[str, Any]]) -> list:
    """What is known of the results, given what is known of the arguments (None: nothing)."""
    known: dict[Any, Any] = dict(zip(jaxpr.invars, arguments, strict=True))
    known.update(zip(jaxpr.constvars, map(_index, constants), strict=False))  # which programs inside may lack

    def read(atom: Any) -> Any:
        return _index(atom.val) if isinstance(atom, Literal) else known.get(atom)

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        name = equation.primitive.name
        for program in (x for x in equation.params.values() if isinstance(x, Jaxpr | ClosedJaxpr)):
            inner, constants = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, ())
            given = operands if name in _CALLS else [None] * len(inner.invars)  # loops change their arguments
            results = _follow(inner, constants, given, found)
            if name in _CALLS:
                known.update(zip(equation.outvars, results, strict=True))
        if name in _OPERATIONS and all(x is not None for x in operands):
            known[equation.outvars[0]] = _OPERATIONS[name](*operands, **equation.params)
        elif name == "dynamic_slice":
            found += _beyond(equation, [equation.params["slice_sizes"], operands[1:], range(len(operands) - 1)])
        elif name == "gather" and operands[1] is not None and _matters(equation.params):
            axes = equation.params["dimension_numbers"].start_index_map
            starts = [operands[1][..., i] for i in range(len(axes))]
            found += _beyond(equation, [equation.params["slice_sizes"], starts, axes])
    return [read(atom) for atom in jaxpr.outvars]


def _beyond(equation: Any, parts: list) -> Iterator[tuple[str, Any]]:
    sizes, starts, axes = parts
    shape = equation.invars[0].aval.shape
    for start, axis in zip(starts, axes, strict=True):
        if start is None:
            continue
        wrong = start[(start < 0) | (start + sizes[axis] > shape[axis])]
        if wrong.size:
            index = int(wrong.flat[0])
            asked = index if index >= 0 else index - shape[axis]  # negative ones have been counted from the end
            yield f"index {asked} is out of bounds for axis {axis} with size {shape[axis]}", equation


def _matters(parameters: dict[str, Any]) -> bool:
    """Whether nobody asked for what happens to an index out of range: a clamped one, or NaN."""
    mode, fill = parameters["mode"], parameters["fill_value"]
    if mode == jax.lax.GatherScatterMode.FILL_OR_DROP:
        return fill is None or bool(np.isnan(fill))
    return bool(mode == jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _index(value: Any) -> Any:
    """An array of integers or booleans as NumPy's; None for everything else, which is no index."""
    if isinstance(value, jax.core.Tracer) or np.size(value) > _LARGEST_TABLE:
        return None
    return np.asarray(value) if jnp.result_type(value).kind in "iub" else None


def _broadcast(x: np.ndarray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...], **_: Any) -> np.ndarray:
    sizes = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        sizes[axis] = size
    return np.broadcast_to(x.reshape(sizes), shape)


_OPERATIONS: dict[str, Callable[..., np.ndarray]] = {  # of which indices are made
    "lt": lambda x, y, **_: np.less(x, y),
    "add": lambda x, y, **_: np.add(x, y),
    "sub": lambda x, y, **_: np.subtract(x, y),
    "mul": lambda x, y, **_: np.multiply(x, y),
    "select_n": lambda which, no, yes=None, **_: no if yes is None else np.where(which, yes, no),
    "convert_element_type": lambda x, *, new_dtype, **_: x.astype(new_dtype),
    "broadcast_in_dim": _broadcast,
    "reshape": lambda x, *, new_sizes, **_: x.reshape(new_sizes),
    "squeeze": lambda x, *, dimensions, **_: np.squeeze(x, dimensions),
    "concatenate": lambda *x, dimension, **_: np.concatenate(x, dimension),
    "iota": lambda *, dtype, shape, dimension, **_: _broadcast(
        np.arange(shape[dimension], dtype=dtype), shape=shape, broadcast_dimensions=(dimension,)
    ),
}
