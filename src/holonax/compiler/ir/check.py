"""A checker of programs: it finds what a pass has broken, where it broke it.

It runs after every pass in the tests and where HOLONAX_CHECK=1 is set.  Checked are the types of operations, that loops
are closed, and, once operations have their places, that every value is computed before it is used, in a loop that is
open there.
"""

from __future__ import annotations

from holonax.compiler.ir.graph import Loop, Node
from holonax.compiler.ir.operations import OPERATIONS
from holonax.compiler.ir.program import Block, Items, Program, Rounds, operations

_SAME_TYPES = {"add", "subtract", "multiply", "divide", "fma", "maximum", "minimum", "larger", "power", "arctan2"}
"""Operations whose arguments all have the type of the value."""


class MalformedError(Exception):
    """A pass made a program that is not one: says which, and what is wrong."""


def check(program: Program, after: str) -> None:
    """Raise a MalformedError if the program is not sound `after` some pass."""
    try:
        for loop in {program.loop, program.failure, *program.needed}:
            _check_loop(loop)
        for node in operations([*program.before, *program.body]):
            _check_types(node)
        if program.body:
            _Scope(program).check()
    except MalformedError as error:
        raise MalformedError(f"after {after}: {error}") from None


def _check_loop(loop: Loop) -> None:
    if not loop.body or not len(loop.begin) == len(loop.parameters) == len(loop.body):
        sizes = f"{len(loop.begin)} values begin it, {len(loop.parameters)} are carried, {len(loop.body)} end it"
        raise MalformedError(f"a loop is not closed: {sizes}")
    if loop.going.dtype != "bool" or loop.alive.dtype != "bool":
        raise MalformedError("a loop goes on by something that is no truth value")
    for begin, parameter, end in zip(loop.begin, loop.parameters, loop.body, strict=True):
        if not begin.dtype == parameter.dtype == end.dtype:
            raise MalformedError(f"a loop carries {begin.dtype}, {parameter.dtype} and {end.dtype} as one value")


def _check_types(node: Node) -> None:
    if node.args and node.name not in OPERATIONS:
        raise MalformedError(f"there is no operation {node.name!r}")
    types = [x.dtype for x in node.args]
    if node.name in _SAME_TYPES and set(types) != {node.dtype}:
        raise MalformedError(f"{node.name} of {', '.join(types)} is said to be {node.dtype}")
    if node.name == "select" and (types[0] != "bool" or {*types[1:]} != {node.dtype}):
        raise MalformedError(f"select by {types[0]} of {', '.join(types[1:])} is said to be {node.dtype}")
    if node.args and OPERATIONS[node.name].is_condition and (node.dtype != "bool" or len(set(types)) > 1):
        raise MalformedError(f"{node.name} of {', '.join(types)} is said to be {node.dtype}")


class _Scope:
    """The values that are there at some place of a program."""

    def __init__(self, program: Program) -> None:
        self.program, self.final = program, program.final
        inputs = program.inputs
        self.known = {inputs.h, *inputs.key, *inputs.path, *inputs.parameters}

    def check(self) -> None:
        """Go through the program in the order in which it runs."""
        program = self.program
        self._items(program.before)
        self.known |= {program.inputs.step, *program.carried}
        self._items(program.body)
        for i in program.changing:
            self._use(program.loop.body[i], "the end of a step")

    def _use(self, node: Node, user: object) -> None:
        node = self.final(node)
        if not node.is_constant and node not in self.known:
            name = user.name if isinstance(user, Node) else user
            raise MalformedError(
                f"{node.name} (node {node.index}, {node.dtype}) is used by {name} before it is computed"
            )

    def _items(self, items: Items) -> None:
        for item in items:
            if isinstance(item, Block):
                self._block(item)
            elif isinstance(item, Rounds):
                self._rounds(item)
            else:
                for x in item.args:
                    self._use(x, item)
                if item in self.known:
                    raise MalformedError(f"{item.name} (node {item.index}) is computed twice")
                self.known.add(item)

    def _rounds(self, block: Rounds) -> None:
        outside = set(self.known)
        self.known.add(block.table.index)
        self._items(block.body)
        for output in block.table.outputs:
            self._use(output, "a table")
        self.known = outside

    def _block(self, block: Block) -> None:
        loop = block.loop
        for x in (loop.alive, *(loop.begin[i] for i in block.carried)):
            self._use(x, "a loop that begins")
        outside = set(self.known)
        self.known |= {loop.parameters[i] for i in block.carried}
        self._items(block.test)
        self._use(loop.going, "the condition of a loop")
        self._items(block.body)
        for i in block.carried:
            self._use(loop.body[i], "the end of a loop")
        self.known = outside | {loop.results[i] for i in block.carried}
