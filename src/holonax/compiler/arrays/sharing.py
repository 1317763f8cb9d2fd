"""Threads that walk through the statements of one path together: who does which rounds, and when they have to meet.

The rounds of a loop are cut into blocks of eight, and every thread does a range of consecutive blocks, the same one in
all loops of as many blocks.  What is not worth it is done by the first thread alone.  A thread may go on at once if it
needs, of what others have written since all last met, nothing but entries of its own blocks, and writes nothing that
others may still be reading.  That is decided without knowing how many threads there will be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, final

import numpy as np

from holonax.compiler.arrays.program import ROUND
from holonax.compiler.arrays.values import Table
from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.operations import OPERATIONS

COSTLY = 20
"""Operations that a function such as a sine is worth."""

ALONE = 0
"""Blocks of what the first thread does alone."""


def blocks_of(rounds: int) -> int:
    """Blocks that so many rounds are cut into."""
    return -(-rounds // ROUND)


def work_of(operations: list[Node]) -> int:
    """About how many operations a round is worth; what it reads counts as one each."""
    return sum(COSTLY if node.args and OPERATIONS[node.name].is_costly else 1 for node in operations)


class Touch(NamedTuple):
    """Numbers from `begin` to below `end` of a memory: round i of a loop of so many blocks touches entry `table[i]`.

    Without a table any round may touch any entry.
    """

    memory: str
    begin: int
    end: int
    dtype: str
    table: Table | None
    blocks: int


@final
class Meetings:
    """What was read and written since all threads last met."""

    def __init__(self) -> None:
        self.read: list[Touch] = []
        self.written: list[Touch] = []

    def is_due(self, reads: Iterable[Touch], writes: Iterable[Touch]) -> bool:
        """Whether all must meet before what comes next."""
        reads, writes = [*reads], [*writes]
        return any(_conflict(x, y) for x in self.written for y in (*reads, *writes)) or any(
            _conflict(x, y) for x in writes for y in self.read
        )

    def note(self, reads: Iterable[Touch], writes: Iterable[Touch]) -> None:
        """What comes next."""
        self.read += reads
        self.written += writes


def _conflict(write: Touch, other: Touch) -> bool:
    """Whether some thread writes what another one touches."""
    if write.memory != other.memory or write.end <= other.begin or other.end <= write.begin:
        return False
    if write.blocks == other.blocks == ALONE:
        return False
    alike = write.begin == other.begin and write.dtype == other.dtype
    if not alike or write.table is None or other.table is None:
        return True
    block = np.full(max(write.table.max(initial=0), other.table.max(initial=0)) + 1, -1)
    block[write.table] = np.arange(len(write.table)) // ROUND
    found, own = block[other.table], np.arange(len(other.table)) // ROUND
    theirs = found >= 0 if write.blocks != other.blocks else (found >= 0) & (found != own)
    return bool(theirs.any())
