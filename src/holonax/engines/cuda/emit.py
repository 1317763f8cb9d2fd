"""A lane program as CUDA C: one thread per path, the loop over steps inside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.operations import BY_TYPE, OPERATIONS
from holonax.compiler.ir.program import Block, Items, Program

KERNEL = "advance"
REALS, WHOLE = "reals", "whole"
_TYPES = {
    "float64": "double", "float32": "float", "int32": "int", "uint32": "unsigned", "int64": "long long",
    "uint64": "unsigned long long", "bool": "bool",
}  # fmt: skip
_HEAD = """
template <class T> __device__ T maximum(T x, T y) { return x != x || x > y ? x : y; }
template <class T> __device__ T minimum(T x, T y) { return x != x || x < y ? x : y; }
template <class A, class B> __device__ B bits(A x) { union { A a; B b; } u; u.a = x; return u.b; }
__device__ float reciprocal(float y) { return 1.0f / y; }
__device__ double reciprocal(double y) {
    double r, e, better;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(y));
    e = fma(-y, r, 1.0);
    better = fma(fma(e, e, e), r, r);
    return better == better ? better : r;
}
__device__ float quotient(float x, float y) { return x / y; }
__device__ double quotient(double x, double y) {
    double r = reciprocal(y), q = x * r, better = fma(fma(-y, q, x), r, q);
    return better == better ? better : q;
}
__device__ float root(float x) { return sqrtf(x); }
__device__ double root(double x) {
    double r, s, e, better;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    s = x * r;
    r = 0.5 * r;
    e = fma(-s, r, 0.5);
    s = fma(fma(1.5 * e, e, e), s, s);
    better = fma(fma(-s, s, x), r, s);
    return better == better || x < 0.0 ? better : x < 1.0 ? 0.0 : x;
}
"""
"""Quotients and roots of doubles begin with the processor's approximation of 20 bits and add a step of third order: a
few instructions instead of a subroutine and without a branch, correct but for the last bit.  What does not come out at
all is that of 0 or of infinity, as which the processor takes numbers below 1e-307."""


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


class _Emitter:
    """Writes the source of one program; `c0`, `c1`, ... are what a path carries."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.count = 0
        inputs = program.inputs
        fixed = (*inputs.key, inputs.h, inputs.step)
        self.names.update(zip(fixed, ("key0", "key1", "h", "(int)(number + offset)"), strict=True))
        self.names.update(zip(inputs.path, ("(unsigned)path", "(unsigned)(path >> 32)"), strict=True))
        self.rows = rows_of(program)
        for i in program.changing:
            self.names[program.carried[i]] = f"c{i}"
            self.lines.append(f"{_TYPES[program.carried[i].dtype]} c{i};")
        for i, node in enumerate(program.inputs.parameters, len(program.carried)):
            self.names[node] = self.put(node.dtype, self._place(i))
        self.items(program.before)

    def name(self, node: Node) -> str:
        node = self.program.final(node)
        return _literal(node) if node.is_constant else self.names[node]

    def put(self, dtype: str, expression: str) -> str:
        self.count += 1
        self.lines.append(f"{_TYPES[dtype]} t{self.count} = {expression};")
        return f"t{self.count}"

    def operation(self, node: Node) -> str:
        form = OPERATIONS[node.name].cuda
        if form is None or form == BY_TYPE:
            return _BY_TYPE[node.name](node, *map(self.name, node.args))
        if node.name == "divide" and node.args[0].is_number(1):
            return f"reciprocal({self.name(node.args[1])})"
        return form.format(*map(self.name, node.args))

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
        real = _TYPES[self.program.dtype]
        arguments = f"{real} *{REALS}, int *{WHOLE}, {real} *rows, long long *next, int *doubts, "
        arguments += f"unsigned key0, unsigned key1, {real} h, unsigned long long path, unsigned paths, "
        arguments += "long long size, long long first, long long stop, long long stride, long long offset"
        begin = [f'extern "C" __global__ void {KERNEL}({arguments}) {{']
        begin += ["long long lane = blockIdx.x * (long long)blockDim.x + threadIdx.x;", "if (lane >= size) return;"]
        begin += ["path += (unsigned)lane % paths;"]
        return "\n".join([_HEAD, *begin, *self.lines, *end, "}"])

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


def _literal(node: Node) -> str:
    value = node.value
    if node.dtype == "bool":
        return "true" if value else "false"
    if node.dtype.startswith("float"):
        if np.isfinite(value):
            return f"({float(value).hex()}{'f' if node.dtype == 'float32' else ''})"
        bits = f"__longlong_as_double({int(np.float64(value).view(np.int64))}LL)"
        return bits if node.dtype == "float64" else f"(float){bits}"
    return f"({int(value)}{ {'int32': '', 'uint32': 'u', 'int64': 'll', 'uint64': 'ull'}[node.dtype] })"


def _convert(node: Node, x: str) -> str:
    return f"({_TYPES[node.dtype]}){x}"


def _bitcast(node: Node, x: str) -> str:
    return f"bits<{_TYPES[node.args[0].dtype]}, {_TYPES[node.dtype]}>({x})"


def _not(node: Node, x: str) -> str:
    return f"!{x}" if node.dtype == "bool" else f"~{x}"


def _shift_right_logical(node: Node, x: str, y: str) -> str:
    kind = _TYPES[node.dtype]
    unsigned = kind if kind.startswith("unsigned") else f"unsigned {kind}"
    return f"({kind})(({unsigned}){x} >> {y})"


_BY_TYPE: dict[str, Callable[..., str]] = {
    "convert": _convert,
    "bitcast": _bitcast,
    "not": _not,
    "shift_right_logical": _shift_right_logical,
}
