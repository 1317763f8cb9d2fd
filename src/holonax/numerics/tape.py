r"""Sparse elimination as data: lists of places, which one short loop works through.

`holonax.numerics.sparse` writes every level of an elimination as operations on arrays.  Here the same sums (see there
for the formulas) are lists of numbers of places in memory, so that the program is the same for all systems and its
length does not depend on them:

$$ x_{o} = \Bigl(a_{s} - \sum_j l_{j} u_{j}\Bigr) \cdot c. $$

Sums that do not depend on each other and have as many terms are a *run*: the loop over terms is then always equally
long, and a processor works on several sums at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holonax.numerics.sparse_order import Costs, Indices, elimination_levels
from holonax.numerics.sparse_tables import Tables

AS_DATA = Costs(level=100, dense_step=50, sparse=3)
"""A level is one or two runs, each a matter of some ten nanoseconds."""

PIVOTS, FACTORS = 1, 0
"""What a run computes: pivots, which are inverted, or entries of L and U."""


class Tape(NamedTuple):
    """Runs of sums: sum i begins with a number at `start`, goes to `out`, and is multiplied by a number at `scale`.

    A row of `runs` is (first sum, end, number of terms, first term, what).  A run that `opens` a level needs what runs
    before it have computed, the others of its level do not.  Terms are products of numbers at `left` and at `right`.
    """

    runs: np.ndarray
    opens: np.ndarray
    out: np.ndarray
    start: np.ndarray
    scale: np.ndarray
    left: np.ndarray
    right: np.ndarray


class EliminationTape(NamedTuple):
    """How to eliminate matrices of one pattern.

    Attributes:
        factor: entries of the matrix, counted from 1 with a zero before them, to factors, likewise; pivots by their
            place in the order of elimination.  What is scaled by number `size` is not scaled.
        forward: right side to solutions of the lower triangle, by their place in the order of elimination.
        backward: those to the solution, in the same places.
        order: unknowns in the order of elimination.
        size: number of unknowns.
        tail: unknowns at the end that are eliminated as a dense matrix, which follows the other factors.
        factors: numbers in the factors, with the zero and with the tail.
        operations: multiply-adds of a factorisation.
    """

    factor: Tape
    forward: Tape
    backward: Tape
    order: np.ndarray
    size: int
    tail: int
    factors: int
    operations: int


class _Writer:
    """Collects runs."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, int, int, int]] = []
        self.opens: list[bool] = []
        self.columns: list[list[np.ndarray]] = [[], [], []]  # out, start, scale
        self.terms: list[list[np.ndarray]] = [[], []]  # left, right
        self.sums = self.used = 0

    def add(
        self, kind: int, out: Indices, start: Indices, scale: Indices, target: Indices, left: Indices, right: Indices
    ) -> None:
        """Sums with these places, which take the terms that have them as `target` (0 for the first sum, ...)."""
        counts = np.bincount(target, minlength=len(out))
        order = np.argsort(target, kind="stable")
        begins = np.cumsum(counts) - counts
        for i, width in enumerate(np.unique(counts)):
            self.opens.append(i == 0)
            members = np.flatnonzero(counts == width)
            which = order[(begins[members][:, None] + np.arange(width)).ravel()]
            self.runs.append((self.sums, self.sums + len(members), int(width), self.used, kind))
            for column, values in zip(self.columns, (out, start, scale), strict=True):
                column.append(values[members])
            for column, values in zip(self.terms, (left, right), strict=True):
                column.append(values[which])
            self.sums += len(members)
            self.used += len(which)

    def tape(self) -> Tape:
        """All runs."""
        none = [np.zeros(0, np.int64)]
        joined = [np.concatenate(column or none).astype(np.int32) for column in (*self.columns, *self.terms)]
        return Tape(np.array(self.runs, np.int64).reshape(-1, 5), np.array(self.opens, bool), *joined)


def elimination_tape(rows: Indices, columns: Indices, motions: int, size: int) -> EliminationTape:
    """How to eliminate a matrix whose entries are at (rows, columns), each place named once."""
    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    tables = Tables(*elimination_levels(rows, columns, motions, size, AS_DATA), size)
    places = rows * size + columns
    factor, forward, backward = _Writer(), _Writer(), _Writer()
    for i in range(len(tables.levels)):
        _factor_level(factor, tables, places, i)
        _forward_level(forward, tables, *tables.pivots[i : i + 2])
    _factor_tail(factor, tables, places)
    _forward_level(forward, tables, tables.pivots[-1], size)
    for i in reversed(range(len(tables.levels))):
        begin, end = tables.pivots[i : i + 2]
        one, two = tables.edges[i : i + 2]
        own = np.arange(begin, end)
        backward.add(
            FACTORS, own, own, own, tables.owners[one:two] - begin, tables.upper[one:two], tables.others[one:two]
        )
    parts = factor.tape(), forward.tape(), backward.tape()
    tail = tables.tail
    return EliminationTape(
        *parts, tables.order, size, tail, 1 + 2 * tables.edges[-1] + tail * tail, len(parts[0].left) + tail**3 // 3
    )


