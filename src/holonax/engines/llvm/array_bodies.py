"""The bodies of loops over arrays as LLVM IR.

A vector holds either several paths, of which a round computes one entry each, or several entries of a single path.  In
the first case the numbers of all paths lie side by side for every entry, so that tables of entries lead to whole
vectors.  In the second they lead to single numbers, which are gathered.
"""

from __future__ import annotations

from abc import abstractmethod
from types import SimpleNamespace
from typing import Any

import numpy as np

from holonax.compiler.arrays.bodies import Body, Load
from holonax.compiler.arrays.program import ROUND
from holonax.compiler.arrays.values import Array, Fixed, Table
from holonax.compiler.ir.graph import Node
from holonax.engines.llvm.instructions import Instructions

MEMORY = {"float64": "double", "float32": "float", "int32": "i32", "bool": "i8"}
BYTES = {"double": 8, "float": 4, "i32": 4, "i8": 1, "i64": 8}


def memory_type(dtype: str) -> str:
    """What numbers are in memory; whole numbers other than `int32` have 64 bits, as in registers."""
    return MEMORY.get(dtype, "i64")


def _padded(values: np.ndarray) -> np.ndarray:
    """A list that can be read in whole vectors, from wherever one of its numbers is."""
    return np.concatenate([values, np.repeat(values[-1:], ROUND)])


