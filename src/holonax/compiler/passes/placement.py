"""Loop-invariant code motion, and code sinking: every operation gets its place.

A node is computed in the innermost loop that it depends on, so that what does not change in a loop is computed before
it.  What only a loop uses that is seldom entered is computed there, although it does not depend on it.  What is wanted
first is computed first, and with it, one after the other, what it needs.
"""

from __future__ import annotations

from holonax.compiler.ir.graph import Loop, Node, Table
from holonax.compiler.ir.program import Block, Items, Program, Rounds


def place_operations(program: Program) -> Program:
    """Put the operations in order, before the steps and in them."""
    placement = _Placement(program)
    others = sorted(program.needed[program.loop].difference(program.wanted))
    for output in [*(program.loop.body[i] for i in (*program.wanted, *others)), program.build.alive]:
        placement.place(output)
    return program


class _Placement:
    """What has its place already; `open` are the loops that are being filled, from outside in."""

    def __init__(self, program: Program) -> None:
        self.program, self.final = program, program.final
        program.before, program.body = [], []
        self.open: list[tuple[Loop | Table | None, Items]] = [(None, program.before), (program.loop, program.body)]
        self.sunk: dict[Node, Items] = {}
        self.done: set[Node | Loop | Table] = set()

    def place(self, node: Node) -> None:
        """A node, after all that it needs: a recursion, but for the depth, which Python limits."""
        stack = [self.final(node)]
        while stack:
            top = stack[-1]
            if top in self.done:
                stack.pop()
                continue
            missing = [x for x in map(self.final, top.args) if x not in self.done]
            if missing:
                stack += reversed(missing)
                continue
            self.done.add(stack.pop())
            if top.name == "result":
                self._place_loop(top.value[0], top.value[1], self._home(top))
            elif top.name == "entry":
                self._place_table(top.value[0], self._home(top))
            if top.args or top.name == "entry":
                self._home(top).append(top)

    def _home(self, node: Node) -> Items:
        if node in self.sunk:
            return self.sunk[node]
        return next(items for loop, items in reversed(self.open) if loop is None or loop in node.loops)

    def _place_table(self, table: Table, home: Items) -> None:
        if table in self.done:
            return
        self.done.add(table)
        last = max(entry.value[1] for entry in self.program.entries[table])
        block = Rounds(table, last // len(table.outputs) + 1)
        self._fill(table, block.body, table.outputs)
        home.append(block)

    def _place_loop(self, loop: Loop, asked: int, home: Items) -> None:
        if loop in self.done:
            return
        self.done.add(loop)
        needed = sorted(self.program.needed[loop])
        for i in sorted(needed, key=lambda i: i < asked):  # what is asked for comes first
            self.place(loop.begin[i])
        self.place(loop.alive)
        block = Block(loop, needed)
        if loop.rare:
            self.sunk.update(dict.fromkeys(self._only_in(loop), block.body))
        self._fill(loop, block.test, [loop.going])
        self._fill(loop, block.body, [loop.body[i] for i in block.carried])
        home.append(block)

    def _fill(self, loop: Loop | Table, items: Items, outputs: list[Node]) -> None:
        self.open.append((loop, items))
        for output in outputs:
            self.place(output)
        self.open.pop()

    def _only_in(self, loop: Loop) -> set[Node]:
        """What only the body of a loop uses, although it does not depend on it."""
        own: set[Node] = set()
        used_by = self.program.used_by

        def is_inside(user: object) -> bool:
            return user == (loop, "body") or (isinstance(user, Node) and (user in own or loop in user.loops))

        stack = [self.final(loop.body[i]) for i in self.program.needed[loop]]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if loop in node.loops and node not in seen:
                seen.add(node)
                stack += map(self.final, node.args)
            elif node.args and node not in own and loop not in node.loops and all(map(is_inside, used_by[node])):
                own.add(node)
                stack += map(self.final, node.args)
        return own
