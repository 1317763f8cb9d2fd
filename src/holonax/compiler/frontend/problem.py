r"""The equations of a Newton solve as lanes: values, magnitudes and updates at any place.

Rows whose derivatives do not depend on the unknowns are linear: they are solved for as many unknowns once, and Newton's
method runs on what is left.  For a Lagrangian with constant mass, $v$ disappears in this way and only the multipliers
are iterated.
"""

from __future__ import annotations

from collections import defaultdict

from holonax.compiler.frontend.derivative import is_total
from holonax.compiler.frontend.elimination import Order, Row, eliminate, substitute
from holonax.compiler.frontend.magnitude import magnitudes
from holonax.compiler.frontend.polynomial import coefficients_of
from holonax.compiler.ir.graph import Build, Node, combined
from holonax.numerics.newton import Newton


class Problem:
    """Equations whose linear rows were `eliminated`: `others` are the unknowns that are left, and as many rows."""

    def __init__(
        self,
        build: Build,
        rows: list[Node],
        unknowns: list[Node],
        jacobian: list[Row],
        linear: list[int],
        eliminated: dict[int, tuple[Node, Row]],
        newton: Newton,
        motions: int,
        sound: bool = True,
    ) -> None:
        self.build, self.unknowns, self.eliminated, self.newton = build, unknowns, eliminated, newton
        self.size, self.dtype, self.motions = len(rows), rows[0].dtype, motions
        self.others = [j for j in range(len(unknowns)) if j not in eliminated]
        kept = [i for i in range(len(rows)) if i not in linear]
        self.rows, self.jacobian = [rows[i] for i in kept], [jacobian[i] for i in kept]
        self.home = _home(kept, self.others)
        self.multipliers = {place for place, j in enumerate(self.others) if j >= motions}
        self.magnitudes = magnitudes(build, self.rows, unknowns[:motions])
        self.rough_magnitudes = magnitudes(build, self.rows, moves_are_small=True)
        self.bound = newton.bound(self.dtype)
        self.total = all(map(is_total, self.rows))
        self.order: Order | None = None
        self.floored = () if sound or build.trial else range(motions)  # a trial is given up instead

    def completed(self, x: list[Node]) -> list[Node]:
        """All unknowns, given those that are left."""
        left = dict(zip(self.others, x, strict=True))
        return [
            left[j] if j in left else _affine(self.build, *self.eliminated[j], left) for j in range(len(self.unknowns))
        ]

    def moved(self, update: list[Node]) -> list[Node]:
        """The updates of all unknowns, given those of the ones that are left."""
        left, zero = dict(zip(self.others, update, strict=True)), self.build.number(0, self.dtype)
        return [
            left[j] if j in left else _affine(self.build, zero, self.eliminated[j][1], left)
            for j in range(len(self.unknowns))
        ]

    def at(self, nodes: list[Node], x: list[Node]) -> list[Node]:
        """Expressions of the unknowns at x."""
        return self.build.rebuild(nodes, dict(zip(self.unknowns, x, strict=True)))

    def unsolved(self, values: list[Node], allowed: list[Node]) -> Node:
        """Whether a residual is more than round-off."""
        excess = [abs(value) - size for value, size in zip(values, allowed, strict=True)]
        return self.build("greater", combined(self.build.larger, excess), self.build.number(0, self.dtype))

    def derivatives(self, x: list[Node]) -> list[Row]:
        """Of the rows at x, with respect to all unknowns."""
        numbers = iter(self.at([d for row in self.jacobian for d in row.values()], x))
        return [{j: next(numbers) for j in row} for row in self.jacobian]

    def whole_update(self, x: list[Node], values: list[Node]) -> tuple[list[Node], Node]:
        """What to add to all unknowns at any x, and whether that is on the near side."""
        derivatives = self.derivatives(x)
        ahead = [a - b for a, b in zip(self.completed([x[j] for j in self.others]), x, strict=True)]
        update, _, near = self.update(derivatives, self.pushed(values, derivatives, ahead))
        return [a + d for a, d in zip(ahead, self.moved(update), strict=True)], near

    def pushed(self, values: list[Node], derivatives: list[Row], ahead: list[Node]) -> list[Node]:
        """Residuals after the eliminated unknowns have moved `ahead`, to first order."""
        return [
            self.build.total([value, *(entry * ahead[j] for j, entry in row.items() if not ahead[j].is_number(0))])
            for value, row in zip(values, derivatives, strict=True)
        ]

    def update(self, derivatives: list[Row], values: list[Node]) -> tuple[list[Node], Node, Node]:
        """What to add to the unknowns that are left; whether the matrix is singular; whether its pivots for the
        multipliers have the signs of the near root.

        Multipliers come last, so that their pivots are those of $g' M^{-1} g'^T$, which is what elimination of the
        motions leaves.  Pivots are chosen once, for the first iteration.
        """
        build = self.build
        rows = [reduced(build, row, self.eliminated, self.others) for row in derivatives]
        scales = [build.number(_scale(row), self.dtype) for row in rows]
        rows = [{j: scale * x for j, x in row.items()} for scale, row in zip(scales, rows, strict=True)]
        right = [-(scale * value) for scale, value in zip(scales, values, strict=True)]
        pivots, singular, order = eliminate(
            build, rows, right, self.size, self.home, self.multipliers, self.order, self.floored
        )
        self.order = order
        wrong = [-(sign * pivot) for _, j, sign, pivot in order if sign and j in self.multipliers]
        zero = build.number(0, self.dtype)
        near = build("less", combined(build.larger, wrong), zero) if wrong else build.number(True, "bool")
        known = substitute(build, pivots)
        return [known[j][0] for j in range(len(rows))], singular, near

    def is_lost(self, values: list[Node]) -> Node:
        """Whether a step has left the domain of the equations; those that are finite everywhere have none to leave."""
        lost = self.build.number(False, "bool")
        for value in [] if self.total else values:
            lost = lost | ~self.build("isfinite", value)
        return lost

    def quadratic(self) -> list[Node] | None:
        """Coefficients of the one equation in the one unknown that is left, if it is a quadratic."""
        if len(self.others) != 1:
            return None
        alone = self.unknowns[self.others[0]]
        powers = coefficients_of(self.at(self.rows, self.completed([alone]))[0], alone)
        return powers if powers is not None and len(powers) == 3 else None


