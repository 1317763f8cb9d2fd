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

_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
_ROUND = 1.5 * 2.0**52
"""Adding it to a number below 2^51 rounds to a whole number, whose bits are then the low ones of the sum."""

EXPONENTIAL = (5.000000000000001e-01, 1.6666666666666669e-01, 4.1666666666624164e-02, 8.333333333330065e-03,
               1.3888888917196719e-03, 1.9841269863040545e-04, 2.4801521322368692e-05, 2.7557268480310024e-06,
               2.7620075879983367e-07, 2.5100375832561234e-08)  # fmt: skip
"""$(e^r - 1 - r)/r^2$ in powers of r, for $|r| \\le (\\log 2)/2$."""


def _sin_cos(build: Build, x: Node, turns: int) -> Node:
    r"""$\sin(x + \mathrm{turns} \cdot \pi/2)$, in double precision.

    With n the nearest whole number to $2x/\pi$, fused multiplications subtract $n\pi/2$ in three parts; the first is
    exact.  Beyond $2^{50}$ a double does not know its angle: NaN, hence a status.
    """
    rounded = build("fma", x, build.number(2 / np.pi, x.dtype), build.number(_ROUND, x.dtype))
    n = rounded - _ROUND
    r = x
    for part in _HALF_PI:
        r = build("fma", -n, build.number(part, x.dtype), r)
    sine, cosine = elementary.sin_cos(r)  # type: ignore[arg-type]
    quadrant = build("bitcast", rounded, dtype="int64") + turns
    odd, negative = (build("not_equal", quadrant & bit, build.number(0, "int64")) for bit in (1, 2))
    value = build("select", odd, cosine, sine)
    known = build("less", abs(x), build.number(2.0**50, x.dtype))
    return build("select", known, build("select", negative, -value, value), build.number(np.nan, x.dtype))


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


FUNCTIONS: dict[str, Callable[[Build, Node], Node]] = {
    "sin": _in_double(lambda build, x: _sin_cos(build, x, 0)),
    "cos": _in_double(lambda build, x: _sin_cos(build, x, 1)),
    "log": _in_double(_log),
    "exp": _in_double(_exp),
}