def _factor_level(writer: _Writer, tables: Tables, places: Indices, i: int) -> None:
    """The pivots of a level, then the entries of L and U that belong to them."""
    (begin, end), (one, two) = tables.pivots[i : i + 2], tables.edges[i : i + 2]
    pivots = np.arange(begin, end)
    earlier = tables.by_other[slice(*np.searchsorted(tables.others[tables.by_other], [begin, end]))]
    writer.add(
        PIVOTS,
        pivots,
        tables.entries(pivots, pivots, places),
        np.full(len(pivots), tables.size),
        tables.others[earlier] - begin,
        tables.lower[earlier],
        tables.upper[earlier],
    )
    owners, others = tables.owners[one:two], tables.others[one:two]
    pairs = tables.by_target[slice(*np.searchsorted(tables.target[tables.by_target], [one, two]))]
    target, first, second = tables.target[pairs] - one, tables.first[pairs], tables.second[pairs]
    writer.add(
        FACTORS,
        np.concatenate([tables.lower[one:two], tables.upper[one:two]]),
        np.concatenate([tables.entries(others, owners, places), tables.entries(owners, others, places)]),
        np.concatenate([owners, np.full(two - one, tables.size)]),
        np.concatenate([target, target + two - one]),
        tables.lower[np.concatenate([second, first])],
        tables.upper[np.concatenate([first, second])],
    )


def _factor_tail(writer: _Writer, tables: Tables, places: Indices) -> None:
    """The dense matrix that is left, row by row."""
    begin, full = tables.pivots[-1], tables.tail
    pairs = tables.by_target[np.searchsorted(tables.target[tables.by_target], tables.edges[-1]) :]
    edges = tables.by_other[np.searchsorted(tables.others[tables.by_other], begin) :]
    first = np.concatenate([tables.first[pairs], tables.second[pairs], edges])
    second = np.concatenate([tables.second[pairs], tables.first[pairs], edges])
    number = np.arange(full * full)
    row, column = np.divmod(number, max(full, 1))
    writer.add(
        FACTORS,
        1 + 2 * tables.edges[-1] + number,
        tables.entries(begin + row, begin + column, places),
        np.full(full * full, tables.size),
        (tables.others[first] - begin) * full + tables.others[second] - begin,
        tables.lower[first],
        tables.upper[second],
    )


def _forward_level(writer: _Writer, tables: Tables, begin: int, end: int) -> None:
    own = np.arange(begin, end)
    edges = tables.by_other[slice(*np.searchsorted(tables.others[tables.by_other], [begin, end]))]
    writer.add(
        FACTORS,
        own,
        tables.order[own],
        np.full(len(own), tables.size),
        tables.others[edges] - begin,
        tables.lower[edges],
        tables.owners[edges],
    )


def pivots(tape: EliminationTape, entries: np.ndarray) -> np.ndarray:
    """The pivots of a matrix with these entries, in the order of elimination: by NumPy, run by run."""
    a, factors, inverse = np.append(0.0, entries), np.zeros(tape.factors), np.ones(tape.size + 1)
    part = tape.factor
    with np.errstate(all="ignore"):
        for begin, end, width, first, kind in part.runs:
            terms = slice(first, first + (end - begin) * width)
            products = factors[part.left[terms]] * factors[part.right[terms]]
            total = a[part.start[begin:end]] - products.reshape(end - begin, width).sum(axis=1)
            if kind == PIVOTS:
                inverse[part.out[begin:end]] = 1.0 / total
            else:
                factors[part.out[begin:end]] = total * inverse[part.scale[begin:end]]
        full = tape.tail
        dense = factors[tape.factors - full * full :].reshape(full, full)
        for j in range(full):
            inverse[tape.size - full + j] = 1.0 / dense[j, j]
            dense[j + 1 :] -= np.outer(dense[j + 1 :, j] / dense[j, j], dense[j])
        return 1.0 / inverse[:-1]