class BodyEmitter(Instructions):
    """Writes bodies of loops; `paths` is 1 or the number of paths in a vector."""

    def __init__(self, paths: int) -> None:
        program: Any = SimpleNamespace(final=lambda node: node)
        super().__init__(program, ROUND if paths == 1 else paths)
        self.paths = paths
        self.tables: dict[Any, int] = {}  # type: ignore[assignment]
        self.data: list[np.ndarray] = []  # what the tables are, by their number

    def put(self, expression: str) -> str:
        """An instruction; products and sums stay apart, or one path alone might be rounded in another way than many."""
        return super().put(expression.replace(" contract ", " "))

    @property
    def entries(self) -> int:
        """Entries in a vector."""
        return ROUND if self.paths == 1 else 1

    # Tables.

    def table(self, values: np.ndarray) -> str:
        """A pointer to known numbers."""
        values = np.ascontiguousarray(values)
        key = (values.dtype.str, values.tobytes())
        if key not in self.tables:
            self.tables[key] = len(self.data)
            self.data.append(values)
        return f"%table{self.tables[key]}"

    @abstractmethod
    def pointer(self, array: Array) -> str:
        """Where an array is."""

    # Bodies.

    def body(self, body: Body, nodes: list[Node], position: str) -> list[str]:
        """The instructions for the round at a position; the names of the values of some nodes."""
        names, self.names = self.names, {}
        for node in body.operations_for(nodes):
            if node in body.loads:
                self.names[node] = self.load(body.loads[node], position)
            else:
                self.names[node] = self.operation(node)
        values = [self.name(node) for node in nodes]
        self.names = names
        return values

    def place(self, table: Table, position: str) -> tuple[str, bool]:
        """The number of the entry of a round; and whether the entries of a vector follow one another."""
        size = len(table)
        step = int(table[1] - table[0]) if size > 1 else 0
        if np.array_equal(table, table[0] + step * np.arange(size)):
            if step == 0:
                return str(int(table[0])), False
            scaled = position if step == 1 else self.put(f"mul i64 {position}, {step}")
            first = scaled if table[0] == 0 else self.put(f"add i64 {scaled}, {int(table[0])}")
            if self.paths > 1 or step == 1:
                return first, True
        padded = _padded(table).astype(np.int32)
        there = self.put(f"getelementptr i32, ptr {self.table(padded)}, i64 {position}")
        if self.paths > 1:
            return self.put(f"sext i32 {self.put(f'load i32, ptr {there}')} to i64"), True
        wide = f"<{self.width} x i64>"
        loaded = self.put(f"load <{self.width} x i32>, ptr {there}, align 4")
        return self.put(f"sext <{self.width} x i32> {loaded} to {wide}"), False

    def load(self, load: Load, position: str) -> str:
        """An entry for every lane."""
        if isinstance(load.array, Fixed):
            return self._load_fixed(load.array, load.table, position)
        kind, base = memory_type(load.array.dtype), self.pointer(load.array)
        if load.by_path is not None:
            value = self._gather(kind, base, self.places_of_lanes(self.name(load.by_path), load.by_path.dtype))
        else:
            place, contiguous = self.place(load.table, position)
            value = self._load_memory(kind, base, place, contiguous)
        if load.array.dtype == "bool":
            return self.put(f"trunc <{self.width} x i8> {value} to <{self.width} x i1>")
        return value

    def _load_memory(self, kind: str, base: str, place: str, contiguous: bool) -> str:
        vector = f"<{self.width} x {kind}>"
        if contiguous or self.paths > 1:
            lanes = place if self.paths == 1 else self._times(place, self.paths)
            there = self.put(f"getelementptr {kind}, ptr {base}, i64 {lanes}")
            align = BYTES[kind] * (1 if self.paths == 1 else self.paths)
            return self.put(f"load {vector}, ptr {there}, align {min(align, 64)}")
        if place.isdigit():  # the same for all entries
            there = self.put(f"getelementptr {kind}, ptr {base}, i64 {place}")
            return self.splat(kind, self.put(f"load {kind}, ptr {there}"))
        return self._gather(kind, base, place)

    def _times(self, place: str, factor: int) -> str:
        return str(int(place) * factor) if place.isdigit() else self.put(f"mul i64 {place}, {factor}")

    def _gather(self, kind: str, base: str, places: str) -> str:
        """Numbers at places of their own for every lane."""
        vector, w = f"<{self.width} x {kind}>", self.width
        short = {"double": "f64", "float": "f32"}.get(kind, kind)
        pointers = self.put(f"getelementptr {kind}, ptr {base}, <{w} x i64> {places}")
        name = f"@llvm.masked.gather.v{w}{short}.v{w}p0"
        self.intrinsics.add(f"declare {vector} {name}(<{w} x ptr>, i32, <{w} x i1>, {vector})")
        align = BYTES[kind]
        return self.put(
            f"call {vector} {name}(<{w} x ptr> {pointers}, i32 {align}, <{w} x i1> splat (i1 true), {vector} poison)"
        )

    def places_of_lanes(self, index: str, dtype: str) -> str:
        """Where entries are whose numbers the lanes know."""
        w = self.width
        wide = self.put(f"sext <{w} x i32> {index} to <{w} x i64>") if dtype == "int32" else index
        if self.paths == 1:
            return wide
        scaled = self.put(f"mul <{w} x i64> {wide}, splat (i64 {self.paths})")
        lanes = ", ".join(f"i64 {i}" for i in range(w))
        return self.put(f"add <{w} x i64> {scaled}, <{lanes}>")

    def _load_fixed(self, array: Fixed, table: Table, position: str) -> str:
        """A known number: one for all paths of a vector."""
        values = array.values[table]
        kind = memory_type(array.dtype)
        types = {"double": np.float64, "float": np.float32, "i32": np.int32, "i8": np.int8, "i64": np.int64}
        padded = _padded(values)
        there = self.put(f"getelementptr {kind}, ptr {self.table(padded.astype(types[kind]))}, i64 {position}")
        if self.paths > 1:
            value = self.splat(kind, self.put(f"load {kind}, ptr {there}"))
        else:
            value = self.put(f"load <{self.width} x {kind}>, ptr {there}, align {BYTES[kind]}")
        if array.dtype == "bool":
            return self.put(f"trunc <{self.width} x i8> {value} to <{self.width} x i1>")
        return value

    def store_entry(self, array: Array, places: Table | None, position: str, value: str, dtype: str) -> None:
        """Write the entries of a round."""
        kind = memory_type(dtype)
        if dtype == "bool":
            value = self.put(f"zext <{self.width} x i1> {value} to <{self.width} x i8>")
        vector, base = f"<{self.width} x {kind}>", self.pointer(array)
        if places is None:
            place, contiguous = position, True
        else:
            size = len(places)
            padding = np.full(-size % ROUND, array.size)  # beyond its end
            place, contiguous = self.place(np.concatenate([places, padding]) if self.paths == 1 else places, position)
        if contiguous or self.paths > 1:
            lanes = place if self.paths == 1 else self._times(place, self.paths)
            there = self.put(f"getelementptr {kind}, ptr {base}, i64 {lanes}")
            align = BYTES[kind] * (1 if self.paths == 1 else self.paths)
            self.lines.append(f"  store {vector} {value}, ptr {there}, align {min(align, 64)}")
            return
        self.scatter(kind, base, self.splat("i64", place) if place.isdigit() else place, value)

    def scatter(self, kind: str, base: str, places: str, value: str) -> None:
        """Write numbers to places of their own for every lane."""
        vector, w = f"<{self.width} x {kind}>", self.width
        short = {"double": "f64", "float": "f32"}.get(kind, kind)
        pointers = self.put(f"getelementptr {kind}, ptr {base}, <{w} x i64> {places}")
        name = f"@llvm.masked.scatter.v{w}{short}.v{w}p0"
        self.intrinsics.add(f"declare void {name}({vector}, <{w} x ptr>, i32, <{w} x i1>)")
        arguments = f"{vector} {value}, <{w} x ptr> {pointers}, i32 {BYTES[kind]}, <{w} x i1> splat (i1 true)"
        self.lines.append(f"  call void {name}({arguments})")
