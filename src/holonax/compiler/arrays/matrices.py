"""Whole arrays and matrices in memory, for what does not work entry by entry.

A product of two matrices of 60 rows has 216 000 terms.  As a sum over entries it is two tables of that length; as a
matrix it is three loops.  Equations need their derivatives entry by entry, so what their unknowns enter is written out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holonax.compiler.arrays.pieces import identity
from holonax.compiler.arrays.solve import Found, in_memory
from holonax.compiler.arrays.translate import Translation
from holonax.compiler.arrays.values import Array, DenseArray, Given, Joined, Ref
from holonax.compiler.ir.graph import evaluated
from holonax.compiler.ir.operations import FLOATS

WRITTEN_OUT = 8
"""Rows and columns up to which matrices are written out entry by entry."""


def shared(translation: Translation, key: tuple, make: Callable[[], Array]) -> Array:
    """Equal arrays are the same object."""
    if key not in translation.known:
        translation.known[key] = make()
    return translation.known[key]


def whole_array(translation: Translation, x: Ref) -> Array:
    """An array in memory that holds these entries in order."""
    flat = x.flat
    if isinstance(x.array, (Given, Found, Joined, DenseArray)) and np.array_equal(flat.table, np.arange(x.array.size)):
        return x.array
    return shared(translation, ("whole", identity(flat)), lambda: in_memory(flat))


def stays_whole(translation: Translation, operands: tuple[Ref, ...], *sizes: int) -> bool:
    """Whether matrices are large enough for loops of their own, and no equations need their derivatives."""
    if min(sizes) <= WRITTEN_OUT or any(x.array.dtype != operands[0].array.dtype for x in operands):
        return False
    known = translation.of_unknowns

    def depends(array: Array) -> bool:
        return any(known[x] for x in array.sources) or (isinstance(array, Given) and array.name == "unknowns")

    entering: list[bool] = evaluated([x.array for x in operands], known, lambda x: x.sources, depends)
    return operands[0].array.dtype in FLOATS and not any(entering)


def dense(translation: Translation, operation: str, operands: list[Ref], sizes: tuple[int, int, int, int]) -> Ref:
    """What an operation of `DenseArray` makes of matrices: (batches, rows, inner, columns)."""
    left, *rest = (whole_array(translation, x) for x in operands)
    right = rest[0] if rest else None
    return shared(
        translation, ("dense", operation, left, right, sizes), lambda: DenseArray(operation, left, right, *sizes)
    ).all
