"""Loop fusion: which arrays are stored, and which loops compute them.

An array that is used once is not stored: what needs it computes it on the way.  One that would be computed several
times is stored, unless that costs next to nothing.  Loops of the same length that need nothing of each other but
what they computed in the same round become one loop, which shares what its formulas have in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import final

import numpy as np

from holonax.compiler.arrays.solve import Found, Round, Solve
from holonax.compiler.arrays.statements import (
    ArrayLoop,
    Iterations,
    MatrixLoops,
    Reduction,
    RoundStatements,
    Scatter,
    Statement,
    Store,
    merged,
)
from holonax.compiler.arrays.values import (
    Array,
    Combined,
    DenseArray,
    Fixed,
    Formula,
    Given,
    Joined,
    Ref,
    Scattered,
    Selected,
    Table,
)

WRITTEN_OUT = 16
"""Terms of a sum that are written out; longer ones are loops."""

CHEAP = 2
"""Times that an operation which costs next to nothing may be repeated."""

MANY = 10.0
"""Times that something is computed in the iterations of Newton's method, about."""


def consumers(outputs: list[Array]) -> tuple[list[Array], dict[Array, list[tuple[Array | None, int]]]]:
    """All arrays, operands first, and who uses them: an array, or None for what must be stored; and how often."""
    order: list[Array] = []
    seen: set[Array] = set()
    uses: dict[Array, list[tuple[Array | None, int]]] = defaultdict(list)
    stack: list[tuple[Array, bool]] = [(array, False) for array in outputs]
    while stack:
        array, done = stack.pop()
        if done:
            order.append(array)
            continue
        if array in seen:
            continue
        seen.add(array)
        stack.append((array, True))
        for x in _needed(array):
            stack.append((x.array, False))
    for array in order:
        for x in array.operands if not isinstance(array, Found) else ():
            uses[x.array].append((array, x.table.size))
        if isinstance(array, Found) and array.what == "unknowns":
            updates = (update.value for round_ in array.solve.rounds for update in round_.updates)
            for x in (array.solve.guess, *updates):
                uses[x.array].append((None, x.table.size))
    return order, uses


def _needed(array: Array) -> tuple[Ref, ...]:
    """What is computed for an array, inside of equations too."""
    if not isinstance(array, Found):
        return array.operands
    return (*array.operands, *(x.all for x in array.solve.inside))


@final
class Fusion:
    """From the arrays that are wanted to loops, in order."""

    def __init__(self, outputs: list[Array], kept: Iterable[Array] = ()) -> None:
        """What is `kept` is in memory already."""
        self.order, self.uses = consumers(outputs)
        self.level = self._levels()
        self.stored = self._stored({*outputs, *kept})
        self.used = self._used(outputs)
        self.done: set[Array] = {*kept}

    def _used(self, outputs: list[Array]) -> dict[Array, np.ndarray]:
        """Which entries of arrays somebody needs."""
        used: dict[Array, np.ndarray] = defaultdict(lambda: np.zeros(0, bool))
        for array in self.order:
            used[array] = np.full(array.size, array in outputs)
        for array in self.order:
            refs = array.operands
            if isinstance(array, Found):
                refs = (*refs, *(x.all for x in array.solve.inside))
            for x in refs:
                used[x.array][x.table] = True
        return used

    def _levels(self) -> dict[Array, frozenset[Solve]]:
        """The equations on whose unknowns arrays depend."""
        solves = {own: array.solve for array in self.order if isinstance(array, Found) for own in array.solve.own}
        level: dict[Array, frozenset[Solve]] = {}
        for array in self.order:
            inside = frozenset().union(*(level[x.array] for x in array.operands)) if array.operands else frozenset()
            level[array] = inside | {solves[array]} if array in solves else inside
        return level

    def _stored(self, outputs: set[Array]) -> set[Array]:
        """From the last array to the first: how often would each be computed?"""
        times: dict[Array, float] = {}
        stored: set[Array] = set()
        needed = {x.array for array in self.order if isinstance(array, Found) for x in (array.solve.alive,)}
        for array in reversed(self.order):
            total = 0.0
            for user, entries in self.uses[array]:
                again = MANY if user is not None and self.level[user] - self.level[array] else 1.0
                share = entries / max(array.size, 1)
                total += again * share * (1.0 if user is None or user in stored else times[user])
            times[array] = total
            if array in outputs or array in needed or self._is_stored(array, total):
                stored.add(array)
        return stored

    def _is_stored(self, array: Array, times: float) -> bool:
        match array:
            case Formula():
                one = len(array.arguments) == 1 and array.kind.cost <= 1  # as quickly computed as read
                return times > 1.0 and not one and (array.kind.cost > CHEAP or times > CHEAP)
            case Selected():
                return times > 1.0
            case Combined():
                return times > 1.0 or array.terms.table.shape[1] > WRITTEN_OUT
            case Fixed():
                return False
            case _:
                return True

    # Statements.

    def statements(self, arrays: list[Array]) -> list[Statement]:
        """What computes these arrays, all of which are stored, and what they need."""
        into: list[Statement] = []
        for array in arrays:
            self._compute(array, into)
        return merged(into, self.stored)

    def _compute(self, array: Array, into: list[Statement]) -> None:
        """Everything that must be stored before, then the array itself, if it is to be stored."""
        stack: list[tuple[Array, bool]] = [(array, False)]
        visited: set[Array] = set()
        while stack:
            top, ready = stack.pop()
            if ready:
                if top not in self.done and top in self.stored:
                    self._emit(top, into)
                continue
            if top in self.done or top in visited or isinstance(top, (Given, Fixed)):
                continue
            visited.add(top)
            stack.append((top, True))
            stack += [(x.array, False) for x in reversed(top.operands)]

    def _emit(self, array: Array, into: list[Statement]) -> None:
        self.done.add(array)
        match array:
            case Found():
                into.append(self._iterations(array.solve))
            case Joined():
                for part, places in self._parts_in_use(array):
                    into.append(ArrayLoop(part.table.size, [Store(array, places, part)]))
            case Combined() if array.terms.table.shape[1] > WRITTEN_OUT:
                into.append(Reduction(array))
            case Scattered():
                into.append(Scatter(array))
            case DenseArray():
                into.append(MatrixLoops(array))
            case _:
                into.append(ArrayLoop(array.size, [Store(array, None, array.all)]))

    def _parts_in_use(self, array: Joined) -> Iterator[tuple[Ref, Table]]:
        """The parts of an array without entries that nobody needs (dead-code elimination), such as half of the noise.

        Parts of the same length keep the same entries, so that they are computed in one loop.
        """
        used = self.used[array]
        own = [used[places] for places in array.places]
        if len({len(x) for x in own}) == 1:
            own = [np.any(own, axis=0)] * len(own)
        for part, places, keep in zip(array.parts, array.places, own, strict=True):
            if keep.any():
                yield part[keep], places[keep]

    def _iterations(self, solve: Solve) -> Iterations:
        found = [x for x in self.order if isinstance(x, Found) and x.solve is solve]
        self.done.update(found)
        first = None
        if solve.first is not None:
            done = {*self.done}
            first = self._round(solve, solve.first)
            self.done = done  # later rounds compute it again
        judge = self.statements([solve.unsolved.array, solve.largest.array])
        return Iterations(solve, found, first, judge, self._round(solve, solve.later))

    def _round(self, solve: Solve, round_: Round) -> RoundStatements:
        improve = self.statements([solve.entries, round_.right])
        return RoundStatements(improve, self.statements([x.value.array for x in round_.updates]), round_.updates)
