"""Magnitudes of arrays: what was added and cancelled in the evaluation of equations.

`holonax.numerics.roundoff` derives them; `holonax.compiler.frontend.magnitude` has the rules for one entry.  A place
$q + hV$ counts as itself instead of as $|q| + |hV|$, as there for trials.  Places and motions have a little more,
`slack`: the part of the largest motion that counts towards every other one.  Here the largest is that of the guess.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holonax.compiler.arrays.jacobian import Differentiation
from holonax.compiler.arrays.kinds import Kind
from holonax.compiler.arrays.translate import Translation
from holonax.compiler.arrays.values import Array, Combined, Formula, Joined, Ref, fixed
from holonax.compiler.ir.graph import Untranslatable, evaluated

SUMS = {"add", "subtract", "negative"}


class Magnitudes:
    """Of arrays that depend on the unknowns; what does not is data, whose magnitude is its size."""

    def __init__(
        self, translation: Translation, derivatives: Differentiation, rows: list[Ref], slack: Ref,
        unknowns: Ref | None = None,
    ) -> None:  # fmt: skip
        """Of `rows` and what they are made of, given those of the unknowns if these are more than size and slack."""
        self.translation, self.depends, self.slack = translation, derivatives.depends, slack
        self.unknowns = derivatives.unknowns
        self.known: dict[Array, Ref] = {} if unknowns is None else {self.unknowns: unknowns}
        self.kinds: dict[tuple, Kind] = {}
        self.sums = self._sums([row.array for row in rows])

    def _sums(self, stack: list[Array]) -> set[Array]:
        """What a row is the sum of, not counting products of unknowns."""
        found: set[Array] = set()
        while stack:
            array = stack.pop()
            if array in found:
                continue
            found.add(array)
            unknown = [x.array for x in array.operands if self.depends(x.array)]
            if not isinstance(array, Formula) or _is_sum(array.kind) or (len(unknown) == 1 and _is_product(array.kind)):
                stack += unknown
        return found

    def of(self, ref: Ref) -> Ref:
        """The magnitudes of some entries."""
        if not self.depends(ref.array):
            return self.translation.operation("absolute", ref)
        return self._of(ref.array)[ref.table]

    def of_unknowns(self, momenta: Ref, masses: Ref) -> Ref:
        """The magnitudes of motions by those of their rows (see `holonax.numerics.roundoff`); sizes of multipliers."""
        t, motions = self.translation, momenta.table.size
        sizes = t.operation("absolute", self.unknowns.all)
        own = t.operation("divide", self.of(momenta), t.operation("absolute", masses))
        massless = t.operation("equal", masses, fixed(np.zeros((), self.unknowns.dtype)))
        own = t.operation("add", t.operation("select", massless, sizes[:motions], own), self.slack[:motions])
        return t.concatenated([own, sizes[motions:]])

    def _of(self, array: Array) -> Ref:
        return evaluated([array], self.known, self._followed, self._rule)[0]

    def _followed(self, array: Array) -> list[Array]:
        """What is followed further."""
        return [] if self._move(array) is not None else [x for x in array.sources if self.depends(x)]

    def _rule(self, array: Array) -> Ref:
        if (move := self._move(array)) is not None:
            size = self.translation.operation("absolute", array.all)
            return self.translation.operation("add", size, self._slack_of(move))
        match array:
            case Formula():
                return self._of_formula(array, self.of)
            case Combined(operation="add"):
                return self.translation.combined("add", self.of(array.terms))
            case Joined():
                parts = [self.of(part) for part in array.parts]
                return self.translation.concatenated(parts)[array.inverse]
        raise Untranslatable("equations whose round-off cannot be followed")

    def _of_formula(self, formula: Formula, of: Callable[[Ref], Ref]) -> Ref:
        depends = tuple(self.depends(x.array) for x in formula.arguments)
        key = (formula.kind, depends)
        if key not in self.kinds:
            self.kinds[key] = formula.kind.magnitude(depends)
        own = [of(x) for x, unknown in zip(formula.arguments, depends, strict=True) if unknown]
        return self.translation.formula(self.kinds[key], *formula.arguments, *own)

    def _slack_of(self, move: Ref) -> Ref:
        """Of some unknowns, or of multiples of them."""
        own = self._of_formula(move.array, self._slack_of) if isinstance(move.array, Formula) else self.slack
        return own[move.table]

    def _move(self, array: Array) -> Ref | None:
        """The multiple in a place, which is data and a multiple of one unknown that no row sums; or the unknowns."""
        if array is self.unknowns:
            return array.all
        if array in self.sums or not isinstance(array, Formula) or not _is_sum(array.kind):
            return None
        unknown = [x for x in array.arguments if self.depends(x.array)]
        if len(unknown) != 1 or len(array.arguments) == 1:
            return None
        move = unknown[0].array
        inner = [x.array for x in move.operands if self.depends(x.array)] if isinstance(move, Formula) else []
        is_multiple = isinstance(move, Formula) and inner == [self.unknowns] and _is_product(move.kind)
        return unknown[0] if move is self.unknowns or is_multiple else None


def _is_sum(kind: Kind) -> bool:
    return kind.output.name in SUMS


def _is_product(kind: Kind) -> bool:
    return kind.output.name == "multiply"
