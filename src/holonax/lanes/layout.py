"""Where the values of a program with loops lie in memory.

The values of one operation in all rounds of a loop form an array.  An argument of an operation, in all rounds, must be
a piece of such an array, forwards or backwards; the ends of a chain, which are computed otherwise, are stored next to
it.  Where that does not work out, the operations stay written out.  Arrays that are not needed at the same time share
memory.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import NamedTuple, final

from holonax.lanes.graph import Loop, Node, Table
from holonax.lanes.program import Program
from holonax.lanes.repeats import FEWEST, Repeat, repeats
from holonax.lanes.schedule import Block, Items, Rounds, pieces

_ROUNDS = (1, 2, 3, 6)
_ENDS = ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (2, 0), (2, 2), (0, 3), (3, 3))
"""How many rounds may be taken as one, and how many left out at both ends, so that arguments are arrays."""

_LINES, _SHIFT = 64, 5
"""Lines of the cache that do not compete for a place; where one array begins after the other, modulo that."""


_EVER = 2**62
"""Later than anything in a step: for what was computed before the first one, or is carried to the next."""


class Slice(NamedTuple):
    """Places `start`, `start + step`, ... of an array, or of a table."""

    array: int | Table
    start: int
    step: int


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


class _IrregularError(Exception):
    """The arguments of an operation are no piece of an array."""


@final
class Layout:
    """Of the body of a program: its straight pieces in `parts`, by their first node, and the `places` of values."""

    def __init__(self, program: Program) -> None:
        self.program, self.schedule, self.final = program, program.schedule, program.schedule.final
        self.parts: dict[Node, list[list[Node] | Rolled]] = {}
        self.places: dict[Node, dict[int, int]] = {}
        self._arrays: list[dict[int, Node]] = []
        self._fixed: set[Node] = set()  # values that are already written, wherever they belong
        self._time = 0
        self._when: dict[Node, int] = dict.fromkeys(program.carried, 0)
        self._touched: dict[int, list[int]] = defaultdict(list)
        self._spans: list[tuple[int, int]] = []
        self._items(program.schedule.body, roll=True)
        self._time += 1
        for i in program.changing:
            self._use(program.results[i])
        self._allocate()

    def slot(self, array: int, place: int) -> int:
        """In the memory of all arrays."""
        return self._rows[array] * self._length + place - min(self._arrays[array])

    # The program, in order.

    def _items(self, items: Items, roll: bool) -> None:
        for piece in pieces(items):
            self._time += 1
            if isinstance(piece, Rounds):
                self._items(piece.body, roll=False)
            elif isinstance(piece, Block):
                self._loop(piece, roll and not piece.loop.rare)
            else:
                self.parts[piece[0]] = parts = []
                for part in repeats(piece, self.final) if roll else [piece]:
                    parts += self._rolled(part) if isinstance(part, Repeat) else self._straight(part)

    def _straight(self, nodes: list[Node]) -> list[list[Node] | Rolled]:
        self._time += 1
        for node in nodes:
            self._when[node] = self._time
            for x in map(self.final, node.args):
                self._use(x)
        return [nodes] if nodes else []

    def _use(self, node: Node) -> None:
        for array in self.places.get(node, ()):
            self._touched[array].append(self._time)

    def _loop(self, block: Block, roll: bool) -> None:
        loop, begin = block.loop, self._time
        for i in block.carried:
            value, parameter = self.final(loop.begin[i]), loop.parameters[i]
            self._use(value)
            self._when[parameter] = self._time
            if loop.rare and value in self.places and self._is_free(value, loop):
                self.places[parameter] = self.places[value]
                self._fixed.add(parameter)
        self._items(block.test, roll=False)
        self._items(block.body, roll)
        self._time += 1
        for i in block.carried:
            self._use(self.final(loop.body[i]))
        for x in (loop.going, loop.alive):
            self._use(self.final(x))
        for i in block.carried:
            parameter, result = loop.parameters[i], loop.results[i]
            self._when[result] = self._time
            if parameter in self.places:
                self._use(parameter)
                self.places[result] = self.places[parameter]
                self._fixed.add(result)
                for array in self.places[parameter]:
                    self._touched[array].append(begin)
        self._spans.append((begin, self._time))

    def _is_free(self, node: Node, loop: Loop) -> bool:
        """Whether nobody needs a value any more but a loop that begins now with it."""
        carried = node.name in ("parameter", "result")
        users = self.schedule.used_by[node] - {loop}
        return not carried and all(isinstance(user, Node) and user in self._when for user in users)

    # Loops.

    def _rolled(self, repeat: Repeat) -> list[list[Node] | Rolled]:
        """A loop, perhaps of several rounds at a time and without those at its ends; or no loop."""
        for rounds, (begin, end) in product(_ROUNDS, _ENDS):
            part = repeat.part(begin, end, rounds)
            if part.times < FEWEST:
                continue
            before = repeat.nodes[: begin * repeat.period]
            after = repeat.nodes[len(before) + len(part.nodes) :]
            state = self._state()
            try:
                return [*self._straight(before), self._roll(part), *self._straight(after)]
            except _IrregularError:
                self._restore(state)
        return self._straight(repeat.nodes)

    def _state(self) -> tuple:
        places = {node: dict(places) for node, places in self.places.items()}
        touched = {array: list(times) for array, times in self._touched.items()}
        return places, [dict(array) for array in self._arrays], set(self._fixed), touched, dict(self._when), self._time

    def _restore(self, state: tuple) -> None:
        self.places, self._arrays, self._fixed, touched, self._when, self._time = state
        self._touched = defaultdict(list, touched)

    def _roll(self, repeat: Repeat) -> Rolled:
        self._time += 1
        self._when.update(dict.fromkeys(repeat.nodes, self._time))
        place = {node: divmod(i, repeat.period)[::-1] for i, node in enumerate(repeat.nodes)}
        written: dict[int, Slice] = {}
        last: list[int] = []
        for t in range(repeat.period):
            orbit = repeat.orbit(t)
            leaving = [i for i, node in enumerate(orbit) if self._leaves(node, place)]
            if leaving == [repeat.times - 1]:
                last.append(t)
            elif leaving:
                if orbit[0].dtype != self.program.dtype:
                    raise _IrregularError
                written[t] = self._array(orbit)
                self._fixed.update(orbit)
        body: list[Node] = []
        names: dict[Slice, Node] = {}
        kept: dict[tuple[int, Node], Node] = {}

        def lookup(values: list[Node]) -> Node:
            if any(x in place and x not in self._fixed for x in values):
                raise _IrregularError
            return memory(self._slice(values), values[0].dtype)

        def memory(piece: Slice, dtype: str) -> Node:
            if piece not in names:
                names[piece] = self.schedule.build.fresh("parameter", dtype)
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
                    self._use(values[0])
                elif at is not None and back < 2 and values[back:] != tuple(repeat.orbit(at)[: repeat.times - back]):
                    raise _IrregularError
                elif at is not None and back == 0:
                    arguments.append(body[at])
                elif at is not None and back == 1:
                    key = (at, values[0])
                    if key not in kept:
                        kept[key] = self.schedule.build.fresh("parameter", values[0].dtype)
                        self._use(values[0])
                    arguments.append(kept[key])
                else:
                    arguments.append(lookup(list(values)))
            body.append(Node(self.schedule.build, node.name, node.dtype, tuple(arguments), node.value, node.index))
        for piece in [*names, *written.values()]:
            if not isinstance(piece.array, Table):
                self._touched[piece.array].append(self._time)
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
            for user in self.schedule.used_by[node]
        )

    def _slice(self, values: list[Node]) -> Slice:
        """Where values lie, which are put there if need be."""
        middle = len(values) // 2
        if any(x.dtype != self.program.dtype for x in values) or len(set(values)) < len(values):
            raise _IrregularError
        for array, where in self.places.get(values[middle], {}).items():
            for step in (1, -1):
                start = where - step * middle
                if all(self._fits(x, array, start + step * i) for i, x in enumerate(values)):
                    for i, x in enumerate(values):
                        self._put(x, array, start + step * i)
                    return Slice(array, start, step)
        if any(x in self._fixed or x.is_constant for x in values):
            raise _IrregularError
        return self._array(values)

    def _fits(self, node: Node, array: int, place: int) -> bool:
        if array in self.places.get(node, ()):
            return self.places[node][array] == place
        return place not in self._arrays[array] and not node.is_constant and node not in self._fixed

    def _array(self, values: list[Node]) -> Slice:
        self._arrays.append({})
        for i, x in enumerate(values):
            self._put(x, len(self._arrays) - 1, i)
        return Slice(len(self._arrays) - 1, 0, 1)

    def _put(self, node: Node, array: int, place: int) -> None:
        places = self.places.setdefault(node, {})
        if array not in places:
            places[array] = place
            self._arrays[array][place] = node
            self._touched[array] += [self._when[node]] if node in self._when else [0, _EVER]

    # Memory.

    def _allocate(self) -> None:
        """Arrays that are needed at the same time are rows of a matrix of their own.

        What a loop reads, and did not write itself, must last until it ends; the states last for ever.
        """
        for begin, end in sorted(self._spans):
            for times in self._touched.values():
                if min(times) < begin and any(begin <= time <= end for time in times):
                    times.append(end)
        for node in self.program.carried:
            for array in self.places.get(node, ()):
                self._touched[array] += [0, _EVER]
        rows: list[list[tuple[int, int]]] = []
        self._rows: list[int] = []
        for array in range(len(self._arrays)):
            since, until = min(self._touched[array]), max(self._touched[array])
            free = (i for i, spans in enumerate(rows) if all(b < since or until < a for a, b in spans))
            row = next(free, len(rows))
            if row == len(rows):
                rows.append([])
            rows[row].append((since, until))
            self._rows.append(row)
        longest = max((max(x) - min(x) + 1 for x in self._arrays), default=0)
        self._length = longest + (_SHIFT - longest) % _LINES
        self.size = self._length * len(rows)
