"""The one table of operations: what a lane can do, and all that is known of it.

A new operation is one row here: its value, its derivative, the primitive of JAX that it translates, facts for folding
and scheduling, and what each target writes.  All act on one number per lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

FLOATS = ("float64", "float32")


class Instruction(NamedTuple):
    """LLVM: an instruction on two floating-point numbers, and one on two whole numbers; None where there is none."""

    on_floats: str | None
    on_whole_numbers: str | None


class Condition(NamedTuple):
    """LLVM: the names of a comparison of floating-point numbers, of signed and of unsigned whole numbers."""

    of_floats: str
    of_signed: str
    of_unsigned: str


class Intrinsic(NamedTuple):
    """LLVM: a function of its own on vectors."""

    name: str


class Library(NamedTuple):
    """LLVM: a function of the C library on doubles, called lane by lane."""

    name: str


BY_TYPE: Literal["by type"] = "by type"
"""It depends on the types of argument and value: a target's emitter has a method for it, NumPy's is `evaluate`."""

Partials = Callable[[Any, Any], tuple]


@final
@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation; a target that lacks it (None) cannot run programs that contain it.

    Attributes:
        value: on NumPy numbers, for folding constants and for trying a program out.
        xla: on JAX arrays.
        cuda: as an expression of CUDA C, `{0}`, `{1}`, ... being the arguments.
        llvm: as LLVM IR.
        primitives: names of the primitives of JAX that are this operation, entry by entry.
        partials: `(build, node) -> one partial derivative per argument`; None where it is piecewise constant.
        is_total: whether finite arguments give a finite value, overflow aside.
        is_commutative: whether the arguments may change places.
        is_condition: whether the value is a truth value.
        is_nonnegative: whether the value is never below zero.
        is_costly: whether a value is worth being carried to the next step instead of computed again.
        latency: cycles of a processor until the value can be used.
    """

    value: Callable[..., Any] | Literal["by type"]
    xla: Callable[..., Any] | Literal["by type"] | None
    cuda: str | None
    llvm: Instruction | Condition | Intrinsic | Library | Literal["by type"] | None
    primitives: tuple[str, ...] = ()
    partials: Partials | None = None
    is_total: bool = True
    is_commutative: bool = False
    is_condition: bool = False
    is_nonnegative: bool = False
    is_costly: bool = False
    latency: int = 1


def function(
    name: str,
    value: Callable[..., Any],
    xla: Callable[..., Any],
    derivative: Callable[[Any, Any, Any], Any],
    **facts: Any,
) -> Operation:
    """A function of one argument that JAX and C know by the same `name`; its `derivative(build, x, value)`."""
    return Operation(
        value=value,
        xla=xla,
        cuda=name + "({0})",
        llvm=Library(name),
        primitives=(name,),
        partials=lambda build, node: (derivative(build, node.args[0], node),),
        is_costly=True,
        **facts,
    )


def _comparison(primitives: tuple[str, ...], value: Any, xla: Any, symbol: str, *names: str, **facts: Any) -> Operation:
    cuda = f"{{0}} {symbol} {{1}}"
    return Operation(
        value=value, xla=xla, cuda=cuda, llvm=Condition(*names), primitives=primitives, is_condition=True, **facts
    )


def _bits(name: str, value: Any, xla: Any, symbol: str, instruction: str, **facts: Any) -> Operation:
    cuda, llvm = f"{{0}} {symbol} {{1}}", Instruction(None, instruction)
    return Operation(value=value, xla=xla, cuda=cuda, llvm=llvm, primitives=(name,), **facts)


def _constant_partials(*slopes: int) -> Partials:
    return lambda build, node: tuple(build.number(slope, node.dtype) for slope in slopes)


def _choose(condition: str) -> Partials:
    def partials(build: Any, node: Any) -> tuple:
        first = build(condition, *node.args)
        one, zero = build.number(1, node.dtype), build.number(0, node.dtype)
        return build("select", first, one, zero), build("select", first, zero, one)

    return partials


def _absolute_partials(build: Any, node: Any) -> tuple:
    (x,), one = node.args, build.number(1, node.dtype)
    return (build("select", build("less", x, 0 * x), -one, one),)


def _power_partials(build: Any, node: Any) -> tuple:
    x, y = node.args
    by_y = node * build("log", x) if y.depends_on_unknowns else build.number(0, node.dtype)
    return y * build("power", x, y - 1.0), by_y


def _arctan2_partials(build: Any, node: Any) -> tuple:
    y, x = node.args
    return x / (y * y + x * x), -y / (y * y + x * x)


