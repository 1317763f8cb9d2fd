"""Loops in a straight piece of a program.

A chain of many links has as many equations, all alike; written out they would leave the processor's cache of code.
What is needed for one link comes after the other, so the program repeats itself: after some `period`, the same
operations come again, with arguments just as far back, or from elsewhere.  That is how loops are found in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from holonax.compiler.ir.graph import Node

LONGEST = 400
"""Operations of a round."""

FEWEST = 24
"""Rounds that are worth a loop."""

_NEAR = (150, 12)
"""Operations: how far back an argument lies in all rounds alike.  What lies farther back may come from memory."""


@final
@dataclass(frozen=True)
class Repeat:
    """Operations that come `times` times: `nodes` are all of them, round by round."""

    nodes: list[Node]
    period: int
    times: int

    def part(self, begin: int, end: int, rounds: int) -> Repeat:
        """Without some rounds at the beginning and the end, so many `rounds` as one."""
        period, times = self.period * rounds, (self.times - begin - end) // rounds
        first = begin * self.period
        return Repeat(self.nodes[first : first + times * period], period, times)

    def orbit(self, place: int) -> list[Node]:
        """One operation in all rounds."""
        return self.nodes[place :: self.period]


def repeats(nodes: list[Node], final: Callable[[Node], Node]) -> list[list[Node] | Repeat]:
    """The same piece with loops: those that cover most come first."""
    parts: list[list[Node] | Repeat] = [nodes]
    for near in _NEAR:
        parts = [x for part in parts for x in ([part] if isinstance(part, Repeat) else _split(part, final, near))]
    return parts


def _split(nodes: list[Node], final: Callable[[Node], Node], near: int) -> list[list[Node] | Repeat]:
    kinds = _kinds(nodes, final, near)
    found = []
    for period in range(1, min(LONGEST, len(nodes) // FEWEST) + 1):
        ends = np.flatnonzero(np.append(kinds[:-period] != kinds[period:], True))
        begins = np.append(0, ends[:-1] + 1)
        for begin, length in zip(begins, ends - begins + period, strict=True):
            if length >= FEWEST * period:
                found.append((-int(length), period, int(begin)))
    taken = np.zeros(len(nodes), bool)
    loops = {}
    for length, period, begin in sorted(found):
        times = -length // period
        if not taken[begin : begin + times * period].any():
            taken[begin : begin + times * period] = True
            loops[begin] = Repeat(nodes[begin : begin + times * period], period, times)
    parts: list[list[Node] | Repeat] = []
    place = 0
    for begin in [*sorted(loops), len(nodes)]:
        if begin > place:
            parts.append(nodes[place:begin])
        if begin in loops:
            parts.append(loops[begin])
            place = begin + len(loops[begin].nodes)
    return parts


def _kinds(nodes: list[Node], final: Callable[[Node], Node], near: int) -> np.ndarray:
    """A number for each operation, equal where they may be rounds of one loop."""
    place = {node: i for i, node in enumerate(nodes)}
    known: dict[tuple, int] = {}

    def argument(x: Node, here: int) -> object:
        if x.is_constant:
            return x
        back = here - place[x] if x in place else near + 1
        return back if back <= near else None

    kinds = [(x.name, x.dtype, *(argument(final(a), i) for a in x.args)) for i, x in enumerate(nodes)]
    return np.array([known.setdefault(kind, len(known)) for kind in kinds])
