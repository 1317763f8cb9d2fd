"""Numbers for readers: with as many digits as are known."""

from __future__ import annotations

import math
import re

_DIGITS = 8  # of a number, at most


def rounded(value: float, error: float) -> str:
    """A number to the second digit of its error; to six digits if that is unknown or 0, a dash if it is no number.

    >>> rounded(0.612487, 0.13), rounded(1.00234, 0.0041), rounded(123456.0, 230.0), rounded(math.nan, 1.0)
    ('0.61', '1.0023', '123460', '-')
    """
    if not math.isfinite(value):
        return "-"
    if not (math.isfinite(error) and error > 0):
        return f"{value:.6g}"
    decimals = 1 - math.floor(math.log10(error))
    if value:
        decimals = min(decimals, _DIGITS - 1 - math.floor(math.log10(abs(value))))
    if abs(value) and not -5 < math.log10(abs(value)) < 7:
        digits = max(0, math.floor(math.log10(abs(value))) + decimals)
        return f"{value:.{min(digits, 15)}e}"
    return f"{round(value, decimals):.{min(max(0, decimals), 15)}f}"


def error_text(error: float) -> str:
    """An error or a half-width to two digits; a dash where it is not known."""
    if not math.isfinite(error):
        return "-"
    return f"{error:#.2g}".removesuffix(".") if error else "0"


def with_error(value: float, error: float) -> str:
    """Both: `0.61 ± 0.13`."""
    return f"{rounded(value, error)} ± {error_text(error)}" if math.isfinite(error) else rounded(value, error)


def how_many(number: int, what: str) -> str:
    """A number of things: `1 constraint`, `2 constraints`, `no constraints`."""
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def power(value: float) -> str:
    """A step size as it is best read: `2^-6`, or the number.

    >>> power(2.0**-6), power(0.1), power(1.0)
    ('2^-6', '0.1', '1')
    """
    exponent = math.log2(value) if value > 0 and math.isfinite(value) else 0.5
    return f"2^{round(exponent)}" if exponent == round(exponent) and exponent < -1 else f"{value:.6g}"


def raised(text: str) -> str:
    """A text with its powers of whole numbers raised.

    >>> raised("2^-10 to 2^-4")
    '2⁻¹⁰ to 2⁻⁴'
    """
    return re.sub(r"\^(-?\d+)", lambda power: power[1].translate(_RAISED), text)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(number: float) -> str:
    """A number as it is said: 12,300 or 1.2 million.

    >>> count(950), count(12300), count(1.2e6), count(3.4e9)
    ('950', '12,300', '1.2 million', '3.4 billion')
    """
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(number) >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:,.0f}"
