"""Which rows of matrices are independent: Gram-Schmidt with a choice of the next row, for all paths at once.

Rows are compared with their own lengths, so that their scale does not matter.  The next row is the first that keeps
nearly as much of its length as any does, at the path where it keeps least: matrices that differ little give the same
rows.  Matrices are sparse; rows without common columns, directly or through others, are independent of each other, and
only rows of one such group are looked at together, as a dense matrix.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

LARGEST_GROUP = 400
"""Rows of a group; larger ones are not looked at."""

ALIKE = 0.1
"""Rows that keep this part of the most that any keeps are as good as that one."""


class Entries(NamedTuple):
    """Of sparse matrices of one pattern: their rows, their columns, and for each path its values."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray


def dependent_rows(matrix: Entries, least: float, wanted: Collection[int] = ()) -> dict[int, float]:
    """Rows that keep no more than the `least` part of their length beside the others, and the part that they keep.

    Rows that are `wanted` are taken beside the others, however little they keep.
    """
    found: dict[int, float] = {}
    for rows in groups(matrix.rows, matrix.columns):
        if 1 < len(rows) <= LARGEST_GROUP:
            ways = (rows, rows[::-1]) if len(matrix.values) > 1 else (rows,)  # paths may not agree in one of them
            left_over: list[dict[int, float]] = [_left_over(matrix, way, least, wanted) for way in ways]
            fewest: dict[int, float] = min(left_over, key=len)
            found |= fewest
    return found


def groups(rows: np.ndarray, columns: np.ndarray) -> list[np.ndarray]:
    """Rows that are connected by common columns."""
    owner: dict[int, int] = {}  # of a column: one of its rows
    parent = np.arange(1 + np.max(rows, initial=-1)).tolist()

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = row = parent[parent[row]]
        return row

    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        parent[root(row)] = root(owner.setdefault(column, row))
    label = np.array([root(row) for row in range(len(parent))], int)
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1) if len(order) else []


def _dense(matrix: Entries, rows: np.ndarray) -> np.ndarray:
    """Some rows, of all paths, without the columns in which they are empty."""
    here = np.flatnonzero(np.isin(matrix.rows, rows))
    columns, column = np.unique(matrix.columns[here], return_inverse=True)
    dense = np.zeros((len(matrix.values), len(rows), len(columns)))
    order = np.argsort(rows)
    dense[:, order[np.searchsorted(rows, matrix.rows[here], sorter=order)], column] = matrix.values[:, here]
    return dense


def _left_over(matrix: Entries, rows: np.ndarray, least: float, wanted: Collection[int]) -> dict[int, float]:
    """Of one group: what is left of the rows when no other keeps more than the least part of its length."""
    dense = _dense(matrix, rows)
    size = np.abs(dense).max(axis=2, keepdims=True)  # squares might overflow
    dense = dense / np.where(size > 0.0, size, 1.0)
    length = np.linalg.norm(dense, axis=2, keepdims=True)
    rest = dense / np.where(length > 0.0, length, 1.0)
    left = np.ones(dense.shape[1], bool)
    while left.any():
        kept = np.where(left, np.linalg.norm(rest, axis=2).min(axis=0), 0.0)
        row = int(np.argmax(kept >= ALIKE * kept.max()))
        if kept.max() <= least:
            still = [i for i, number in enumerate(rows) if number in wanted and kept[i] > 0.0]
            if not still:
                return {int(rows[i]): float(kept[i]) for i in np.flatnonzero(left)}
            row = still[0]
        left[row] = False
        direction = rest[:, row] / np.linalg.norm(rest[:, row], axis=1, keepdims=True)
        for _ in range(2):  # twice is enough (Kahan): what is left is orthogonal to round-off
            rest = rest - np.einsum("pkn,pn->pk", rest, direction)[:, :, None] * direction[:, None]
    return {}
