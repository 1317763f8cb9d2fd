r"""Sparse Cholesky factorisation: a root $C$ of a positive definite matrix, $C C^T = M$, with few entries.

Unknowns are eliminated level by level (`holonax.numerics.sparse_order`), and what is left of the matrix after pivot $i$
is $m_{jk} - m_{ji} m_{ik} / m_{ii}$ (right-looking).  With $m$ as they are when $i$ is eliminated, column $i$ of $C$ is

$$ c_{ii} = \sqrt{m_{ii}}, \qquad c_{ji} = m_{ji} / \sqrt{m_{ii}}. $$

Rows and columns keep the numbers of the unknowns, so that nothing is permuted.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.numerics.sparse_order import Costs, Indices, elimination_levels

MOST_LEVELS = 64
"""Each is some operations of the traced program."""

_ALL_LEVELS = Costs(level=0, dense_step=10**9, sparse=0)


class _Level(NamedTuple):
    """What one level does to the entries of later ones.  Edges join pivots to later neighbours, numbered through."""

    edges: slice
    first: Indices  # two edges of one pivot
    second: Indices
    targets: Indices  # the edge between their neighbours


@final
class RootPlan:
    """How to factorise matrices with entries at (rows, columns), a symmetric pattern with a full diagonal."""

    def __init__(self, rows: Indices, columns: Indices, size: int) -> None:
        levels, tail = elimination_levels(rows, columns, size, size, _ALL_LEVELS)
        order = np.concatenate([*(level.pivots for level in levels), tail])
        place = np.argsort(order)
        one, two = np.triu_indices(len(tail), 1)
        self.owners = np.concatenate([*(level.pivots[level.owners] for level in levels), tail[one]])
        self.others = np.concatenate([*(level.others for level in levels), tail[two]])
        self.count = len(levels) + len(tail)
        keys = place[self.owners] * size + place[self.others]
        by_key = np.argsort(keys)

        def edge_between(i: Indices, j: Indices) -> Indices:
            i, j = np.minimum(place[i], place[j]), np.maximum(place[i], place[j])
            return by_key[np.searchsorted(keys, i * size + j, sorter=by_key)]

        self.levels: list[_Level] = []
        begin = 0
        for level in levels:
            edges = slice(begin, begin + len(level.others))
            first, second = level.first - 1, level.second - 1
            self.levels.append(_Level(edges, first, second, edge_between(self.others[first], self.others[second])))
            begin = edges.stop
        for width in range(len(tail) - 1, 0, -1):
            left, right = np.triu_indices(width, 1)
            first, second = begin + left, begin + right
            targets = edge_between(self.others[first], self.others[second])
            self.levels.append(_Level(slice(begin, begin + width), first, second, targets))
            begin += width
        named = np.argsort(rows * size + columns)
        self.diagonal = named[np.searchsorted((rows * size + columns)[named], np.arange(size) * (size + 1))]
        wanted = self.others * size + self.owners
        found = np.minimum(np.searchsorted((rows * size + columns)[named], wanted), len(rows) - 1)
        self.beside = np.where((rows * size + columns)[named[found]] == wanted, 1 + named[found], 0)

    def root(self, entries: Array) -> tuple[Array, Array]:
        """The diagonal of C, and its entries at (others, owners)."""
        pivots, beside = self.factors(entries)
        roots = jnp.sqrt(pivots)
        return roots, beside / roots[self.owners]

    def factors(self, entries: Array) -> tuple[Array, Array]:
        """The pivots, all positive if the matrix is definite, and entries beside them when they are eliminated."""
        diagonal = entries[self.diagonal]
        beside = jnp.concatenate([jnp.zeros_like(entries[:1]), entries])[self.beside]
        for edges, first, second, targets in self.levels:
            pivots = diagonal[self.owners[edges]]
            diagonal = diagonal.at[self.others[edges]].add(-(beside[edges] ** 2) / pivots)
            if len(targets):
                beside = beside.at[targets].add(-beside[first] * beside[second] / diagonal[self.owners[first]])
        return diagonal, beside

    def times(self, root: tuple[Array, Array], x: Any) -> Array:
        """C x."""
        return (root[0] * x).at[self.others].add(root[1] * x[self.owners])

    def transposed(self, root: tuple[Array, Array], x: Any) -> Array:
        """C^T x."""
        return (root[0] * x).at[self.owners].add(root[1] * x[self.others])
