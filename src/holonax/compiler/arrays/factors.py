"""Triangular factors and systems: as matrices, or column by column or row by row, each a loop over the others."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from holonax.compiler.arrays.matrices import dense, stays_whole
from holonax.compiler.arrays.translate import Translation, handler
from holonax.compiler.arrays.values import Ref, fixed, known_values
from holonax.compiler.ir.graph import Untranslatable

LARGEST = 100
"""Matrices up to so many rows are written out."""


def _check(size: int) -> None:
    if size > LARGEST:
        raise Untranslatable(f"a dense matrix of {size} rows that depends on the state")


@handler("cholesky")
def _cholesky(translation: Translation, equation: Any, matrix: Ref) -> Ref:
    r"""$A = C C^T$ by columns: $C_{ij} = (A_{ij} - \sum_{l<j} C_{il} C_{jl}) / C_{jj}$."""
    if (values := known_values(matrix)) is not None:
        return fixed(np.linalg.cholesky(values))
    *batch, size, _ = matrix.table.shape
    if stays_whole(translation, (matrix,), size):
        factor = dense(translation, "cholesky", [matrix], (prod(batch), size, size, size))
        return factor[np.arange(matrix.table.size).reshape(matrix.table.shape)]
    _check(size)
    columns: list[Ref] = []  # entry (..., i) of column l belongs to row l + i
    for j in range(size):
        rest = matrix[..., j:, j]
        for l, column in enumerate(columns):
            own = column[..., j - l :]
            product = translation.operation("multiply", own, own[..., :1].to(own.table.shape))
            rest = translation.operation("subtract", rest, product)
        pivot = translation.operation("sqrt", rest[..., :1])
        columns.append(translation.operation("divide", rest, pivot.to(rest.table.shape)))
    number = np.zeros((*batch, size, size), np.int64)  # of a zero, then of the entries of the columns
    used = 1
    for j, column in enumerate(columns):
        number[..., j:, j] = used + np.arange(column.table.size).reshape(column.table.shape)
        used += column.table.size
    return translation.joined([fixed(np.zeros(1, matrix.array.dtype)), *columns], number)


@handler("triangular_solve")
def _triangular_solve(translation: Translation, equation: Any, matrix: Ref, right: Ref) -> Ref:
    """Substitution, forwards or backwards, for all right-hand sides at once."""
    options = equation.params
    transposed = options["transpose_a"] == options["left_side"]  # X A = B is A^T X^T = B^T
    own = Ref(matrix.array, np.swapaxes(matrix.table, -1, -2)) if transposed else matrix
    sides = right if options["left_side"] else Ref(right.array, np.swapaxes(right.table, -1, -2))
    *batch, size, number = sides.table.shape
    lower = options["lower"] != transposed
    if stays_whole(translation, (own, sides), size) and not options["unit_diagonal"]:
        whole = _substituted(translation, own, sides, lower)
        return whole if options["left_side"] else Ref(whole.array, np.swapaxes(whole.table, -1, -2))
    _check(size)
    order = range(size) if lower else range(size - 1, -1, -1)
    rows: dict[int, Ref] = {}
    for i in order:
        rest = sides[..., i, :]
        for l, row in rows.items():
            factor = own[..., i, l, None].to(row.table.shape)
            rest = translation.operation("subtract", rest, translation.operation("multiply", factor, row))
        if not options["unit_diagonal"]:
            rest = translation.operation("divide", rest, own[..., i, i, None].to(rest.table.shape))
        rows[i] = rest
    parts = [rows[i] for i in range(size)]
    numbers = np.moveaxis(np.arange(size * int(np.prod(batch)) * number).reshape(size, *batch, number), 0, -2)
    whole = translation.joined(parts, numbers)
    return whole if options["left_side"] else Ref(whole.array, np.swapaxes(whole.table, -1, -2))


def _substituted(translation: Translation, matrix: Ref, sides: Ref, lower: bool) -> Ref:
    """Substitution with whole matrices; an upper triangle is a lower one, read from its end."""
    if not lower:
        matrix, sides = matrix[..., ::-1, ::-1], sides[..., ::-1, :]
    *batch, size, number = sides.table.shape
    found = dense(translation, "substitution", [matrix, sides], (prod(batch), size, size, number))
    table = np.arange(sides.table.size).reshape(sides.table.shape)
    return found[table if lower else table[..., ::-1, :]]
