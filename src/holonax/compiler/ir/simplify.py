"""How operations fold: each rule takes the arguments and returns a simpler node, or None.

Folding takes numbers for real numbers, as one does by hand: $0 x = 0$ and $x - x = 0$ also where x is not finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holonax.compiler.ir.logic import RULES, pair
from holonax.compiler.ir.operations import FLOATS, OPERATIONS

if TYPE_CHECKING:
    from holonax.compiler.ir.graph import Build, Node


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
    for a, b in ((x, y), (y, x)):
        chain = not a.is_constant and a.name != "multiply" and not b.loops < a.loops
        if chain and (terms := _two_products(b)):  # of fused operations
            return build(b.args[1].name if b.name == "multiply" else b.name, a + terms[0], terms[1])
    for a, b in ((x, y), (y, x)):  # what changes most slowly is added first, outside the loop
        if b.name == "add" and a.loops < b.loops:
            for c, d in (b.args, b.args[::-1]):
                if c.loops < d.loops and not c.loops > a.loops:
                    return (a + c) + d
        if b.name == "subtract" and a.loops < b.loops and not a.is_constant and _is_affine(b, b.loops):
            return (a + b.args[0]) - b.args[1]
    return None


def _two_products(x: Node) -> tuple[Node, Node] | None:
    """A and B of A +- B or c (A +- B), if both are products."""
    c, rest = x.args if x.name == "multiply" and x.args[0].is_constant else (None, x)
    if rest.name not in ("add", "subtract") or any(a.name != "multiply" for a in rest.args):
        return None
    a, b = rest.args
    return (a, b) if c is None else (c * a, c * b)


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
    if x.dtype in FLOATS and (other := build.known.get(("subtract", x.dtype, y.index, x.index))):
        return -other
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
            for a, b in pair(x, "multiply"):
                if not a.loops and b.loops:
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


def _product(a: Node, b: Node) -> Node | None:
    """Constants, and factors that change slowly, gather where they are multiplied least often."""
    if a.name == "multiply" and a.args[0].is_constant and (a.loops or not b.loops):
        constant, rest = a.args
        if not b.loops and rest.loops:
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
    for c, d in pair(b, "multiply"):
        if not a.loops and not c.loops and d.loops:
            return (a * c) * d
    if not a.loops and b.loops and not b.unknowns and _is_affine(b, b.loops):
        return b.build(b.name, *(a * x for x in b.args))  # a (c + e f) = a c + a e f, of which a c is not in the loop
    return None


def _is_affine(x: Node, loops: Any) -> bool:
    """Whether this is a sum of products and of a number from outside the loops."""
    if x.name not in ("add", "subtract") or any(y.name not in _SUMMANDS and y.loops == loops for y in x.args):
        return False
    return any(y.loops < loops or _is_affine(y, loops) for y in x.args)


_SUMMANDS = ("multiply", "add", "subtract")


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
    return x.args[0] if x.name == "negative" else None


def is_nonnegative(x: Node) -> bool:
    """Whether a number is seen to be at least 0; nodes ask once, when they are made."""
    if x.is_constant:
        return bool(x.value >= 0)
    if x.name in OPERATIONS and OPERATIONS[x.name].is_nonnegative:
        return True
    if x.name == "multiply" and x.args[0] is x.args[1]:
        return True
    return x.name in ("add", "multiply", "maximum") and all(argument.nonnegative for argument in x.args)


def _absolute(build: Build, x: Node) -> Node | None:
    if x.nonnegative:
        return x
    if x.name == "negative":
        return abs(x.args[0])
    for a, b in pair(x, "multiply"):
        if a.nonnegative or (not a.loops and b.loops):
            return abs(a) * abs(b)
    return None


def _sqrt(build: Build, x: Node) -> Node | None:
    if x.name == "negative" and x.args[0].name == "multiply":  # the sign belongs to what changes slowly
        for a, b in pair(x.args[0], "multiply"):
            if a.loops < b.loops:
                return build.shared("sqrt", x.dtype, (build.shared("multiply", x.dtype, (-a, b)),))
    return None


def _maximum(build: Build, x: Node, y: Node) -> Node | None:
    if x is y or (x.is_number(0) and y.nonnegative):
        return y
    return x if y.is_number(0) and x.nonnegative else None


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


FOLDS: dict[str, Any] = RULES | {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "negative": _negative,
    "absolute": _absolute,
    "sqrt": _sqrt,
    "maximum": _maximum,
    "power": _power,
}
