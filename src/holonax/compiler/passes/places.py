"""Memory allocation by liveness, and double buffering, for the values of a program with loops over links.

An array is a set of places, numbered by whole numbers of either sign.  The array of what a state will be is the twin of
the array of the state: with the next step, they change places, so that nothing need be copied.  Other arrays that are
not needed at the same time share memory.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple, final

from holonax.compiler.ir.graph import Node, Table
from holonax.compiler.ir.program import Program

MEMORY, NOW, NEXT = range(3)
"""Where an array lies: among the others, among the states, or among those of the next step."""

_LINES, _SHIFT = 64, 5
"""Lines of the cache that do not compete for a place; where one array begins after the other, modulo that."""

_EVER = 2**62
"""Later than anything in a step: for what was computed before the first one, or is carried to the next."""


class Slice(NamedTuple):
    """Places `start`, `start + step`, ... of an array, or of a table."""

    array: int | Table
    start: int
    step: int


class Mark(NamedTuple):
    """The time, and how much there was of everything then."""

    time: int
    computed: int
    written: int
    twins: int
    arrays: int
    put: int
    touched: int


@final
class Places:
    """The places of values, as they are found going through a program: `time` is that of what is looked at.

    Nothing is ever changed or removed, things are only added: so what was tried in vain is what came after a `mark`.
    """

    def __init__(self, program: Program) -> None:
        self.dtype, self.final = program.dtype, program.final
        self.of: dict[Node, dict[int, int]] = {}
        self.twins: dict[int, int] = {}
        self.time = 0
        self.computed: dict[Node, int] = dict.fromkeys(program.carried, 0)
        self.written: dict[Node, None] = {}  # values of loops, which no other place can have
        self._arrays: list[dict[int, Node]] = []
        self._put_so_far: list[tuple[Node, int, int]] = []  # into which array, where
        self._touched: list[tuple[int, int]] = []  # which array, when
        results = program.results
        self._becomes = {program.carried[i]: self._source(results[i]) for i in program.changing}
        self._replaces = {new: old for old, new in self._becomes.items()}

    def mark(self) -> Mark:
        """How far everything has come."""
        dicts = len(self.computed), len(self.written), len(self.twins)
        return Mark(self.time, *dicts, len(self._arrays), len(self._put_so_far), len(self._touched))

    def go_back(self, mark: Mark) -> None:
        """Forget what has been added since."""
        for node, array, place in self._put_so_far[mark.put :]:
            del self.of[node][array], self._arrays[array][place]
            if not self.of[node]:
                del self.of[node]
        del self._arrays[mark.arrays :], self._put_so_far[mark.put :], self._touched[mark.touched :]
        _shorten(self.computed, mark.computed)
        _shorten(self.written, mark.written)
        _shorten(self.twins, mark.twins)
        self.time = mark.time

    def use(self, node: Node) -> None:
        """Note that a value is needed now."""
        for array in self.of.get(node, ()):
            self.touch(array)

    def touch(self, array: int, time: int | None = None) -> None:
        """Read or write an array, now or at some time."""
        self._touched.append((array, self.time if time is None else time))

    # Arrays.

    def slice(self, values: list[Node]) -> Slice | None:
        """Where values lie, which are put there if need be; None if that is not possible."""
        if any(x.dtype != self.dtype for x in values) or len(set(values)) < len(values):
            return None
        piece = self._piece(values)
        if piece is None and not any(x in self.written or x.is_constant for x in values):
            piece = self._array(values)
        return piece

    def write(self, values: list[Node]) -> Slice | None:
        """Where the values of a loop will lie; None if that is not possible."""
        if values[0].dtype != self.dtype:
            return None
        piece = self._twin(values) or self._array(values)
        self.written.update(dict.fromkeys(values))
        return piece

    def _piece(self, values: list[Node]) -> Slice | None:
        """Of an array in which some of the values lie, and into which the others can be put."""
        middle = len(values) // 2
        for array, where in self.of.get(values[middle], {}).items():
            for step in (1, -1):
                start = where - step * middle
                if all(self._fits(x, array, start + step * i) for i, x in enumerate(values)):
                    return self._fill(array, start, step, values)
        return None

    def _fits(self, node: Node, array: int, place: int) -> bool:
        if array in self.of.get(node, ()):
            return self.of[node][array] == place
        if self._is_twin(array) and not self.computed.get(node):  # it would have to be in both
            return False
        return place not in self._arrays[array] and not node.is_constant and node not in self.written

    def _array(self, values: list[Node]) -> Slice:
        self._arrays.append({})
        return self._fill(len(self._arrays) - 1, 0, 1, values)

    def _fill(self, array: int, start: int, step: int, values: list[Node]) -> Slice:
        for i, x in enumerate(values):
            self._put(x, array, start + step * i)
        return Slice(array, start, step)

    def _put(self, node: Node, array: int, place: int) -> None:
        places = self.of.setdefault(node, {})
        if array not in places:
            places[array] = place
            self._arrays[array][place] = node
            self._put_so_far.append((node, array, place))
            for time in [self.computed[node]] if node in self.computed else [0, _EVER]:
                self.touch(array, time)

    # States.

    def _source(self, result: Node) -> Node:
        """What a result of a step is unless the step fails."""
        if result.name == "result" and result.value and result.value[0].rare:
            loop, i = result.value
            return self.final(loop.begin[i])
        return result

    def _twin(self, values: list[Node]) -> Slice | None:
        """A piece of a new twin, if there is an array of the states that these values will replace."""
        states = [self._replaces[x] for x in values if x in self._replaces]
        piece = self._piece(states) if len(states) == len(values) else None
        if piece is None:
            return None
        array, start, step = piece
        assert isinstance(array, int)
        if self._is_twin(array) or any(x not in self.computed for x in self._arrays[array].values()):
            return None
        self.twins[array] = len(self._arrays)
        self._arrays.append({})
        return self._fill(self.twins[array], start, step, values)

    def complete_twins(self) -> None:
        """With what has been computed outside of loops."""
        for array, twin in self.twins.items():
            for place, state in self._arrays[array].items():
                new = self._becomes.get(state)
                if new and self.computed.get(new) and new not in self.written and place not in self._arrays[twin]:
                    self._put(new, twin, place)

    def _is_twin(self, array: int) -> bool:
        return array in self.twins or array in self.twins.values()

    # Memory.

    def allocate(self, loops: list[tuple[int, int]]) -> None:
        """Arrays that are needed at the same time are rows of a matrix of their own; twins the same row of two.

        What a loop, given by when it begins and ends, reads and did not write itself must last until it ends.
        """
        touched: dict[int, list[int]] = defaultdict(list)
        for array, time in self._touched:
            touched[array].append(time)
        for begin, end in sorted(loops):
            for times in touched.values():
                if min(times) < begin and any(begin <= time <= end for time in times):
                    times.append(end)
        for state in self._becomes:
            for array in self.of.get(state, ()):
                touched[array] += [0, _EVER]
        lows = [min(places) for places in self._arrays]
        self._rows: dict[int, tuple[int, int]] = {}
        for row, (array, twin) in enumerate(self.twins.items()):
            self._rows[array] = self._rows[twin] = row, min(lows[array], lows[twin])
        rows: list[list[tuple[int, int]]] = []
        for array, low in enumerate(lows):
            if not self._is_twin(array):
                since, until = min(touched[array]), max(touched[array])
                free = (i for i, spans in enumerate(rows) if all(b < since or until < a for a, b in spans))
                row = next(free, len(rows))
                if row == len(rows):
                    rows.append([])
                rows[row].append((since, until))
                self._rows[array] = row, low
        longest = max((max(places) - self._rows[i][1] + 1 for i, places in enumerate(self._arrays)), default=0)
        self._length = longest + (_SHIFT - longest) % _LINES
        self.sizes = tuple(self._length * number for number in (len(rows), len(self.twins), len(self.twins)))

    def slot(self, array: int, place: int) -> tuple[int, int]:
        """In which of the memories, and where in it."""
        row, low = self._rows[array]
        where = NOW if array in self.twins else NEXT if self._is_twin(array) else MEMORY
        return where, row * self._length + place - low


def _shorten(grown: dict, size: int) -> None:
    while len(grown) > size:
        grown.popitem()
