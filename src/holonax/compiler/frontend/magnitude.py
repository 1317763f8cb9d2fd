"""Magnitudes of equations as lanes: what was added and cancelled in their evaluation.

`holonax.numerics.roundoff` derives them.  What does not depend on the unknowns is data: its magnitude is its size.
"""

from __future__ import annotations

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
            return _magnitude(build, node, [known[x] for x in node.args])
        if node in slack:
            return abs(node) + slack[node]
        return abs(node) if node.dtype in FLOATS else build.number(0, rows[0].dtype)

    return evaluated(rows, known, sources, size)


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


def _magnitude(build: Build, node: Node, sizes: list[Node]) -> Node:
    """By the rules of a running error analysis."""
    if node.name in ("add", "subtract"):  # m(a + b) = m(a) + m(b)
        return sizes[0] + sizes[1]
    if node.name == "negative":
        return sizes[0]
    if node.name == "multiply":  # m(a b) = |a| m(b) + m(a) |b|, of which the first is half or more where a is data
        (a, b), (size_a, size_b) = node.args, sizes
        terms = [abs(x) * size for x, size, y in ((a, size_b, b), (b, size_a, a)) if y.depends_on_unknowns]
        return build.total(terms)
    if node.name == "select":
        return build("select", node.args[0], sizes[1], sizes[2])
    size = abs(node)
    if (partials := OPERATIONS[node.name].partials) is not None:
        for x, partial, own in zip(node.args, partials(build, node), sizes, strict=True):
            if x.depends_on_unknowns:
                size = size + abs(partial) * build("convert", own, dtype=node.dtype)
    return size
