"""Elementary functions that kernels compute themselves, as lanes: vectorised, without calls, the same on every target.

Accuracy is measured in tests/test_elementary.py, through the engines.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from holonax import elementary
from holonax.lanes.graph import Build, Node
from holonax.lanes.translate import array_of, run_closed

_PI = (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33)
"""To be multiplied and subtracted with one rounding: the first difference is then exact."""
_SHORT_PI = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21)
"""Two parts of 33 and 32 bits, whose products with a number of 20 bits are exact by themselves."""
_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
_ROUND = 1.5 * 2.0**52
"""Adding it to a number below 2^51 rounds to a whole number, whose bits are then the low ones of the sum."""

EXPONENTIAL = (5.000000000000001e-01, 1.6666666666666669e-01, 4.1666666666624164e-02, 8.333333333330065e-03,
               1.3888888917196719e-03, 1.9841269863040545e-04, 2.4801521322368692e-05, 2.7557268480310024e-06,
               2.7620075879983367e-07, 2.5100375832561234e-08)  # fmt: skip
"""$(e^r - 1 - r)/r^2$ in powers of r, for $|r| \\le (\\log 2)/2$."""


def _sine(build: Build, x: Node, shift: float, fused: bool) -> Node:
    r"""$\sin(x + \mathrm{shift} \cdot \pi)$ for a shift of 0 or 1/2, in double precision.

    With n the nearest whole number to $x/\pi$ + shift, $(n - \mathrm{shift})\pi$ is subtracted in three parts, of which
    the first leave no error up to some angle.  Beyond it the result is NaN, hence a status.
    """
    parts, known = (_PI, 2.0**50) if fused else (_SHORT_PI, 2.0**20)
    turns = build("fma", x, build.number(1 / np.pi, x.dtype), build.number(shift, x.dtype))
    if fused:
        rounded = turns + _ROUND
        n, whole = rounded - _ROUND, build("bitcast", rounded, dtype="int64")
    else:  # XLA would take the two sums for one
        n = build("rint", turns)
        whole = build("convert", n, dtype="int64")
    r = x
    for part in parts:
        r = build("fma", shift - n, build.number(part, x.dtype), r)
    sign = build("shift_left", whole, build.number(63, "int64"))
    bits = build("xor", build("bitcast", elementary.sine(r), dtype="int64"), sign)  # type: ignore[arg-type]
    inside = build("less", abs(x), build.number(known, x.dtype))
    return build("select", inside, build("bitcast", bits, dtype=x.dtype), build.number(np.nan, x.dtype))


def _log(build: Build, x: Node) -> Node:
    tiny, infinity = (build.number(value, x.dtype) for value in (np.finfo(np.float64).tiny, np.inf))
    small = build("less", x, tiny)
    scaled = build("select", small, x * 2.0**54, x)
    traced = jax.make_jaxpr(elementary.log)(jax.ShapeDtypeStruct((), np.float64))
    value = run_closed(build, traced, [array_of([scaled], ())])[0].item()
    value = build("select", small, value - 54 * float(np.log(2.0)), value)
    value = build("select", build("less", x, infinity), value, x)  # infinity and NaN stay
    zero = build.number(0, x.dtype)
    low = build("select", build("equal", x, zero), -infinity, build.number(np.nan, x.dtype))
    return build("select", build("less_equal", x, zero), low, value)


def _exp(build: Build, x: Node) -> Node:
    low, high = build.number(-746.0, x.dtype), build.number(710.0, x.dtype)
    bounded = build("minimum", build("maximum", x, low), high)
    rounded = build("fma", bounded, build.number(1 / np.log(2.0), x.dtype), build.number(_ROUND, x.dtype))
    n = rounded - _ROUND
    r = bounded
    for part in _LN2:
        r = build("fma", -n, build.number(part, x.dtype), r)
    value = 1.0 + (r + r * r * elementary.polynomial(EXPONENTIAL, r))  # type: ignore[arg-type]
    # 2^n in two factors, each of which is a normal number
    whole = build("bitcast", rounded, dtype="int64") - int(np.float64(_ROUND).view(np.int64))
    half = build("shift_right_arithmetic", whole, build.number(1, "int64"))
    for power in (half, whole - half):
        exponent = build("shift_left", power + 1023, build.number(52, "int64"))
        value = value * build("bitcast", exponent, dtype=x.dtype)
    return build("select", build("equal", x, x), value, x)


def _in_double(function: Callable[[Build, Node], Node]) -> Callable[[Build, Node], Node]:
    def expand(build: Build, x: Node) -> Node:
        return build("convert", function(build, build("convert", x, dtype="float64")), dtype=x.dtype)

    return expand


FUNCTIONS = {
    "sin": _in_double(lambda build, x: _sine(build, x, 0.0, fused=True)),
    "cos": _in_double(lambda build, x: _sine(build, x, 0.5, fused=True)),
    "log": _in_double(_log),
    "exp": _in_double(_exp),
}
"""For targets that multiply and add with one rounding."""

FUNCTIONS_WITHOUT_FMA = {
    "sin": _in_double(lambda build, x: _sine(build, x, 0.0, fused=False)),
    "cos": _in_double(lambda build, x: _sine(build, x, 0.5, fused=False)),
}
"""For others."""
