"""As-soon-as-possible scheduling: an order for long programs, in which what can be computed is computed at once.

Placement computes first what is needed first: a back substitution as a whole before the numbers that follow from it one
by one, and a sum where it is asked for, long after its terms.  In loops over the links of a chain, all of these would
be stored and read again.  Here that order still says which numbers come next, but what follows from them comes with
them, in the order in which it becomes possible; and a sum takes its terms as they come.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from functools import partial
from typing import final

from holonax.compiler.ir.graph import Loop, Node, combined
from holonax.compiler.ir.operations import FLOATS
from holonax.compiler.ir.program import Block, Items, Program
from holonax.compiler.passes.repeats import FEWEST

_SUMS = ("add", "larger")
"""Operations that may take many terms in any order."""


def compute_as_soon_as_possible(program: Program) -> Program:
    """The same program with the operations of its steps in that order."""
    used_by = defaultdict(set, {node: set(users) for node, users in program.used_by.items()})
    program = replace(program, stands_for=dict(program.stands_for), used_by=used_by)
    program.body = _ordered(program, program.body)
    return program


def _ordered(program: Program, items: Items) -> Items:
    inside = [
        replace(item, body=_ordered(program, item.body)) if isinstance(item, Block) and not item.loop.rare else item
        for item in items
    ]
    return _Order(program, inside).run()


@dataclass
class _Sum:
    """Of many terms: so many are still `coming`, some are `known` from elsewhere, `now` is what has been added up."""

    root: Node
    coming: int
    known: list[Node]
    now: Node | None = None


@final
class _Order:
    """Of one list of items; what is `pending` will be computed in it."""

    def __init__(self, program: Program, items: Items) -> None:
        self.program, self.items, self.final = program, items, program.final
        nodes = [x for x in items if isinstance(x, Node)]
        self.pending: set[Node | Loop] = {*nodes, *(x.loop for x in items if isinstance(x, Block))}
        self.order: Items = []
        self.sums: dict[Node, _Sum] = {}
        self.sums_with: dict[Node, list[_Sum]] = defaultdict(list)
        parts = {part for node in nodes for part in self._parts_of_sum(node)}
        self.users: dict[Node, list[Node]] = defaultdict(list)
        for node in nodes:
            for x in dict.fromkeys(map(self.final, node.args if node not in parts else ())):
                self.users[x].append(node)

    def run(self) -> Items:
        """Item by item, each with all that follows from it."""
        for item in self.items:
            if isinstance(item, Node):
                following = deque(self._at_its_turn(item))
                while following:
                    node = following.popleft()
                    self.order.append(node)
                    following += self._after(node)
            else:
                self.order.append(item)
                if isinstance(item, Block):
                    self.pending.discard(item.loop)
        return self.order

    def _at_its_turn(self, node: Node) -> list[Node]:
        if node not in self.pending:
            return []
        return self._complete(self.sums[node]) if node in self.sums else [node]

    def _after(self, node: Node) -> list[Node]:
        """What can be computed, now that a node has been."""
        self.pending.discard(node)
        possible = [user for user in self.users[node] if not any(map(self._is_pending, user.args))]
        for whole in self.sums_with[node]:
            whole.coming -= 1
            term = self.final(node)
            whole.now = term if whole.now is None else self._add(whole.root, whole.now, term)
            if not whole.coming and not any(map(self._is_pending, whole.known)):
                possible += self._complete(whole)
        return possible

    def _is_pending(self, node: Node) -> bool:
        node = self.final(node)
        return (node.value[0] if node.name == "result" and node.value else node) in self.pending

    # Sums.

    def _parts_of_sum(self, root: Node) -> list[Node]:
        """The operations of a sum of many terms that a node is the last of, if it is one; nobody uses the others."""
        if not self._is_sum(root) or self._is_part(root, root.name):
            return []
        parts, terms, stack = [], [], [root]
        while stack:
            top = stack.pop()
            if top is root or self._is_part(top, root.name):
                parts.append(top)
                stack += map(self.final, reversed(top.args))
            else:
                terms.append(top)
        coming = [x for x in terms if x in self.pending]
        if len(coming) < FEWEST:
            return []
        self.sums[root] = _Sum(root, len(coming), [x for x in terms if x not in self.pending])
        for x in coming:
            self.sums_with[x].append(self.sums[root])
        for part in parts:
            for x in map(self.final, part.args):
                self.program.used_by[x].discard(part)
        for x in terms:
            self.program.used_by[x].add(root)
        self.pending.difference_update(parts[1:])
        return parts

    def _is_sum(self, node: Node) -> bool:
        return node.name in _SUMS and node.dtype in FLOATS and node in self.pending

    def _is_part(self, node: Node, name: str) -> bool:
        """Whether a sum is one term of another one, and nothing else."""
        if node.name != name or not self._is_sum(node) or len(self.program.used_by[node]) != 1:
            return False
        (user,) = self.program.used_by[node]
        return isinstance(user, Node) and user.name == name and [*map(self.final, user.args)].count(node) == 1

    def _add(self, root: Node, x: Node, y: Node) -> Node:
        made = Node(root.build, root.name, root.dtype, (x, y), None, root.index)
        for term in (x, y):
            self.program.used_by[term].discard(root)
            self.program.used_by[term].add(made)
        self.order.append(made)
        return made

    def _complete(self, whole: _Sum) -> list[Node]:
        """All terms have come: let the sum stand for its root."""
        root, result = whole.root, whole.now
        assert result is not None
        if whole.known:
            result = self._add(root, result, combined(partial(self._add, root), whole.known))
        self.program.exchange(root, result)
        return self._after(root)
