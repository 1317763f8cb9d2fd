"""How truth values, bits, comparisons and choices fold: rules as in `folding`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.compiler.ir.operations import FLOATS

if TYPE_CHECKING:
    from holonax.compiler.ir.graph import Build, Node


def pair(x: Node, name: str) -> tuple:
    """Both orders of the arguments of an operation, or nothing."""
    return (x.args, x.args[::-1]) if x.name == name else ()


def _and(build: Build, x: Node, y: Node) -> Node | None:
    for a, b in ((x, y), (y, x)):
        if a.is_constant and not a.value:
            return a
        if a.is_constant and (a.dtype == "bool" or a.value == np.array(-1).astype(a.dtype)):
            return b
        if b.name == "not" and b.args[0].name == "and" and a in b.args[0].args:  # a and not (a and c)
            return a & ~b.args[0].args[b.args[0].args[0] is a]
        if a.name == "isfinite" and (both := _finite_as_well(build, a, b)) is not None:
            return both
    return x if x is y else None


def _finite_as_well(build: Build, a: Node, b: Node) -> Node | None:
    """The conjunction with a finiteness among the terms of `b`: one number that is not finite spoils a sum."""
    if b.name == "isfinite" and a.args[0].dtype == b.args[0].dtype:
        return build("isfinite", b.args[0] + a.args[0])
    for c, d in pair(b, "and"):
        if (both := _finite_as_well(build, a, c)) is not None:
            return both & d
    return None


def _or(build: Build, x: Node, y: Node) -> Node | None:
    for a, b in ((x, y), (y, x)):
        if a.is_constant and (not a.value or a.dtype == "bool"):
            return a if a.value else b
    return x if x is y else None


def _not(build: Build, x: Node) -> Node | None:
    return x.args[0] if x.name == "not" else None


def _select(build: Build, condition: Node, x: Node, y: Node) -> Node | None:
    if condition.is_constant:
        return x if condition.value else y
    if x is y:
        return x
    if condition.name == "not":
        return build("select", condition.args[0], y, x)
    if x.name == "select" and x.args[0] is condition:
        return build("select", condition, x.args[1], y)
    if y.name == "select" and y.args[0] is condition:
        return build("select", condition, x, y.args[2])
    if x.name == "select" and x.args[2] is y:
        return build("select", condition & x.args[0], x.args[1], y)
    if y is condition or x is condition:
        return condition & x if y is condition else condition | y
    if x.dtype == "bool" and x.is_constant:
        return condition | y if x.value else ~condition & y
    if y.dtype == "bool" and y.is_constant:
        return ~condition | x if y.value else condition & x
    return None


def _equal(build: Build, x: Node, y: Node) -> Node | None:
    """A choice among constants, such as a status, is compared before it is made."""
    for a, b in ((x, y), (y, x)):
        if a.is_constant and b.name == "convert" and b.args[0].dtype == "bool":
            return b.args[0] if a.is_number(1) else ~b.args[0] if a.is_number(0) else build.number(False, "bool")
        if a.is_number(0) and b.name == "multiply" and b.args[0].is_constant and b.dtype in FLOATS:
            return build("equal", a, b.args[1])
        if a.is_constant and b.name == "select" and all(x.is_constant or x.name == "select" for x in b.args[1:]):
            return build("select", b.args[0], build("equal", a, b.args[1]), build("equal", a, b.args[2]))
    return None


def _not_equal(build: Build, x: Node, y: Node) -> Node | None:
    equal = _equal(build, x, y)
    return None if equal is None else ~equal


def _xor(build: Build, x: Node, y: Node) -> Node | None:
    return y if x.is_number(0) else x if y.is_number(0) else None


def _shift(build: Build, x: Node, y: Node) -> Node | None:
    return x if y.is_number(0) else None


RULES: dict[str, Any] = {
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "equal": _equal,
    "not_equal": _not_equal,
    "select": _select,
    "shift_left": _shift,
    "shift_right_logical": _shift,
    "shift_right_arithmetic": _shift,
}
