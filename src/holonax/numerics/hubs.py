r"""Hubs: motions that many multipliers touch, as those of a bead with a hundred rods to it.

Where motions are eliminated first, all multipliers of a hub come to touch each other: a star of $a$ rods becomes a full
matrix of $a$ rows, although its graph is a tree.  If the hub waits instead, each of these multipliers is eliminated
after its other motions, with the pivot $-c_E A_{EE}^{-1} c_E^T$ made from the derivatives $c_E$ by those alone, and
what the hub receives is the size of the hub.  That is the Schur complement the other way around.

The pivots do not vanish if the rows have full rank without the hub's columns.  That can be told from the pattern in
part: there must be a motion for each of the rows, different ones for all (a matching of a bipartite graph).  Where it
holds by the pattern and not by the numbers, a pivot is found to be bad when it is computed.
"""

from __future__ import annotations

from collections import deque

import numpy as np

MANY = 16
"""Multipliers that a hub touches at least."""

TIMES_AS_MANY = 4
"""A hub touches so many times as many multipliers as these touch hubs, or nothing would be gained."""

SHARE = 2
"""Hubs wait if they would fill in at least so many times the entries that are there; otherwise nothing is gained."""


def waited_for(multipliers: np.ndarray, motions: np.ndarray) -> np.ndarray:
    """For pairs that touch each other: whether the multiplier has to wait until the motion is eliminated."""
    width = np.bincount(motions)
    many = width >= MANY
    if not many.any():
        return np.ones(len(motions), bool)
    beside = np.bincount(multipliers, weights=many[motions])
    hub = many & (width**2 >= TIMES_AS_MANY * np.bincount(motions, weights=beside[multipliers]))
    if np.sum(width[hub] ** 2) < SHARE * len(motions):
        return np.ones(len(motions), bool)
    return ~hub[motions] | ~_matched(multipliers, motions, hub)[multipliers]


def _matched(multipliers: np.ndarray, motions: np.ndarray, hub: np.ndarray) -> np.ndarray:
    """Which multipliers get a motion of their own that is no hub; those that touch no hub choose first."""
    size = int(multipliers.max()) + 1
    free = np.flatnonzero(~hub[motions])
    free = free[np.argsort(multipliers[free], kind="stable")]
    begin = np.searchsorted(multipliers[free], np.arange(size + 1)).tolist()
    others = motions[free].tolist()
    touches_hub = np.bincount(multipliers, weights=hub[motions], minlength=size) > 0
    own: dict[int, int] = {}  # motions of multipliers
    owner: dict[int, int] = {}
    taken: set[int] = set()  # motions from which no free one can be reached
    for multiplier in np.argsort(touches_hub, kind="stable").tolist():
        found_by: dict[int, int] = {}
        waiting, end = deque([multiplier]), None
        while waiting and end is None:
            looking = waiting.popleft()
            for motion in others[begin[looking] : begin[looking + 1]]:
                if motion in found_by or motion in taken:
                    continue
                found_by[motion] = looking
                if motion not in owner:
                    end = motion
                    break
                waiting.append(owner[motion])
        if end is None:
            taken.update(found_by)
        while end is not None:  # each on the way takes the motion that it found, and gives up what it had
            taker = owner[end] = found_by[end]
            own[taker], end = end, own.get(taker)
    return np.isin(np.arange(size), list(own))