def _home(rows: list[int], unknowns: list[int]) -> list[int]:
    """Which of the unknowns belongs to each row: its own, or, if that is eliminated, one that is left over."""
    place = {j: i for i, j in enumerate(unknowns)}
    spare = iter([place[j] for j in unknowns if j not in rows])
    return [place[i] if i in place else next(spare) for i in rows]


def _affine(build: Build, constant: Node, coefficients: Row, x: dict[int, Node]) -> Node:
    return build.total([constant, *(b * x[j] for j, b in coefficients.items())])


def reduced(build: Build, row: Row, eliminated: dict[int, tuple[Node, Row]], others: list[int]) -> Row:
    """A row of the Jacobian in terms of the unknowns that are left, renumbered."""
    place, terms = {j: i for i, j in enumerate(others)}, defaultdict(list)
    for j, entry in row.items():
        for d, b in eliminated[j][1].items() if j in eliminated else ((j, build.number(1, entry.dtype)),):
            terms[place[d]].append(entry * b)
    sums = {j: build.total(terms[j]) for j in sorted(terms)}
    return {j: x for j, x in sums.items() if not x.is_number(0)}


def _scale(row: Row) -> float:
    """What frees a row of the constant that its first entry begins with."""
    for entry in row.values():
        product = entry.args[0] if entry.name == "negative" else entry
        return float(1 / product.args[0].value) if product.name == "multiply" and product.args[0].is_constant else 1.0
    return 1.0
