"""Liveness, and with it dead-code elimination: what nobody needs is not computed, down to single values of a loop.

The graph is walked from what is wanted back to the inputs.  A method computes a velocity, a residual or a multiplier
that only some systems ever look at; here it disappears for the others.
"""

from __future__ import annotations

from collections import defaultdict

from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.program import Program


def eliminate_dead_code(program: Program) -> Program:
    """Find what is needed of each loop and table, and who uses what."""
    live_nodes(program)
    return program


def live_nodes(program: Program) -> list[Node]:
    """All nodes that lead to what is wanted, in the order in which they are met.

    `needed`, `entries` and `used_by` of the program are found on the way.
    """
    final, outermost = program.final, program.loop
    program.needed, program.entries = {outermost: set(program.wanted)}, {}
    program.used_by = defaultdict(set)
    seen: dict[Node, None] = {}  # unlike those of a set, its keys are in order
    stack: list[Node] = []

    def need(user: object, *nodes: Node) -> None:
        for node in nodes:
            program.used_by[final(node)].add(user)
        stack.extend(nodes)

    need(outermost, *(outermost.body[i] for i in program.wanted), program.build.alive)
    while stack:
        node = final(stack.pop())
        if node in seen:
            continue
        seen[node] = None
        need(node, *node.args)
        if node.name == "entry":
            table, _ = node.value
            if table not in program.entries:
                program.entries[table] = set()
                need((table, "body"), *table.outputs)
            program.entries[table].add(node)
        elif node.name in ("parameter", "result") and node.value is not None:
            loop, i = node.value
            if loop not in program.needed:
                program.needed[loop] = set()
                need(loop, loop.going, loop.alive)
            if i not in program.needed[loop]:
                program.needed[loop].add(i)
                need((loop, "body"), loop.body[i])
                if loop is not outermost:
                    need(loop, loop.begin[i])
    return list(seen)
