"""Operations of a lane program as LLVM IR, on vectors of lanes.

32-bit unsigned numbers live in 64-bit lanes whose upper halves are arbitrary, so that the products of the random
generator take one instruction each; they are masked where the upper half would be seen.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from holonax.compiler.ir.graph import Node, Table
from holonax.compiler.ir.operations import BY_TYPE, FLOATS, OPERATIONS, Condition, Instruction, Intrinsic, Library
from holonax.compiler.ir.program import Program
from holonax.engines.llvm.library import DECLARATION, place_of

MEMORY = {"float64": "double", "float32": "float", "int32": "i32"}
_TYPES = MEMORY | {"uint32": "i64", "int64": "i64", "uint64": "i64", "bool": "i1"}
_LOW_WORD = str(0xFFFFFFFF)


class Instructions:
    """Writes the instructions of one program, for vectors of `width` lanes."""

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
        node = self.program.final(node)
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
            return self._entry(node)
        form, vector = OPERATIONS[node.name].llvm, self.vector(node.args[-1].dtype)
        if form is None or form == BY_TYPE:
            return _BY_TYPE[node.name](self, node)
        if isinstance(form, Library):
            return self._library(node, form.name)
        if isinstance(form, Condition):
            return self._compare(node, form)
        x = [self.name(argument) for argument in node.args]
        if isinstance(form, Intrinsic):
            return self.call(form.name, _TYPES[node.dtype], *x)
        assert isinstance(form, Instruction)
        name = form.on_floats if node.args[-1].dtype in FLOATS else form.on_whole_numbers
        return self.put(f"{name} {vector} {x[0]}, {x[1]}")

    def _entry(self, node: Node) -> str:
        table, k = node.value
        there = self.put(f"getelementptr {self.vector(node.dtype)}, ptr {self.tables[table]}, i64 {k}")
        return self.put(f"load {self.vector(node.dtype)}, ptr {there}, align 64")

    def _is_finite(self, node: Node) -> str:
        kind, vector = _TYPES[node.args[0].dtype], self.vector(node.args[0].dtype)
        size = self.call("fabs", kind, self.name(node.args[0]))
        return self.put(f"fcmp olt {vector} {size}, splat ({kind} 0x7FF0000000000000)")

    def _shift_right_logical(self, node: Node) -> str:
        x, y = node.args
        value = self.masked(x) if node.dtype == "uint32" else self.name(x)
        return self.put(f"lshr {self.vector(y.dtype)} {value}, {self.name(y)}")

    def _select(self, node: Node) -> str:
        condition, x, y = map(self.name, node.args)
        vector = self.vector(node.dtype)
        return self.put(f"select {self.vector('bool')} {condition}, {vector} {x}, {vector} {y}")

    def _extremum(self, node: Node) -> str:
        """Of two numbers; NaN must win a comparison, or it would be lost, which only `larger` may."""
        vector, (x, y) = self.vector(node.dtype), map(self.name, node.args)
        condition = OPERATIONS["less" if node.name == "minimum" else "greater"].llvm
        assert isinstance(condition, Condition)
        keep = self.put(_comparison(node.dtype, condition, vector, x, y))
        if node.dtype in FLOATS and node.name != "larger":
            nan = self.put(f"fcmp uno {vector} {x}, {x}")
            keep = self.put(f"or {self.vector('bool')} {keep}, {nan}")
        return self.put(f"select {self.vector('bool')} {keep}, {vector} {x}, {vector} {y}")

    def _negative(self, node: Node) -> str:
        vector, x = self.vector(node.dtype), self.name(node.args[0])
        return self.put(f"fneg {vector} {x}" if node.dtype in FLOATS else f"sub {vector} splat (i64 0), {x}")

    def _not(self, node: Node) -> str:
        return self.put(f"xor {self.vector(node.dtype)} {self.name(node.args[0])}, splat ({_TYPES[node.dtype]} -1)")

    def _compare(self, node: Node, condition: Condition) -> str:
        dtype = node.args[0].dtype
        x = [self.masked(a) if dtype == "uint32" and not a.is_constant else self.name(a) for a in node.args]
        return self.put(_comparison(dtype, condition, self.vector(dtype), *x))

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

    def _library(self, node: Node, function: str) -> str:
        single = node.dtype == "float32"
        arguments = [self.name(x) for x in node.args]
        if single:
            arguments = [self.put(f"fpext {self.vector('float32')} {x} to {self.vector('float64')}") for x in arguments]
        vector = self.vector("float64")
        self.intrinsics.add(DECLARATION)
        pointer, result = self.put(f"load ptr, ptr {place_of(function)}"), "poison"
        for lane in range(self.width):
            scalars = [self.put(f"extractelement {vector} {x}, i64 {lane}") for x in arguments]
            value = self.put(f"call double {pointer}({', '.join(f'double {x}' for x in scalars)})")
            result = self.put(f"insertelement {vector} {result}, double {value}, i64 {lane}")
        return self.put(f"fptrunc {vector} {result} to {self.vector('float32')}") if single else result


def _comparison(dtype: str, condition: Condition, vector: str, x: str, y: str) -> str:
    if dtype in FLOATS:
        return f"fcmp {condition.of_floats} {vector} {x}, {y}"
    name = condition.of_signed if dtype.startswith("int") else condition.of_unsigned
    return f"icmp {name} {vector} {x}, {y}"


def _literal(node: Node) -> str:
    if node.dtype == "bool":
        return "true" if node.value else "false"
    if node.dtype.startswith("float"):  # LLVM writes both kinds as the bits of a double
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(node.value)))[0]:016X}"
    return str(int(np.asarray(node.value).astype(np.int64 if node.dtype != "uint32" else np.uint32)))


_BY_TYPE: dict[str, Callable[[Instructions, Node], str]] = {
    "negative": Instructions._negative,
    "not": Instructions._not,
    "maximum": Instructions._extremum,
    "minimum": Instructions._extremum,
    "larger": Instructions._extremum,
    "shift_right_logical": Instructions._shift_right_logical,
    "isfinite": Instructions._is_finite,
    "select": Instructions._select,
    "convert": Instructions._convert,
    "bitcast": Instructions._bitcast,
}
