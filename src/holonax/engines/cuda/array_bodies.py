"""The bodies of loops over arrays as CUDA C, and when the threads of a block have to wait for each other.

The threads of a block share the entries of a loop: round i is done by thread i, counted modulo the number of threads.
Loops of a few rounds are left to the last warp, which has least to do otherwise.
A thread may go on to the next loop at once if it needs there, of what others have written since they last met, nothing
but entries that it wrote itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from holonax.compiler.arrays.bodies import Body, Load
from holonax.compiler.arrays.program import Part, room
from holonax.compiler.arrays.values import Array, Fixed, Given, Table
from holonax.compiler.ir.graph import Node
from holonax.engines.cuda.array_memory import NEXT, NOW, REGISTER, SCRATCH, SHARED, Memory, Spot
from holonax.engines.cuda.expressions import TYPES, Expressions

BASES = {
    (SHARED, ""): "S", (SHARED, NOW): "S + now_shared", (SHARED, NEXT): "S + next_shared",
    (SCRATCH, ""): "W", (SCRATCH, NOW): "W + now_scratch", (SCRATCH, NEXT): "W + next_scratch",
}  # fmt: skip
"""Where the places of each memory and turn begin."""

GIVEN = {
    "h": ("h",), "step": ("(int)(number + offset)",), "key": ("key0", "key1"),
    "path": ("(unsigned)path", "(unsigned)(path >> 32)"),
}  # fmt: skip
"""What does not change during a step and is in no array."""

_ALIGNMENT = 16
WARP = 32


class Access(NamedTuple):
    """An array that is read or written: entry `table[i]` by thread i + `shift`; None if by any thread."""

    place: Spot
    end: int
    table: Table | None
    shift: int


class BodyWriter(Expressions):
    """Writes bodies of loops for blocks of so many `threads`."""

    part: Part

    def __init__(self, memory: Memory, parameters: dict[Array, int], threads: int) -> None:
        super().__init__()
        self.memory, self.parameters, self.threads = memory, parameters, threads
        self.uniform: set[Array] = set()  # registers that every thread reads
        self.loaded: set[Array] = set()  # what is read from memory, and not only in the round that computes it
        self.tables: dict[bytes, int] = {}  # where each is among the data, in bytes
        self.data: list[bytes] = []
        self.size_of_data = 0
        self.counts: dict[Array, float] = defaultdict(float)  # how often arrays are accessed
        self.weight = 1.0  # how often what is written runs in a step
        self.read: list[Access] = []  # since all threads met
        self.written: list[Access] = []

    # Tables.

    def table(self, values: np.ndarray, kind: str | None = None) -> str:
        """A pointer to known numbers; numbers of places are as short as they can be."""
        values = np.ascontiguousarray(values)
        if kind is None:
            short = values.max(initial=0) < 2**16
            values, kind = (values.astype(np.uint16), "unsigned short") if short else (values.astype(np.int32), "int")
        return f"((const {kind} *)(tables + {self.offset(values)}))"

    def offset(self, values: np.ndarray) -> int:
        """Where known numbers are among the tables, in bytes."""
        data = values.tobytes()
        if data not in self.tables:
            self.tables[data] = self.size_of_data
            padding = -len(data) % _ALIGNMENT
            self.data += [data, bytes(padding)]
            self.size_of_data += len(data) + padding
        return self.tables[data]

    def index(self, table: Table, position: str) -> str:
        """The number of the entry of a round."""
        size, first = len(table), int(table[0])
        step = int(table[1] - table[0]) if size > 1 else 0
        if np.array_equal(table, first + step * np.arange(size)):
            scaled = "" if step == 0 else position if step == 1 else f"{step} * {position}"
            return f"{scaled} + {first}" if scaled and first else scaled or str(first)
        return f"__ldg({self.table(table)} + {position})"

    # Arrays.

    def register(self, place: Spot) -> str:
        """The name of a number that every thread has."""
        return f"s{place.slot}{'n' if place.turn == NEXT else ''}"

    def pointer(self, array: Array) -> str:
        """Where an array begins."""
        kind = TYPES[array.dtype]
        if array in self.parameters:
            return f"((const {kind} *)(P + {self.parameters[array]}))"
        place = self.memory[array]
        return f"(({kind} *)({BASES[place.memory, place.turn]} + {place.slot}))"

    def entry(self, array: Array, index: str) -> str:
        """One of its entries, to be read or written."""
        if self.in_register(array):
            return self.register(self.memory[array])
        return f"{self.pointer(array)}[{index}]"

    def in_register(self, array: Array) -> bool:
        """Whether every thread has it."""
        return not self.is_given(array) and self.memory[array].memory == REGISTER

    def is_given(self, array: Array) -> bool:
        """Whether it never changes."""
        return isinstance(array, Fixed) or array in self.parameters or _name(array) in GIVEN

    # Who waits for whom.

    def access(self, array: Array, table: Table | None) -> list[Access]:
        """The access to an array that changes and is in memory; none otherwise."""
        if self.is_given(array) or self.in_register(array):
            return []
        place = self.memory[array]
        self.counts[array] += self.weight * (array.size if table is None else len(table))
        shift = 0 if table is None else self.shift(len(table))
        return [Access(place, place.slot + room(array), table, shift)]

    def shift(self, rounds: int) -> int:
        """The thread that does the first round of a loop."""
        return self.threads - WARP if rounds <= WARP else 0

    def is_uniform(self, array: Array) -> bool:
        """Whether an array is in a register of every thread."""
        if self.is_given(array) or not self.in_register(array):
            return False
        return array in self.memory.results or array in self.memory.carried or array in self.memory.uniform

    def order(self, reads: Iterable[Access], writes: Iterable[Access]) -> None:
        """Let threads meet if what comes next needs that."""
        reads, writes = [*reads], [*writes]
        if (
            any(self.conflict(x, y) for x in self.written for y in (*reads, *writes))
            or any(self.conflict(x, y) for x in writes for y in self.read)
        ):  # fmt: skip
            self.meet()
        self.read += reads
        self.written += writes

    def meet(self) -> None:
        """Let all threads wait until the last one is here."""
        self.lines.append("barrier();")
        self.read, self.written = [], []

    def conflict(self, write: Access, other: Access) -> bool:
        """Whether some thread writes what another one accesses."""
        same = write.place.memory == other.place.memory and write.place.turn == other.place.turn
        if not same or write.end <= other.place.slot or other.end <= write.place.slot:
            return False
        if write.place.slot != other.place.slot or write.table is None or other.table is None:
            return True
        owner = np.full(max(write.table.max(initial=0), other.table.max(initial=0)) + 1, -1)
        owner[write.table] = (np.arange(len(write.table)) + write.shift) % self.threads
        found, asking = owner[other.table], (np.arange(len(other.table)) + other.shift) % self.threads
        return bool(((found >= 0) & (found != asking)).any())

    # Bodies.

    def reads(self, body: Body, operations: list[Node], by_all: bool, alone: bool = False) -> list[Access]:
        """What the operations of a round read; `by_all` if every thread does the round, `alone` if only one does."""
        found = []
        for load in (body.loads[node] for node in operations if node in body.loads):
            self.loaded.add(load.array)
            if not alone and not self.is_given(load.array) and self.in_register(load.array):
                self.uniform.add(load.array)
            found += self.access(load.array, None if by_all or load.by_path is not None else load.table)
        return found

    def body(self, body: Body, operations: list[Node], nodes: list[Node], position: str) -> list[str]:
        """The operations of the round at a position; the names of the values of some nodes."""
        names, self.names = self.names, {}
        for node in operations:
            load = body.loads.get(node)
            self.names[node] = self.put(node.dtype, self.load(load, position) if load else self.operation(node))
        values = [self.name(node) for node in nodes]
        self.names = names
        return values

    def load(self, load: Load, position: str) -> str:
        """An entry."""
        array = load.array
        if isinstance(array, Fixed):
            values = array.values[load.table]
            return f"__ldg({self.table(values, TYPES[array.dtype])} + {position})"
        index = self.name(load.by_path) if load.by_path is not None else self.index(load.table, position)
        if (words := GIVEN.get(_name(array))) is not None:
            return words[0] if len(words) == 1 else f"({index} ? {words[1]} : {words[0]})"
        return self.entry(array, index)


def _name(array: Array) -> str:
    return array.name if isinstance(array, Given) else ""
