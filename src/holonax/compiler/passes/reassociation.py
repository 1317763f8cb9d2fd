"""Reassociation: products are bracketed so that many of them share a factor.

Where c is the same in all steps, as h or a mass, c (a b), c (a' b), ... are written with one c b for all of them, which
is then computed once.
"""

from __future__ import annotations

from collections import Counter

from holonax.compiler.ir.program import Program
from holonax.compiler.passes.liveness import live_nodes


def share_constant_factors(program: Program) -> Program:
    """Let products with the shared factor stand for the products as they were."""
    build, nodes = program.build, live_nodes(program)
    products = [
        (node, c, product)
        for node in nodes
        if node.name == "multiply"
        for c, product in (node.args, node.args[::-1])
        if not c.loops and product.name == "multiply"
    ]
    uses = Counter(argument for node in nodes for argument in map(program.final, node.args))
    count = Counter((c, factor) for _, c, product in products for factor in set(product.args))
    for node, c, product in products:
        factor = max(product.args, key=lambda x: (count[c, x], x.index))
        if count[c, factor] > 1 and uses[product] == 1:
            other = product.args[product.args[0] is factor]
            scaled = build.shared("multiply", node.dtype, (c, factor))
            program.stands_for[node] = build.shared("multiply", node.dtype, (scaled, other))
    return program
