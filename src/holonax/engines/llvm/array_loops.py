"""Loops over arrays and long sums as LLVM IR."""

from __future__ import annotations

import numpy as np

from holonax.compiler.arrays.bodies import Body
from holonax.compiler.arrays.program import Part
from holonax.compiler.arrays.sharing import Touch, work_of
from holonax.compiler.arrays.statements import ArrayLoop, MatrixLoops, Reduction, Scatter, Store
from holonax.compiler.arrays.values import Array, Combined, Ref, Table, fixed, neutral
from holonax.compiler.frontend.functions import FUNCTIONS
from holonax.compiler.ir.graph import Node
from holonax.engines.llvm.array_memory import memory_type
from holonax.engines.llvm.array_sharing import SharingEmitter, all_entries
from holonax.engines.llvm.structured import loop


class LoopEmitter(SharingEmitter):
    """Writes the loops of a part of a program."""

    part: Part

    def write_loop(self, statement: ArrayLoop) -> None:
        """Entries of some arrays, round by round."""
        body = Body(self.part.stored, FUNCTIONS)
        nodes = body.expanded([body.store(store) for store in statement.stores])
        operations = body.operations_for(nodes)

        def touched(blocks: int) -> tuple[list[Touch], list[Touch]]:
            writes = [y for x in statement.stores for y in self.touch(x.array, self._written(x), blocks)]
            return self.reads(body, operations, blocks), writes

        def round_(i: str, _: list[str]) -> list[str]:
            for store, value, node in zip(statement.stores, self.body(body, nodes, i), nodes, strict=True):
                self.store_entry(store.array, store.places, i, value, node.dtype)
            return []

        def rounds(begin: str, end: str) -> None:
            if statement.size <= self.entries:
                round_("0", [])
            else:
                loop(self, begin, end, [], round_, step=self.entries)

        self.share(statement.size, work_of(operations), touched, rounds)

    def _written(self, store: Store) -> Table:
        """Entries that a loop writes, also those behind the end of an array that fill its last vector."""
        if store.places is None:
            return np.arange(-(-store.size // self.entries) * self.entries)
        return np.concatenate([store.places, np.full(-store.size % self.entries, store.array.size)])

    def copy(self, target: Array, ref: Ref) -> None:
        """Write entries to an array."""
        self.write_loop(ArrayLoop(ref.table.size, [Store(target, None, ref)]))

    def write_reduction(self, statement: Reduction) -> None:
        """Eight partial results, whatever a vector holds, so that one path alone gives the same bits as many."""
        array = statement.array
        rows, width = array.terms.table.shape
        body = Body(self.part.stored, FUNCTIONS)
        (node,) = body.expanded([body.value(Ref(array.terms.array, array.terms.table.reshape(-1)))])
        kind = f"<{self.width} x {self.register(node.dtype)}>"
        parts = 1 if self.paths == 1 else 8
        full = width // 8 * 8
        rest = width - full

        def row(r: str, _: list[str]) -> list[str]:
            begin = self.put(f"mul i64 {r}, {width}")

            def terms(i: str, values: list[str]) -> list[str]:
                result = []
                for k in range(parts):
                    place = self.put(f"add i64 {begin}, {i}")
                    place = place if k == 0 else self.put(f"add i64 {place}, {k}")
                    (term,) = self.body(body, [node], place)
                    result.append(self.combine(array.operation, node.dtype, values[k], term))
                return result

            unit = self.unit(array.operation, node.dtype)
            values = loop(self, "0", str(full), [(kind, unit)] * parts, terms, step=8)
            if rest:
                values = self._rest(body, node, array.operation, begin, full, rest, values)
            self._store_total(array, node.dtype, r, values)
            return []

        operations = body.operations_for([node])

        def touched(blocks: int) -> tuple[list[Touch], list[Touch]]:
            reads = [x._replace(table=None) for x in self.reads(body, operations, blocks)]  # a round is a row of terms
            return reads, self.touch(array, all_entries(array), blocks)

        def sums(begin: str, end: str) -> None:
            loop(self, begin, end, [], row)

        self.share(rows, width * work_of(operations), touched, sums)

    def _rest(
        self, body: Body, node: Node, operation: str, begin: str, full: int, rest: int, values: list[str]
    ) -> list[str]:
        """The last few terms."""
        place = self.put(f"add i64 {begin}, {full}")
        if self.paths > 1:
            result = list(values)
            for k in range(rest):
                here = place if k == 0 else self.put(f"add i64 {place}, {k}")
                (term,) = self.body(body, [node], here)
                result[k] = self.combine(operation, node.dtype, values[k], term)
            return result
        (term,) = self.body(body, [node], place)
        mask = ", ".join(f"i1 {'true' if k < rest else 'false'}" for k in range(8))
        kind = f"<8 x {self.register(node.dtype)}>"
        total = self.combine(operation, node.dtype, values[0], term)  # fused with a product, if it is with many paths
        return [self.put(f"select <8 x i1> <{mask}>, {kind} {total}, {kind} {values[0]}")]

    def _store_total(self, array: Combined, dtype: str, row: str, values: list[str]) -> None:
        if self.paths > 1:
            total = values[0]
            for value in values[1:]:
                total = self.combine(array.operation, dtype, total, value)
            self.store_entry(array, None, row, total, dtype)
            return
        kind, memory = self.register(dtype), memory_type(dtype)
        width, self.width = self.width, 1
        parts = []
        for k in range(8):
            scalar = self.put(f"extractelement <8 x {kind}> {values[0]}, i64 {k}")
            parts.append(self.put(f"insertelement <1 x {kind}> poison, {kind} {scalar}, i64 0"))
        total = parts[0]
        for part in parts[1:]:
            total = self.combine(array.operation, dtype, total, part)
        if dtype == "bool":
            total = self.put(f"zext <1 x i1> {total} to <1 x i8>")
        there = self.put(f"getelementptr {memory}, ptr {self.pointer(array)}, i64 {row}")
        self.lines.append(f"  store <1 x {memory}> {total}, ptr {there}")
        self.width = width

    def write_scatter(self, statement: Scatter) -> None:
        """Zeros, to which terms are added one after another, so that one path alone gives the same bits as many.

        Lanes of several paths have columns of their own; lanes of one path may meet, and are added one by one.  Here a
        sum and a product are never fused, which would round otherwise.
        """
        array, size = statement.array, statement.array.terms.table.size
        self.write_loop(ArrayLoop(array.size, [Store(array, None, fixed(np.zeros(array.size, array.dtype)).flat)]))
        body = Body(self.part.stored, FUNCTIONS)
        nodes = body.expanded([body.value(array.terms), body.value(array.index)])
        base, kind = self.pointer(array), memory_type(array.dtype)

        def add(i: str, lanes: int) -> None:
            term, number = self.body(body, nodes, i)
            places = self.places_of_lanes(number, nodes[1].dtype)
            if self.paths > 1:
                before = self.gather(kind, base, places)
                self.scatter(kind, base, places, self.put(f"fadd <{self.width} x {kind}> {before}, {term}"))
                return
            for k in range(lanes):
                place = self.put(f"extractelement <{self.width} x i64> {places}, i64 {k}")
                there = self.put(f"getelementptr {kind}, ptr {base}, i64 {place}")
                own = self.put(f"extractelement <{self.width} x {kind}> {term}, i64 {k}")
                total = self.put(f"fadd {kind} {self.put(f'load {kind}, ptr {there}')}, {own}")
                self.lines.append(f"  store {kind} {total}, ptr {there}")

        def round_(i: str, _: list[str]) -> list[str]:
            add(i, self.entries)
            return []

        def terms() -> None:
            full = size // self.entries * self.entries
            loop(self, "0", str(full), [], round_, step=self.entries)
            if full < size:
                add(str(full), size - full)

        own = self.touch(array, None)
        self.order([*self.reads(body, body.operations_for(nodes)), *own], own)
        self.alone(terms)

    def write_matrices(self, statement: MatrixLoops) -> None:
        """A call for each batch; threads share the rows of a product."""
        array = statement.array
        sizes = array.rows * array.columns, array.rows * array.inner, array.inner * array.columns
        operands = [array, array.left, array.right or array.left]
        bases = [self.pointer(x) for x in operands]
        kind, is_product = memory_type(array.dtype), array.operation == "product"

        def rows(begin: str, end: str) -> None:
            number = self.put(f"sub i64 {end}, {begin}") if is_product else str(array.rows)
            before = [self.put(f"mul i64 {begin}, {x * self.paths}") for x in (array.columns, array.inner)]

            def batch(i: str, _: list[str]) -> list[str]:
                starts = [self.put(f"mul i64 {i}, {size * self.paths}") for size in sizes]
                starts[:2] = [self.put(f"add i64 {x}, {y}") for x, y in zip(starts, before, strict=False)]
                there = [
                    self.put(f"getelementptr {kind}, ptr {base}, i64 {start}")
                    for base, start in zip(bases, starts, strict=True)
                ]
                arguments = [f"ptr {x}" for x in there] + [f"i64 {x}" for x in (number, array.inner, array.columns)]
                self.lines.append(f"  call void @matrix_{array.operation}({', '.join(arguments)})")
                return []

            loop(self, "0", str(array.batches), [], batch)

        def touched(blocks: int) -> tuple[list[Touch], list[Touch]]:
            out, *others = (self.touch(x, None, blocks) for x in operands)
            return [y for x in others for y in x], out

        work = array.batches * array.inner * array.columns
        self.share(array.rows if is_product else 1, work, touched, rows)

    def register(self, dtype: str) -> str:
        """The type of a number in a register."""
        return self.vector(dtype).split(" x ")[1][:-1]

    def combine(self, operation: str, dtype: str, x: str, y: str) -> str:
        """An operation on two values."""
        body = Body(set(), {})
        a, b = (body.build.fresh("input", dtype) for _ in range(2))
        node = body.build.shared(operation, dtype, (a, b))
        names, self.names = self.names, {a: x, b: y}
        result = self.operation(node)
        self.names = names
        return result

    def unit(self, operation: str, dtype: str) -> str:
        """What changes nothing, in every lane."""
        body = Body(set(), {})
        return self.constant(body.build.number(neutral(operation, dtype), dtype))
