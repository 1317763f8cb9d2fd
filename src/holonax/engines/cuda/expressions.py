"""Operations on single numbers as CUDA C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holonax.compiler.ir.graph import Build, Node
from holonax.compiler.ir.operations import BY_TYPE, OPERATIONS

TYPES = {
    "float64": "double", "float32": "float", "int32": "int", "uint32": "unsigned", "int64": "long long",
    "uint64": "unsigned long long", "bool": "bool",
}  # fmt: skip
HEAD = """
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


class Expressions:
    """Writes operations, line by line; a value has the name `t` with a number, unless it has another one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.count = 0

    def final(self, node: Node) -> Node:
        """What is computed instead of a node."""
        return node

    def name(self, node: Node) -> str:
        """The name of a value that has been computed."""
        node = self.final(node)
        return _literal(node) if node.is_constant else self.names[node]

    def literal(self, value: Any, dtype: str) -> str:
        """A known number."""
        return _literal(Build().number(value, dtype))

    def put(self, dtype: str, expression: str) -> str:
        """A line that computes a value; its name."""
        self.count += 1
        self.lines.append(f"{TYPES[dtype]} t{self.count} = {expression};")
        return f"t{self.count}"

    def operation(self, node: Node) -> str:
        """The value of an operation, as an expression."""
        form = OPERATIONS[node.name].cuda
        if form is None or form == BY_TYPE:
            return _BY_TYPE[node.name](node, *map(self.name, node.args))
        if node.name == "divide" and node.args[0].is_number(1):
            return f"reciprocal({self.name(node.args[1])})"
        return form.format(*map(self.name, node.args))


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
    return f"({TYPES[node.dtype]}){x}"


def _bitcast(node: Node, x: str) -> str:
    return f"bits<{TYPES[node.args[0].dtype]}, {TYPES[node.dtype]}>({x})"


def _not(node: Node, x: str) -> str:
    return f"!{x}" if node.dtype == "bool" else f"~{x}"


def _shift_right_logical(node: Node, x: str, y: str) -> str:
    kind = TYPES[node.dtype]
    unsigned = kind if kind.startswith("unsigned") else f"unsigned {kind}"
    return f"({kind})(({unsigned}){x} >> {y})"


_BY_TYPE: dict[str, Callable[..., str]] = {
    "convert": _convert,
    "bitcast": _bitcast,
    "not": _not,
    "shift_right_logical": _shift_right_logical,
}
