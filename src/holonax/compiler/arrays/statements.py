"""Statements of an array program, what they read and write, and loops that become one (loop fusion)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

from holonax.compiler.arrays.solve import Found, Solve, Update
from holonax.compiler.arrays.values import (
    Array,
    Combined,
    DenseArray,
    Fixed,
    Formula,
    Given,
    Ref,
    Scattered,
    Selected,
    Table,
)


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
class MatrixLoops:
    """Products, triangular systems or factors of whole matrices."""

    array: DenseArray


class RoundStatements(NamedTuple):
    """A round of Newton's method: `improve` makes the linear equations, `update` what their solution is needed for."""

    improve: list[Statement]
    update: list[Statement]
    updates: tuple[Update, ...]


@final
@dataclass(eq=False)
class Iterations:
    """Newton's method: a first round, if it is another one, and later ones, each after it is judged who goes on."""

    solve: Solve
    found: list[Found]  # what is known afterwards
    first: RoundStatements | None
    judge: list[Statement]
    later: RoundStatements

    @property
    def rounds(self) -> list[RoundStatements]:
        """All kinds of them."""
        return [self.later] if self.first is None else [self.first, self.later]

    @property
    def parts(self) -> list[list[Statement]]:
        """All statements, in order."""
        first, later = ([*x] if x else [] for x in (self.first and self.first[:2], self.later[:2]))
        return [*first, self.judge, *later]


Statement = ArrayLoop | Reduction | Scatter | MatrixLoops | Iterations


def reads(ref: Ref, stored: set[Array], seen: dict[Array, list[Table]] | None = None) -> dict[Array, list[Table]]:
    """The stored arrays that are read to compute the entries of `ref`, which is computed itself, and where."""
    found: dict[Array, list[Table]] = seen if seen is not None else defaultdict(list)
    match ref.array:
        case Formula():
            operands = [Ref(x.array, x.table[ref.table]) for x in ref.array.arguments]
        case Combined():
            operands = [Ref(ref.array.terms.array, ref.array.terms.table[ref.table].reshape(-1))]
        case Selected():
            found[ref.array.whole].append(np.arange(ref.array.whole.size))
            operands = [Ref(ref.array.index.array, ref.array.index.table[ref.table])]
        case Scattered():
            operands = [ref.array.terms, ref.array.index]
        case DenseArray():
            operands = [*ref.array.operands]
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
        case Reduction() | Scatter() | MatrixLoops():
            return {statement.array}
        case Iterations():
            parts = (x for part in statement.parts for x in part)
            return set().union(*map(_writes, parts)) | {*statement.solve.own, *statement.found}


def without_largest(statement: Iterations, stored: set[Array]) -> tuple[list[Statement], list[Statement]]:
    """What it takes to judge a path, and what is only needed for its largest residual: once, when it is done."""
    judge, late = [], []
    wanted: set[Array] = {statement.solve.largest.array}
    for x in reversed(statement.judge):
        written, read = _written_and_read(x, stored)
        if written and written <= wanted and all(array.size == 1 or isinstance(x, Reduction) for array in read):
            late.append(x)
            wanted |= {array for array in read if array.size == 1}
        else:
            judge.append(x)
    needed = {array for x in judge for array in _written_and_read(x, stored)[1]}
    if any(_written_and_read(x, stored)[0] & needed for x in late):
        return statement.judge, []
    return judge[::-1], late[::-1]


def _written_and_read(statement: Statement, stored: set[Array]) -> tuple[set[Array], set[Array]]:
    match statement:
        case ArrayLoop():
            read = [array for store in statement.stores for array in read_by(store, stored)]
            return {store.array for store in statement.stores}, {*read}
        case Reduction():
            return {statement.array}, {*reads(statement.array.all, stored)}
    return set(), set()
