"""Loop fusion: which arrays are stored, and which loops compute them.

An array that is used once is not stored: what needs it computes it on the way.  One that would be computed several
times is stored, unless that costs next to nothing.  Loops of the same length that need nothing of each other but
what they computed in the same round become one loop, which shares what its formulas have in common.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import final

import numpy as np

from holonax.compiler.arrays.solve import Found, Solve
from holonax.compiler.arrays.values import (
    Array,
    Combined,
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


@final
@dataclass(eq=False)
class Store:
    """Entries of an array are computed: entry `places[i]` is entry i of what `ref` stands for."""

    array: Array
    places: Table | None
    ref: Ref  # to be computed, whether stored or not

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.ref.table.size


@final
@dataclass(eq=False)
class ArrayLoop:
    """Entries that are computed in the same round."""

    size: int
    stores: list[Store] = field(default_factory=list)


@final
@dataclass(eq=False)
class Reduction:
    """Long sums, or the like: one for each row."""

    array: Combined


@final
@dataclass(eq=False)
class Scatter:
    """Sums at numbers that the path knows, term by term."""

    array: Scattered


@final
@dataclass(eq=False)
class Iterations:
    """Newton's method: `judge` comes before it is known which paths are done, `improve` makes the linear equations, and
    `update` is what their solution is needed for."""

    solve: Solve
    found: list[Found]  # what is known afterwards
    judge: list[Statement]
    improve: list[Statement]
    update: list[Statement]


Statement = ArrayLoop | Reduction | Scatter | Iterations


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
            begin = [array.solve.guess, *([array.solve.behind] if array.solve.behind else [])]
            for x in [*begin, *(update.change for update in array.solve.updates)]:
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

    def __init__(self, outputs: list[Array]) -> None:
        self.order, self.uses = consumers(outputs)
        self.level = self._levels()
        self.stored = self._stored({*outputs})
        self.done: set[Array] = set()

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
                return times > 1.0 and (array.kind.cost > CHEAP or times > CHEAP)
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
                for part, places in zip(array.parts, array.places, strict=True):
                    if not part.table.size:
                        continue
                    into.append(ArrayLoop(part.table.size, [Store(array, places, part)]))
            case Combined() if array.terms.table.shape[1] > WRITTEN_OUT:
                into.append(Reduction(array))
            case Scattered():
                into.append(Scatter(array))
            case _:
                into.append(ArrayLoop(array.size, [Store(array, None, array.all)]))

    def _iterations(self, solve: Solve) -> Iterations:
        found = [x for x in self.order if isinstance(x, Found) and x.solve is solve]
        self.done.update(found)
        judge = self.statements([solve.unsolved.array, solve.largest.array])
        improve = self.statements([solve.entries, solve.right])
        changes = [update.change.array for update in solve.updates]
        return Iterations(solve, found, judge, improve, self.statements(changes))


def reads(ref: Ref, stored: set[Array], seen: dict[Array, list[Table]] | None = None) -> dict[Array, list[Table]]:
    """The stored arrays that are read to compute the entries of `ref`, which is computed itself, and where."""
    found: dict[Array, list[Table]] = seen if seen is not None else defaultdict(list)
    match ref.array:
        case Formula():
            operands = [Ref(x.array, x.table[ref.table]) for x in ref.array.arguments]
        case Combined():
            operands = [Ref(ref.array.terms.array, column) for column in ref.array.terms.table[ref.table].T]
        case Selected():
            found[ref.array.whole].append(np.arange(ref.array.whole.size))
            operands = [Ref(ref.array.index.array, ref.array.index.table[ref.table])]
        case Scattered():
            operands = [ref.array.terms, ref.array.index]
        case _:
            found[ref.array].append(ref.table)
            return found
    for x in operands:
        if x.array in stored or isinstance(x.array, Given):
            found[x.array].append(x.table)
        elif not isinstance(x.array, Fixed):
            reads(x, stored, found)
    return found


def read_by(store: Store, stored: set[Array]) -> dict[Array, list[Table]]:
    """What a store reads."""
    target = store.ref.array
    if target is not store.array and (target in stored or isinstance(target, (Given, Fixed))):
        return {target: [store.ref.table]}
    return reads(store.ref, stored)


def merged(statements: list[Statement], stored: set[Array]) -> list[Statement]:
    """Loops of the same length as one, where nothing is needed that another round computes.

    A loop may move up to an earlier one if it needs nothing that is computed in between.
    """
    result: list[Statement] = []
    written: list[set[Array]] = []
    for statement in statements:
        if not isinstance(statement, ArrayLoop):
            result.append(statement)
            written.append(_writes(statement))
            continue
        (store,) = statement.stores
        needs = read_by(store, stored)
        place = _place(statement, store, needs, result, written)
        if place is None:
            result.append(statement)
            written.append({store.array})
        else:
            result[place].stores.append(store)  # type: ignore[union-attr]
            written[place].add(store.array)
    return result


def _place(
    loop: ArrayLoop, store: Store, needs: dict[Array, list[Table]], result: list[Statement], written: list[set[Array]]
) -> int | None:
    """The number of an earlier loop that this one can become part of."""
    best = None
    for i in range(len(result) - 1, -1, -1):
        earlier = result[i]
        conflict = needs.keys() & written[i]
        if isinstance(earlier, ArrayLoop) and earlier.size == loop.size:
            own = [s for s in earlier.stores if s.array in conflict]
            if all(s.places is None and _is_identity(needs[s.array], loop.size) for s in own):
                best = i
        if conflict:
            return best
    return best


def _is_identity(tables: list[Table], size: int) -> bool:
    return all(len(t) == size and np.array_equal(t, np.arange(size)) for t in tables)


def _writes(statement: Statement) -> set[Array]:
    match statement:
        case ArrayLoop():
            return {store.array for store in statement.stores}
        case Reduction() | Scatter():
            return {statement.array}
        case Iterations():
            parts = (*statement.judge, *statement.improve, *statement.update)
            return set().union(*map(_writes, parts)) | {*statement.solve.own, *statement.found}
