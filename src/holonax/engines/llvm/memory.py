"""A lane program with loops over its links, laid out by `compiler.passes.rerolling`, as LLVM IR: arrays in memory."""

from __future__ import annotations

import numpy as np

from holonax.compiler.ir.graph import Loop, Node, Table
from holonax.compiler.ir.program import Program
from holonax.compiler.passes.copies import copies
from holonax.compiler.passes.places import Slice
from holonax.compiler.passes.rerolling import Rolled
from holonax.engines.llvm.emit import Emitter
from holonax.engines.llvm.order import interleaved


class MemoryEmitter(Emitter):
    """Writes the IR of one program whose values, where the layout says so, lie in memory."""

    def __init__(self, program: Program, width: int) -> None:
        super().__init__(program, width)
        self.layout = program.layout
        self.places = self.layout.places
        self.element = self.vector(program.dtype)
        self.align = f"align {min(64, width * np.dtype(program.dtype).itemsize)}"
        self.bases = ["%memory", "%state1", "%state2"]
        for base, size in zip(self.bases, self.places.sizes, strict=True):
            self.allocations.append(f"  {base} = alloca {self.element}, i64 {size}, align 64")

    def name(self, node: Node) -> str:
        """The name of a value that has been computed; from memory if it has none."""
        node = self.program.final(node)
        if node.is_constant or node in self.names:
            return super().name(node)
        array, place = next(iter(self.places.of[node].items()))
        return self.load(Slice(array, place, 1))

    def at(self, piece: Slice, index: str | None = None) -> str:
        """A place in memory, that of round `index`."""
        element = self.element_of(piece)
        if isinstance(piece.array, Table):
            base, start = self.tables[piece.array], piece.start
        else:
            where, start = self.places.slot(piece.array, piece.start)
            base = self.bases[where]
        place = self.put(f"getelementptr {element}, ptr {base}, i64 {start}")
        if index is None:
            return place
        return self.put(f"getelementptr {element}, ptr {place}, i64 {self.put(f'mul i64 {index}, {piece.step}')}")

    def load(self, piece: Slice, index: str | None = None) -> str:
        """What lies there."""
        return self.put(f"load {self.element_of(piece)}, ptr {self.at(piece, index)}, {self.align}")

    def element_of(self, piece: Slice) -> str:
        """The type of what lies there."""
        return self.vector(piece.array.outputs[0].dtype) if isinstance(piece.array, Table) else self.element

    def store(self, node: Node, value: str) -> None:
        """To all places of a value."""
        for array, place in self.places.of.get(node, {}).items():
            self.lines.append(f"  store {self.element} {value}, ptr {self.at(Slice(array, place, 1))}, {self.align}")

    def straight(self, nodes: list[Node]) -> None:
        """Operations between two loops, with loops over links."""
        for part in self.layout.parts.get(nodes[0], [nodes]):
            if isinstance(part, Rolled):
                self.rolled(part)
            else:
                super().straight(part)

    def rolled(self, loop: Rolled) -> None:
        """All rounds of a loop."""
        firsts = [self.name(first) for _, first, _ in loop.kept]
        index, begin = self.begin_rounds()
        place = len(self.lines)
        self.names.update({name: self.fresh("k") for name, *_ in loop.kept})
        written = dict(loop.written)
        for node in [*loop.read.keys() & written, *interleaved(loop.body, self.program.final)]:
            for x in (node, *node.args):
                if x in loop.read and x not in self.names:
                    self.names[x] = self.load(loop.read[x], index)
            if node not in loop.read:
                self.names[node] = self.operation(node)
            if node in written:
                there = self.at(written[node], index)
                self.lines.append(f"  store {self.element} {self.names[node]}, ptr {there}, {self.align}")
        entry, back = self.end_rounds(index, begin, loop.times)
        phis = []
        for (name, _, last), first in zip(loop.kept, firsts, strict=True):
            phi = f"  {self.names[name]} = phi {self.vector(name.dtype)} "
            phis.append(phi + f"[ {first}, %{entry} ], [ {self.names[last]}, %{back} ]")
        self.lines[place:place] = phis
        for inside, outside in loop.last:
            self.names[outside] = self.names[inside]
            self.store(outside, self.names[outside])

    def begin_step(self) -> None:
        """Where the states of this step and the next one are."""
        self.lines.append("  %now = phi ptr [ %state1, %before ], [ %then, %step.end ]")
        self.lines.append("  %then = phi ptr [ %state2, %before ], [ %now, %step.end ]")
        self.bases[1:] = "%now", "%then"

    def end_step(self, moves: list[tuple[Node, Node]]) -> None:
        """Let the states in memory be those of the next step."""
        self._move(moves, self.places.twins)
        self.bases[1:] = "%then", "%now"

    def move(self, moves: list[tuple[Node, Node]], active: str | None = None) -> None:
        """Let values in memory be others, in lanes that are `active`."""
        self._move(moves, {}, active)

    def _move(self, moves: list[tuple[Node, Node]], twins: dict[int, int], active: str | None = None) -> None:
        changed = {old for old, _ in moves}
        planned = copies(moves, self.places, twins, lambda node: node not in self.names)
        early = {x.source: self.name(x.source) for x in planned if isinstance(x.source, Node) and x.source in changed}
        for to, number, source in planned:
            if isinstance(source, Node):
                self._change(self.at(to), early.get(source) or self.name(source), active)
            else:
                index, begin = self.begin_rounds()
                self._change(self.at(to, index), self.load(source, index), active)
                self.end_rounds(index, begin, number)

    def _change(self, there: str, value: str, active: str | None) -> None:
        if active is not None:
            old, truth = self.put(f"load {self.element}, ptr {there}, {self.align}"), self.vector("bool")
            value = self.put(f"select {truth} {active}, {self.element} {value}, {self.element} {old}")
        self.lines.append(f"  store {self.element} {value}, ptr {there}, {self.align}")

    def stored(self, loop: Loop, carried: list[int]) -> tuple[list[int], list[int]]:
        """Which carried values of a loop lie in memory, and which do not."""
        inside = [i for i in carried if loop.parameters[i] in self.places.of]
        return inside, [i for i in carried if loop.parameters[i] not in self.places.of]
