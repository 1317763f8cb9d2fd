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
        for i in program.changing:
            self.places.use(program.results[i])
        self.places.allocate(self._loops)

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
                places.written.add(parameter)
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
                places.written.add(result)
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
            saved = self.places.saved()
            try:
                return [*self._straight(before), self._roll(part), *self._straight(after)]
            except _IrregularError:
                self.places.restore(saved)
        return self._straight(repeat.nodes)

    def _roll(self, repeat: Repeat) -> Rolled:
        self.places.time += 1
        self.places.computed.update(dict.fromkeys(repeat.nodes, self.places.time))
        place = {node: divmod(i, repeat.period)[::-1] for i, node in enumerate(repeat.nodes)}
        written: dict[int, Slice] = {}
        last: list[int] = []
        for t in range(repeat.period):
            orbit = repeat.orbit(t)
            leaving = [i for i, node in enumerate(orbit) if self._leaves(node, place)]
            if leaving == [repeat.times - 1]:
                last.append(t)
            elif leaving:
                written[t] = _regular(self.places.write(orbit))
        body: list[Node] = []
        names: dict[Slice, Node] = {}
        kept: dict[tuple[int, Node], Node] = {}

        def lookup(values: list[Node]) -> Node:
            if any(x in place and x not in self.places.written for x in values):
                raise _IrregularError
            return memory(_regular(self.places.slice(values)), values[0].dtype)

        def memory(piece: Slice, dtype: str) -> Node:
            if piece not in names:
                names[piece] = self.program.build.fresh("parameter", dtype)
            return names[piece]

        for t in range(repeat.period):
            orbit = repeat.orbit(t)
            node = orbit[0]
            if node.name == "entry":
                (table, start), (_, second) = node.value, orbit[1].value
                step = second - start
                if any(x.value != (table, start + step * i) for i, x in enumerate(orbit)):
                    raise _IrregularError
                body.append(memory(Slice(table, start, step), node.dtype))
                continue
            arguments = []
            for values in zip(*(map(self.final, x.args) for x in orbit), strict=True):
                at, back = place.get(values[-1], (None, 0))
                back = repeat.times - 1 - back
                if all(x is values[0] for x in values) and values[0] not in place:
                    arguments.append(values[0])
                    self.places.use(values[0])
                elif at is not None and back < 2 and values[back:] != tuple(repeat.orbit(at)[: repeat.times - back]):
                    raise _IrregularError
                elif at is not None and back == 0:
                    arguments.append(body[at])
                elif at is not None and back == 1:
                    key = (at, values[0])
                    if key not in kept:
                        kept[key] = self.program.build.fresh("parameter", values[0].dtype)
                        self.places.use(values[0])
                    arguments.append(kept[key])
                else:
                    arguments.append(lookup(list(values)))
            body.append(Node(self.program.build, node.name, node.dtype, tuple(arguments), node.value, node.index))
        for piece in [*names, *written.values()]:
            if not isinstance(piece.array, Table):
                self.places.touch(piece.array)
        carried = [(name, first, body[at]) for (at, first), name in kept.items()]
        read = {name: piece for piece, name in names.items()}
        return Rolled(
            repeat.times,
            [x for x in body if x not in read],
            read,
            carried,
            [(body[t], piece) for t, piece in written.items()],
            [(body[t], repeat.orbit(t)[-1]) for t in last],
        )

    def _leaves(self, node: Node, place: dict[Node, tuple[int, int]]) -> bool:
        """Whether a value is needed elsewhere than in its own round and the next."""
        return any(
            not isinstance(user, Node) or user not in place or place[user][1] - place[node][1] > 1
            for user in self.program.used_by[node]
        )


def _regular(piece: Slice | None) -> Slice:
    if piece is None:
        raise _IrregularError
    return piece
