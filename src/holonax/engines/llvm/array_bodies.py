"""The bodies of loops over arrays as LLVM IR: what a round reads, computes and writes."""

from __future__ import annotations

from holonax.compiler.arrays.bodies import Body, Load
from holonax.compiler.arrays.values import Array, Fixed, Table
from holonax.compiler.ir.graph import Node
from holonax.engines.llvm.array_memory import EntryEmitter, memory_type


class BodyEmitter(EntryEmitter):
    """Writes bodies of loops."""

    def put(self, expression: str) -> str:
        """An instruction; products and sums stay apart, or one path alone might be rounded in another way than many."""
        return super().put(expression.replace(" contract ", " "))

    def body(self, body: Body, nodes: list[Node], position: str) -> list[str]:
        """The instructions for the round at a position; the names of the values of some nodes."""
        names, self.names, self.vectors = self.names, {}, {}
        for node in body.operations_for(nodes):
            if node in body.loads:
                self.names[node] = self.load(body.loads[node], position)
            else:
                self.names[node] = self.operation(node)
        values = [self.name(node) for node in nodes]
        self.names = names
        return values

    def load(self, load: Load, position: str) -> str:
        """An entry for every lane."""
        if isinstance(load.array, Fixed):
            value = self.read_fixed(load.array, load.table, position)
        elif load.by_path is not None:
            places = self.places_of_lanes(self.name(load.by_path), load.by_path.dtype)
            value = self.gather(memory_type(load.array.dtype), self.pointer(load.array), places)
        else:
            value = self.read(load.array, load.table, position)
        if load.array.dtype == "bool":
            return self.put(f"trunc <{self.width} x i8> {value} to <{self.width} x i1>")
        return value

    def places_of_lanes(self, index: str, dtype: str) -> str:
        """Where entries are whose numbers the lanes know."""
        w = self.width
        wide = self.put(f"sext <{w} x i32> {index} to <{w} x i64>") if dtype == "int32" else index
        if self.paths == 1:
            return wide
        scaled = self.put(f"mul <{w} x i64> {wide}, splat (i64 {self.paths})")
        lanes = ", ".join(f"i64 {i}" for i in range(w))
        return self.put(f"add <{w} x i64> {scaled}, <{lanes}>")

    def store_entry(self, array: Array, places: Table | None, position: str, value: str, dtype: str) -> None:
        """Write the entries of a round."""
        if dtype == "bool":
            value = self.put(f"zext <{self.width} x i1> {value} to <{self.width} x i8>")
        self.write(array, places, position, value)
