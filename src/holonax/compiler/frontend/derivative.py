"""Forward-mode differentiation on the graph: only the entries of a Jacobian that are not zero exist."""

from __future__ import annotations

from holonax.compiler.frontend.elimination import Row
from holonax.compiler.ir.graph import Build, Node, Untranslatable, evaluated
from holonax.compiler.ir.operations import FLOATS, OPERATIONS


def derivative(build: Build, rows: list[Node], unknowns: list[Node]) -> list[Row]:
    """Jacobian, row by row, without its zeros: forward mode on the graph."""
    tangents: dict[Node, Row] = {x: {i: build.number(1, x.dtype)} for i, x in enumerate(unknowns)}

    def tangent(node: Node) -> Row:
        result: Row = {}
        if node.name == "unknown" or not node.depends_on_unknowns:  # or those of other equations, around these
            return {}
        if node.name in ("parameter", "result"):
            raise Untranslatable("a loop inside the equations of a step")
        if node.name == "select":
            condition, x, y = node.args
            zero = build.number(0, node.dtype)
            for i in tangents[x].keys() | tangents[y].keys():
                result[i] = build("select", condition, tangents[x].get(i, zero), tangents[y].get(i, zero))
        elif (partials := OPERATIONS[node.name].partials) is not None and node.dtype in FLOATS:
            for x, partial in zip(node.args, partials(build, node), strict=True):
                for i, dx in tangents[x].items():
                    term = partial * build("convert", dx, dtype=node.dtype)
                    result[i] = result[i] + term if i in result else term
        return {i: d for i, d in sorted(result.items()) if not d.is_number(0)}

    def sources(node: Node) -> tuple[Node, ...]:
        return node.args if node.depends_on_unknowns else ()

    return evaluated(rows, tangents, sources, tangent)


def is_total(node: Node) -> bool:
    """Whether an expression of the unknowns is finite wherever they are: then no step can leave its domain."""
    seen, stack = set(), [node]
    while stack:
        top = stack.pop()
        if top not in seen and top.depends_on_unknowns:
            seen.add(top)
            if top.args and not OPERATIONS[top.name].is_total:
                return False
            stack += top.args
    return True