def _shift_right_logical(x: Any, y: Any) -> Any:
    unsigned = {4: np.uint32, 8: np.uint64}[x.dtype.itemsize]
    return (x.view(unsigned) >> np.asarray(y).astype(unsigned)).view(x.dtype)


def _erf(x: Any) -> Any:
    return np.vectorize(erf, otypes=[float])(x).astype(np.asarray(x).dtype)


OPERATIONS: dict[str, Operation] = {
    # Arithmetic.
    "add": Operation(
        value=np.add, xla=jnp.add, cuda="{0} + {1}", llvm=Instruction("fadd contract", "add"),
        primitives=("add", "add_any"), partials=_constant_partials(1, 1), is_commutative=True, latency=4,
    ),
    "subtract": Operation(
        value=np.subtract, xla=jnp.subtract, cuda="{0} - {1}", llvm=Instruction("fsub contract", "sub"),
        primitives=("sub",), partials=_constant_partials(1, -1), latency=4,
    ),
    "multiply": Operation(
        value=np.multiply, xla=jnp.multiply, cuda="{0} * {1}", llvm=Instruction("fmul contract", "mul"),
        primitives=("mul",), partials=lambda build, node: node.args[::-1], is_commutative=True, latency=4,
    ),
    "divide": Operation(
        value=np.divide, xla=jnp.divide, cuda="quotient({0}, {1})", llvm=Instruction("fdiv", None), latency=16,
        partials=lambda build, node: (1.0 / node.args[1], -(node / node.args[1])), is_total=False,
    ),
    "fma": Operation(  # x y + z, with one rounding where a target can
        value=lambda x, y, z: x * y + z, xla=lambda x, y, z: x * y + z, cuda="fma({0}, {1}, {2})",
        llvm=Intrinsic("fma"), latency=4,
    ),
    "negative": Operation(
        value=np.negative, xla=jnp.negative, cuda="-{0}", llvm=BY_TYPE, primitives=("neg",),
        partials=_constant_partials(-1),
    ),
    "absolute": Operation(
        value=np.abs, xla=jnp.abs, cuda="fabs({0})", llvm=Intrinsic("fabs"), primitives=("abs",),
        partials=_absolute_partials, is_nonnegative=True,
    ),
    "maximum": Operation(
        value=np.maximum, xla=jnp.maximum, cuda="maximum({0}, {1})", llvm=BY_TYPE, primitives=("max",),
        partials=_choose("greater_equal"), is_commutative=True,
    ),
    "minimum": Operation(
        value=np.minimum, xla=jnp.minimum, cuda="minimum({0}, {1})", llvm=BY_TYPE, primitives=("min",),
        partials=_choose("less_equal"), is_commutative=True,
    ),
    "larger": Operation(  # a maximum in one instruction, in which NaN may get lost
        value=lambda x, y: np.where(x > y, x, y), xla=lambda x, y: jnp.where(x > y, x, y),
        cuda="{0} > {1} ? {0} : {1}", llvm=BY_TYPE, partials=_choose("greater"),
    ),
    "floor": Operation(
        value=np.floor, xla=jnp.floor, cuda="floor({0})", llvm=Intrinsic("floor"), primitives=("floor",)
    ),
    "ceil": Operation(value=np.ceil, xla=jnp.ceil, cuda="ceil({0})", llvm=Intrinsic("ceil"), primitives=("ceil",)),
    "rint": Operation(value=np.rint, xla=jnp.rint, cuda="rint({0})", llvm=Intrinsic("rint")),
    "sqrt": Operation(
        value=np.sqrt, xla=jnp.sqrt, cuda="root({0})", llvm=Intrinsic("sqrt"), primitives=("sqrt",), latency=20,
        partials=lambda build, node: (0.5 / node,), is_total=False, is_nonnegative=True,
    ),
    # Functions.
    "cbrt": function("cbrt", np.cbrt, jnp.cbrt, lambda build, x, y: (1.0 / 3.0) / (y * y)),
    "exp": function("exp", np.exp, jnp.exp, lambda build, x, y: y, is_nonnegative=True),
    "expm1": function("expm1", np.expm1, jnp.expm1, lambda build, x, y: y + 1.0),
    "log": function("log", np.log, jnp.log, lambda build, x, y: 1.0 / x, is_total=False),
    "log1p": function("log1p", np.log1p, jnp.log1p, lambda build, x, y: 1.0 / (1.0 + x), is_total=False),
    "sin": function("sin", np.sin, jnp.sin, lambda build, x, y: build("cos", x)),
    "cos": function("cos", np.cos, jnp.cos, lambda build, x, y: -build("sin", x)),
    "tan": function("tan", np.tan, jnp.tan, lambda build, x, y: 1.0 + y * y),
    "arcsin": function(
        "asin", np.arcsin, jnp.arcsin, lambda build, x, y: 1.0 / build("sqrt", 1.0 - x * x), is_total=False
    ),
    "arccos": function(
        "acos", np.arccos, jnp.arccos, lambda build, x, y: -1.0 / build("sqrt", 1.0 - x * x), is_total=False
    ),
    "arctan": function("atan", np.arctan, jnp.arctan, lambda build, x, y: 1.0 / (1.0 + x * x)),
    "sinh": function("sinh", np.sinh, jnp.sinh, lambda build, x, y: build("cosh", x)),
    "cosh": function("cosh", np.cosh, jnp.cosh, lambda build, x, y: build("sinh", x)),
    "tanh": function("tanh", np.tanh, jnp.tanh, lambda build, x, y: 1.0 - y * y),
    "erf": function(
        "erf", _erf, jax.scipy.special.erf, lambda build, x, y: (2.0 / np.sqrt(np.pi)) * build("exp", -(x * x))
    ),
    "power": Operation(
        value=np.power, xla=jnp.power, cuda="pow({0}, {1})", llvm=Library("pow"), partials=_power_partials,
        is_total=False, is_costly=True,
    ),
    "arctan2": Operation(
        value=np.arctan2, xla=jnp.arctan2, cuda="atan2({0}, {1})", llvm=Library("atan2"), primitives=("atan2",),
        partials=_arctan2_partials, is_total=False, is_costly=True,
    ),
    # Bits of whole numbers, and truth values.
    "and": _bits("and", np.bitwise_and, jnp.bitwise_and, "&", "and", is_commutative=True),
    "or": _bits("or", np.bitwise_or, jnp.bitwise_or, "|", "or", is_commutative=True),
    "xor": _bits("xor", np.bitwise_xor, jnp.bitwise_xor, "^", "xor", is_commutative=True),
    "not": Operation(value=np.invert, xla=jnp.bitwise_not, cuda=BY_TYPE, llvm=BY_TYPE, primitives=("not",)),
    "shift_left": _bits(
        "shift_left", lambda x, y: np.left_shift(x, np.asarray(y).astype(x.dtype)), jnp.left_shift, "<<", "shl"
    ),
    "shift_right_logical": Operation(
        value=_shift_right_logical, xla=BY_TYPE, cuda=BY_TYPE, llvm=BY_TYPE, primitives=("shift_right_logical",)
    ),
    "shift_right_arithmetic": _bits(
        "shift_right_arithmetic", lambda x, y: np.right_shift(x, np.asarray(y).astype(x.dtype)), jnp.right_shift, ">>",
        "ashr",
    ),
    # Comparisons and choice.
    "equal": _comparison(("eq",), np.equal, jnp.equal, "==", "oeq", "eq", "eq", is_commutative=True),
    "not_equal": _comparison(("ne",), np.not_equal, jnp.not_equal, "!=", "une", "ne", "ne", is_commutative=True),
    "less": _comparison(("lt", "lt_to"), np.less, jnp.less, "<", "olt", "slt", "ult"),
    "less_equal": _comparison(("le", "le_to"), np.less_equal, jnp.less_equal, "<=", "ole", "sle", "ule"),
    "greater": _comparison(("gt",), np.greater, jnp.greater, ">", "ogt", "sgt", "ugt"),
    "greater_equal": _comparison(("ge",), np.greater_equal, jnp.greater_equal, ">=", "oge", "sge", "uge"),
    "isfinite": Operation(
        value=np.isfinite, xla=jnp.isfinite, cuda="isfinite({0})", llvm=BY_TYPE, primitives=("is_finite",),
        is_condition=True,
    ),
    "select": Operation(  # differentiated case by case
        value=np.where, xla=jnp.where, cuda="{0} ? {1} : {2}", llvm=BY_TYPE
    ),
    # Representations.
    "convert": Operation(
        value=BY_TYPE, xla=BY_TYPE, cuda=BY_TYPE, llvm=BY_TYPE, partials=_constant_partials(1)
    ),
    "bitcast": Operation(value=BY_TYPE, xla=BY_TYPE, cuda=BY_TYPE, llvm=BY_TYPE),
}  # fmt: skip


def evaluate(name: str, dtype: str, *arguments: Any) -> Any:
    """The value of an operation on NumPy numbers or arrays."""
    with np.errstate(all="ignore"):
        if name == "convert":
            return np.asarray(arguments[0]).astype(dtype)
        if name == "bitcast":
            return np.asarray(arguments[0]).view(dtype)
        value = OPERATIONS[name].value
        assert callable(value)
        return np.asarray(value(*arguments)).astype(dtype)
