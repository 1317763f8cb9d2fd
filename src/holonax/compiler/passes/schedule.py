"""From a graph to an ordered program: what is needed, and where it is computed.

A node is computed in the innermost loop that it depends on, so that what does not change in a loop is computed before
it; what nobody needs is not computed at all, down to single values carried by a loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import final

from holonax.compiler.ir.graph import Build, Loop, Node, Table

Expansions = Mapping[str, Callable[[Build, Node], Node]]


@final
@dataclass
class Block:
    """A loop in its place, with the values it changes: `test` computes whether a lane goes on, `body` what it does."""

    loop: Loop
    carried: list[int]
    test: Items = field(default_factory=list)
    body: Items = field(default_factory=list)


@final
@dataclass
class Rounds:
    """A table in its place: as many `rounds` of the `body` as there are entries that somebody needs."""

    table: Table
    rounds: int
    body: Items = field(default_factory=list)


Items = list[Node | Block | Rounds]


def pieces(items: Items) -> Iterator[list[Node] | Block | Rounds]:
    """The operations between two loops as one list, and the loops."""
    for is_operation, piece in groupby(items, key=lambda item: isinstance(item, Node)):
        if is_operation:
            yield list(piece)  # type: ignore[arg-type]
        else:
            yield from piece  # type: ignore[misc]


def visit(
    items: Items,
    straight: Callable[[list[Node]], None],
    loop: Callable[[Block], None],
    rounds: Callable[[Rounds], None],
) -> None:
    """Each piece in its turn, by what it is."""
    for piece in pieces(items):
        if isinstance(piece, Rounds):
            rounds(piece)
        elif isinstance(piece, Block):
            loop(piece)
        else:
            straight(piece)


@final
class Schedule:
    """The program of one `outermost` loop, of which the values `wanted` are: `before` it, and `body` in it.

    What is wanted first is computed first, and with it, one after the other, what it needs.

    `expansions` are functions that the target leaves to us; `final` gives the node that `stands_for` another one, also
    after expansion; `used_by` says which nodes and loops use a node.
    """

    def __init__(
        self, build: Build, outermost: Loop, wanted: list[int], expansions: Expansions, stands_for: dict[Node, Node]
    ) -> None:
        self.build, self.expansions, self.stands_for = build, expansions, stands_for
        self.outermost = outermost
        self.needed: dict[Loop, set[int]] = {}
        self.used_by: dict[Node, set[object]] = defaultdict(set)
        self._share_constants(self._find_needed(wanted))
        self._find_needed(wanted)
        self._sunk: dict[Node, Items] = {}
        self.before: Items = []
        self.body: Items = []
        self._places: list[tuple[Loop | Table | None, Items]] = [(None, self.before), (outermost, self.body)]
        self._done: set[Node] = set()
        self._done_loops: set[Loop] = set()
        self._done_tables: set[Table] = set()
        others = sorted(self.needed[outermost].difference(wanted))
        for output in [*(outermost.body[i] for i in (*wanted, *others)), build.alive]:
            self._place(output)

    def final(self, node: Node) -> Node:
        """What is computed for a node."""
        if node.name in self.expansions and node not in self.stands_for:
            self.stands_for[node] = self.expansions[node.name](self.build, self.final(node.args[0]))
        if node.name in ("parameter", "result") and node.value is not None and node not in self.stands_for:
            loop, i = node.value
            if loop is not self.outermost and loop.body[i] is loop.parameters[i]:  # what a loop never changes
                self.stands_for[node] = self.final(loop.begin[i])
        return self.stands_for.get(node, node)

    def exchange(self, old: Node, new: Node) -> None:
        """Let one node stand for another, and for all that the other one stood for."""
        self.stands_for.update({node: new for node, x in self.stands_for.items() if x is old} | {old: new})
        self.used_by[new] |= self.used_by.pop(old, set())

    def rounds(self, table: Table) -> int:
        """How many of them compute all entries of a table that somebody needs."""
        return max(entry.value[1] for entry in self.entries[table]) // len(table.outputs) + 1

    def size(self) -> int:
        """Number of operations."""

        def count(items: Items) -> int:
            return sum(1 if isinstance(x, Node) else count(getattr(x, "test", [])) + count(x.body) for x in items)

        return count(self.before) + count(self.body)

    def _share_constants(self, nodes: set[Node]) -> None:
        """Write c (a b), c (a' b), ... with one c b for all of them, where c is the same in all steps."""
        products = [
            (node, c, product)
            for node in nodes
            if node.name == "multiply"
            for c, product in (node.args, node.args[::-1])
            if not c.loops and product.name == "multiply"
        ]
        uses = Counter(argument for node in nodes for argument in map(self.final, node.args))
        count = Counter((c, factor) for _, c, product in products for factor in set(product.args))
        for node, c, product in products:
            factor = max(product.args, key=lambda x: (count[c, x], x.index))
            if count[c, factor] > 1 and uses[product] == 1:
                other = product.args[product.args[0] is factor]
                scaled = self.build.shared("multiply", node.dtype, (c, factor))
                self.stands_for[node] = self.build.shared("multiply", node.dtype, (scaled, other))

    def _find_needed(self, wanted: list[int]) -> set[Node]:
        self.needed = {self.outermost: set(wanted)}
        self.entries: dict[Table, set[Node]] = {}
        self.used_by.clear()
        seen: set[Node] = set()
        stack: list[Node] = []

        def need(user: object, *nodes: Node) -> None:
            for node in nodes:
                self.used_by[self.final(node)].add(user)
            stack.extend(nodes)

        need(self.outermost, *(self.outermost.body[i] for i in wanted), self.build.alive)
        while stack:
            node = self.final(stack.pop())
            if node in seen:
                continue
            seen.add(node)
            need(node, *node.args)
            if node.name == "entry":
                table, _ = node.value
                if table not in self.entries:
                    self.entries[table] = set()
                    need((table, "body"), *table.outputs)
                self.entries[table].add(node)
            elif node.name in ("parameter", "result") and node.value is not None:
                loop, i = node.value
                if loop not in self.needed:
                    self.needed[loop] = set()
                    need(loop, loop.going, loop.alive)
                if i not in self.needed[loop]:
                    self.needed[loop].add(i)
                    need((loop, "body"), loop.body[i])
                    if loop is not self.outermost:
                        need(loop, loop.begin[i])
        return seen

    def _own(self, loop: Loop) -> set[Node]:
        """What only the body of a loop uses, although it does not depend on it."""
        own: set[Node] = set()

        def is_inside(user: object) -> bool:
            return user == (loop, "body") or (isinstance(user, Node) and (user in own or loop in user.loops))

        stack = [self.final(loop.body[i]) for i in self.needed[loop]]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if loop in node.loops and node not in seen:
                seen.add(node)
                stack += map(self.final, node.args)
            elif node.args and node not in own and loop not in node.loops and all(map(is_inside, self.used_by[node])):
                own.add(node)
                stack += map(self.final, node.args)
        return own

    def _place(self, node: Node) -> None:
        stack = [self.final(node)]
        while stack:
            top = stack[-1]
            if top in self._done:
                stack.pop()
                continue
            missing = [x for x in map(self.final, top.args) if x not in self._done]
            if missing:
                stack += reversed(missing)
                continue
            self._done.add(stack.pop())
            if top.name == "result":
                self._place_loop(top.value[0], top.value[1], self._home(top))
            elif top.name == "entry":
                self._place_table(top.value[0], self._home(top))
            if top.args or top.name == "entry":
                self._home(top).append(top)

    def _home(self, node: Node) -> Items:
        if node in self._sunk:
            return self._sunk[node]
        return next(items for loop, items in reversed(self._places) if loop is None or loop in node.loops)

    def _place_table(self, table: Table, home: Items) -> None:
        if table in self._done_tables:
            return
        self._done_tables.add(table)
        block = Rounds(table, self.rounds(table))
        self._places.append((table, block.body))
        for output in table.outputs:
            self._place(output)
        self._places.pop()
        home.append(block)

    def _place_loop(self, loop: Loop, asked: int, home: Items) -> None:
        if loop in self._done_loops:
            return
        self._done_loops.add(loop)
        needed = sorted(self.needed[loop])
        for i in sorted(needed, key=lambda i: i < asked):  # what is asked for comes first
            self._place(loop.begin[i])
        self._place(loop.alive)
        block = Block(loop, needed)
        if loop.rare:
            self._sunk.update(dict.fromkeys(self._own(loop), block.body))
        for items, outputs in ((block.test, [loop.going]), (block.body, [loop.body[i] for i in block.carried])):
            self._places.append((loop, items))
            for output in outputs:
                self._place(output)
            self._places.pop()
        home.append(block)
