"""The operations and loops of a lane program as CUDA C, for one thread per path."""

from __future__ import annotations

from holonax.compiler.ir.graph import Loop, Node, Table
from holonax.compiler.ir.program import Block, Items, Program, Rounds, visit
from holonax.engines.cuda.device import KERNEL
from holonax.engines.cuda.expressions import HEAD, TYPES, Expressions

REALS, WHOLE = "reals", "whole"
THREADS = 128
"""Of a block."""

NOT_UNROLLED = "#pragma unroll 1"


def rows_of(program: Program) -> list[tuple[str, int]]:
    """Where the entries of a path are, and the parameters after them: as row so and so of a matrix of their type."""
    counts, rows = {REALS: 0, WHOLE: 0}, []
    for node in (*program.carried, *program.inputs.parameters):
        matrix = WHOLE if node.dtype == "int32" else REALS
        rows.append((matrix, counts[matrix]))
        counts[matrix] += 1
    return rows


class ThreadEmitter(Expressions):
    """Writes the source of one program; `c0`, `c1`, ... are what a path carries in registers."""

    bounds = ""  # what the compiler is told of the registers that a thread may have

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.arrays: list[str] = []  # their declarations
        self.tables: dict[Table, str] = {}
        inputs = program.inputs
        fixed = (*inputs.key, inputs.h, inputs.step)
        self.names.update(zip(fixed, ("key0", "key1", "h", "(int)(number + offset)"), strict=True))
        self.names.update(zip(inputs.path, ("(unsigned)path", "(unsigned)(path >> 32)"), strict=True))
        self.rows = rows_of(program)
        _, self.in_registers = self.stored(program.loop, program.changing)
        for i in self.in_registers:
            self.names[program.carried[i]] = f"c{i}"
            self.lines.append(f"{TYPES[program.carried[i].dtype]} c{i};")
        for i, node in enumerate(program.inputs.parameters, len(program.carried)):
            self.names[node] = self.put(node.dtype, self.row(i))
            self.store(node, self.names[node])  # where loops over links look for it
        self.items(program.before)

    def final(self, node: Node) -> Node:
        """What is computed instead of a node."""
        return self.program.final(node)

    def load(self) -> list[str]:
        """What a path carries, from the matrices."""
        return [f"c{i} = {self.row(i)};" for i in self.in_registers]

    def begin(self) -> list[str]:
        """Functions of q that do not exist yet."""
        lines, self.lines = self.lines, []
        variables = {self.program.carried[i]: self.variables(i) for i in self.program.changing}
        for number, operations in self.program.beginnings:
            if number in variables:
                first, *_ = variables[number]
                self.lines.append(f"if ({first} != {first}) {{")
                before = dict(self.names)
                for node in operations:
                    self.names[node] = self.put(node.dtype, self.operation(node))
                    self.names.setdefault(self.program.final(node), self.names[node])  # others ask for that
                self.lines += [f"{there} = {self.names[operations[-1]]};" for there in variables[number]]
                self.lines.append("}")
                self.names = before
        begin, self.lines = self.lines, lines
        return begin

    def leave(self) -> list[str]:
        """What a path carries, to the matrices."""
        return [f"{self.row(i)} = c{i};" for i in self.in_registers]

    def row(self, i: int) -> str:
        """The place of an entry of this path in the matrices."""
        matrix, row = self.rows[i]
        return f"{matrix}[{row} * size + lane]"

    def record(self) -> list[str]:
        """Positions and momenta, to the next row of what is recorded."""
        own = set(self.in_registers)
        return [f"{self.recorded_at(k)} = c{i};" for k, i in enumerate(self.program.recorded) if i in own]

    def recorded_at(self, k: int | str) -> str:
        """The place of the k-th number that is recorded: in every row the positions of all paths, then the momenta."""
        n = self.program.n
        return f"rows[row * {2 * n} * size + lane * {n} + {k} + ({k} < {n} ? 0 : (size - 1) * {n})]"

    def end(self, ends: dict[int, Node]) -> list[str]:
        """Let what is carried be what it is at the end of a step."""
        values = [(i, self.put(self.program.carried[i].dtype, self.name(node))) for i, node in ends.items()]
        return [f"c{i} = {value};" for i, value in values]

    def source(self, end: list[str]) -> str:
        """All of it, with what comes at the `end`."""
        real = TYPES[self.program.dtype]
        arguments = f"{real} *{REALS}, int *{WHOLE}, {real} *rows, long long *next, int *doubts, "
        arguments += f"unsigned key0, unsigned key1, {real} h, unsigned long long path, unsigned paths, "
        arguments += "long long size, long long first, long long stop, long long stride, long long offset"
        begin = [f'extern "C" __global__ void {self.bounds}{KERNEL}({arguments}) {{']
        begin += ["long long lane = blockIdx.x * (long long)blockDim.x + threadIdx.x;", "if (lane >= size) return;"]
        begin += ["path += (unsigned)lane % paths;"]
        return "\n".join([HEAD, *begin, *self.arrays, *self.lines, *end, "}"])

    # Control flow.

    def items(self, items: Items) -> None:
        """Operations and loops, in order."""
        visit(items, self.straight, self.loop, self.rounds)

    def straight(self, nodes: list[Node]) -> None:
        """Operations between two loops."""
        for node in nodes:
            self.names[node] = self.put(node.dtype, self.operation(node))
            self.store(node, self.names[node])

    def operation(self, node: Node) -> str:
        """The value of an operation, or of an entry of a table, as an expression."""
        if node.name != "entry":
            return super().operation(node)
        table, k = node.value
        return f"{self.tables[table]}[{k}]"

    def rounds(self, block: Rounds) -> None:
        """A table, filled round by round."""
        self.count += 1
        table, name, each = block.table, f"table{self.count}", len(block.table.outputs)
        self.tables[table] = name
        self.arrays.append(f"{TYPES[table.outputs[0].dtype]} {name}[{block.rounds * each}];")
        index = self.begin_rounds(block.rounds)
        self.names[table.index] = self.put("uint32", f"{table.stride}u * {index}")
        self.items(block.body)
        for k, output in enumerate(table.outputs):
            self.lines.append(f"{name}[{each} * {index} + {k}] = {self.name(output)};")
        self.lines.append("}")

    def begin_rounds(self, times: int) -> str:
        """The head of a loop over rounds, which stays one, and the name of its index."""
        self.count += 1
        self.lines += [NOT_UNROLLED, f"for (int i{self.count} = 0; i{self.count} < {times}; ++i{self.count}) {{"]
        return f"i{self.count}"

    def loop(self, block: Block) -> None:
        """A loop that runs while the path goes on."""
        loop = block.loop
        stored, carried = self.stored(loop, block.carried)
        self.move([(loop.parameters[i], loop.begin[i]) for i in stored])
        for i in carried:
            self.names[loop.parameters[i]] = self.put(loop.parameters[i].dtype, self.name(loop.begin[i]))
            self.names[loop.results[i]] = self.names[loop.parameters[i]]
        self.count += 1
        bound = f"round{self.count} < {loop.most}" if loop.most is not None else "true"
        self.lines.append(
            f"for (int round{self.count} = 0; {self.name(loop.alive)} && {bound}; ++round{self.count}) {{"
        )
        self.items(block.test)
        self.lines.append(f"if (!{self.name(loop.going)}) break;")
        if loop.rare:
            self.lines.append('asm volatile("");')  # or the compiler would compute it in any case
        self.items(block.body)
        ends = [self.put(loop.body[i].dtype, self.name(loop.body[i])) for i in carried]
        self.move([(loop.parameters[i], loop.body[i]) for i in stored])
        for i, end in zip(carried, ends, strict=True):
            self.lines.append(f"{self.names[loop.parameters[i]]} = {end};")
        self.lines.append("}")
        for i in carried:
            self.store(loop.results[i], self.names[loop.results[i]])

    # Values in memory: none here.

    def variables(self, i: int) -> list[str]:
        """All that hold a carried value."""
        return [f"c{i}"]

    def stored(self, loop: Loop, carried: list[int]) -> tuple[list[int], list[int]]:
        """Which carried values of a loop lie in memory, and which do not."""
        return [], carried

    def move(self, moves: list[tuple[Node, Node]]) -> None:
        """Let values in memory be others."""

    def store(self, node: Node, value: str) -> None:
        """To all places of a value."""
