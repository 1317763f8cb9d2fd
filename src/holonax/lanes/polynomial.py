"""Equations that are polynomials in one unknown: their coefficients, computed once, and the root of a quadratic."""

from __future__ import annotations

from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

from holonax.lanes.graph import Build, Node

HIGHEST_POWER = 4


def coefficients_of(node: Node, x: Node) -> list[Node] | None:
    """Of an expression in powers of the unknown x, lowest first; None if it is nothing so simple."""

    @cache
    def powers(node: Node) -> list[Node] | None:
        if node is x:
            return [node.build.number(0, x.dtype), node.build.number(1, x.dtype)]
        if x not in node.unknowns:
            return [node]
        parts = [powers(argument) for argument in node.args] if node.name in _RULES else [None]
        if any(part is None for part in parts):
            return None
        result = _RULES[node.name](node.build, *parts)
        return result if len(result) <= HIGHEST_POWER + 1 else None

    return powers(node)


def horner(build: Build, coefficients: list[Node], x: Node) -> Node:
    """A polynomial, highest power first."""
    value = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def derivative_of(coefficients: list[Node]) -> list[Node]:
    """Coefficients of the derivative."""
    return [i * c for i, c in enumerate(coefficients)][1:]


class Quadratic(NamedTuple):
    """A root of a quadratic, unless there is `none`, or the slope where Newton would begin is `singular`."""

    root: Node
    none: Node
    singular: Node


def quadratic(build: Build, coefficients: list[Node], guess: Node) -> Quadratic:
    r"""The root that Newton's method goes to from a `guess`, in closed form.

    With $f(\mathrm{guess} + y) = c + 2 b y + a y^2$ the iteration ends at the root on the guess's side of the vertex
    $-b/a$, which is $y = -c/(b \pm \sqrt{b^2 - a c})$ with the sign of $b$: nothing cancels, and $a = 0$ is no
    exception.  Where $b = 0$ the first step is not defined.
    """
    value, slope = (horner(build, powers, guess) for powers in (coefficients, derivative_of(coefficients)))
    c, b, a = _without_common_factor([value, 0.5 * slope, coefficients[2]])
    zero = build.number(0, guess.dtype)
    below = b * b - a * c
    distance = build("sqrt", build.larger(below, zero))
    signed = build("select", build("less", b, zero), -distance, distance)
    return Quadratic(guess - c / (b + signed), build("less", below, zero), build("equal", b, zero))


def _without_common_factor(numbers: list[Node]) -> list[Node]:
    factors = [set(x.args) if x.name == "multiply" else set() for x in numbers]
    common = set.intersection(*factors)
    return [x.args[x.args[0] in common] for x in numbers] if common else numbers


def _sum(build: Build, a: list[Node], b: list[Node]) -> list[Node]:
    zero = build.number(0, a[0].dtype)
    return [x + y for x, y in zip_longest(a, b, fillvalue=zero)]


def _product(build: Build, a: list[Node], b: list[Node]) -> list[Node]:
    result = [build.number(0, a[0].dtype)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            result[i + j] = result[i + j] + x * y
    return result


_RULES: dict[str, Any] = {
    "add": _sum,
    "subtract": lambda build, a, b: _sum(build, a, [-x for x in b]),
    "negative": lambda build, a: [-x for x in a],
    "multiply": _product,
}
