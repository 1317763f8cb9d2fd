"""Cholesky factors and triangular systems, entry by entry: zeros fold away, so that a band stays a band."""

from __future__ import annotations

from typing import Any

import numpy as np

from holonax.lanes.graph import Build, Node
from holonax.lanes.translate import numbers, primitive


@primitive("cholesky")
def _cholesky(build: Build, equation: Any, matrices: np.ndarray) -> np.ndarray:
    r"""$A = C C^T$ by columns: $C_{ij} = (A_{ij} - \sum_{l<j} C_{il} C_{jl}) / C_{jj}$."""
    factors = numbers(build, np.zeros(matrices.shape, equation.outvars[0].aval.dtype))
    for batch in np.ndindex(matrices.shape[:-2]):
        matrix, factor = matrices[batch], factors[batch]
        for j in range(len(matrix)):
            row = _others(factor[j], range(j))
            factor[j, j] = build("sqrt", _reduced(matrix[j, j], row, factor[j]))
            for i in range(j + 1, len(matrix)):
                factor[i, j] = _reduced(matrix[i, j], row, factor[i]) / factor[j, j]
    return factors


@primitive("triangular_solve")
def _triangular_solve(build: Build, equation: Any, matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Substitution, forwards or backwards, for each right-hand side."""
    options = equation.params
    transposed = options["transpose_a"] == options["left_side"]  # X A = B is A^T X^T = B^T
    solutions = right.copy()
    for batch in np.ndindex(matrices.shape[:-2]):
        matrix = matrices[batch].T if transposed else matrices[batch]
        columns = solutions[batch].T if options["left_side"] else solutions[batch]  # views: written in place
        places = range(len(matrix)) if options["lower"] != transposed else range(len(matrix) - 1, -1, -1)
        for done, i in enumerate(places):
            row = _others(matrix[i], places[:done])
            for column in columns:
                column[i] = _reduced(column[i], row, column)
                if not options["unit_diagonal"]:
                    column[i] = column[i] / matrix[i, i]
    return solutions


def _others(row: np.ndarray, places: range) -> list[tuple[int, Node]]:
    """The entries of a row that are not zero."""
    return [(i, row[i]) for i in places if not row[i].is_number(0)]


def _reduced(value: Node, row: list[tuple[int, Node]], column: np.ndarray) -> Node:
    for i, entry in row:
        value = value - entry * column[i]
    return value
