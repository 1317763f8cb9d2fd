"""The one table of operations: what a lane can do.

Every target (XLA, LLVM, CUDA C) implements these names and no others; the table says how each acts on numbers, for
folding constants and for trying a program out, and how it is differentiated.  All act on one number per lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

FLOATS = ("float64", "float32")


@final
@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        evaluate: its value on NumPy numbers.
        partials: `(build, node) -> one partial derivative per argument`; None where it is piecewise constant.
        total: whether finite arguments give a finite value, overflow aside.
    """

    evaluate: Callable[..., Any]
    partials: Callable[[Any, Any], tuple] | None = None
    total: bool = True


def _derivative(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], tuple]:
    """Partials of a function of one argument: `function(build, x, value)`."""
    return lambda build, node: (function(build, node.args[0], node),)


def _choose(condition: str) -> Callable[[Any, Any], tuple]:
    def partials(build: Any, node: Any) -> tuple:
        first = build(condition, *node.args)
        one, zero = build.number(1, node.dtype), build.number(0, node.dtype)
        return build("select", first, one, zero), build("select", first, zero, one)

    return partials


def _power_partials(build: Any, node: Any) -> tuple:
    x, y = node.args
    by_y = node * build("log", x) if y.depends_on_unknowns else build.number(0, node.dtype)
    return y * build("power", x, y - 1.0), by_y


def _shift_right_logical(x: Any, y: Any) -> Any:
    unsigned = {4: np.uint32, 8: np.uint64}[x.dtype.itemsize]
    return (x.view(unsigned) >> np.asarray(y).astype(unsigned)).view(x.dtype)


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[float])(x).astype(np.asarray(x).dtype)


OPERATIONS: dict[str, Operation] = {
    # arithmetic
    "add": Operation(np.add, lambda build, node: (build.number(1, node.dtype),) * 2),
    "subtract": Operation(np.subtract, lambda build, node: (build.number(1, node.dtype), build.number(-1, node.dtype))),
    "multiply": Operation(np.multiply, lambda build, node: node.args[::-1]),
    "divide": Operation(np.divide, lambda build, node: (1.0 / node.args[1], -(node / node.args[1])), total=False),
    "fma": Operation(lambda x, y, z: x * y + z),  # one rounding in kernels
    "negative": Operation(np.negative, lambda build, node: (build.number(-1, node.dtype),)),
    "absolute": Operation(
        np.abs,
        _derivative(
            lambda build, x, y: build(
                "select", build("less", x, 0 * x), build.number(-1, y.dtype), build.number(1, y.dtype)
            )
        ),
    ),
    "maximum": Operation(np.maximum, _choose("greater_equal")),
    "minimum": Operation(np.minimum, _choose("less_equal")),
    "larger": Operation(lambda x, y: np.where(x > y, x, y), _choose("greater")),  # in one instruction: NaN may get lost
    "floor": Operation(np.floor),
    "ceil": Operation(np.ceil),
    "rint": Operation(np.rint),
    # functions
    "sqrt": Operation(np.sqrt, _derivative(lambda build, x, y: 0.5 / y), total=False),
    "cbrt": Operation(np.cbrt, _derivative(lambda build, x, y: (1.0 / 3.0) / (y * y))),
    "exp": Operation(np.exp, _derivative(lambda build, x, y: y)),
    "expm1": Operation(np.expm1, _derivative(lambda build, x, y: y + 1.0)),
    "log": Operation(np.log, _derivative(lambda build, x, y: 1.0 / x), total=False),
    "log1p": Operation(np.log1p, _derivative(lambda build, x, y: 1.0 / (1.0 + x)), total=False),
    "sin": Operation(np.sin, _derivative(lambda build, x, y: build("cos", x))),
    "cos": Operation(np.cos, _derivative(lambda build, x, y: -build("sin", x))),
    "tan": Operation(np.tan, _derivative(lambda build, x, y: 1.0 + y * y)),
    "arcsin": Operation(np.arcsin, _derivative(lambda build, x, y: 1.0 / build("sqrt", 1.0 - x * x)), total=False),
    "arccos": Operation(np.arccos, _derivative(lambda build, x, y: -1.0 / build("sqrt", 1.0 - x * x)), total=False),
    "arctan": Operation(np.arctan, _derivative(lambda build, x, y: 1.0 / (1.0 + x * x))),
    "sinh": Operation(np.sinh, _derivative(lambda build, x, y: build("cosh", x))),
    "cosh": Operation(np.cosh, _derivative(lambda build, x, y: build("sinh", x))),
    "tanh": Operation(np.tanh, _derivative(lambda build, x, y: 1.0 - y * y)),
    "erf": Operation(_erf, _derivative(lambda build, x, y: (2.0 / np.sqrt(np.pi)) * build("exp", -(x * x)))),
    "power": Operation(np.power, _power_partials, total=False),
    "arctan2": Operation(
        np.arctan2,
        lambda build, node: (
            node.args[1] / (node.args[0] * node.args[0] + node.args[1] * node.args[1]),
            -node.args[0] / (node.args[0] * node.args[0] + node.args[1] * node.args[1]),
        ),
        total=False,
    ),
    # whole numbers and bits (and, or, xor, not: also of truth values)
    "and": Operation(np.bitwise_and),
    "or": Operation(np.bitwise_or),
    "xor": Operation(np.bitwise_xor),
    "not": Operation(np.invert),
    "shift_left": Operation(lambda x, y: np.left_shift(x, np.asarray(y).astype(x.dtype))),
    "shift_right_logical": Operation(_shift_right_logical),
    "shift_right_arithmetic": Operation(lambda x, y: np.right_shift(x, np.asarray(y).astype(x.dtype))),
    # comparisons and choice
    "equal": Operation(np.equal),
    "not_equal": Operation(np.not_equal),
    "less": Operation(np.less),
    "less_equal": Operation(np.less_equal),
    "greater": Operation(np.greater),
    "greater_equal": Operation(np.greater_equal),
    "isfinite": Operation(np.isfinite),
    "select": Operation(lambda c, x, y: np.where(c, x, y)),  # differentiated where the unknowns are known
    # representations
    "convert": Operation(None, lambda build, node: (build.number(1, node.dtype),)),  # type: ignore[arg-type]
    "bitcast": Operation(None),  # type: ignore[arg-type]
}

COMMUTATIVE = {"add", "multiply", "maximum", "minimum", "and", "or", "xor", "equal", "not_equal"}
TRUTH_VALUED = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isfinite"}


def evaluate(name: str, dtype: str, *arguments: Any) -> Any:
    """The value of an operation on NumPy numbers or arrays."""
    with np.errstate(all="ignore"):
        if name == "convert":
            return np.asarray(arguments[0]).astype(dtype)
        if name == "bitcast":
            return np.asarray(arguments[0]).view(dtype)
        return np.asarray(OPERATIONS[name].evaluate(*arguments)).astype(dtype)
