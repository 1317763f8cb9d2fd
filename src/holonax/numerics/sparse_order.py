r"""In which order a sparse matrix is eliminated: levels of unknowns that do not touch each other.

The pattern of a matrix, symmetrised, is a graph: unknowns $i \ne j$ are neighbours where $a_{ij}$ or $a_{ji}$ is there.
Elimination of an unknown makes all of its neighbours neighbours of each other: with $d$ of them it costs about $d^2$
multiply-adds.  Unknowns that are no neighbours can be eliminated at the same time.  A *level* is a set of such
unknowns, all of small degree $d$ (multiple minimum degree).  On a chain every second link goes in each level, which is
cyclic reduction: $\log_2 k$ levels, and nothing but a link between the next ones is filled in.

A multiplier must wait until all motions of its row are eliminated, for before that its pivot may be zero.  A row that
touches all motions has the largest degree and ends up last.  Once what is left is nearly full, levels are of no use:
it is the `tail`, to be treated as a dense matrix.

All of this is done for a level at a time with sorted arrays.  The work is that of the elimination itself, so that dense
rows cost no more here than there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Costs(NamedTuple):
    """What a level, and a step of the dense elimination, cost at least: in multiply-adds that could be done meanwhile.

    `sparse` is what a multiply-add of two entries that have to be looked up costs.
    """

    level: int
    dense_step: int
    sparse: int = 2


AS_ARRAYS = Costs(level=60_000, dense_step=4_000)
"""Where every level is several operations on arrays."""

FULL = 0.5
"""Levels end where every unknown that may be eliminated touches more than this part of what is left."""

Indices = np.ndarray[Any, np.dtype[np.int64]]


class Level(NamedTuple):
    """Unknowns that are eliminated at the same time, and what that does to others.

    An *edge* joins a pivot to one of its later neighbours.  Edges are numbered through from 1, level by level; `first`
    and `second` are two edges of one pivot, once for each pair of its neighbours, which is how these come to touch.
    """

    pivots: Indices
    owners: Indices  # of the edges: places in `pivots`
    others: Indices  # of the edges: the later neighbours
    first: Indices
    second: Indices


def elimination_levels(
    rows: Indices, columns: Indices, motions: int, size: int, costs: Costs = AS_ARRAYS
) -> tuple[list[Level], Indices]:
    """Levels, and the tail: what is left for a dense elimination, motions first."""
    apart = rows != columns
    rows, columns = rows[apart].astype(np.int64), columns[apart].astype(np.int64)
    graph = np.unique(np.concatenate([rows * size + columns, columns * size + rows]))
    alive = np.ones(size, bool)
    levels: list[Level] = []
    edges = 1
    while (pivots := _choose(graph, alive, motions)).size:
        alive[pivots] = False
        level, graph = _eliminate_level(graph, pivots, alive, edges)
        edges += len(level.others)
        levels.append(level)
    used = _best_number(levels, int(np.count_nonzero(alive)), costs)
    tail = [np.flatnonzero(alive), *(level.pivots for level in levels[used:])]
    return levels[:used], np.sort(np.concatenate(tail))


def _best_number(levels: list[Level], rest: int, costs: Costs) -> int:
    """Of how many levels, with a dense elimination of what they leave, the cost is lowest."""
    left = rest + np.cumsum([0, *(len(level.pivots) for level in reversed(levels))])[::-1]
    spent = np.cumsum([0, *(costs.level + costs.sparse * len(level.first) for level in levels)])
    return int(np.argmin(spent + left * (costs.dense_step + left * left)))


def _choose(graph: Indices, alive: np.ndarray, motions: int) -> Indices:
    """Unknowns of small degree that are no neighbours, in the order of their degrees; none where the tail begins."""
    size, left = len(alive), np.count_nonzero(alive)
    if left == 0:
        return np.zeros(0, np.int64)
    here, there = np.divmod(graph, size)
    degree = np.bincount(here, minlength=size)
    waits = np.bincount(here[there < motions], minlength=size) > 0
    waits[:motions] = False
    able = np.flatnonzero(alive & ~waits)
    lowest = degree[able].min()
    if lowest > FULL * left:
        return np.zeros(0, np.int64)
    able = able[degree[able] <= lowest + lowest // 2 + 1]
    able = able[np.argsort(degree[able], kind="stable")]
    chosen = _apart(able, here, there, size)
    return chosen[np.argsort(degree[chosen], kind="stable")]


def _apart(candidates: Indices, here: Indices, there: Indices, size: int) -> Indices:
    """Those of the candidates that are no neighbours of one another: a later one gives way."""
    is_candidate = np.zeros(size, bool)
    is_candidate[candidates] = True
    between = is_candidate[here] & is_candidate[there]
    here, there = here[between], there[between]
    begin = np.searchsorted(here, np.arange(size + 1))
    contested = begin[1:] > begin[:-1]
    blocked = np.zeros(size, bool)
    if len(here):
        neighbours, bounds, taken = there.tolist(), begin.tolist(), bytearray(size)
        for i in candidates[contested[candidates]].tolist():
            if not taken[i]:
                for j in neighbours[bounds[i] : bounds[i + 1]]:
                    taken[j] = True
        blocked = np.frombuffer(taken, np.uint8) > 0
    return candidates[~blocked[candidates]]


def _eliminate_level(graph: Indices, pivots: Indices, alive: np.ndarray, edges: int) -> tuple[Level, Indices]:
    """The level, and the graph of what is left; `edges` is the number of the first edge.

    The edges of pivots of the same degree form a table with a row for each of the neighbours.
    """
    size = len(alive)
    begin = np.searchsorted(graph, pivots * size)
    degrees = np.searchsorted(graph, (pivots + 1) * size) - begin
    owners, others, first, second = [], [], [], []
    for degree in np.unique(degrees):
        members = np.flatnonzero(degrees == degree)
        table = graph[begin[members] + np.arange(degree)[:, None]] % size
        number = edges + np.arange(table.size).reshape(table.shape)
        edges += table.size
        left, right = np.triu_indices(degree, 1)
        owners.append(np.broadcast_to(members, table.shape).ravel())
        others.append(table.ravel())
        first.append(number[left].ravel())
        second.append(number[right].ravel())
    level = Level(pivots, *map(np.concatenate, (owners, others, first, second)))
    here, there = np.divmod(graph, size)
    start = edges - len(level.others)
    one, two = level.others[level.first - start], level.others[level.second - start]
    kept = graph[alive[here] & alive[there]]
    return level, np.unique(np.concatenate([kept, one * size + two, two * size + one]))
