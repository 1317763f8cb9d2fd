"""Several threads in one kernel as LLVM IR: slices of loops, what the first thread does alone, and where all meet.

All threads run the same code with the same decisions, which they read from memory after they have met.  Every number is
computed by the same operations in the same order however many threads there are, so the bits are the same.

A thread may write only entries of its own rounds, or what lies behind the end of an array.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable

import numpy as np

from holonax.compiler.arrays.bodies import Body
from holonax.compiler.arrays.program import ROUND, room
from holonax.compiler.arrays.sharing import ALONE, Meetings, Touch, blocks_of
from holonax.compiler.arrays.values import Array, Fixed, Ref, Table
from holonax.compiler.ir.graph import Node
from holonax.engines.llvm.array_bodies import BodyEmitter
from holonax.engines.llvm.structured import when

LEAST_WORK = 8192
"""Operations of a loop from which on threads share it."""


class SharingEmitter(BodyEmitter):
    """Divides rounds among threads if the kernel is `shared`; otherwise there is one thread, and nobody to meet.

    `often` is how often in a step that runs which is being written, about; `work` and `meetings` are what threads share
    in a step, in operations, and how often they meet.
    """

    def __init__(self, paths: int, shared: bool) -> None:
        super().__init__(paths)
        self.shared, self.pending = shared, Meetings()
        self.often, self.work, self.meetings = 1, 0, 0

    @abstractmethod
    def place(self, array: Array) -> tuple[str, int]:
        """The memory that an array is in, and where, in numbers per path."""

    def touch(self, array: Array, table: Table | None, blocks: int = ALONE) -> list[Touch]:
        """Of an array, by the rounds of a loop of so many blocks."""
        if isinstance(array, Fixed):
            return []
        memory, begin = self.place(array)
        return [Touch(memory, begin, begin + room(array), array.dtype, table, blocks)]

    def reads(self, body: Body, operations: list[Node], blocks: int = ALONE) -> list[Touch]:
        """What the operations of a round read."""
        loads = [body.loads[node] for node in operations if node in body.loads]
        return [x for y in loads for x in self.touch(y.array, None if y.by_path is not None else y.table, blocks)]

    def read_alone(self, ref: Ref) -> list[Touch]:
        """What the first thread reads for itself."""
        return self.touch(ref.array, ref.table.reshape(-1))

    # Who does what.

    def meet(self) -> None:
        """Let all threads wait until the last one is here."""
        if self.shared:
            self.lines.append("  call void @meet(ptr %meeting, i64 %threads)")
            self.pending = Meetings()
            self.meetings += self.often

    def order(self, reads: Iterable[Touch], writes: Iterable[Touch]) -> None:
        """Let threads meet if what comes next needs that."""
        if self.shared:
            reads, writes = [*reads], [*writes]
            if self.pending.is_due(reads, writes):
                self.meet()
            self.pending.note(reads, writes)

    def alone(self, body: Callable[[], None]) -> None:
        """What the first thread does."""
        if self.shared:
            when(self, self.put("icmp eq i64 %thread, 0"), body)
        else:
            body()

    def is_shared(self, rounds: int, work: int) -> bool:
        """Whether threads share a loop of so many rounds, each of so much work for every path."""
        return self.shared and rounds > ROUND and rounds * work * self.paths >= LEAST_WORK

    def slice_of(self, rounds: int) -> tuple[str, str]:
        """The first round of this thread, and where those of the next thread begin."""
        if not self.shared:
            return "0", str(rounds)
        bounds = []
        for thread in ("%thread", self.put("add i64 %thread, 1")):
            block = self.put(f"udiv i64 {self.put(f'mul i64 {thread}, {blocks_of(rounds)}')}, %threads")
            bounds.append(self.put(f"mul i64 {block}, {ROUND}"))
        if rounds % ROUND:
            inside = self.put(f"icmp slt i64 {bounds[1]}, {rounds}")
            bounds[1] = self.put(f"select i1 {inside}, i64 {bounds[1]}, i64 {rounds}")
        return bounds[0], bounds[1]

    def share(
        self,
        rounds: int,
        work: int,
        touched: Callable[[int], tuple[list[Touch], list[Touch]]],
        write: Callable[[str, str], None],
    ) -> None:
        """Write rounds that need nothing of each other, from one to another, for each thread its own if they are many.

        `touched` says what they read and write if there are so many blocks of them.
        """
        if self.is_shared(rounds, work):
            self.order(*touched(blocks_of(rounds)))
            self.work += self.often * rounds * work * self.paths
            write(*self.slice_of(rounds))
        else:
            self.order(*touched(ALONE))
            self.alone(lambda: write("0", str(rounds)))


def all_entries(array: Array) -> np.ndarray:
    """The table of all entries, in order."""
    return np.arange(array.size)
