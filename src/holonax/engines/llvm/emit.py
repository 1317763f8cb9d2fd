"""A lane program as LLVM IR: one function with the loop over steps inside, vectors of lanes for numbers.

32-bit unsigned numbers live in 64-bit lanes whose upper halves are arbitrary, so that the products of the random
generator take one instruction each; they are masked where the upper half would be seen.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
from functools import cache

import numpy as np

from holonax.compiler.ir.graph import Loop, Node, Table
from holonax.compiler.passes.schedule import Block, Items, Rounds, visit
from holonax.compiler.passes.scheduled import Program
from holonax.engines.llvm.order import interleaved

MEMORY = {"float64": "double", "float32": "float", "int32": "i32"}
_TYPES = MEMORY | {"uint32": "i64", "int64": "i64", "uint64": "i64", "bool": "i1"}
_LOW_WORD = str(0xFFFFFFFF)

_FLOAT = {"add": "fadd contract", "subtract": "fsub contract", "multiply": "fmul contract", "divide": "fdiv"}
_WHOLE = {
    "add": "add", "subtract": "sub", "multiply": "mul", "and": "and", "or": "or", "xor": "xor", "shift_left": "shl",
    "shift_right_logical": "lshr", "shift_right_arithmetic": "ashr",
}  # fmt: skip
_INTRINSICS = {
    "sqrt": "sqrt", "absolute": "fabs", "floor": "floor", "ceil": "ceil", "rint": "rint", "fma": "fma",
}  # fmt: skip
_CONDITIONS = {
    "equal": ("oeq", "eq", "eq"), "not_equal": ("une", "ne", "ne"), "less": ("olt", "slt", "ult"),
    "less_equal": ("ole", "sle", "ule"), "greater": ("ogt", "sgt", "ugt"), "greater_equal": ("oge", "sge", "uge"),
}  # fmt: skip
LIBRARY = {
    "cbrt": "cbrt", "expm1": "expm1", "log1p": "log1p", "tan": "tan", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "erf": "erf", "power": "pow", "arctan2": "atan2",
}  # fmt: skip
"""Operations that are left to the C library, lane by lane."""


class Emitter:
    """Writes the IR of one program, for vectors of `width` lanes."""

    def __init__(self, program: Program, width: int) -> None:
        self.program, self.width = program, width
        self.lines: list[str] = []
        self.intrinsics: set[str] = set()
        self.names: dict[Node, str] = {}
        self.tables: dict[Table, str] = {}
        self.allocations: list[str] = []
        self.count = 0

    # Pieces of syntax.

    def splat(self, kind: str, scalar: str) -> str:
        """A scalar in every lane."""
        vector = f"<{self.width} x {kind}>"
        one = self.put(f"insertelement {vector} poison, {kind} {scalar}, i64 0")
        return self.put(f"shufflevector {vector} {one}, {vector} poison, <{self.width} x i32> zeroinitializer")

    def vector(self, dtype: str) -> str:
        """The type of a number per lane."""
        return f"<{self.width} x {_TYPES[dtype]}>"

    def fresh(self, prefix: str = "t") -> str:
        """A new name."""
        self.count += 1
        return f"%{prefix}{self.count}"

    def put(self, expression: str) -> str:
        """An instruction; the name of its value."""
        name = self.fresh()
        self.lines.append(f"  {name} = {expression}")
        return name

    def constant(self, node: Node) -> str:
        """A constant in every lane."""
        return f"splat ({_TYPES[node.dtype]} {_literal(node)})"

    def name(self, node: Node) -> str:
        """The name of a value that has been computed."""
        node = self.program.schedule.final(node)
        return self.constant(node) if node.is_constant else self.names[node]

    def call(self, intrinsic: str, kind: str, *arguments: str) -> str:
        """A call of one of LLVM's own functions on vectors of `kind`."""
        suffix = {"double": "f64", "float": "f32"}[kind]
        vector, function = f"<{self.width} x {kind}>", f"@llvm.{intrinsic}.v{self.width}{suffix}"
        self.intrinsics.add(f"declare {vector} {function}({', '.join([vector] * len(arguments))})")
        return self.put(f"call contract {vector} {function}({', '.join(f'{vector} {x}' for x in arguments)})")

    def any_lane(self, truth: str) -> str:
        """Whether something is true in any lane."""
        vector, function = self.vector("bool"), f"@llvm.vector.reduce.or.v{self.width}i1"
        self.intrinsics.add(f"declare i1 {function}({vector})")
        return self.put(f"call i1 {function}({vector} {truth})")

    def masked(self, node: Node) -> str:
        """A value whose upper half, if it has one that is arbitrary, is zero."""
        return self.put(f"and {self.vector(node.dtype)} {self.name(node)}, splat (i64 {_LOW_WORD})")

    # Operations.

    def operation(self, node: Node) -> str:
        """The instructions of one operation; the name of its value."""
        if node.name == "entry":
            table, k = node.value
            there = self.put(f"getelementptr {self.vector(node.dtype)}, ptr {self.tables[table]}, i64 {k}")
            return self.put(f"load {self.vector(node.dtype)}, ptr {there}, align 64")
        kind = "float" if node.args[-1].dtype.startswith("float") else "whole"
        vector, name = self.vector(node.args[-1].dtype), node.name
        if name in LIBRARY:
            return self._library(node)
        if name == "convert":
            return self._convert(node)
        if name == "bitcast":
            return self._bitcast(node)
        if name in _CONDITIONS:
            return self._compare(node)
        if name == "isfinite":
            size = self.call("fabs", _TYPES[node.args[0].dtype], self.name(node.args[0]))
            return self.put(f"fcmp olt {vector} {size}, splat ({_TYPES[node.args[0].dtype]} 0x7FF0000000000000)")
        if name == "shift_right_logical" and node.dtype == "uint32":
            return self.put(f"lshr {vector} {self.masked(node.args[0])}, {self.name(node.args[1])}")
        x = [self.name(argument) for argument in node.args]
        if name == "select":
            return self.put(f"select {self.vector('bool')} {x[0]}, {vector} {x[1]}, {vector} {x[2]}")
        if name in _INTRINSICS:
            return self.call(_INTRINSICS[name], _TYPES[node.dtype], *x)
        if name in ("maximum", "minimum", "larger"):
            first = self.put(_comparison(node.dtype, "less" if name == "minimum" else "greater", vector, *x))
            keep = first if kind == "whole" or name == "larger" else self._or_nan(first, vector, x[0])
            return self.put(f"select {self.vector('bool')} {keep}, {vector} {x[0]}, {vector} {x[1]}")
        if name == "negative":
            return self.put(f"fneg {vector} {x[0]}" if kind == "float" else f"sub {vector} splat (i64 0), {x[0]}")
        if name == "not":
            return self.put(f"xor {vector} {x[0]}, splat ({_TYPES[node.dtype]} -1)")
        return self.put(f"{(_FLOAT if kind == 'float' else _WHOLE)[name]} {vector} {x[0]}, {x[1]}")

    def _or_nan(self, first: str, vector: str, x: str) -> str:
        """NaN must win a comparison, or it would be lost."""
        nan = self.put(f"fcmp uno {vector} {x}, {x}")
        return self.put(f"or {self.vector('bool')} {first}, {nan}")

    def _compare(self, node: Node) -> str:
        dtype = node.args[0].dtype
        x = [self.masked(a) if dtype == "uint32" and not a.is_constant else self.name(a) for a in node.args]
        return self.put(_comparison(dtype, node.name, self.vector(dtype), *x))

    def _convert(self, node: Node) -> str:
        x, old, new = node.args[0], node.args[0].dtype, node.dtype
        value = self.masked(x) if old == "uint32" and new != "uint32" else self.name(x)
        a, b = _TYPES[old], _TYPES[new]
        if a == b:
            return value
        if "float" in old and "float" in new:
            how = "fptrunc" if new == "float32" else "fpext"
        elif "float" in new:
            how = "sitofp" if old.startswith("int") else "uitofp"
        elif "float" in old:
            how = "fptosi" if new.startswith("int") or new == "uint32" else "fptoui"
        elif a == "i64" and b == "i32":
            how = "trunc"
        else:
            how = "zext" if old == "bool" else "sext"
        return self.put(f"{how} <{self.width} x {a}> {value} to <{self.width} x {b}>")

    def _bitcast(self, node: Node) -> str:
        x, (old, new) = node.args[0], (node.args[0].dtype, node.dtype)
        value = self.name(x)
        if old == "uint32":
            value = self.put(f"trunc {self.vector(old)} {value} to <{self.width} x i32>")
        source = f"<{self.width} x i32>" if old == "uint32" else self.vector(old)
        if new == "uint32":
            value = self.put(f"bitcast {source} {value} to <{self.width} x i32>")
            return self.put(f"zext <{self.width} x i32> {value} to {self.vector(new)}")
        return self.put(f"bitcast {source} {value} to {self.vector(new)}")

    def _library(self, node: Node) -> str:
        single, function = node.dtype == "float32", LIBRARY[node.name]
        arguments = [self.name(x) for x in node.args]
        if single:
            arguments = [self.put(f"fpext {self.vector('float32')} {x} to {self.vector('float64')}") for x in arguments]
        vector = self.vector("float64")
        pointer, result = f"inttoptr (i64 {_address(function)} to ptr)", "poison"
        for lane in range(self.width):
            scalars = [self.put(f"extractelement {vector} {x}, i64 {lane}") for x in arguments]
            value = self.put(f"call double {pointer}({', '.join(f'double {x}' for x in scalars)})")
            result = self.put(f"insertelement {vector} {result}, double {value}, i64 {lane}")
        return self.put(f"fptrunc {vector} {result} to {self.vector('float32')}") if single else result

    # Control flow.

    def items(self, items: Items) -> None:
        """Operations and loops, in order; the operations between two loops in an order that suits a processor."""
        visit(items, self.straight, self.loop, self.rounds)

    def straight(self, nodes: list[Node]) -> None:
        """Operations between two loops."""
        for node in interleaved(nodes, self.program.schedule.final):
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


@cache
def _address(function: str) -> int:
    """Where a function of the C library is."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    return ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0


def _comparison(dtype: str, name: str, vector: str, x: str, y: str) -> str:
    ordered, signed, unsigned = _CONDITIONS[name]
    if dtype.startswith("float"):
        return f"fcmp {ordered} {vector} {x}, {y}"
    return f"icmp {signed if dtype.startswith('int') else unsigned} {vector} {x}, {y}"


def _literal(node: Node) -> str:
    if node.dtype == "bool":
        return "true" if node.value else "false"
    if node.dtype.startswith("float"):  # LLVM writes both kinds as the bits of a double
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(node.value)))[0]:016X}"
    return str(int(np.asarray(node.value).astype(np.int64 if node.dtype != "uint32" else np.uint32)))
