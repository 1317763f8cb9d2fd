"""Elementary functions that kernels compute themselves, as lanes: vectorised, without calls, the same on every target.

Accuracy is measured in tests/numerics/test_elementary.py, through the engines.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from holonax.compiler.frontend.translate import array_of, translate_closed
from holonax.compiler.ir.graph import Build, Node
from holonax.numerics import elementary

_PI = (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33)
"""To be multiplied and subtracted with one rounding: the first difference is then exact."""
_SHORT_PI = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21)
"""Two parts of 33 and 32 bits, whose products with a number of 20 bits are exact by themselves."""
_LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
_ROUND = 1.5 * 2.0**52
"""Adding it to a number below 2^51 rounds to a whole number, whose bits are then the low ones of the sum."""
_OVERFLOW = 2.0**973
"""Times a number below 2^51 is finite."""

EXPONENTIAL = (5.000000000000001e-01, 1.6666666666666669e-01, 4.1666666666624164e-02, 8.333333333330065e-03,
               1.3888888917196719e-03, 1.9841269863040545e-04, 2.4801521322368692e-05, 2.7557268480310024e-06,
               2.7620075879983367e-07, 2.5100375832561234e-08)  # fmt: skip
"""$(e^r - 1 - r)/r^2$ in powers of r, for $|r| \\le (\\log 2)/2$."""


def _sine(build: Build, x: Node, shift: float) -> Node:
    r"""$\sin(x + \mathrm{shift} \cdot \pi)$ for a shift of 0 or 1/2, in double precision, with fused products.

    With n the nearest whole number to $x/\pi$ + shift, $(n - \mathrm{shift})\pi$ is subtracted in three parts, of which
    the first leaves no error.  For the first product n is scaled so that it overflows where n is not exact any more,
    from $2^{51}$ on: the result is then not finite, hence a status.
    """
    number = partial(build.number, dtype=x.dtype)
    rounded = build("fma", x, number(1 / np.pi), number(shift)) + _ROUND
    n = rounded - _ROUND
    r = build("fma", build("fma", n, number(-_OVERFLOW), number(shift * _OVERFLOW)), number(_PI[0] / _OVERFLOW), x)
    for part in _PI[1:]:
        r = build("fma", shift - n, number(part), r)
    return _signed(build, elementary.sine(r), build("bitcast", rounded, dtype="int64"))  # type: ignore[arg-type]


def _sine_without_fma(build: Build, x: Node, shift: float) -> Node:
    """The same where products are rounded: exact up to a smaller angle, beyond which it is NaN."""
    n = build("rint", x * (1 / np.pi) + shift)  # XLA would take adding and subtracting _ROUND for nothing
    r = x
    for part in _SHORT_PI:
        r = r + (shift - n) * part
    value = _signed(build, elementary.sine(r), build("convert", n, dtype="int64"))  # type: ignore[arg-type]
    inside = build("less", abs(x), build.number(2.0**20, x.dtype))
    return build("select", inside, value, build.number(np.nan, x.dtype))


def _signed(build: Build, value: Node, whole: Node) -> Node:
    """Changes the sign for odd numbers."""
    sign = build("shift_left", whole, build.number(63, "int64"))
    return build("bitcast", build("xor", build("bitcast", value, dtype="int64"), sign), dtype=value.dtype)


def _log(build: Build, x: Node) -> Node:
    tiny, infinity = (build.number(value, x.dtype) for value in (np.finfo(np.float64).tiny, np.inf))
    small = build("less", x, tiny)
    scaled = build("select", small, x * 2.0**54, x)
    traced = jax.make_jaxpr(elementary.log)(jax.ShapeDtypeStruct((), np.float64))
    value = translate_closed(build, traced, [array_of([scaled], ())])[0].item()
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
    "sin": _in_double(partial(_sine, shift=0.0)),
    "cos": _in_double(partial(_sine, shift=0.5)),
    "log": _in_double(_log),
    "exp": _in_double(_exp),
}
"""For targets that multiply and add with one rounding."""

FUNCTIONS_WITHOUT_FMA = {
    "sin": _in_double(partial(_sine_without_fma, shift=0.0)),
    "cos": _in_double(partial(_sine_without_fma, shift=0.5)),
}
"""For others."""
