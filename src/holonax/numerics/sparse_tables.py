"""Tables for elimination level by level: which numbers are gathered, multiplied and added for each of the factors.

An edge of the graph (`holonax.numerics.sparse_order`) stands for an entry of L and for one of U.  The factors are one
array: a zero, and then for each level its entries of L and its entries of U, in the order of the edges.  For an edge
from a pivot j to a later i, a pivot t that is earlier than both and touches both contributes $l_{it} u_{tj}$ to the one
and $l_{jt} u_{ti}$ to the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holonax.numerics.sparse_order import Indices, Level

PADDED = 1000
"""Sums of different numbers of terms share a table if that adds at most so many zeros: one more table costs more."""


class Sums(NamedTuple):
    """Sums of different numbers of terms: those of about the same number form a table with a row for each term.

    The `terms` of all tables, one after another, are products of numbers at `places`; the missing ones are at 0, where
    arrays have a zero.  `order` says where each of the sums is found.
    """

    places: tuple[np.ndarray, ...]
    shapes: tuple[tuple[int, int], ...]
    order: np.ndarray
    counts: np.ndarray


class Stage(NamedTuple):
    """Where the numbers of a level come from; rows of arrays are counted from 1."""

    pivots: slice
    edges: int
    first_row: int  # of the factors: the edges of L, then those of U
    owners: np.ndarray  # of the edges: pivots of the level
    own: Sums  # of rows of L, rows of U and pivots that are earlier: $l_{jt} u_{tj}$ and $l_{jt} y_t$
    pairs: Sums  # of rows of L and rows of U, which are added up for the edges of L, then for those of U
    later: Sums  # of rows of U and unknowns that are later: $u_{ji} x_i$


class Tail(NamedTuple):
    """The same for what is left as a dense matrix."""

    pivots: slice
    size: int
    own: Sums
    pairs: Sums  # for all entries of the matrix


def _sums(targets: Indices, number: int, places: tuple[Indices, ...], exact: bool = False) -> Sums:
    """Sums 0, 1, ... of the terms that have them as targets, with tables for all numbers of terms or for a few."""
    order = np.argsort(targets, kind="stable")
    targets = targets[order]
    counts = np.bincount(targets, minlength=number)
    widths = counts if exact else _widths(counts)
    row = np.arange(len(targets)) - (np.cumsum(counts) - counts)[targets]
    by_width = np.argsort(widths, kind="stable")
    distinct, times = np.unique(widths, return_counts=True)
    column = np.empty(number, np.int64)
    column[by_width] = np.arange(number) - np.repeat(np.cumsum(times) - times, times)
    which = np.searchsorted(distinct, widths)
    begin = np.cumsum(distinct * times) - distinct * times
    flat = begin[which][targets] + row * times[which][targets] + column[targets]
    tables = [np.zeros(np.sum(distinct * times), np.int32) for _ in places]
    for table, place in zip(tables, places, strict=True):
        table[flat] = place[order]
    shapes = tuple(zip(distinct.tolist(), times.tolist(), strict=True)) or ((0, 0),)
    return Sums(tuple(tables), shapes, np.argsort(by_width).astype(np.int32), counts)


def _widths(counts: np.ndarray) -> np.ndarray:
    """Numbers of terms, rounded up where that adds few of them."""
    values, times = np.unique(counts, return_counts=True)
    rounded = values.copy()
    added = 0
    for i in range(len(values) - 2, -1, -1):
        added += (rounded[i + 1] - values[i]) * times[i]
        if added <= PADDED:
            rounded[i] = rounded[i + 1]
        else:
            added = 0
    return rounded[np.searchsorted(values, counts)]


class Tables:
    """From levels to tables: unknowns are renamed to their places in the order of elimination, counted from 0."""

    def __init__(self, levels: list[Level], tail: Indices, size: int) -> None:
        def joined(parts: list[Indices]) -> Indices:
            return np.concatenate([np.zeros(0, np.int64), *parts])

        self.levels, self.size, self.tail = levels, size, len(tail)
        self.order = joined([*(level.pivots for level in levels), tail])
        self.place = np.argsort(self.order)
        self.pivots = np.cumsum([0, *(len(level.pivots) for level in levels)]).tolist()
        self.edges = np.cumsum([0, *(len(level.others) for level in levels)]).tolist()
        self.others = self.place[joined([level.others for level in levels])]
        self.owners = joined([level.owners + start for level, start in zip(levels, self.pivots, strict=False)])
        level_edges = np.diff(self.edges)
        self.lower = 1 + np.arange(self.edges[-1]) + np.repeat(self.edges[:-1], level_edges)
        self.upper = self.lower + np.repeat(level_edges, level_edges)
        first, second = joined([level.first - 1 for level in levels]), joined([level.second - 1 for level in levels])
        swap = self.others[first] > self.others[second]
        self.first, self.second = np.where(swap, second, first), np.where(swap, first, second)
        self.target = self._edge(self.others[self.first], self.others[self.second])
        self.by_target, self.by_other = (np.argsort(x, kind="stable") for x in (self.target, self.others))

    def _edge(self, pivots: Indices, others: Indices) -> Indices:
        """Numbers of edges; those between unknowns of the tail are one past the last."""
        keys, wanted = self.owners * self.size + self.others, pivots * self.size + others
        order = np.argsort(keys)
        found = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)] if len(keys) else wanted
        return np.where(pivots >= self.pivots[-1], len(keys), found)

    def own(self, begin: int, end: int) -> Sums:
        """What earlier pivots subtract from the diagonal."""
        edges = self.by_other[slice(*np.searchsorted(self.others[self.by_other], [begin, end]))]
        places = self.lower[edges], self.upper[edges], 1 + self.owners[edges]
        return _sums(self.others[edges] - begin, end - begin, places)

    def stage(self, i: int) -> tuple[Stage, Indices, Indices]:
        """A level, and the rows and columns of the entries that it begins with."""
        (begin, end), (one, two) = self.pivots[i : i + 2], self.edges[i : i + 2]
        pairs = self.by_target[slice(*np.searchsorted(self.target[self.by_target], [one, two]))]
        target, first, second = self.target[pairs] - one, self.first[pairs], self.second[pairs]
        stage = Stage(
            slice(begin, end),
            two - one,
            1 + 2 * one,
            self.levels[i].owners.astype(np.int32),
            self.own(begin, end),
            _sums(
                np.concatenate([target, target + two - one]),
                2 * (two - one),
                (self.lower[np.concatenate([second, first])], self.upper[np.concatenate([first, second])]),
            ),
            _sums(self.levels[i].owners, end - begin, (self.upper[one:two], 1 + self.others[one:two]), exact=True),
        )
        pivots, owners, others = np.arange(begin, end), self.owners[one:two], self.others[one:two]
        return stage, np.concatenate([pivots, others, owners]), np.concatenate([pivots, owners, others])

    def rest(self) -> tuple[Tail, Indices, Indices]:
        """The same for the tail."""
        begin, full = self.pivots[-1], self.tail
        pairs = self.by_target[np.searchsorted(self.target[self.by_target], self.edges[-1]) :]
        edges = self.by_other[np.searchsorted(self.others[self.by_other], begin) :]
        first = np.concatenate([self.first[pairs], self.second[pairs], edges])
        second = np.concatenate([self.second[pairs], self.first[pairs], edges])
        target = (self.others[first] - begin) * full + self.others[second] - begin
        sums = _sums(target, full * full, (self.lower[first], self.upper[second]))
        rows, columns = np.divmod(np.arange(full * full), max(full, 1))
        return Tail(slice(begin, self.size), full, self.own(begin, self.size), sums), begin + rows, begin + columns

    def entries(self, rows: Indices, columns: Indices, places: Indices) -> np.ndarray:
        """Numbers of the entries at rows and columns, counted from 1; 0 where there is none.

        `places` are the row times the size plus the column of each entry, in the names that the caller gave them.
        """
        by_place = np.argsort(places)
        wanted = self.order[rows] * self.size + self.order[columns]
        found = np.append(by_place, len(places))[np.searchsorted(places, wanted, sorter=by_place)]
        return np.where(np.append(places, -1)[found] == wanted, found + 1, 0).astype(np.int32)
