r"""Logarithm and sine as a few multiplications each, for the noise and for kernels.

A kernel spends most of its time on normal numbers, and a library's `log` and `cos` most of that.  These versions have
no branches and no tables, so that a compiler turns them into vector instructions, and every engine gets the same
numbers from them.  Their polynomials interpolate at Chebyshev points (computed with mpmath); the error, measured by
tests/numerics/test_elementary.py against mpmath, is below 2 units in the last place.
"""

from __future__ import annotations

import numpy as np
from jax import Array, lax

SINE = (-1.6666666666666666e-01, 8.333333333333316e-03, -1.9841269841254974e-04, 2.7557319219163234e-06,
        -2.5052107616996182e-08, 1.6058977312464087e-10, -7.643970296798572e-13, 2.7314447669863995e-15)  # fmt: skip
"""$(\\sin x - x)/x^3$ in powers of $x^2$, for $|x| \\le \\pi/2$."""

HALF_SINE = (1.5707963267948966, -6.459640975062443e-01, 7.969262624604301e-02, -4.681754132340976e-03,
             1.604411507421909e-04, -3.5986433529823095e-06, 5.6339337815378516e-08)  # fmt: skip
HALF_COSINE = (1.0, -1.2337005501361513, 2.5366950789986475e-01, -2.086348073494657e-02, 9.19259950041661e-04,
               -2.520013526428479e-05, 4.65529618748676e-07)  # fmt: skip
"""$\\sin(\\pi t/2)/t$ and $\\cos(\\pi t/2)$ in powers of $t^2$, for $|t| \\le 1/2$."""

LOGARITHM = (6.66666666666667e-01, 3.9999999999899505e-01, 2.8571428625975487e-01, 2.222221113479508e-01,
             1.8182889125261723e-01, 1.5331721600556042e-01, 1.4616449685043406e-01)  # fmt: skip
"""$(2\\,\\mathrm{artanh}\\,s - 2s)/s^3$ in powers of $s^2$, for $|s| \\le (\\sqrt2 - 1)/(\\sqrt2 + 1)$."""


def polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Horner's rule, lowest power first."""
    value = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        value = value * x + coefficient
    return value


def sine(x: Array) -> Array:
    r"""Sine of $|x| \le \pi/2$."""
    square = x * x
    return x + x * (square * polynomial(SINE, square))


def sine_and_cosine(t: Array) -> tuple[Array, Array]:
    r"""Of $\pi t/2$, for $|t| \le 1/2$."""
    square = t * t
    return t * polynomial(HALF_SINE, square), polynomial(HALF_COSINE, square)


def log(x: Array) -> Array:
    r"""Natural logarithm of a positive, normal number.

    With $x = 2^e (1 + f)$, $1/\sqrt2 \le 1 + f < \sqrt2$, and $s = f/(2 + f)$,
    $\log(1 + f) = 2\,\mathrm{artanh}\,s = f - s\,(f - s^2 R(s^2))$, whose leading term is exact.
    """
    whole, digits = (np.int64, 52) if x.dtype == np.float64 else (np.int32, 23)
    half = np.array(0.5**0.5, x.dtype).view(whole)
    bits = lax.bitcast_convert_type(x, whole)
    exponent = (bits - half) >> digits
    f = lax.bitcast_convert_type(bits - (exponent << digits), x.dtype) - 1.0
    s = f / (2.0 + f)
    square = s * s
    return (f - s * (f - square * polynomial(LOGARITHM, square))) + exponent.astype(x.dtype) * float(np.log(2.0))
