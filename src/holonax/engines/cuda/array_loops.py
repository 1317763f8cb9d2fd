"""Loops over arrays and long sums as CUDA C, by the threads of a block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holonax.compiler.arrays.bodies import Body
from holonax.compiler.arrays.statements import ArrayLoop, Reduction, Scatter, Store
from holonax.compiler.arrays.values import Array, Ref, neutral
from holonax.compiler.frontend.functions import FUNCTIONS
from holonax.compiler.ir.graph import Untranslatable
from holonax.compiler.ir.operations import OPERATIONS
from holonax.engines.cuda.array_bodies import WARP, BodyWriter
from holonax.engines.cuda.expressions import TYPES


class LoopWriter(BodyWriter):
    """Writes the loops of a part of a program."""

    sums = 0  # over all threads, each of which needs memory of its own

    def rounds(self, size: int, write: Callable[[str], None]) -> None:
        """Do something for every i below a size, each in its thread."""
        if (shift := self.shift(size)) > 0:
            self.lines.append(f"if (thread >= {shift} && thread < {shift + size}) {{ const int i = thread - {shift};")
        elif size == self.threads:
            self.lines.append("{ const int i = thread;")
        elif size < self.threads:
            self.lines.append(f"if (thread < {size}) {{ const int i = thread;")
        else:
            self.lines.append(f"for (int i = thread; i < {size}; i += {self.threads}) {{")
        write("i")
        self.lines.append("}")

    def write_loop(self, statement: ArrayLoop) -> None:
        """Entries of some arrays, round by round; numbers for registers are computed by every thread."""
        body = Body(self.part.stored, FUNCTIONS)
        needed = [(store, body.store(store)) for store in statement.stores]
        needed = [(store, node) for store, node in needed if store.array not in self.memory.dead]
        if not needed:
            return
        stores, nodes = [store for store, _ in needed], body.expanded([node for _, node in needed])
        operations = body.operations_for(nodes)
        by_all = any(self.is_uniform(store.array) for store in stores)
        reads = self.reads(body, operations, by_all, alone=statement.size == 1 and not by_all)
        tables = [np.arange(statement.size) if store.places is None else store.places for store in stores]
        writes = [self.access(store.array, table) for store, table in zip(stores, tables, strict=True)]
        self.order(reads, [])
        if not by_all:
            self.order([], [x for own in writes for x in own])

        def write(i: str) -> None:
            values = self.body(body, operations, nodes, i)
            for store, table, value in zip(stores, tables, values, strict=True):
                self.lines.append(f"{self.entry(store.array, self.index(table, i))} = {value};")

        if not by_all:
            self.rounds(statement.size, write)
            return
        self.lines.append("{")
        values = self.body(body, operations, nodes, "0")
        self.order([], [x for own in writes for x in own])
        for store, table, value, own in zip(stores, tables, values, writes, strict=True):
            self.lines.append(
                f"{self.alone if own else ''}{self.entry(store.array, self.index(table, '0'))} = {value};"
            )
        self.lines.append("}")

    @property
    def alone(self) -> str:
        """Lets the thread that does loops of one round do what follows."""
        return f"if (thread == {self.shift(1)}) "

    def copy(self, target: Array, ref: Ref) -> None:
        """Write entries to an array."""
        self.write_loop(ArrayLoop(ref.table.size, [Store(target, None, ref)]))

    def write_reduction(self, statement: Reduction) -> None:
        """A sum for each thread where there are many, otherwise one after another, each by all threads."""
        array = statement.array
        if array in self.memory.dead:
            return
        rows, width = array.terms.table.shape
        terms = Ref(array.terms.array, array.terms.table.reshape(-1))
        body = Body(self.part.stored, FUNCTIONS)
        nodes = body.expanded([body.value(terms)])
        operations = body.operations_for(nodes)
        dtype, total = nodes[0].dtype, f"total{self.count}"
        first = f"{TYPES[dtype]} {total} = {self.literal(neutral(array.operation, dtype), dtype)};"

        def add(position: str) -> None:
            (term,) = self.body(body, operations, nodes, position)
            self.lines.append(f"{total} = {self.combined(array.operation, total, term)};")

        if rows > WARP:
            self.order(self.reads(body, operations, by_all=True), self.access(array, np.arange(rows)))

            def row(i: str) -> None:
                self.lines += [first, f"for (int k = {i} * {width}; k < ({i} + 1) * {width}; ++k) {{"]
                add("k")
                self.lines += ["}", f"{self.entry(array, i)} = {total};"]

            self.rounds(rows, row)
            return
        if rows == 1:
            self.order(self.reads(body, operations, by_all=False), [])
        else:
            self.order(self.reads(body, operations, by_all=True), [])
        for r in range(rows):
            self.lines += ["{", first]
            self.rounds(width, lambda i, r=r: add(f"({i} + {r * width})" if r else i))  # type: ignore[misc]
            self.over_all(array.operation, dtype, total)
            own = self.access(array, np.array([r]))
            self.order([], own)
            self.lines.append(f"{self.alone if own else ''}{self.entry(array, str(r))} = {total};")
            self.lines.append("}")

    def over_all(self, operation: str, dtype: str, name: str) -> None:
        """Combine what all threads have under a name, so that every thread has the result: the same bits for each."""
        if dtype == "bool":
            some = f"some_thread({name})" if operation == "or" else f"!some_thread(!{name})"
            self.lines.append(f"{name} = {some};")
            self.read, self.written = [], []
            return
        other = f"__shfl_xor_sync(0xffffffffu, {name}, d)"
        self.lines.append(f"for (int d = {WARP // 2}; d; d /= 2) {name} = {self.combined(operation, name, other)};")
        warps = self.threads // WARP
        if warps > 1:
            exchange = f"(({TYPES[dtype]} *)(E + {self.sums * warps}))"
            self.sums += 1
            self.lines.append(f"if (thread % {WARP} == 0) {exchange}[thread / {WARP}] = {name};")
            self.meet()
            self.lines.append(f"{name} = {exchange}[0];")
            step = self.combined(operation, name, f"{exchange}[w]")
            self.lines.append(f"for (int w = 1; w < {warps}; ++w) {name} = {step};")

    def combined(self, operation: str, x: str, y: str) -> str:
        """An operation on two values."""
        form = OPERATIONS[operation].cuda
        assert form is not None
        return form.format(x, y)

    def write_scatter(self, statement: Scatter) -> None:
        """Sums whose places are known when the program runs would have to be taken by one thread, term by term."""
        raise Untranslatable("neighbour lists, whose indices change on the way")
