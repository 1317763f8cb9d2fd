"""The values of arrays by NumPy, entry by entry of their definition: for trying a program out, and for tests."""

from __future__ import annotations

import numpy as np

from holonax.compiler.arrays.values import Array, Combined, DenseArray, Fixed, Formula, Joined, Ref, Scattered, Selected
from holonax.compiler.ir.graph import evaluated

REDUCTIONS = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def array_values(array: Array, known: dict[Array, np.ndarray]) -> np.ndarray:
    """The entries of an array, given those of some; what is evaluated on the way becomes known as well."""
    return evaluated([array], known, lambda x: x.sources, lambda x: _value(x, known))[0]


def _value(array: Array, known: dict[Array, np.ndarray]) -> np.ndarray:
    def of(ref: Ref) -> np.ndarray:
        return known[ref.array][ref.table]

    match array:
        case Fixed():
            return array.values
        case Formula():
            return np.broadcast_to(array.kind.on([of(x) for x in array.arguments]), (array.size,))
        case Combined():
            return REDUCTIONS[array.operation].reduce(of(array.terms), axis=1)
        case Joined():
            whole = np.empty(array.size, array.dtype)
            for part, places in zip(array.parts, array.places, strict=True):
                whole[places] = of(part)
            return whole
        case DenseArray():
            return _dense(array, known)
        case Selected():
            return known[array.whole][of(array.index)]
        case Scattered():
            total = np.zeros(array.size + 1, array.dtype)
            np.add.at(total, of(array.index), of(array.terms))
            return total[:-1]
    raise KeyError(f"{type(array).__name__} has no value of its own")


def _dense(array: DenseArray, known: dict[Array, np.ndarray]) -> np.ndarray:
    left = known[array.left].reshape(array.batches, array.rows, array.inner)
    if array.right is None:
        return np.linalg.cholesky(left).reshape(-1)
    right = known[array.right].reshape(array.batches, array.inner, array.columns)
    return (left @ right if array.operation == "product" else np.linalg.solve(np.tril(left), right)).reshape(-1)
