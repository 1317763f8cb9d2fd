r"""Sparse elimination as data: lists of places in one piece of memory, which one short loop works through.

Unknowns are eliminated level by level (`holonax.numerics.sparse_order`).  A level of unknowns $i$ that do not touch
each other takes a matrix $a$ and a right side $y$ to those of what is left,

$$ l_{ji} = a_{ji} / a_{ii}, \qquad a'_{jk} = a_{jk} - \sum_i l_{ji} a_{ik}, \qquad y'_j = y_j - \sum_i l_{ji} y_i, $$

and on the way back $x_i = (y_i - \sum_j a_{ij} x_j) / a_{ii}$.  All of these are sums of numbers $w$ of a *workspace*,

$$ w_o = \Bigl(w_s - \sum_j w_{l_j} w_{r_j}\Bigr)\, w_c, $$

so that the program is the same for all systems, and its length does not depend on them.  Sums that do not depend on
each other and have as many terms are a *run*.  Numbers of a level lie in the order of their unknowns, one for each
unknown beside the same for the next.  In a chain, where a level is every second link, the places of consecutive sums
are then one or two apart: such a run is a *stretch*, of which a processor computes eight sums at a time without looking
places up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holonax.numerics.sparse_order import Costs, Indices, Order, elimination_levels
from holonax.numerics.tape_runs import (
    DIAGONAL,
    GIVEN,
    NOTHING,
    ONE,
    PIVOTS,
    ROOM,
    SUMS,
    ZERO,
    Products,
    Tape,
    TapeWriter,
)

AS_DATA = Costs(level=300, dense_step=50, sparse=3)
"""A level is one or two runs, each a matter of some ten nanoseconds."""


class EliminationTape(NamedTuple):
    """How to eliminate matrices of one pattern.

    Attributes:
        factor: entries of the matrix to factors.
        forward: right side to that of the last level.
        backward: what the dense elimination made of it to the solution.
        order: unknowns in the order of elimination.
        terms: products that were subtracted from the pivots, in this order.
        size: number of unknowns.
        tail: unknowns at the end that are eliminated as a dense matrix.
        places: numbers in the workspace; the entries of the matrix are at `GIVEN`, in the order that they came in.
        right: where the right side is.
        solution: where the solution comes to be, in the order of the unknowns.
        inverse: where inverse pivots are, in the order of elimination.
        dense: where the dense matrix is, row by row.
        rest: where its right side is, and then its solution.
        sizes: where there is room for the sizes of what is subtracted from its diagonal.
        subtracted: where the sizes of what was subtracted from its diagonal before are.
        operations: multiply-adds of a factorisation.
    """

    factor: Tape
    forward: Tape
    backward: Tape
    order: np.ndarray
    terms: np.ndarray
    size: int
    tail: int
    places: int
    right: int
    solution: int
    inverse: int
    dense: int
    rest: int
    sizes: int
    subtracted: np.ndarray
    operations: int


def elimination_tape(rows: Indices, columns: Indices, motions: int, size: int) -> EliminationTape:
    """How to eliminate a matrix whose entries are at (rows, columns), each place named once; hubs wait."""
    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    order = elimination_levels(rows, columns, motions, size, AS_DATA, hubs_wait=True)
    return tape_in_order(rows, columns, size, order)


def tape_in_order(rows: Indices, columns: Indices, size: int, order: Order) -> EliminationTape:
    """The same where the order is known."""
    levels, tail = order
    elimination = _Elimination(rows, columns, size)
    for level in levels:
        elimination.eliminate(np.sort(level.pivots))
    return elimination.finished(tail)


class _Level(NamedTuple):
    """What the way back needs of a level."""

    remaining: Indices  # unknowns before the level
    pivots: Indices
    right: Indices  # where the right sides of the pivots are
    terms: Products  # entries beside pivots, and the unknowns that they belong to


class _Elimination:
    """A matrix on its way: `keys` (row times size plus column, in order) are its entries, at `places`."""

    def __init__(self, rows: Indices, columns: Indices, size: int) -> None:
        self.size = size
        self.factor, self.forward, self.backward = TapeWriter(), TapeWriter(), TapeWriter()
        self.levels: list[_Level] = []
        keys = rows * size + columns
        order = np.argsort(keys)
        self.keys, self.places = keys[order], GIVEN + order
        self.used = GIVEN
        self.room_for(len(keys))
        self.first_right = self.room_for(size)
        self.first_inverse = self.room_for(size)
        self.right = self.first_right + np.arange(size)
        self.inverse = np.zeros(size, np.int64)
        self.sizes = np.full(size, ZERO)  # of what was subtracted from the diagonal
        self.terms = np.zeros(size, np.int64)  # how many products were
        self.remaining = np.arange(size)
        self.order: list[Indices] = []

    def room_for(self, numbers: int) -> int:
        """The first of so many places: an even number, where numbers of 4 bytes begin where those of 8 may."""
        begin = self.used
        self.used += numbers + numbers % 2 + ROOM
        return begin

    def at(self, keys: Indices) -> Indices:
        """Where entries are; those that are not there are zero."""
        found = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        return np.where(self.keys[found] == keys, self.places[found], ZERO) if len(self.keys) else np.zeros_like(keys)

    def _note_pivots(self, pivots: Indices) -> None:
        number = sum(map(len, self.order))
        self.inverse[pivots] = self.first_inverse + number + np.arange(len(pivots))
        self.order.append(pivots)

    def eliminate(self, pivots: Indices) -> None:
        """A level: pivots, factors, what is left of the matrix and of the right side."""
        n, is_pivot = self.size, np.zeros(self.size, bool)
        is_pivot[pivots] = True
        self._note_pivots(pivots)
        self.factor.level()
        self.factor.add(PIVOTS, self.inverse[pivots], self.at(pivots * n + pivots), self.sizes[pivots])
        rows, columns = np.divmod(self.keys, n)
        below = np.flatnonzero(is_pivot[columns] & ~is_pivot[rows])
        below = below[np.lexsort((rows[below], columns[below]))]
        beside = np.flatnonzero(is_pivot[rows] & ~is_pivot[columns])
        lower = self._lower(columns[below], rows[below], self.places[below])
        count = np.bincount(rows[beside], minlength=n)
        first = np.cumsum(count) - count
        times = count[columns[below]]
        one = np.repeat(np.arange(len(below)), times)
        within = np.arange(len(one)) - np.repeat(np.cumsum(times) - times, times)
        two = beside[first[columns[below]][one] + within]
        self.levels.append(
            _Level(
                self.remaining, pivots, self.right[pivots], Products(rows[beside], self.places[beside], columns[beside])
            )
        )
        self._right_side(rows[below], lower, columns[below])
        kept = ~is_pivot[rows] & ~is_pivot[columns]
        self._matrix(kept, rows[below][one] * n + columns[two], lower[one], self.places[two])
        self.remaining = self.remaining[~is_pivot[self.remaining]]

    def _lower(self, pivots: Indices, rows: Indices, places: Indices) -> Indices:
        """The factors l, by pivots and rows; their places."""
        order = _by_neighbour(pivots, rows)
        result = np.empty(len(pivots), np.int64)
        result[order] = self.room_for(len(pivots)) + np.arange(len(pivots))
        self.factor.level()
        self.factor.add(SUMS, result[order], places[order], self.inverse[pivots[order]])
        return result

    def _right_side(self, rows: Indices, lower: Indices, pivots: Indices) -> None:
        """What is left of it."""
        changed, target = np.unique(rows, return_inverse=True)
        new = self.room_for(len(changed)) + np.arange(len(changed))
        self.forward.level()
        self.forward.add(
            SUMS, new, self.right[changed], np.full(len(new), ONE), Products(target, lower, self.right[pivots])
        )
        self.right[changed] = new

    def _matrix(self, kept: np.ndarray, targets: Indices, left: Indices, right: Indices) -> None:
        """What is left of it: entries from which something is subtracted move, the others stay where they are."""
        n = self.size
        keys = np.union1d(self.keys[kept], targets)
        places, target = self.at(keys), np.searchsorted(keys, targets)
        counts = np.bincount(target, minlength=len(keys))
        rows, columns = np.divmod(keys, n)
        self.factor.level()
        for what, own in ((DIAGONAL, rows == columns), (SUMS, rows != columns)):
            here = np.flatnonzero(own & (counts > 0))
            here = here[_by_neighbour(rows[here], columns[here])]
            number = np.full(len(keys), -1)
            number[here] = np.arange(len(here))
            mine = number[target] >= 0
            terms = Products(number[target[mine]], left[mine], right[mine])
            new = self.room_for(len(here)) + np.arange(len(here))
            if what == DIAGONAL:
                unknowns, sizes = rows[here], self.room_for(len(here)) + np.arange(len(here))
                if len(here):
                    self.factor.add(what, new, places[here], self.sizes[unknowns], terms, int(sizes[0] - new[0]))
                self.sizes[unknowns] = sizes
                self.terms[unknowns] += counts[here]
            else:
                self.factor.add(what, new, places[here], np.full(len(here), ONE), terms)
            places[here] = new
        self.keys, self.places = keys, places

    def finished(self, tail: Indices) -> EliminationTape:
        """The dense matrix that is left, and the way back."""
        n, full = self.size, len(tail)
        self._note_pivots(tail)
        dense, rest, sizes = (self.room_for(number) for number in (full * full, full, full))
        for writer, first, start in (
            (self.factor, dense, self.at((tail[:, None] * n + tail).ravel())),
            (self.forward, rest, self.right[tail]),
        ):
            writer.level()
            writer.add(SUMS, first + np.arange(len(start)), start, np.full(len(start), ONE))
        solution = rest
        known = np.zeros(n, np.int64)
        known[tail] = rest + np.arange(full)
        for level in reversed(self.levels):
            solution = self._way_back(level, known)
        order = np.concatenate([NOTHING, *self.order])
        factor = self.factor.tape()
        return EliminationTape(
            factor, self.forward.tape(), self.backward.tape(), order, self.terms[order], n, full, self.used,
            self.first_right, solution, self.first_inverse, dense, rest, sizes, self.sizes[tail],
            len(factor.left) + full**3 // 3,
        )  # fmt: skip

    def _way_back(self, level: _Level, known: Indices) -> int:
        """The unknowns of a level, beside those that come after it, which are known; where the first one is."""
        begin = self.room_for(len(level.remaining))
        out = np.zeros(self.size, np.int64)
        out[level.remaining] = begin + np.arange(len(level.remaining))
        number = np.zeros(self.size, np.int64)
        number[level.pivots] = np.arange(len(level.pivots))
        others = np.setdiff1d(level.remaining, level.pivots, assume_unique=True)
        terms = Products(number[level.terms.target], level.terms.left, known[level.terms.right])
        self.backward.level()
        self.backward.add(SUMS, out[level.pivots], level.right, self.inverse[level.pivots], terms)
        self.backward.add(SUMS, out[others], known[others], np.full(len(others), ONE))
        known[level.remaining] = out[level.remaining]
        return begin


def _by_neighbour(unknowns: Indices, others: Indices) -> Indices:
    """An order of pairs: first those of each unknown with the last other one before it, and so on."""
    order = np.lexsort((others, unknowns))
    own, other = unknowns[order], others[order]
    before = np.bincount(own[other < own], minlength=own.max(initial=0) + 1)
    counts = np.bincount(own, minlength=len(before))
    rank = np.arange(len(own)) - (np.cumsum(counts) - counts)[own] - before[own]
    return order[np.lexsort((own, rank))]
