"""A lane program as CUDA C: one thread per path, the loop over steps inside."""

from __future__ import annotations

from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.program import Block, Items, Program
from holonax.engines.cuda.device import KERNEL
from holonax.engines.cuda.expressions import HEAD, TYPES, Expressions

REALS, WHOLE = "reals", "whole"
_ANEW = 'asm volatile("" : "+l"(lane));'
"""Changes nothing, as nobody but us knows: or the compiler would keep the place of every entry in registers throughout
the steps, and spill twice as much (chain of 8 beads)."""


def rows_of(program: Program) -> list[tuple[str, int]]:
    """Where the entries of a path are, and the parameters after them: as row so and so of a matrix of their type."""
    counts, rows = {REALS: 0, WHOLE: 0}, []
    for node in (*program.carried, *program.inputs.parameters):
        matrix = WHOLE if node.dtype == "int32" else REALS
        rows.append((matrix, counts[matrix]))
        counts[matrix] += 1
    return rows


class _Emitter(Expressions):
    """Writes the source of one program; `c0`, `c1`, ... are what a path carries."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        inputs = program.inputs
        fixed = (*inputs.key, inputs.h, inputs.step)
        self.names.update(zip(fixed, ("key0", "key1", "h", "(int)(number + offset)"), strict=True))
        self.names.update(zip(inputs.path, ("(unsigned)path", "(unsigned)(path >> 32)"), strict=True))
        self.rows = rows_of(program)
        for i in program.changing:
            self.names[program.carried[i]] = f"c{i}"
            self.lines.append(f"{TYPES[program.carried[i].dtype]} c{i};")
        for i, node in enumerate(program.inputs.parameters, len(program.carried)):
            self.names[node] = self.put(node.dtype, self._place(i))
        self.items(program.before)

    def final(self, node: Node) -> Node:
        return self.program.final(node)

    def load(self) -> list[str]:
        return [f"c{i} = {self._place(i)};" for i in self.program.changing]

    def begin(self) -> list[str]:
        """Functions of q that do not exist yet."""
        lines, self.lines = self.lines, []
        for number, operations in self.program.beginnings:
            if number in self.names:
                self.lines.append(f"if ({self.names[number]} != {self.names[number]}) {{")
                before = dict(self.names)
                for node in operations:
                    self.names[node] = self.put(node.dtype, self.operation(node))
                    self.names.setdefault(self.program.final(node), self.names[node])  # others ask for that
                self.lines += [f"{before[number]} = {self.names[operations[-1]]};", "}"]
                self.names = before
        begin, self.lines = self.lines, lines
        return begin

    def leave(self) -> list[str]:
        return [f"{self._place(i)} = c{i};" for i in self.program.changing]

    def _place(self, i: int) -> str:
        matrix, row = self.rows[i]
        return f"{matrix}[{row} * size + lane]"

    def record(self) -> list[str]:
        recorded = self.program.recorded
        return [f"rows[(row * {len(recorded)} + {k}) * size + lane] = c{i};" for k, i in enumerate(recorded)]

    def end(self, ends: dict[int, Node]) -> list[str]:
        values = [(i, self.put(self.program.carried[i].dtype, self.name(node))) for i, node in ends.items()]
        return [f"c{i} = {value};" for i, value in values]

    def source(self, end: list[str]) -> str:
        real = TYPES[self.program.dtype]
        arguments = f"{real} *{REALS}, int *{WHOLE}, {real} *rows, long long *next, int *doubts, "
        arguments += f"unsigned key0, unsigned key1, {real} h, unsigned long long path, unsigned paths, "
        arguments += "long long size, long long first, long long stop, long long stride, long long offset"
        begin = [f'extern "C" __global__ void {KERNEL}({arguments}) {{']
        begin += ["long long lane = blockIdx.x * (long long)blockDim.x + threadIdx.x;", "if (lane >= size) return;"]
        begin += ["path += (unsigned)lane % paths;"]
        return "\n".join([HEAD, *begin, *self.lines, *end, "}"])

    def items(self, items: Items) -> None:
        for item in items:
            if isinstance(item, Block):
                self.loop(item)
            else:
                assert isinstance(item, Node)  # this target asks for no tables
                self.names[item] = self.put(item.dtype, self.operation(item))

    def loop(self, block: Block) -> None:
        loop = block.loop
        for i in block.carried:
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
        ends = [self.put(loop.body[i].dtype, self.name(loop.body[i])) for i in block.carried]
        for i, end in zip(block.carried, ends, strict=True):
            self.lines.append(f"{self.names[loop.parameters[i]]} = {end};")
        self.lines.append("}")


def kernel(program: Program) -> str:
    """The source of the kernel, with arguments as in `_Emitter.source`.

    As in `llvm_kernel`, but a path begins with its own `next` step, and leaves there the one that comes next: `stop`,
    or one that is in doubt, of which there are `doubts`.  A trial has to be given up from where it began.  Nobody keeps
    that state, since all steps would pay for it with registers: the path goes back and walks up to there once more,
    its `last` step.  Its places in memory are computed anew where it begins (`_ANEW`).
    """
    emit, trial = _Emitter(program), program.trial
    lines = emit.lines
    lines += ["long long last = stop;", "begin:", _ANEW, *emit.load(), *emit.begin(), "long long number = next[lane];"]
    lines += ["long long row = number / stride - first / stride, due = (number / stride + 1) * stride;"]
    lines += [f"const bool alive = {emit.name(program.carried[program.track.status])} == 0;"]
    lines += ["for (; number < last; ++number) {", "if (alive) {"]
    emit.items(trial.items)
    lines.append(f"if ({emit.name(trial.doubt)}) {{ last = number; atomicAdd(doubts, 1); goto begin; }}")
    lines += emit.end(trial.ends)
    lines += ["}", "if (number + 1 == due) {", *emit.record(), "++row; due += stride;", "}", "}"]
    return emit.source([*emit.leave(), "next[lane] = last;"])


def again(program: Program) -> str:
    """The source, with the same arguments, for paths whose next step is in doubt: take that one, carefully."""
    emit = _Emitter(program)
    lines = emit.lines
    lines += ["long long number = next[lane];", "if (number == stop) return;", *emit.load()]
    emit.items(program.body)
    lines += emit.end({i: program.results[i] for i in program.changing})
    lines += ["if ((number + 1) % stride == 0) {", "long long row = (number + 1) / stride - first / stride - 1;"]
    lines += [*emit.record(), "}"]
    return emit.source([*emit.leave(), "next[lane] = number + 1;"])
