"""Entries of arrays in memory as LLVM IR: tables of places, vectors that are read and written.

A vector holds either several paths, of which a round of a loop computes one entry each, or several entries of a single
path.  In the first case the numbers of all paths lie side by side for every entry, so that tables of entries lead to
whole vectors.  In the second they lead to single numbers.  To gather those one by one takes a processor as long as some
twenty operations, so entries that lie close together are read as whole vectors and put in order:

- every second to sixth entry, such as one coordinate of consecutive points: the same vectors serve the other
  coordinates too, and which lane goes where is known beforehand;
- entries of a list that climbs slowly, such as the rod of each coordinate (0, 0, 0, 1, 1, 1, ...): one or two vectors
  hold them all, and the list says which lane goes where.
"""

from __future__ import annotations

from abc import abstractmethod
from types import SimpleNamespace
from typing import Any

import numpy as np

from holonax.compiler.arrays.program import ROUND
from holonax.compiler.arrays.values import Array, Fixed, Table
from holonax.engines.llvm.instructions import Instructions
from holonax.engines.llvm.machine import can_permute

MEMORY = {"float64": "double", "float32": "float", "int32": "i32", "bool": "i8"}
BYTES = {"double": 8, "float": 4, "i32": 4, "i8": 1, "i64": 8}
SHORT = {"double": "f64", "float": "f32"}

WIDEST_STEP = 6
"""Up to which distance between entries all numbers in between are read as well."""


def memory_type(dtype: str) -> str:
    """What numbers are in memory; whole numbers other than `int32` have 64 bits, as in registers."""
    return MEMORY.get(dtype, "i64")


def padded(values: np.ndarray) -> np.ndarray:
    """A list that can be read in whole vectors, from wherever one of its numbers is."""
    return np.concatenate([values, np.repeat(values[-1:], ROUND)])


def step_of(table: Table) -> int | None:
    """The distance between consecutive entries, if it is always the same."""
    step = int(table[1] - table[0]) if len(table) > 1 else 0
    return step if np.array_equal(table, table[0] + step * np.arange(len(table))) else None


def climb_of(table: Table) -> int | None:
    """How far the last of eight consecutive entries is from the first, at most; None for lists that also go down."""
    whole = padded(table)
    return int((whole[ROUND - 1 :] - whole[: 1 - ROUND]).max()) if (np.diff(whole) >= 0).all() else None


