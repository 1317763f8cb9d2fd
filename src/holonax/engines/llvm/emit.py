"""The control flow of a lane program as LLVM IR: its pieces, loops and tables in order."""

from __future__ import annotations

from holonax.compiler.ir.graph import Loop, Node
from holonax.compiler.ir.program import Block, Items, Rounds, visit
from holonax.engines.llvm.instructions import Instructions
from holonax.engines.llvm.order import interleaved


class Emitter(Instructions):
    """Writes the IR of one program."""

    # Control flow.

    def items(self, items: Items) -> None:
        """Operations and loops, in order; the operations between two loops in an order that suits a processor."""
        visit(items, self.straight, self.loop, self.rounds)

    def straight(self, nodes: list[Node]) -> None:
        """Operations between two loops."""
        for node in interleaved(nodes, self.program.final):
            self.names[node] = self.operation(node)
            self.store(node, self.names[node])

    def loop(self, block: Block) -> None:
        """A loop that runs while any lane goes on; lanes that are done keep their values."""
        self.count += 1
        label, loop, truth = f"loop{self.count}", block.loop, self.vector("bool")
        stored, carried = self.stored(loop, block.carried)
        self.move([(loop.parameters[i], loop.begin[i]) for i in stored])
        begins = [self.name(loop.begin[i]) for i in carried]
        entry = self._label_of_here(f"{label}.entry")
        self.lines += [f"  br label %{label}.test", f"{label}.test:"]
        place = len(self.lines)
        self.names.update({loop.parameters[i]: self.fresh("x") for i in carried})
        self.items(block.test)
        active = self.put(f"and {truth} {self.name(loop.going)}, {self.name(loop.alive)}")
        some = self.any_lane(active)
        if loop.most is not None:
            some = self.put(f"and i1 {some}, {self.put(f'icmp ult i32 %{label}.count, {loop.most}')}")
        self.lines += [f"  br i1 {some}, label %{label}.body, label %{label}.end", f"{label}.body:"]
        self.items(block.body)
        ends = []
        for i in carried:
            vector, old = self.vector(loop.parameters[i].dtype), self.names[loop.parameters[i]]
            ends.append(self.put(f"select {truth} {active}, {vector} {self.name(loop.body[i])}, {vector} {old}"))
        self.move([(loop.parameters[i], loop.body[i]) for i in stored], active)
        back = self._label_of_here(f"{label}.back")
        phis = []
        if loop.most is not None:
            self.lines.append(f"  %{label}.next = add i32 %{label}.count, 1")
            phis.append(f"  %{label}.count = phi i32 [ 0, %{entry} ], [ %{label}.next, %{back} ]")
        self.lines += [f"  br label %{label}.test", f"{label}.end:"]
        for i, begin, end in zip(carried, begins, ends, strict=True):
            parameter, result = loop.parameters[i], loop.results[i]
            phi = f"  {self.names[parameter]} = phi {self.vector(parameter.dtype)} "
            phis.append(phi + f"[ {begin}, %{entry} ], [ {end}, %{back} ]")
            self.names[result] = self.names[parameter]
        self.lines[place:place] = phis
        for i in carried:
            self.store(loop.results[i], self.names[loop.results[i]])

    def rounds(self, block: Rounds) -> None:
        """A table, filled round by round."""
        name, table = self.fresh("table"), block.table
        vector = self.vector(table.outputs[0].dtype)
        self.tables[table] = name
        self.allocations.append(f"  {name} = alloca {vector}, i64 {block.rounds * len(table.outputs)}, align 64")
        index, head = self.begin_rounds()
        self.names[table.index] = self.splat("i64", self.put(f"mul i64 {index}, {table.stride}"))
        self.items(block.body)
        begin = self.put(f"mul i64 {index}, {len(table.outputs)}")
        for i, output in enumerate(table.outputs):
            there = self.put(f"getelementptr {vector}, ptr {name}, i64 {self.put(f'add i64 {begin}, {i}')}")
            self.lines.append(f"  store {vector} {self.name(output)}, ptr {there}, align 64")
        self.end_rounds(index, head, block.rounds)

    def begin_rounds(self) -> tuple[str, int]:
        """The head of a loop over rounds: its index, and where the phi of it belongs."""
        self.count += 1
        label = f"rounds{self.count}"
        self.lines += [f"  br label %{label}.entry", f"{label}.entry:", f"  br label %{label}", f"{label}:", ""]
        return f"%{label}.index", len(self.lines) - 1

    def end_rounds(self, index: str, begin: int, times: int) -> tuple[str, str]:
        """Its foot: the labels before and at the end of a round."""
        label = index[1 : -len(".index")]
        self.lines[begin] = f"  {index} = phi i64 [ 0, %{label}.entry ], [ {index}.next, %{label}.back ]"
        self.lines += [f"  br label %{label}.back", f"{label}.back:", f"  {index}.next = add i64 {index}, 1"]
        self.lines += [f"  {index}.more = icmp ult i64 {index}.next, {times}"]
        self.lines += [f"  br i1 {index}.more, label %{label}, label %{label}.end", f"{label}.end:"]
        return f"{label}.entry", f"{label}.back"

    def _label_of_here(self, label: str) -> str:
        """Give the current place a label, so that a phi can refer to it."""
        self.lines += [f"  br label %{label}", f"{label}:"]
        return label

    # Values in memory: none here.

    def stored(self, loop: Loop, carried: list[int]) -> tuple[list[int], list[int]]:
        """Which carried values of a loop lie in memory, and which do not."""
        return [], carried

    def move(self, moves: list[tuple[Node, Node]], active: str | None = None) -> None:
        """Let values in memory be others, in lanes that are `active`."""

    def begin_step(self) -> None:
        """What a step begins with."""

    def end_step(self, moves: list[tuple[Node, Node]]) -> None:
        """Let the states in memory be those of the next step."""

    def store(self, node: Node, value: str) -> None:
        """To all places of a value."""
