"""Runs of sums of numbers in one piece of memory, as lists of places: what a tape consists of, and how it is written.

What the sums are for is in `holonax.numerics.tape`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from holonax.numerics.sparse_order import Indices

SUMS, DIAGONAL, PIVOTS = 0, 1, 2
"""What a run computes: sums; entries of the diagonal, with the sizes of what was subtracted; inverse pivots."""

ZERO, ONE, GIVEN = 0, 1, 2
"""Places of these numbers, and the first one of the entries of the matrix."""

LEAST, FURTHEST = 12, 2
"""Sums in a stretch, and how far apart their places are."""

ROOM = 16
"""Numbers behind the last one that may be read in vain."""


class Tape(NamedTuple):
    """Runs of sums: sum i begins with the number at `start`, goes to `out`, and is multiplied by that at `scale`.

    A row of `runs` is (first sum, end, number of terms, first term, what, beside, whether it opens a level, whether it
    is a stretch).  A run that opens a level needs what runs before it have computed, the others of its level do not.
    A term is the product of the numbers at `left` and at `right`.  Sums of a diagonal are not multiplied: `scale` is
    the place of the size of what was subtracted before, and what it is now goes as many places behind `out` as
    `beside` says.  For pivots `scale` is the place of that size as well.
    """

    runs: np.ndarray
    out: np.ndarray
    start: np.ndarray
    scale: np.ndarray
    left: np.ndarray
    right: np.ndarray


class Products(NamedTuple):
    """Products: those with the same `target` (0 for the first sum, ...) belong to one sum, in the order of the list."""

    target: Indices
    left: Indices
    right: Indices


NOTHING = np.zeros(0, np.int64)
NO_PRODUCTS = Products(NOTHING, NOTHING, NOTHING)


class TapeWriter:
    """Collects runs."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, ...]] = []
        self.columns: list[list[np.ndarray]] = [[], [], [], [], []]  # out, start, scale, left, right
        self.sums = self.used = 0
        self.is_open = False  # whether what comes next is of the same level

    def level(self) -> None:
        """What comes next needs what came before."""
        self.is_open = False

    def add(
        self, what: int, out: Indices, start: Indices, scale: Indices, terms: Products = NO_PRODUCTS, beside: int = 0
    ) -> None:
        """Sums with these places."""
        counts = np.bincount(terms.target, minlength=len(out))
        order = np.argsort(terms.target, kind="stable")
        begins = np.cumsum(counts) - counts
        for width in np.unique(counts).tolist():
            members = np.flatnonzero(counts == width)
            which = order[(begins[members][:, None] + np.arange(width)).ravel()]
            columns = [out[members], start[members], scale[members], terms.left[which], terms.right[which]]
            table = np.column_stack([x.reshape(len(members), -1) for x in columns if x.size])
            for begin, end, even in _stretches(table):
                first = self.used + begin * width
                opens = not self.is_open
                self.runs.append((self.sums + begin, self.sums + end, width, first, what, beside, opens, even))
                self.is_open = True
            for column, values in zip(self.columns, columns, strict=True):
                column.append(values)
            self.sums += len(members)
            self.used += len(which)

    def tape(self) -> Tape:
        """All runs."""
        joined = [np.concatenate([NOTHING, *column]).astype(np.int32) for column in self.columns]
        return Tape(np.array(self.runs, np.int64).reshape(-1, 8), *joined)


def _stretches(table: np.ndarray) -> Iterator[tuple[int, int, bool]]:
    """Pieces of a run whose rows are places: where they go on in equal steps, and what is in between."""
    step = np.diff(table, axis=0)
    short = np.all((step >= 0) & (step <= FURTHEST), axis=1) & (step[:, 0] > 0)
    bounds = np.concatenate([[0], 1 + np.flatnonzero((step[1:] != step[:-1]).any(axis=1)), [len(step)]])
    done = 0
    for i in np.flatnonzero(np.diff(bounds) >= LEAST - 1).tolist():
        begin, end = max(int(bounds[i]), done), int(bounds[i + 1]) + 1
        if short[bounds[i]] and end - begin >= LEAST:
            if done < begin:
                yield done, begin, False
            yield begin, end, True
            done = end
    if done < len(table):
        yield done, len(table), False


def work_through(tape: Tape, workspace: np.ndarray) -> None:
    """The sums of a tape, run by run, by NumPy; a second axis of the workspace, if there is one, are paths."""
    w = workspace
    with np.errstate(all="ignore"):
        for begin, end, width, first, what, beside, _, _ in tape.runs.tolist():
            out, start, scale = (x[begin:end] for x in (tape.out, tape.start, tape.scale))
            terms = slice(first, first + (end - begin) * width)
            products = (w[tape.left[terms]] * w[tape.right[terms]]).reshape(end - begin, width, *w.shape[1:])
            total = w[start] - products.sum(axis=1)
            if what == PIVOTS:
                w[out] = 1.0 / total
            elif what == DIAGONAL:
                w[out], w[out + beside] = total, w[scale] + np.abs(products).sum(axis=1)
            else:
                w[out] = total * w[scale]
