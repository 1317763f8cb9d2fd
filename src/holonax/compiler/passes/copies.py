"""Copies in the memory of a program with loops over links: what has to go where, and what of it as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

from holonax.compiler.ir.graph import Node
from holonax.compiler.passes.places import Places, Slice

_FEWEST = 4
"""Values that are worth a loop to move them."""


@final
class Copy(NamedTuple):
    """So many entries of an array become those of another one, or a single entry becomes a value."""

    to: Slice
    number: int
    source: Slice | Node


def copies(
    moves: list[tuple[Node, Node]], places: Places, twins: dict[int, int], in_memory: Callable[[Node], bool]
) -> list[Copy]:
    """Let values in memory be others: (old, new), to the same place or that of a twin, unless they are there already.

    As arrays are only copied values that are `in_memory` alone.  Single values that moves change have to be read before
    the first copy.
    """
    final, changed = places.final, {old for old, _ in moves}
    left = [
        (there, place, final(new))
        for old, new in moves
        for there, place in ((twins.get(array, array), place) for array, place in places.of[old].items())
        if places.of.get(final(new), {}).get(there) != place
    ]
    left.sort(key=lambda move: move[:2])

    def lies(node: Node) -> dict[int, int]:
        return places.of.get(node, {}) if node not in changed and in_memory(node) else {}

    found = []
    while left:
        array, place, new = left[0]
        number, source = _array_from(left, lies)
        if number < _FEWEST or source is None:
            found.append(Copy(Slice(array, place, 1), number := 1, new))
        else:
            found.append(Copy(Slice(array, place, 1), number, source))
        del left[:number]
    return found


def _array_from(moves: list[tuple[int, int, Node]], lies: Callable[[Node], dict[int, int]]) -> tuple[int, Slice | None]:
    """How many of the first moves are from one array to another, and from where."""
    to, first, node = moves[0]
    for source, start in lies(node).items():
        step = lies(moves[1][-1]).get(source, start) - start if len(moves) > 1 else 0
        number = 0
        while (
            number < len(moves)
            and moves[number][:2] == (to, first + number)
            and lies(moves[number][-1]).get(source) == start + step * number
        ):
            number += 1
        if abs(step) == 1:
            return number, Slice(source, start, step)
    return 1, None
