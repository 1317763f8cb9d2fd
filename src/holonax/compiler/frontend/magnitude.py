"""Magnitudes of equations as lanes: what was added and cancelled in their evaluation.

`holonax.numerics.roundoff` derives them.  What does not depend on the unknowns is data: its magnitude is its size.
"""

from __future__ import annotations

from collections.abc import Callable

from holonax.compiler.ir.graph import Build, Node, combined, evaluated
from holonax.compiler.ir.operations import FLOATS, OPERATIONS
from holonax.numerics.roundoff import beside_others


def magnitudes(
    build: Build, rows: list[Node], motions: list[Node] | None = None, moves_are_small: bool = False
) -> list[Node]:
    """The magnitude of each row, as an expression of the same unknowns, of which some are `motions`.

    Where `moves_are_small`, a place $q + hV$ counts as itself instead of as $|q| + |hV|$: that costs less, and is less
    only for a coordinate that moves to zero.
    """
    known: dict[Node, Node] = {}
    slack: dict[Node, Node] = {}
    if motions and rows:
        largest = combined(build.larger, [abs(x) for x in motions])
        slack = dict.fromkeys(motions, beside_others(rows[0].dtype) * largest)
    sums = _sums(rows) if moves_are_small else set()

    def sources(node: Node) -> tuple[Node, ...]:
        if not node.depends_on_unknowns or node.dtype not in FLOATS:
            return ()
        return () if moves_are_small and node not in sums and _is_place(node) else node.args

    def size(node: Node) -> Node:
        if sources(node):
            return _magnitude(build, node, [known[x] for x in node.args], lambda x: x.depends_on_unknowns)
        if node in slack:
            return abs(node) + slack[node]
        return abs(node) if node.dtype in FLOATS else build.number(0, rows[0].dtype)

    return evaluated(rows, known, sources, size)


def magnitude_of(build: Build, node: Node, known: dict[Node, Node]) -> Node:
    """The magnitude of one node, given those of the inputs that are no data."""
    sizes, concerned = dict(known), frozenset(known)

    def moves(node: Node) -> bool:
        return bool(node.unknowns & concerned)

    def sources(node: Node) -> tuple[Node, ...]:
        return node.args if moves(node) and node.dtype in FLOATS else ()

    def size(node: Node) -> Node:
        if sources(node):
            return _magnitude(build, node, [sizes[x] for x in node.args], moves)
        return abs(node) if node.dtype in FLOATS else build.number(0, "float64")

    return evaluated([node], sizes, sources, size)[0]


def _sums(rows: list[Node]) -> set[Node]:
    """What a row is the sum of, not counting products of unknowns."""
    found: set[Node] = set()
    stack = list(rows)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            unknown = [x for x in node.args if x.depends_on_unknowns]
            if node.name in ("add", "subtract", "negative") or (node.name == "multiply" and len(unknown) == 1):
                stack += unknown
    return found


def _is_place(node: Node) -> bool:
    """Whether this is data and a multiple of one unknown."""
    if node.name not in ("add", "subtract") or all(x.depends_on_unknowns for x in node.args):
        return False
    move = node.args[node.args[1].depends_on_unknowns]
    return move.name == "unknown" or (move.name == "multiply" and any(x.name == "unknown" for x in move.args))


def _magnitude(build: Build, node: Node, sizes: list[Node], moves: Callable[[Node], bool]) -> Node:
    """By the rules of a running error analysis; what does not `move` is data."""
    if node.name in ("add", "subtract"):  # m(a + b) = m(a) + m(b)
        return sizes[0] + sizes[1]
    if node.name == "negative":
        return sizes[0]
    if node.name == "multiply":  # m(a b) = |a| m(b) + m(a) |b|, of which the first is half or more where a is data
        (a, b), (size_a, size_b) = node.args, sizes
        terms = [abs(x) * size for x, size, y in ((a, size_b, b), (b, size_a, a)) if moves(y)]
        return build.total(terms)
    if node.name == "select":
        return build("select", node.args[0], sizes[1], sizes[2])
    size = abs(node)
    if (partials := OPERATIONS[node.name].partials) is not None:
        for x, partial, own in zip(node.args, partials(build, node), sizes, strict=True):
            if moves(x):
                size = size + abs(partial) * build("convert", own, dtype=node.dtype)
    return size
