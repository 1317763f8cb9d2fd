"""Loop rerolling: a program that is written out, link after link of a chain, becomes loops over the links.

A chain of 64 beads has some 14 000 operations, too many for the cache of code; as loops they are 1500.

The values of one operation in all rounds of a loop form an array.  An argument of an operation, in all rounds, must be
a piece of such an array, forwards or backwards; the ends of a chain, which are computed otherwise, are stored next to
it.  Where that does not work out, the operations stay written out.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple, final

from holonax.compiler.ir.graph import Loop, Node, Table
from holonax.compiler.ir.program import Block, Items, Program, Rounds, pieces
from holonax.compiler.passes.places import Places, Slice
from holonax.compiler.passes.repeats import FEWEST, Repeat, repeats

_ROUNDS = (1, 2, 3, 6)
_ENDS = ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (2, 0), (2, 2), (0, 3), (3, 3))
"""How many rounds may be taken as one, and how many left out at both ends, so that arguments are arrays."""


@final
class Rolled(NamedTuple):
    """A loop: in every round, `body` is computed from what is `read` and what the last round `kept`, and `written`.

    Values that are kept are given as (name in the round, value before the first round, value at the end of a round),
    those of which only the `last` is needed afterwards as (value in the round, value of the last round).
    """

    times: int
    body: list[Node]
    read: dict[Node, Slice]
    kept: list[tuple[Node, Node, Node]]
    written: list[tuple[Node, Slice]]
    last: list[tuple[Node, Node]]


def roll_loops(program: Program) -> Program:
    """Find the loops of a program, and places in memory for their values."""
    program.layout = Layout(program)
    return program


class _IrregularError(Exception):
    """The arguments of an operation are no piece of an array."""


@final
class Layout:
    """Of the body of a program: its straight pieces in `parts`, by their first node, and the `places` of values."""

    def __init__(self, program: Program) -> None:
        self.program, self.final = program, program.final
        self.parts: dict[Node, list[list[Node] | Rolled]] = {}
        self.places = Places(program)
        self._loops: list[tuple[int, int]] = []
        self._items(program.body, roll=True)
        self.places.time += 1
        results = program.results
        for i in program.changing:
            self.places.use(results[i])
        self.places.allocate(self._loops)

    @property
    def code_size(self) -> int:
        """Number of operations that are left to be written, one round of each loop."""
        loops = [part for parts in self.parts.values() for part in parts if isinstance(part, Rolled)]
        return self.program.size - sum((loop.times - 1) * len(loop.body) for loop in loops)

    # The program, in order.

    def _items(self, items: Items, roll: bool) -> None:
        for piece in pieces(items):
            self.places.time += 1
            if isinstance(piece, Rounds):
                self._items(piece.body, roll=False)
            elif isinstance(piece, Block):
                self._loop(piece, roll and not piece.loop.rare)
            else:
                self.parts[piece[0]] = parts = []
                for part in repeats(piece, self.final) if roll else [piece]:
                    parts += self._rolled(part) if isinstance(part, Repeat) else self._straight(part)

    def _straight(self, nodes: list[Node]) -> list[list[Node] | Rolled]:
        self.places.time += 1
        for node in nodes:
            self.places.computed[node] = self.places.time
            for x in map(self.final, node.args):
                self.places.use(x)
        return [nodes] if nodes else []

    def _loop(self, block: Block, roll: bool) -> None:
        loop, places = block.loop, self.places
        begin = places.time
        if loop is self.program.failure:  # where the new states are there
            places.complete_twins()
        for i in block.carried:
            value, parameter = self.final(loop.begin[i]), loop.parameters[i]
            places.use(value)
            places.computed[parameter] = places.time
            if loop.rare and value in places.of and self._is_free(value, loop):
                places.of[parameter] = places.of[value]
                places.written[parameter] = None
        self._items(block.test, roll=False)
        self._items(block.body, roll)
        places.time += 1
        for i in block.carried:
            places.use(self.final(loop.body[i]))
        for x in (loop.going, loop.alive):
            places.use(self.final(x))
        for i in block.carried:
            parameter, result = loop.parameters[i], loop.results[i]
            places.computed[result] = places.time
            if parameter in places.of:
                places.use(parameter)
                places.of[result] = places.of[parameter]
                places.written[result] = None
                for array in places.of[parameter]:
                    places.touch(array, begin)
        self._loops.append((begin, places.time))

    def _is_free(self, node: Node, loop: Loop) -> bool:
        """Whether nobody needs a value any more but a loop that begins now with it."""
        carried = node.name in ("parameter", "result")
        users = self.program.used_by[node] - {loop}
        return not carried and all(isinstance(user, Node) and user in self.places.computed for user in users)

    # Loops.

    def _rolled(self, repeat: Repeat) -> list[list[Node] | Rolled]:
        """A loop, perhaps of several rounds at a time and without those at its ends; or no loop."""
        for rounds, (begin, end) in product(_ROUNDS, _ENDS):
            part = repeat.part(begin, end, rounds)
            if part.times < FEWEST:
                continue
            before = repeat.nodes[: begin * repeat.period]
            after = repeat.nodes[len(before) + len(part.nodes) :]
            mark = self.places.mark()
            try:
                return [*self._straight(before), _Loop(self, part).rolled(), *self._straight(after)]
            except _IrregularError:
                self.places.go_back(mark)
        return self._straight(repeat.nodes)


class _Loop:
    """The operations of a repeat on their way to be a loop."""

    def __init__(self, layout: Layout, repeat: Repeat) -> None:
        self.program, self.places, self.repeat = layout.program, layout.places, repeat
        self.place = {node: divmod(i, repeat.period)[::-1] for i, node in enumerate(repeat.nodes)}  # in a round, round
        self.body: list[Node] = []
        self.read: dict[Slice, Node] = {}  # names of what is read from memory
        self.kept: dict[tuple[int, Node], Node] = {}  # names of what the last round left, by place and first value

    def rolled(self) -> Rolled:
        """The loop; an `_IrregularError` if it is none."""
        repeat, places = self.repeat, self.places
        places.time += 1
        places.computed.update(dict.fromkeys(repeat.nodes, places.time))
        written, last = self._needed_afterwards()
        for t in range(repeat.period):
            orbit = repeat.orbit(t)
            self.body.append(self._entry(orbit) if orbit[0].name == "entry" else self._operation(orbit))
        for piece in [*self.read, *written.values()]:
            if not isinstance(piece.array, Table):
                places.touch(piece.array)
        read = {name: piece for piece, name in self.read.items()}
        return Rolled(
            repeat.times,
            [x for x in self.body if x not in read],
            read,
            [(name, first, self.body[at]) for (at, first), name in self.kept.items()],
            [(self.body[t], piece) for t, piece in written.items()],
            [(self.body[t], repeat.orbit(t)[-1]) for t in last],
        )

    def _needed_afterwards(self) -> tuple[dict[int, Slice], list[int]]:
        """Which operations of a round are written to an array, and where; of which only the last value is needed."""
        written: dict[int, Slice] = {}
        last: list[int] = []
        for t in range(self.repeat.period):
            orbit = self.repeat.orbit(t)
            leaving = [i for i, node in enumerate(orbit) if self._leaves(node)]
            if leaving == [self.repeat.times - 1]:
                last.append(t)
            elif leaving:
                written[t] = _regular(self.places.write(orbit))
        return written, last

    def _leaves(self, node: Node) -> bool:
        """Whether a value is needed elsewhere than in its own round and the next."""
        place = self.place
        return any(
            not isinstance(user, Node) or user not in place or place[user][1] - place[node][1] > 1
            for user in self.program.used_by[node]
        )

    def _entry(self, orbit: list[Node]) -> Node:
        """An entry of a table in each round: it must be a piece of the table."""
        (table, start), (_, second) = orbit[0].value, orbit[1].value
        step = second - start
        if any(x.value != (table, start + step * i) for i, x in enumerate(orbit)):
            raise _IrregularError
        return self._from_memory(Slice(table, start, step), orbit[0].dtype)

    def _operation(self, orbit: list[Node]) -> Node:
        """One operation in each round, as one of the body."""
        node = orbit[0]
        columns = zip(*(map(self.program.final, x.args) for x in orbit), strict=True)
        arguments = tuple(self._argument(list(values)) for values in columns)
        return Node(self.program.build, node.name, node.dtype, arguments, node.value, node.index)

    def _argument(self, values: list[Node]) -> Node:
        """What an argument, with these values in the rounds, is in the body."""
        repeat, first = self.repeat, values[0]
        at, round_of_last = self.place.get(values[-1], (None, 0))
        back = repeat.times - 1 - round_of_last
        if all(x is first for x in values) and first not in self.place:  # the same in all rounds
            self.places.use(first)
            return first
        if at is None or back > 1:
            return self._looked_up(values)
        if values[back:] != repeat.orbit(at)[: repeat.times - back]:
            raise _IrregularError
        if back == 0:  # of the same round
            return self.body[at]
        if (at, first) not in self.kept:  # of the round before
            self.kept[at, first] = self.program.build.fresh("parameter", first.dtype)
            self.places.use(first)
        return self.kept[at, first]

    def _looked_up(self, values: list[Node]) -> Node:
        """From an array, which must hold them or be able to."""
        if any(x in self.place and x not in self.places.written for x in values):
            raise _IrregularError
        return self._from_memory(_regular(self.places.slice(values)), values[0].dtype)

    def _from_memory(self, piece: Slice, dtype: str) -> Node:
        if piece not in self.read:
            self.read[piece] = self.program.build.fresh("parameter", dtype)
        return self.read[piece]


def _regular(piece: Slice | None) -> Slice:
    if piece is None:
        raise _IrregularError
    return piece
