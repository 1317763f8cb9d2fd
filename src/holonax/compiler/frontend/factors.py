"""Factors of small matrices and linear systems, entry by entry: zeros fold away, so that a band stays a band."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from holonax.compiler.frontend.derivative import derivative
from holonax.compiler.frontend.elimination import Row, eliminate, substitute
from holonax.compiler.frontend.translate import array_of, look, numbers, primitive, translate_closed
from holonax.compiler.ir.graph import Build, Node, Untranslatable


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


LARGEST_PIVOTED = 8
"""Unknowns of a linear system whose pivots are looked for in every lane: comparisons grow with the cube of it."""


@primitive("lu")
def _lu(build: Build, equation: Any, matrices: np.ndarray) -> list:
    """Factors, exchanges and permutation of rows, as LAPACK gives them."""
    *batch, n, m = matrices.shape
    to_be_exchanged = any(not x.is_number(0) for x in matrices[..., *np.tril_indices(n, -1, m)].flat)
    if n != m or (n > LARGEST_PIVOTED and to_be_exchanged):
        raise Untranslatable(f"LU factors of a matrix ({n}, {m})")
    factors = matrices.copy()
    pivots, order = (np.empty((*batch, n), object) for _ in range(2))
    for place in np.ndindex(*batch):
        extra = [[build.number(i, "int32")] for i in range(n)]
        rows, pivots[place], moved = pivoted(build, [list(row) for row in matrices[place]], extra)
        factors[place] = np.array(rows, object)
        order[place] = [row[0] for row in moved]
    return [factors, pivots, order]


def pivoted(build: Build, rows: list[list[Node]], extra: list[list[Node]]) -> tuple[list, list[Node], list]:
    """LU factors with partial pivoting, lane by lane; `extra` columns are exchanged along with the rows.

    A row becomes the pivot's if its entry is the largest: which one that is differs from lane to lane, so that all rows
    below choose between their own numbers and those of the row that gives way.
    """
    rows, extra, exchanged = [list(row) for row in rows], [list(row) for row in extra], []
    for j in range(len(rows)):
        best, place = abs(rows[j][j]), build.number(j, "int32")
        for i in range(j + 1, len(rows)):
            if not rows[i][j].is_number(0):
                better = build("greater", abs(rows[i][j]), best)
                best = build("select", better, abs(rows[i][j]), best)
                place = build("select", better, build.number(i, "int32"), place)
        exchanged.append(place)
        for table in (rows, extra):
            _exchange(build, table, j, place)
        scale = 1.0 / rows[j][j]
        for i in range(j + 1, len(rows)):
            factor = rows[i][j] * scale
            rows[i][j] = factor
            for c in range(j + 1, len(rows)):
                rows[i][c] = rows[i][c] - factor * rows[j][c]
    return rows, exchanged, extra


def _exchange(build: Build, rows: list[list[Node]], j: int, place: Node) -> None:
    """Let row j and the row at a place that depends on the lane change places."""
    if place.is_number(j):
        return
    old = list(rows[j])
    for i in range(j + 1, len(rows)):
        here = build("equal", place, build.number(i, "int32"))
        rows[j] = [build("select", here, new, x) for new, x in zip(rows[i], rows[j], strict=True)]
        rows[i] = [build("select", here, x, own) for x, own in zip(old, rows[i], strict=True)]


def solved(build: Build, rows: list[list[Node]], right: list[Node]) -> list[Node]:
    """The solution of a small dense linear system, with partial pivoting."""
    factors, _, moved = pivoted(build, rows, [[x] for x in right])
    x = [row[0] for row in moved]
    for i in range(len(x)):
        for c in range(i):
            x[i] = x[i] - factors[i][c] * x[c]
    for i in reversed(range(len(x))):
        for c in range(i + 1, len(x)):
            x[i] = x[i] - factors[i][c] * x[c]
        x[i] = x[i] / factors[i][i]
    return x


@primitive("custom_linear_solve")
def _linear_solve(build: Build, equation: Any, *inputs: Any) -> list:
    lengths, matvec = equation.params["const_lengths"], equation.params["jaxprs"].matvec
    constants, right = look(list(inputs[: lengths.matvec])), look(list(inputs[sum(lengths) :]))
    unknowns = [np.vectorize(lambda b: build.fresh("unknown", b.dtype), otypes=[object])(b) for b in right]
    rows = look(translate_closed(build, matvec, [*constants, *unknowns]))
    flat = [[x for array in arrays for x in array.flat] for arrays in (rows, unknowns, right)]
    if not flat[0]:
        return right
    x = _linear_solution(build, derivative(build, *flat[:2]), flat[2])
    places = np.cumsum([b.size for b in right])[:-1]
    return [part.reshape(b.shape) for part, b in zip(np.split(array_of(x, (len(x),)), places), right, strict=True)]


def _linear_solution(build: Build, rows: list[Row], right: list[Node]) -> list[Node]:
    """Of a linear system of a user's function, in blocks that do not know of each other, each with its own pivots."""
    if len(rows) > LARGEST_PIVOTED and all(x.is_constant for row in rows for x in row.values()):
        pivots, *_ = eliminate(build, rows, right, len(rows), list(range(len(rows))))
        known = substitute(build, pivots)
        return [known[i][0] for i in range(len(rows))]
    x: list[Any] = [None] * len(rows)
    zero = build.number(0, right[0].dtype)
    for block in _blocks(rows):
        if len(block) > LARGEST_PIVOTED:
            raise Untranslatable(
                f"a linear system of {len(block)} unknowns in a function (its limit is {LARGEST_PIVOTED})"
            )
        entries = [[rows[i].get(j, zero) for j in block] for i in block]
        for i, solution in zip(block, solved(build, entries, [right[i] for i in block]), strict=True):
            x[i] = solution
    return x


def _blocks(rows: list[Row]) -> list[list[int]]:
    """Unknowns, and rows of the same numbers, that are connected."""
    block = list(range(len(rows)))

    def root(i: int) -> int:
        while block[i] != i:
            i = block[i]
        return i

    for i, row in enumerate(rows):
        for j in row:
            a, b = sorted((root(i), root(j)))
            block[b] = a
    members = defaultdict(list)
    for i in range(len(rows)):
        members[root(i)].append(i)
    return list(members.values())
