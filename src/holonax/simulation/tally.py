"""Summaries of blocks of paths, joined in an order that is always the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from holonax.observables import Observable


@final
class Tally:
    """Joins summaries in pairs, like the digits of a binary number: blocks 0 and 1, 2 and 3, then these two, and so on.

    Chunks of paths have a power of two of blocks, all but the last.  So what a chunk has joined on its own is what
    would come about if its blocks were added one by one, and no result depends on how paths were cut.  Rounding errors
    grow with the logarithm of the number of blocks.
    """

    def __init__(self, observable: Observable, nodes: Iterable[tuple[int, Any]] = ()) -> None:
        self.observable = observable
        self.nodes: list[tuple[int, Any]] = []  # number of blocks, and their summary; the numbers decrease
        self.extend(nodes)

    def extend(self, nodes: Iterable[tuple[int, Any]]) -> None:
        """Add what follows."""
        for blocks, summary in nodes:
            self.nodes.append((blocks, summary))
            while len(self.nodes) > 1 and self.nodes[-1][0] == self.nodes[-2][0]:
                (size, one), (_, other) = self.nodes[-2:]
                self.nodes[-2:] = [(2 * size, self.observable.merge(one, other))]

    @property
    def total(self) -> Any:
        """The summary of all."""
        (_, total), *others = self.nodes
        for _, summary in others:
            total = self.observable.merge(total, summary)
        return total
