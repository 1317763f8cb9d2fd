"""Equations that are polynomials in one unknown: their coefficients, and the root of a quadratic."""

from __future__ import annotations

from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

from holonax.compiler.frontend.elimination import positive_at_random
from holonax.compiler.ir.graph import Build, Node

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


class Quadratic(NamedTuple):
    """A root of a quadratic, unless there is `none`, or two that coincide, where the slope is `singular`."""

    root: Node
    none: Node
    singular: Node


def quadratic(build: Build, coefficients: list[Node], rising: Node) -> Quadratic:
    r"""The root of $c + 2 b x + a x^2$ at which the slope is positive (if `rising`; otherwise negative).

    That is the near one: a slope keeps the sign that it has where nothing moves.  With $d = \sqrt{b^2 - a c}$ it is
    $-c/(b + d)$ for positive $b$ and $(d - b)/a$ for negative $b$, so that nothing cancels.
    """
    dtype = coefficients[0].dtype
    zero = build.number(0, dtype)
    factor, (c, b, a) = _common_factor([coefficients[0], 0.5 * coefficients[1], coefficients[2]])
    rising = build("equal", rising, positive_at_random(factor))
    c, b, a = (build("select", rising, x, -x) for x in (c, b, a))
    below = b * b - a * c
    distance = build("sqrt", build.larger(below, zero))
    up = build("greater_equal", b, zero)
    root = build("select", up, -c, distance - b) / build("select", up, b + distance, a)
    return Quadratic(root, build("less", below, zero), build("equal", below, zero))


def _common_factor(numbers: list[Node]) -> tuple[Node, list[Node]]:
    """A factor of all numbers, and what is left of them."""
    factors = [set(x.args) if x.name == "multiply" else set() for x in numbers]
    for common in sorted(set.intersection(*factors), key=lambda x: x.index):
        return common, [x.args[x.args[0] is common] for x in numbers]
    return numbers[0].build.number(1, numbers[0].dtype), numbers


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
