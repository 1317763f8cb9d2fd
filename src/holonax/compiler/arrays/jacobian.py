"""Sparse Jacobians of arrays: forward mode, with only the entries that are there; sums of sums backwards.

The Jacobian of an array with respect to the unknowns is a list of groups of entries.  A group has the row and the
column of each entry, and the entries themselves as one array: one formula for all of them, as for the values.  A rod's
derivatives are two groups, one for each bead.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from holonax.compiler.arrays.backwards import MOST_ROWS, backwards, is_wide_sum
from holonax.compiler.arrays.moves import sums_by_target
from holonax.compiler.arrays.translate import Translation
from holonax.compiler.arrays.values import Array, Combined, Formula, Given, Joined, Ref, Table, fixed, known_number
from holonax.compiler.ir.graph import Untranslatable, evaluated

MOST_GROUPS = 8
"""Groups of entries that are added up by formulas of their own."""


class Group(NamedTuple):
    """Entries of a Jacobian: `entries[i]` is at (`rows[i]`, `columns[i]`)."""

    rows: Table
    columns: Table
    entries: Ref

    def of_rows(self, table: Table) -> tuple[Group, Table]:
        """The Jacobian of some of the rows, in this order; and for each entry, its place in the table."""
        order = np.argsort(self.rows, kind="stable")
        begin = np.searchsorted(self.rows, table, side="left", sorter=order)
        count = np.searchsorted(self.rows, table, side="right", sorter=order) - begin
        place = np.repeat(np.arange(len(table)), count)
        which = order[np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count) + begin[place]]
        return Group(place, self.columns[which], self.entries[which]), place

    def part_by_part(self) -> Group:
        """The same, in the order of what the entries are joined from: each part is then written as a whole."""
        array = self.entries.array
        if not isinstance(array, Joined) or not np.array_equal(self.entries.table, np.arange(array.size)):
            return self
        order = np.concatenate(array.places)
        ends = np.cumsum([len(places) for places in array.places])
        places = tuple(np.arange(end - len(own), end) for own, end in zip(array.places, ends, strict=True))
        return Group(self.rows[order], self.columns[order], Joined(array.parts, places, array.size).all)


@final
class Differentiation:
    """Jacobians with respect to one array of unknowns."""

    def __init__(self, translation: Translation, unknowns: Given) -> None:
        self.translation, self.unknowns = translation, unknowns
        numbers = np.arange(unknowns.size)
        self.known: dict[Array, list[Group]] = {
            unknowns: [Group(numbers, numbers, fixed(np.ones(unknowns.size, unknowns.dtype)))]
        }
        self.dependent: dict[Array, bool] = {unknowns: True}
        self.wide: dict[Array, bool] = {}

    def depends(self, array: Array) -> bool:
        """Whether the unknowns enter."""
        known = self.dependent
        return evaluated([array], known, lambda x: x.sources, lambda x: any(known[y] for y in x.sources))[0]

    def _is_backwards(self, array: Array) -> bool:
        """Whether it is a sum with wide sums of unknowns inside, which make the derivatives of its terms dense."""
        known = self.wide
        if not is_wide_sum(array) or array.size > MOST_ROWS or not self.depends(array):
            return False

        def followed(x: Array) -> list[Array]:
            return [y for y in x.sources if self.depends(y)]

        def has_wide_sums(x: Array) -> bool:
            return is_wide_sum(x) or any(known[y] for y in followed(x))

        inside: list[bool] = evaluated(followed(array), known, followed, has_wide_sums)
        return any(inside)

    def groups(self, ref: Ref) -> list[Group]:
        """The Jacobian of a vector of entries."""
        return [group.of_rows(ref.table)[0] for group in self._of(ref.array)]

    def _of(self, array: Array) -> list[Group]:
        def followed(x: Array) -> list[Array]:
            return [] if self._is_backwards(x) else [y for y in x.sources if self.depends(y)]

        def groups(x: Array) -> list[Group]:
            return self._merged(self._rule(x)) if self.depends(x) else []

        return evaluated([array], self.known, followed, groups)[0]

    def _rule(self, array: Array) -> list[Group]:
        match array:
            case Formula():
                return self._of_formula(array)
            case Combined(operation="add") if self._is_backwards(array):
                return [self._of_sum(array, row) for row in range(array.size)]
            case Combined(operation="add"):
                width = array.terms.table.shape[1]
                groups = [g.of_rows(array.terms.table.reshape(-1))[0] for g in self.known[array.terms.array]]
                sums = [Group(g.rows // width, g.columns, g.entries) for g in groups]
                return [_places_once(self.translation, group, self.unknowns.size) for group in sums]
            case Joined():
                result = []
                for part, places in zip(array.parts, array.places, strict=True):
                    for group in self.known[part.array] if self.depends(part.array) else []:
                        own, place = group.of_rows(part.table)
                        result.append(Group(places[place], own.columns, own.entries))
                return result
        raise Untranslatable("equations whose derivatives are not sums and products of entries")

    def _of_sum(self, array: Combined, row: int) -> Group:
        begin = Ref(array.terms.array, array.terms.table[row])
        columns, entries = backwards(self.translation, begin, self.unknowns, self.depends)
        return Group(np.full(len(columns), row), columns, entries)

    def _of_formula(self, array: Formula) -> list[Group]:
        """The chain rule."""
        result = []
        for i, partial in array.kind.partials.items():
            argument = array.arguments[i]
            if not self.depends(argument.array):
                continue
            slope = self.translation.formula(partial, *array.arguments)
            for group in self.known[argument.array]:
                own, place = group.of_rows(argument.table)
                entries = self.product(slope[place], own.entries)
                result.append(Group(own.rows, own.columns, entries))
        return result

    def product(self, slope: Ref, entries: Ref) -> Ref:
        """Of two vectors, of the type of the first; formulas of products with ones fold."""
        return self.translation.operation("multiply", slope, self.translation.converted(entries, slope.array.dtype))

    def _merged(self, groups: list[Group]) -> list[Group]:
        """Groups at the same places are one; what is zero is left out."""
        found: dict[tuple, Group] = {}
        for group in groups:
            if not len(group.rows) or ((number := known_number(group.entries)) is not None and number == 0):
                continue
            key = (group.rows.tobytes(), group.columns.tobytes())
            if key in found:
                entries = self.translation.operation("add", found[key].entries, group.entries)
                group = group._replace(entries=entries)
            found[key] = group
        return [g for g in found.values() if known_number(g.entries) is None or known_number(g.entries) != 0]

    def stacked(self, rows: list[Ref]) -> list[Group]:
        """The Jacobian of several vectors, one after another."""
        result, begin = [], 0
        for ref in rows:
            result += [group._replace(rows=begin + group.rows) for group in self.groups(ref.flat)]
            begin += ref.table.size
        return result

    def matrix(self, rows: list[Ref]) -> Group:
        """The same with each place named once."""
        return assembled(self.translation, self.stacked(rows), self.unknowns.size)


def assembled(translation: Translation, groups: list[Group], columns: int) -> Group:
    """The sum of several sparse matrices, each place named once, row by row."""
    groups = [_places_once(translation, group, columns) for group in groups if len(group.rows)]
    if not groups:
        nothing = np.zeros(0, np.int64)
        return Group(nothing, nothing, fixed(np.zeros(0)))
    keys = [group.rows * columns + group.columns for group in groups]
    places, which = np.unique(np.concatenate(keys), return_inverse=True)
    entries = _sum_of_groups(translation, groups, keys, places)
    if entries is None:
        entries = sums_by_target(
            translation, translation.concatenated([group.entries for group in groups]), which, len(places)
        )
    return Group(*np.divmod(places, columns), entries)


def _sum_of_groups(translation: Translation, groups: list[Group], keys: list[Table], places: Table) -> Ref | None:
    """The entries at places that are named in order, added group by group; None if that takes many formulas."""
    if len(groups) > MOST_GROUPS or any(len(np.unique(key)) < len(key) for key in keys):
        return None
    there = np.stack([np.isin(places, key) for key in keys])
    signatures, which = np.unique(there.T @ (1 << np.arange(len(keys))), return_inverse=True)
    if len(signatures) > MOST_GROUPS:
        return None
    parts, order = [], []
    for i in range(len(signatures)):
        here = np.flatnonzero(which == i)
        total: Ref | None = None
        for group, key in zip(groups, keys, strict=True):
            if places[here[0]] not in key:
                continue
            sorter = np.argsort(key)
            own = group.entries[sorter[np.searchsorted(key, places[here], sorter=sorter)]]
            total = own if total is None else translation.operation("add", total, own)
        assert total is not None
        parts.append(total)
        order.append(here)
    return translation.joined(parts, np.argsort(np.concatenate(order)))


def _places_once(translation: Translation, group: Group, columns: int) -> Group:
    """Entries of a group at the same place added, where each place is named as often."""
    keys = group.rows * columns + group.columns
    places, counts = np.unique(keys, return_counts=True)
    if len(places) == len(keys) or (counts != counts[0]).any():
        return group
    members = np.argsort(keys, kind="stable").reshape(len(places), counts[0])
    return Group(*np.divmod(places, columns), translation.combined("add", group.entries[members]))
