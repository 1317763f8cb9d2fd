"""A lane program with loops over its links, laid out by `compiler.passes.rerolling`, as CUDA C: arrays in memory.

They are arrays of the thread.  The device lays such arrays out so that the same entry of neighbouring threads, whose
paths are in the same round, lies side by side: a warp reads and writes whole lines.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, takewhile
from typing import final

from holonax.compiler.ir.graph import Loop, Node, Table
from holonax.compiler.ir.program import Program
from holonax.compiler.passes.copies import copies
from holonax.compiler.passes.places import MEMORY, NOW, Slice
from holonax.compiler.passes.rerolling import Rolled
from holonax.engines.cuda.emit import REALS, THREADS, ThreadEmitter
from holonax.engines.cuda.expressions import TYPES

_BLOCKS = 4
"""That a multiprocessor shall hold: with more of them a thread has fewer registers, but more can wait for memory."""


@final
class ThreadLoopEmitter(ThreadEmitter):
    """Writes the source of one program whose values, where the layout says so, lie in `memory`.

    Those of the state lie in `states`, from `now` on, those of the next step in its other half.
    """

    bounds = f"__launch_bounds__({THREADS}, {_BLOCKS}) "

    def __init__(self, program: Program) -> None:
        self.layout, self.places = program.layout, program.layout.places
        super().__init__(program)
        others, half, _ = self.places.sizes
        sizes = {"memory": others, "states": 2 * half}
        self.arrays += [f"{TYPES[program.dtype]} {name}[{size}];" for name, size in sizes.items() if size]

    def name(self, node: Node) -> str:
        """The name of a value that has been computed; from memory if it has none."""
        node = self.final(node)
        if node.is_constant or node in self.names:
            return super().name(node)
        return self.put(node.dtype, self.all_places(node)[0])

    def at(self, piece: Slice, index: str | None = None) -> str:
        """A place in memory, that of round `index`."""
        round_ = "" if index is None else f" + {index}" if piece.step == 1 else f" + {piece.step} * {index}"
        if isinstance(piece.array, Table):
            return f"{self.tables[piece.array]}[{piece.start}{round_}]"
        where, start = self.places.slot(piece.array, piece.start)
        if where == MEMORY:
            return f"memory[{start}{round_}]"
        half = self.places.sizes[where]
        return f"states[now + {start}{round_}]" if where == NOW else f"states[{half} - now + {start}{round_}]"

    def all_places(self, node: Node) -> list[str]:
        """Where a value lies."""
        return [self.at(Slice(array, place, 1)) for array, place in self.places.of.get(node, {}).items()]

    def variables(self, i: int) -> list[str]:
        """All that hold a carried value."""
        return self.all_places(self.program.carried[i]) or super().variables(i)

    def stored(self, loop: Loop, carried: list[int]) -> tuple[list[int], list[int]]:
        """Which carried values of a loop lie in memory, and which do not."""
        inside = [i for i in carried if loop.parameters[i] in self.places.of]
        return inside, [i for i in carried if loop.parameters[i] not in self.places.of]

    def store(self, node: Node, value: str) -> None:
        """To all places of a value."""
        self.lines += [f"{there} = {value};" for there in self.all_places(node)]

    def load(self) -> list[str]:
        """What a path carries, from the matrices."""
        loops = self._carry(self._rows(), lambda row, there: f"{there} = {REALS}[({row}) * size + lane];")
        return ["int now = 0;", *super().load(), *loops]

    def leave(self) -> list[str]:
        """What a path carries, to the matrices."""
        loops = self._carry(self._rows(), lambda row, there: f"{REALS}[({row}) * size + lane] = {there};")
        return [*super().leave(), *loops]

    def record(self) -> list[str]:
        """Positions and momenta, to the next row of what is recorded."""
        numbers = {i: k for k, i in enumerate(self.program.recorded)}
        return [*super().record(), *self._carry(numbers, lambda k, there: f"{self.recorded_at(k)} = {there};")]

    def _rows(self) -> dict[int, int]:
        """Of carried values, in their matrix: what lies in memory is real."""
        return {i: self.rows[i][1] for i in self.program.changing}

    def _carry(self, numbers: dict[int, int], line: Callable[[str, str], str]) -> list[str]:
        """Carried values in memory, one line for each run of them in which places and `numbers` go on evenly."""
        carried, lines = self.program.carried, self.lines
        left = sorted((*x, number) for i, number in numbers.items() for x in self.places.of.get(carried[i], {}).items())
        self.lines = []
        while left:
            array, place, first = left[0]
            step = left[1][2] - first if len(left) > 1 else 0
            expected = ((array, place + k, first + step * k) for k in count())
            times = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, expected, strict=False)))
            index = self.begin_rounds(times)
            self.lines += [line(f"{first} + {step} * {index}", self.at(Slice(array, place, 1), index)), "}"]
            del left[:times]
        loops, self.lines = self.lines, lines
        return loops

    def end(self, ends: dict[int, Node]) -> list[str]:
        """Let what is carried be what it is at the end of a step: in memory, the halves of the states change places."""
        inside, others = self.stored(self.program.loop, list(ends))
        lines = super().end({i: ends[i] for i in others})
        self._copy([(self.program.carried[i], ends[i]) for i in inside], self.places.twins)
        return [*lines, f"now = {self.places.sizes[NOW]} - now;"]

    def straight(self, nodes: list[Node]) -> None:
        """Operations between two loops, with loops over links."""
        for part in self.layout.parts.get(nodes[0], [nodes]):
            if isinstance(part, Rolled):
                self.rolled(part)
            else:
                super().straight(part)

    def rolled(self, loop: Rolled) -> None:
        """All rounds of a loop: each reads first what it needs, so that it waits for memory once."""
        self.names.update({name: self.put(name.dtype, self.name(first)) for name, first, _ in loop.kept})
        for inside, outside in loop.last:
            self.names[outside] = self.put(inside.dtype, "0")
        index = self.begin_rounds(loop.times)
        written = dict(loop.written)
        for node, piece in loop.read.items():
            self.names[node] = self.put(node.dtype, self.at(piece, index))
        for node in [*loop.read, *loop.body]:
            if node not in loop.read:
                self.names[node] = self.put(node.dtype, self.operation(node))
            if node in written:
                self.lines.append(f"{self.at(written[node], index)} = {self.names[node]};")
        for name, _, last in loop.kept:
            self.lines.append(f"{self.names[name]} = {self.names[last]};")
        for inside, outside in loop.last:
            self.lines.append(f"{self.names[outside]} = {self.names[inside]};")
        self.lines.append("}")
        for _, outside in loop.last:
            self.store(outside, self.names[outside])

    def move(self, moves: list[tuple[Node, Node]]) -> None:
        """Let values in memory be others."""
        self._copy(moves, {})

    def _copy(self, moves: list[tuple[Node, Node]], twins: dict[int, int]) -> None:
        changed = {old for old, _ in moves}
        planned = copies(moves, self.places, twins, lambda node: node not in self.names)
        early = {x.source: self.name(x.source) for x in planned if isinstance(x.source, Node) and x.source in changed}
        for to, number, source in planned:
            if isinstance(source, Node):
                self.lines.append(f"{self.at(to)} = {early.get(source) or self.name(source)};")
            else:
                index = self.begin_rounds(number)
                self.lines += [f"{self.at(to, index)} = {self.at(source, index)};", "}"]
