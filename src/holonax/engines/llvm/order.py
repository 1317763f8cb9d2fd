"""An order of operations that keeps a processor busy.

A processor looks only some dozens of operations ahead, so chains of operations that wait for each other must be
written interleaved.  This is list scheduling: go through time, and whenever something can begin, let the operation
begin that stood first in the program.  As little as possible is moved forward, so that few values are alive at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.operations import OPERATIONS

PER_CYCLE = 2
"""Operations that a processor begins at a time."""


def interleaved(nodes: list[Node], final: Callable[[Node], Node]) -> list[Node]:
    """The nodes of a straight piece of a program, in an order that hides latencies."""
    place = {node: i for i, node in enumerate(nodes)}
    waiting: dict[Node, int] = {}
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        inside = {x for x in map(final, node.args) if x in place}
        waiting[node] = len(inside)
        for x in inside:
            users[x].append(node)
    ready = [(i, node) for node, i in place.items() if not waiting[node]]
    later: list[tuple[int, int, Node]] = []
    order: list[Node] = []
    time = 0
    while ready or later:
        while later and later[0][0] <= time:
            _, i, node = heappop(later)
            heappush(ready, (i, node))
        for _ in range(min(PER_CYCLE, len(ready))):
            _, node = heappop(ready)
            order.append(node)
            end = time + (OPERATIONS[node.name].latency if node.args else 1)
            for user in users[node]:
                waiting[user] -= 1
                if not waiting[user]:
                    heappush(later, (end, place[user], user))
        time = time + 1 if ready or not later else max(time + 1, later[0][0])
    return order