class EntryEmitter(Instructions):
    """Reads and writes entries; `paths` is 1 or the number of paths in a vector."""

    def __init__(self, paths: int) -> None:
        program: Any = SimpleNamespace(final=lambda node: node)
        super().__init__(program, ROUND if paths == 1 else paths)
        self.paths = paths
        self.tables: dict[Any, int] = {}  # type: ignore[assignment]
        self.data: list[np.ndarray] = []  # what the tables are, by their number
        self.vectors: dict[tuple[Array, int, int], str] = {}  # what a round has read already

    @property
    def entries(self) -> int:
        """Entries in a vector."""
        return ROUND if self.paths == 1 else 1

    @abstractmethod
    def pointer(self, array: Array) -> str:
        """Where an array is."""

    # Tables.

    def table(self, values: np.ndarray) -> str:
        """A pointer to known numbers."""
        values = np.ascontiguousarray(values)
        key = (values.dtype.str, values.tobytes())
        if key not in self.tables:
            self.tables[key] = len(self.data)
            self.data.append(values)
        return f"%table{self.tables[key]}"

    def scaled(self, position: str, step: int, first: int) -> str:
        """The number of an entry that is `first` in round 0 and `step` further in every round."""
        product = position if step == 1 else self._times(position, step)
        return product if first == 0 else self.put(f"add i64 {product}, {first}")

    def _times(self, place: str, factor: int) -> str:
        return str(int(place) * factor) if place.isdigit() else self.put(f"mul i64 {place}, {factor}")

    def _list(self, table: Table, position: str) -> str:
        """Where the number of the entry of a round is."""
        return self.put(f"getelementptr i32, ptr {self.table(padded(table).astype(np.int32))}, i64 {position}")

    def _listed(self, table: Table, position: str) -> str:
        """The numbers of the entries of a vector of one path."""
        loaded = self.put(f"load <{self.width} x i32>, ptr {self._list(table, position)}, align 4")
        return self.put(f"sext <{self.width} x i32> {loaded} to <{self.width} x i64>")

    # Reading.

    def read(self, array: Array, table: Table, position: str) -> str:
        """The entries of a round."""
        kind, step = memory_type(array.dtype), step_of(table)
        if self.paths > 1:
            if step is None:
                number = self.put(f"sext i32 {self.put(f'load i32, ptr {self._list(table, position)}')} to i64")
            else:
                number = self.scaled(position, step, int(table[0])) if step else str(int(table[0]))
            return self._vector(kind, self.pointer(array), self._times(number, self.paths))
        if step == 0:
            there = self.put(f"getelementptr {kind}, ptr {self.pointer(array)}, i64 {int(table[0])}")
            return self.splat(kind, self.put(f"load {kind}, ptr {there}"))
        if step == 1:
            return self._vector(kind, self.pointer(array), self.scaled(position, 1, int(table[0])))
        if step is not None and 1 < step <= WIDEST_STEP and kind in SHORT:
            return self._read_step(array, int(table[0]), step, position)
        if step is None and kind == "double" and can_permute():
            climb = climb_of(table)
            if climb is not None and climb < 2 * ROUND:
                return self._read_climb(array, table, climb, position)
        return self.gather(kind, self.pointer(array), self._listed(table, position))

    def _vector(self, kind: str, base: str, lanes: str) -> str:
        """Consecutive numbers."""
        there = self.put(f"getelementptr {kind}, ptr {base}, i64 {lanes}")
        align = BYTES[kind] * (1 if self.paths == 1 else self.paths)
        return self.put(f"load <{self.width} x {kind}>, ptr {there}, align {min(align, 64)}")

    def _read_step(self, array: Array, first: int, step: int, position: str) -> str:
        """Entries at equal distances: lanes of the vectors that hold them."""
        kind, lanes = memory_type(array.dtype), first % step + step * np.arange(ROUND)
        vectors = []
        for i in range(int(lanes[-1]) // ROUND + 1):
            key = (array, first - first % step + ROUND * i, step)
            if key not in self.vectors:
                self.vectors[key] = self._vector(kind, self.pointer(array), self.scaled(position, step, key[1]))
            vectors.append(self.vectors[key])
        source, lane = np.divmod(lanes, ROUND)
        value, known = vectors[0], lane
        for i, vector in enumerate(vectors[1:], 1):
            places = np.where(source < i, known, ROUND + lane)
            mask = ", ".join(
                f"i32 {place if own <= i else 'poison'}" for place, own in zip(places, source, strict=True)
            )
            kinds = f"<{ROUND} x {kind}>"
            value = self.put(f"shufflevector {kinds} {value}, {kinds} {vector}, <{ROUND} x i32> <{mask}>")
            known = np.arange(ROUND)
        return value

    def _read_climb(self, array: Array, table: Table, climb: int, position: str) -> str:
        """Entries of a list that climbs slowly: one vector, or two, and the list says which lanes."""
        there, base, vector, wide = self._list(table, position), self.pointer(array), "<8 x double>", "<8 x i64>"
        first = self.put(f"load i32, ptr {there}")
        numbers = self.put(f"load <8 x i32>, ptr {there}, align 4")
        behind = self.put(f"sub <8 x i32> {numbers}, {self.splat('i32', first)}")
        lanes = self.put(f"zext <8 x i32> {behind} to {wide}")
        place = self.put(f"sext i32 {first} to i64")
        low = self._vector("double", base, place)
        if climb < ROUND:
            name = "@llvm.x86.avx512.permvar.df.512"
            self.intrinsics.add(f"declare {vector} {name}({vector}, {wide})")
            return self.put(f"call {vector} {name}({vector} {low}, {wide} {lanes})")
        high = self._vector("double", base, self.put(f"add i64 {place}, {ROUND}"))
        name = "@llvm.x86.avx512.vpermi2var.pd.512"
        self.intrinsics.add(f"declare {vector} {name}({vector}, {wide}, {vector})")
        return self.put(f"call {vector} {name}({vector} {low}, {wide} {lanes}, {vector} {high})")

    def gather(self, kind: str, base: str, places: str) -> str:
        """Numbers at places of their own for every lane."""
        vector, w = f"<{self.width} x {kind}>", self.width
        pointers = self.put(f"getelementptr {kind}, ptr {base}, <{w} x i64> {places}")
        name = f"@llvm.masked.gather.v{w}{SHORT.get(kind, kind)}.v{w}p0"
        self.intrinsics.add(f"declare {vector} {name}(<{w} x ptr>, i32, <{w} x i1>, {vector})")
        align = BYTES[kind]
        return self.put(
            f"call {vector} {name}(<{w} x ptr> {pointers}, i32 {align}, <{w} x i1> splat (i1 true), {vector} poison)"
        )

    def read_fixed(self, array: Fixed, table: Table, position: str) -> str:
        """Known numbers: one for all paths of a vector."""
        kind = memory_type(array.dtype)
        types = {"double": np.float64, "float": np.float32, "i32": np.int32, "i8": np.int8, "i64": np.int64}
        values = padded(array.values[table]).astype(types[kind])
        there = self.put(f"getelementptr {kind}, ptr {self.table(values)}, i64 {position}")
        if self.paths > 1:
            return self.splat(kind, self.put(f"load {kind}, ptr {there}"))
        return self.put(f"load <{self.width} x {kind}>, ptr {there}, align {BYTES[kind]}")

    # Writing.

    def write(self, array: Array, places: Table | None, position: str, value: str) -> None:
        """Write the entries of a round; entry i of a loop goes to `places[i]`, or to place i."""
        kind, base = memory_type(array.dtype), self.pointer(array)
        if self.paths > 1:
            step = 1 if places is None else step_of(places)
            if places is None or step is None:
                number = position
                if places is not None:
                    number = self.put(f"sext i32 {self.put(f'load i32, ptr {self._list(places, position)}')} to i64")
            else:
                number = self.scaled(position, step, int(places[0])) if step else str(int(places[0]))
            self._write_vector(kind, base, self._times(number, self.paths), value)
        elif places is None:  # there is room behind the last one
            self._write_vector(kind, base, position, value)
        elif step_of(places) == 1:
            self._write_vector(
                kind, base, self.scaled(position, 1, int(places[0])), value, self._inside(places, position)
            )
        else:
            beyond = np.full(-len(places) % ROUND, array.size)
            self.scatter(kind, base, self._listed(np.concatenate([places, beyond]), position), value)

    def _inside(self, places: Table, position: str) -> str | None:
        """Which lanes are rounds of a loop, if not all of them always are."""
        if len(places) % ROUND == 0:
            return None
        lanes = ", ".join(f"i64 {i}" for i in range(ROUND))
        rounds = self.put(f"add <{ROUND} x i64> {self.splat('i64', position)}, <{lanes}>")
        return self.put(f"icmp slt <{ROUND} x i64> {rounds}, splat (i64 {len(places)})")

    def _write_vector(self, kind: str, base: str, lanes: str, value: str, inside: str | None = None) -> None:
        """Consecutive numbers."""
        vector = f"<{self.width} x {kind}>"
        there = self.put(f"getelementptr {kind}, ptr {base}, i64 {lanes}")
        align = min(64, BYTES[kind] * (1 if self.paths == 1 else self.paths))
        if inside is None:
            self.lines.append(f"  store {vector} {value}, ptr {there}, align {align}")
            return
        name = f"@llvm.masked.store.v{self.width}{SHORT.get(kind, kind)}.p0"
        truth = f"<{self.width} x i1>"
        self.intrinsics.add(f"declare void {name}({vector}, ptr, i32, {truth})")
        self.lines.append(f"  call void {name}({vector} {value}, ptr {there}, i32 {align}, {truth} {inside})")

    def scatter(self, kind: str, base: str, places: str, value: str) -> None:
        """Write numbers to places of their own for every lane."""
        vector, w = f"<{self.width} x {kind}>", self.width
        pointers = self.put(f"getelementptr {kind}, ptr {base}, <{w} x i64> {places}")
        name = f"@llvm.masked.scatter.v{w}{SHORT.get(kind, kind)}.v{w}p0"
        self.intrinsics.add(f"declare void {name}({vector}, <{w} x ptr>, i32, <{w} x i1>)")
        arguments = f"{vector} {value}, <{w} x ptr> {pointers}, i32 {BYTES[kind]}, <{w} x i1> splat (i1 true)"
        self.lines.append(f"  call void {name}({arguments})")
