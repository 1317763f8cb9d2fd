r"""In which order a sparse matrix is eliminated: levels of unknowns that do not touch each other.

The pattern of a matrix, symmetrised, is a graph: unknowns $i \ne j$ are neighbours where $a_{ij}$ or $a_{ji}$ is there.
Elimination of an unknown makes all of its neighbours neighbours of each other: with $d$ of them it costs about $d^2$
multiply-adds.  Unknowns that are no neighbours can be eliminated at the same time.  A *level* is a set of such
unknowns, all of small degree $d$ (multiple minimum degree).  On a chain every second link goes in each level, which is
cyclic reduction: $\log_2 k$ levels, and nothing but a link between the next ones is filled in.

A multiplier must wait until all motions of its row are eliminated, for before that its pivot may be zero.  Those of the
row that was given are enough, not those that fill in.  Of a symmetric matrix with a positive definite $A$ let motions
$E$ be eliminated, and multipliers that touch none but these.  The pivots of the multipliers are then those of
$-C_E A_{EE}^{-1} C_E^T$, which has full rank; the pivot of a motion is at least what it is without multipliers.  So all
of them keep away from zero, in any such order.  A row that touches all motions has the largest degree and ends up last.
Once what is left is nearly full, levels are of no use: it is the `tail`, to be treated as a dense matrix.

Where motions touch each other, as stages of a step do, many unknowns touch the same others: all stages of a coordinate,
or of a constraint.  Such a *group* is eliminated as a whole, one after another, the first stage first, and the graph
is that of the groups.  In the order of stages the pivots of multipliers do not vanish: they are those of a
constraint, times those of a small matrix made from the tableau.

All of this is done for a level at a time with sorted arrays.  The work is that of the elimination itself, so that dense
rows cost no more here than there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holonax.numerics.hubs import waited_for


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

Order = tuple[list["Level"], Indices]
"""Levels, and the tail: what is left for a dense elimination, motions first."""


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
    rows: Indices, columns: Indices, motions: int, size: int, costs: Costs = AS_ARRAYS, hubs_wait: bool = False
) -> Order:
    """In which order to eliminate a matrix whose entries are at (rows, columns).

    With `hubs_wait`, multipliers do not wait for hubs (`holonax.numerics.hubs`): that is for matrices of which it is
    seen when they are eliminated whether a pivot is bad, and which are then eliminated in another way.
    """
    apart = rows != columns
    rows, columns = rows[apart].astype(np.int64), columns[apart].astype(np.int64)
    graph = np.unique(np.concatenate([rows * size + columns, columns * size + rows]))
    coupled = bool(np.any((rows < motions) & (columns < motions)))
    groups = _Groups(_alike(graph, motions, size) if coupled else np.arange(size))
    graph, number = groups.graph(graph), len(groups.widths)
    here, there = np.divmod(graph, number)
    is_motion = groups.first < motions
    waiting = ~is_motion[here] & is_motion[there]
    waits_for = here[waiting], there[waiting]
    if hubs_wait:
        needed = waited_for(*waits_for)
        waits_for = waits_for[0][needed], waits_for[1][needed]
    alive = np.ones(number, bool)
    levels: list[Level] = []
    edges = 1
    while (pivots := _choose(graph, alive, waits_for, coupled)).size:
        alive[pivots] = False
        level, graph = _eliminate_level(graph, pivots, alive, edges)
        new = groups.levels(level, edges) if coupled else [level]
        edges += sum(len(level.others) for level in new)
        levels += new
    rest = np.flatnonzero(alive[groups.of])
    used = _best_number(levels, len(rest), costs)
    return levels[:used], np.sort(np.concatenate([rest, *(level.pivots for level in levels[used:])]))


def multiply_adds(order: Order) -> int:
    """Of a factorisation, and of a solution with it."""
    levels, tail = order
    pairs, edges = (sum(len(level[part]) for level in levels) for part in (3, 2))
    return 2 * pairs + 2 * edges + len(tail) * (len(tail) ** 2 + 2) // 3


def _alike(graph: Indices, motions: int, size: int) -> Indices:
    """For each unknown the number of its group: motions, or multipliers, that touch the same unknowns.

    Sets are compared by the sums of random numbers; a group of unknowns that differ would cost time, nothing else.
    """
    here, there = np.divmod(graph, size)
    kind = np.arange(size) < motions
    own = np.random.default_rng(0).integers(2**63, size=size, dtype=np.uint64)
    sums = np.where(kind, own, np.uint64(0))
    np.add.at(sums, here, own[there])
    _, first, group = np.unique(np.stack([kind, sums]), axis=1, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group.ravel()]


class _Groups:
    """Unknowns in groups, which are numbered in the order of their first members."""

    def __init__(self, of: Indices) -> None:
        self.of = of
        self.members = np.argsort(of, kind="stable")
        self.widths = np.bincount(of)
        self.begin = np.cumsum(self.widths) - self.widths
        self.first = self.members[self.begin]

    def graph(self, graph: Indices) -> Indices:
        """Which groups touch each other."""
        here, there = np.divmod(graph, len(self.of))
        here, there = self.of[here], self.of[there]
        apart = here != there
        return np.unique(here[apart] * len(self.widths) + there[apart])

    def levels(self, level: Level, edges: int) -> list[Level]:
        """A level of groups as levels of unknowns: the first ones of all groups, then the second ones, ..."""
        number = len(level.pivots)
        owners = np.concatenate([np.arange(number), level.owners])
        order = np.argsort(owners, kind="stable")  # before its neighbours, a group itself
        owners, groups = owners[order], np.concatenate([level.pivots, level.others])[order]
        widths = self.widths[groups]
        within = np.arange(widths.sum()) - np.repeat(np.cumsum(widths) - widths, widths)
        unknowns = self.members[np.repeat(self.begin[groups], widths) + within]
        counts = np.bincount(owners, weights=widths, minlength=number).astype(np.int64)
        begin, own = np.cumsum(counts) - counts, self.widths[level.pivots]
        levels: list[Level] = []
        for i in range(own.max()):
            wide = own > i
            start = begin[wide] + i
            levels.append(_level(unknowns[start], unknowns, start + 1, counts[wide] - i - 1, edges))
            edges += len(levels[-1].others)
        return levels


def _best_number(levels: list[Level], rest: int, costs: Costs) -> int:
    """Of how many levels, with a dense elimination of what they leave, the cost is lowest."""
    left = rest + np.cumsum([0, *(len(level.pivots) for level in reversed(levels))])[::-1]
    spent = np.cumsum([0, *(costs.level + costs.sparse * len(level.first) for level in levels)])
    return int(np.argmin(spent + left * (costs.dense_step + left * left)))


def _choose(graph: Indices, alive: np.ndarray, waits_for: tuple[Indices, Indices], coupled: bool) -> Indices:
    """Unknowns of small degree that are no neighbours, in the order of their degrees; none where the tail begins.

    Of groups half of those that are able are small enough: otherwise the ends of a chain, which have fewer neighbours,
    go one after another while its middle waits.
    """
    size, left = len(alive), np.count_nonzero(alive)
    if left == 0:
        return np.zeros(0, np.int64)
    here, there = np.divmod(graph, size)
    degree = np.bincount(here, minlength=size)
    multipliers, motions = waits_for
    waits = np.bincount(multipliers[alive[motions]], minlength=size) > 0
    able = np.flatnonzero(alive & ~waits)
    lowest = degree[able].min()
    if lowest > FULL * left:
        return np.zeros(0, np.int64)
    largest = lowest + lowest // 2 + 1
    if coupled:
        largest = max(largest, np.median(degree[able]))
    able = able[degree[able] <= largest]
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
    """The level, and the graph of what is left; `edges` is the number of the first edge."""
    size = len(alive)
    begin = np.searchsorted(graph, pivots * size)
    degrees = np.searchsorted(graph, (pivots + 1) * size) - begin
    here, there = np.divmod(graph, size)
    level = _level(pivots, there, begin, degrees, edges)
    one, two = level.others[level.first - edges], level.others[level.second - edges]
    kept = graph[alive[here] & alive[there]]
    return level, np.unique(np.concatenate([kept, one * size + two, two * size + one]))


def _level(pivots: Indices, neighbours: Indices, begin: Indices, degrees: Indices, edges: int) -> Level:
    """The level of pivots whose later neighbours begin at these places; `edges` is the number of the first edge.

    The edges of pivots of the same degree form a table with a row for each of the neighbours.
    """
    owners, others, first, second = [], [], [], []
    for degree in np.unique(degrees):
        members = np.flatnonzero(degrees == degree)
        table = neighbours[begin[members] + np.arange(degree)[:, None]]
        number = edges + np.arange(table.size).reshape(table.shape)
        edges += table.size
        left, right = np.triu_indices(degree, 1)
        owners.append(np.broadcast_to(members, table.shape).ravel())
        others.append(table.ravel())
        first.append(number[left].ravel())
        second.append(number[right].ravel())
    return Level(pivots, *map(np.concatenate, (owners, others, first, second)))
