"""How operations fold: each rule takes the arguments and returns a simpler node, or None.

Folding takes numbers for real numbers, as one does by hand: $0 x = 0$ and $x - x = 0$ also where x is not finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holonax.lanes.operations import FLOATS

if TYPE_CHECKING:
    from holonax.lanes.graph import Build, Node


def _add(build: Build, x: Node, y: Node) -> Node | None:
    if x.is_number(0):
        return y
    if y.is_number(0):
        return x
    if y.name == "negative":
        return x - y.args[0]
    if x.name == "negative":
        return y - x.args[0]
    if x.dtype not in FLOATS:
        return None
    if x is y:
        return x * 2
    if common := _common_constant(x, y):
        constant, a, b = common
        return constant * (a + b)
    for a, b in ((x, y), (y, x)):  # what changes most slowly is added first, outside the loop
        if b.name == "add" and a.loops < b.loops:
            for c, d in (b.args, b.args[::-1]):
                if c.loops < d.loops and not c.loops > a.loops:
                    return (a + c) + d
    return None


def _subtract(build: Build, x: Node, y: Node) -> Node | None:
    if y.is_number(0):
        return x
    if x.is_number(0):
        return -y
    if x is y:
        return build.number(0, x.dtype)
    if y.name == "negative":
        return x + y.args[0]
    if x.name == "negative":
        return -(x.args[0] + y)
    if common := _common_constant(x, y):
        constant, a, b = common
        return constant * (a - b)
    return None


def _common_constant(x: Node, y: Node) -> tuple[Node, Node, Node] | None:
    """c, a, b of $c a$ and $c b$."""
    if x.name == y.name == "multiply" and x.args[0].is_constant and x.args[0] is y.args[0] and x.dtype in FLOATS:
        return x.args[0], x.args[1], y.args[1]
    return None


def _multiply(build: Build, x: Node, y: Node) -> Node | None:
    if x.is_constant:
        x, y = y, x
    if y.is_constant:
        if y.is_number(0) or y.is_number(1):
            return y if y.is_number(0) else x
        if x.dtype in FLOATS:
            if y.is_number(-1):
                return -x
            if y.value < 0:
                return -(x * build.number(-y.value, y.dtype))
            if x.name == "negative":
                return -(x.args[0] * y)
            if x.name == "multiply" and x.args[0].is_constant:
                return x.args[1] * (x.args[0] * y)
            for a, b in _pair(x, "multiply"):
                if a.loops < b.loops:
                    return (y * a) * b
                if b.name == "multiply" and b.args[0].is_constant:
                    return (y * b.args[0]) * (a * b.args[1])
        return None
    if x.dtype in FLOATS:
        for a, b in ((x, y), (y, x)):
            if (folded := _product(a, b)) is not None:
                return folded
    if x.name == "negative":
        return -(x.args[0] * y)
    if y.name == "negative":
        return -(x * y.args[0])
    return None


def _pair(x: Node, name: str) -> tuple:
    """Both orders of the arguments of an operation, or nothing."""
    return (x.args, x.args[::-1]) if x.name == name else ()


def _product(a: Node, b: Node) -> Node | None:
    """Constants, and factors that change slowly, gather where they are multiplied least often."""
    if a.name == "multiply" and a.args[0].is_constant and not a.loops < b.loops:
        constant, rest = a.args
        if b.loops < rest.loops:
            return rest * (constant * b)
        if b.name == "multiply" and b.args[0].is_constant:
            return (constant * b.args[0]) * (rest * b.args[1])
        if not (b.name in ("add", "subtract") and any(x.is_constant for x in b.args)):  # Horner's rule stays as it is
            return constant * (rest * b)
    if b.name == "divide" and b.args[0].is_number(1):  # what is divided by cancels
        if a is b.args[1]:
            return b.args[0]
        if a.name == "multiply" and b.args[1] in a.args:
            return a.args[0] if a.args[1] is b.args[1] else a.args[1]
        if (
            a.name == "multiply"
            and a.args[0].is_constant
            and a.args[1].name == "multiply"
            and b.args[1] in a.args[1].args
        ):
            return a.args[0] * (a.args[1] * b)
    for c, d in _pair(b, "multiply"):
        if a.loops < d.loops and c.loops < d.loops:
            return (a * c) * d
    for c, d in _pair(b, "add"):  # h (c + e f) = h c + (h e) f, of which only the last product is in the loop
        if (
            not a.loops
            and c.loops < d.loops
            and not d.unknowns
            and any(e.loops < f.loops for e, f in _pair(d, "multiply"))
        ):
            return a * c + a * d
    return None


def _divide(build: Build, x: Node, y: Node) -> Node | None:
    if x.dtype not in FLOATS:
        return None
    if x.is_number(0) or y.is_number(1):
        return x
    if x.name == "negative":
        return -(x.args[0] / y)
    if y.name == "negative":
        return -(x / y.args[0])
    if y.is_constant:
        return x * build.number(1 / y.value, y.dtype)
    for a, factor in ((x, False), (y, True)):
        if a.name == "multiply" and a.args[0].is_constant:
            constant, rest = a.args
            return (1.0 / constant) * (x / rest) if factor else constant * (rest / y)
    if (x.loops - y.loops) and not x.is_number(1):  # the reciprocal is taken once, outside the loop
        return x * (1.0 / y)
    return None


def _negative(build: Build, x: Node) -> Node | None:
    if x.name == "negative":
        return x.args[0]
    return build("subtract", *x.args[::-1]) if x.name == "subtract" and x.dtype in FLOATS else None


def is_nonnegative(x: Node) -> bool:
    """Whether a number is seen to be at least 0; nodes ask once, when they are made."""
    if x.is_constant:
        return bool(x.value >= 0)
    if x.name in ("absolute", "sqrt", "exp"):
        return True
    if x.name == "multiply" and x.args[0] is x.args[1]:
        return True
    return x.name in ("add", "multiply", "maximum") and all(argument.nonnegative for argument in x.args)


def _absolute(build: Build, x: Node) -> Node | None:
    if x.nonnegative:
        return x
    if x.name == "negative":
        return abs(x.args[0])
    if x.name == "multiply" and x.args[0].nonnegative:
        return x.args[0] * abs(x.args[1])
    if x.name == "multiply" and x.args[1].nonnegative:
        return abs(x.args[0]) * x.args[1]
    return None


def _and(build: Build, x: Node, y: Node) -> Node | None:
    for a, b in ((x, y), (y, x)):
        if a.is_constant and not a.value:
            return a
        if a.is_constant and (a.dtype == "bool" or a.value == np.array(-1).astype(a.dtype)):
            return b
    return x if x is y else None


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


def _maximum(build: Build, x: Node, y: Node) -> Node | None:
    if x is y or (x.is_number(0) and y.nonnegative):
        return y
    return x if y.is_number(0) and x.nonnegative else None


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


def _power(build: Build, x: Node, y: Node) -> Node | None:
    if not y.is_constant:
        return None
    if float(y.value).is_integer() and abs(y.value) <= 64:
        return integer_power(build, x, int(y.value))
    return build("sqrt", x) if y.is_number(0.5) else None


def integer_power(build: Build, x: Node, exponent: int) -> Node:
    """Repeated squaring."""
    if exponent < 0:
        return 1.0 / integer_power(build, x, -exponent)
    result = build.number(1, x.dtype)
    while exponent:
        if exponent % 2:
            result = result * x
        x, exponent = x * x, exponent // 2
    return result


FOLDS: dict[str, Any] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "negative": _negative,
    "absolute": _absolute,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "maximum": _maximum,
    "equal": _equal,
    "not_equal": _not_equal,
    "select": _select,
    "shift_left": _shift,
    "shift_right_logical": _shift,
    "shift_right_arithmetic": _shift,
    "power": _power,
}
