r"""Derivatives of sums over everything, in reverse mode: one pass back gives the whole row.

Where there is a sum inside of a sum, as the centre in a radius of gyration $\sum_i f(x_i - \bar x)$, every term depends
on every unknown.  Forwards, n terms have $n^2$ derivatives, which are then added up to n.  Backwards, every array has
one number for each of its entries: the derivative of the sum with respect to it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holonax.compiler.arrays.moves import sums_by_target
from holonax.compiler.arrays.translate import Translation
from holonax.compiler.arrays.values import Array, Combined, Formula, Joined, Ref, Table, fixed
from holonax.compiler.ir.graph import Untranslatable, evaluated

WIDE = 64
"""Terms of a sum inside of a sum, from which on the outer one is differentiated backwards."""

MOST_ROWS = 8
"""Sums side by side that are differentiated backwards, one after another."""


def is_wide_sum(array: Array) -> bool:
    """Whether it is one by which derivatives become dense."""
    return isinstance(array, Combined) and array.operation == "add" and array.terms.table.shape[1] >= WIDE


def backwards(
    translation: Translation, begin: Ref, unknowns: Array, depends: Callable[[Array], bool]
) -> tuple[Table, Ref]:
    """The derivatives of the sum of some entries with respect to unknowns: which ones, and their values."""
    order: dict[Array, None] = {}
    evaluated([begin.array], order, lambda x: [y for y in x.sources if depends(y)], lambda _: None)
    ones = fixed(np.ones(begin.table.size, begin.array.dtype))
    pulled: dict[Array, list[tuple[Table, Ref]]] = {x: [] for x in order}
    pulled[begin.array].append((begin.table, ones))
    for array in reversed(order):
        targets = np.concatenate([table for table, _ in pulled[array]])
        terms = translation.concatenated([values for _, values in pulled[array]])
        total = sums_by_target(translation, terms, targets, array.size)
        if array is unknowns:
            columns = np.unique(targets)
            return columns, total[columns]
        for source, table, values in _pulled_through(translation, array, total):
            if depends(source):
                pulled[source].append((table, values))
    raise AssertionError("a sum that does not depend on the unknowns")


def _pulled_through(translation: Translation, array: Array, total: Ref) -> list[tuple[Array, Table, Ref]]:
    """What the derivatives with respect to an array add to those with respect to entries of its sources."""
    match array:
        case Formula():
            return [
                (
                    x.array,
                    x.table,
                    translation.operation("multiply", slope, translation.converted(total, slope.array.dtype)),
                )
                for x, slope in (
                    (array.arguments[i], translation.formula(partial, *array.arguments))
                    for i, partial in array.kind.partials.items()
                )
            ]
        case Combined(operation="add"):
            rows, width = array.terms.table.shape
            return [(array.terms.array, array.terms.table.reshape(-1), total[np.repeat(np.arange(rows), width)])]
        case Joined():
            parts = zip(array.parts, array.places, strict=True)
            return [(part.array, part.table, total[places]) for part, places in parts]
    raise Untranslatable("equations whose derivatives are not sums and products of entries")
