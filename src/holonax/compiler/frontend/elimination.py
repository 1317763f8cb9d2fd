"""Sparse elimination whose order is settled when the program is made.

A matrix is a list of rows, each a dictionary from column to node, zeros left out: fill-in appears only where it must,
and a banded matrix stays banded.  Pivots are chosen once, by Markowitz's count of the work they cause.  An equation is
solved for the unknown that belongs to it: the pivots are then masses, and the diagonal of $G M^{-1} G^T$, which is
positive.  Where that does not exist, or is small at many of the random states at which the program is tried out,
others are considered.  A pivot that is small at some state costs digits there, which the next iteration of Newton's
method brings back; one that is round-off is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from holonax.compiler.frontend.translate import Untranslatable
from holonax.compiler.ir.graph import Build, Node, Role, evaluated
from holonax.compiler.ir.operations import evaluate

Row = dict[int, Node]
SAMPLES = 16
NEAR = 0.01
"""Step size, and how far unknowns are from their guess, where a program is tried out."""

SMALL = 0.02
"""Compared with the largest entry of its column, without units."""


class Pivot(NamedTuple):
    r"""An equation solved for the unknown `column`: $x_c = b - \sum_j a_j x_j$, where b is `right` and a the `rest`."""

    column: int
    rest: Row
    right: Node


Order = list[tuple[int, int, int, Node]]
"""Row, column, sign and value of every pivot; the sign is 0 where it differs from state to state."""


class Eliminated(NamedTuple):
    """Pivots in the order of elimination, whether one of them was round-off, and how they were chosen."""

    pivots: list[Pivot]
    singular: Node
    order: Order


def eliminate(
    build: Build,
    rows: list[Row],
    right: list[Node],
    unknowns: int,
    home: list[int],
    last: Collection[int] = (),
    order: Order | None = None,
    floored: Collection[int] = (),
) -> Eliminated:
    r"""Gaussian elimination of all `rows` of $A x = b$, of which there may be fewer than unknowns.

    `home` is the unknown that belongs to each row: a velocity to its momentum, a multiplier to its constraint.
    Unknowns that come `last` are eliminated after the others.  An `order` that was found for the same equations
    elsewhere is taken as it is.  Pivots of `floored` unknowns that all but vanish beside their rows are replaced by
    numbers that do not: the solution is then a little wrong, which further iterations put right (static pivoting, Li
    and Demmel 2003).

    Singular is judged as in `holonax.numerics.newton.factorize`: a pivot below $n\epsilon$ times what it is the
    difference of is round-off.  The size of what is subtracted, over that of the pivot, is added up for all pivots and
    compared once; what only adds to a number that is not negative cancels nothing.
    """
    rows, right = [dict(row) for row in rows], list(right)
    sizes = _Sizes(rows, home, last) if order is None else None
    taken: Order = []
    grows = {(r, c): entry.nonnegative for r, row in enumerate(rows) for c, entry in row.items()}
    parts: dict[tuple[int, int], list[Node]] = {}
    pivots, left = [], set(range(len(rows)))
    singular, cancelled = build.number(False, "bool"), []
    while left:
        i, j, sign = sizes.choose(rows, left) if sizes else order[len(taken)][:3]  # type: ignore[index]
        left.discard(i)
        pivot = rows[i].pop(j)
        taken.append((i, j, sign, pivot))
        pivot = _floor(build, pivot, rows[i]) if j in floored else pivot
        scale = 1.0 / pivot
        row, solved = {c: entry * scale for c, entry in rows[i].items()}, right[i] * scale
        if (i, j) in parts:
            cancelled += [part * scale for part in parts[i, j]]
        else:
            singular = singular | build("equal", pivot, build.number(0, pivot.dtype))
        for r in sorted(left):
            if j in rows[r]:
                factor = rows[r].pop(j)
                for c, entry in row.items():
                    part = factor * entry
                    rows[r][c] = rows[r][c] - part if c in rows[r] else -part
                    if not (grows.get((r, c), True) and (-part).nonnegative):
                        parts.setdefault((r, c), []).append(part)
                right[r] = right[r] - factor * solved
        if sizes:
            sizes.eliminate(i, j, left)
        pivots.append(Pivot(j, row, solved))
    if cancelled:
        bound = build.number(1 / (unknowns * float(np.finfo(cancelled[0].dtype).eps)), cancelled[0].dtype)
        singular = singular | ~build("less_equal", build.total([abs(x) for x in cancelled]), bound)
    return Eliminated(pivots, singular, taken)


def _floor(build: Build, pivot: Node, row: Row) -> Node:
    """A pivot, or half of the digits of the largest other entry of its row if that is larger."""
    if not row:
        return pivot
    least = float(np.finfo(pivot.dtype).eps) ** 0.5 * build.largest(list(row.values()), pivot.dtype)
    return build("select", build("less", abs(pivot), least), least, pivot)


def definite(order: Order, rows: list[Row], home: list[int], motions: int) -> bool:
    r"""Whether an elimination is as good as any, at every state: its pivots are constants, or those of a definite mass.

    Symmetric elimination of a definite matrix needs no exchanges (Higham, *Accuracy and Stability*, 10), and a mass
    that is definite at random states is so wherever it is not singular between them.  Otherwise a pivot may vanish
    although the mass does not: $\begin{pmatrix} q & 1 \\ 1 & 0 \end{pmatrix}$ at $q = 0$.
    """
    signs = set()
    for i, j, sign, pivot in order:
        alone = sum(c < motions for c in rows[i]) == 1
        if j < motions and not (alone and j == home[i]):
            signs.add(np.sign(pivot.value) if pivot.is_constant else sign if j == home[i] else 0)
    return (len(signs) <= 1 and 0 not in signs) or all(pivot.is_constant for *_, pivot in order)


def substitute(build: Build, pivots: list[Pivot]) -> dict[int, tuple[Node, Row]]:
    """The unknowns of the pivots in terms of the others: `{column: (constant, coefficients)}`."""
    solved: dict[int, tuple[Node, Row]] = {}
    for column, rest, right in reversed(pivots):
        constant, coefficients = right, Row()
        for c, entry in rest.items():
            if c in solved:
                constant = constant - entry * solved[c][0]
                terms: Iterable[tuple[int, Node]] = ((d, -(entry * x)) for d, x in solved[c][1].items())
            else:
                terms = ((c, -entry),)
            for d, term in terms:
                coefficients[d] = coefficients[d] + term if d in coefficients else term
        solved[column] = constant, {d: x for d, x in coefficients.items() if not x.is_number(0)}
    return solved


class _Sizes:
    """The matrix in numbers, at several states, eliminated alongside."""

    def __init__(self, rows: list[Row], home: list[int], last: Collection[int]) -> None:
        columns = 1 + max((c for row in rows for c in row), default=-1)
        self.home, self.last = np.array(home, int), last
        self.values = np.zeros((SAMPLES, len(rows), max(columns, 1 + max(home, default=-1))))
        places = [(r, c) for r, row in enumerate(rows) for c in row]
        nodes = [rows[r][c] for r, c in places]
        for size in (1.0, 0.3, 0.05):  # states outside the domain of the functions, such as fast ones, say nothing
            lost = ~np.isfinite(self.values).all(axis=(1, 2)) if size < 1.0 else np.ones(SAMPLES, bool)
            if lost.any():
                for (r, c), value in zip(places, try_out(nodes, size), strict=True):
                    self.values[lost, r, c] = value[lost]
        self.values = self.values[np.isfinite(self.values).all(axis=(1, 2))]

    def _next(self, left: Collection[int]) -> list[int]:
        """Rows that belong to unknowns which do not come last, as long as there are any."""
        return sorted(r for r in left if self.home[r] not in self.last) or sorted(left)

    def _without_units(self, rows: list[int], place: np.ndarray, column: np.ndarray) -> np.ndarray:
        r"""Sizes of some entries in units in which a row's own entry is 1: $|a_{ij}|/\sqrt{|a_{ii} a_{jj}|}$.

        `place` are the places of their rows among `rows`, which are those that are present.
        """
        own = np.abs(self.values[:, rows, self.home[rows]])
        if not (own > 0.0).all():
            own = np.where(own > 0.0, own, np.abs(self.values[:, rows]).max(axis=2, initial=1e-300))
        root = np.sqrt(own)
        of_column = np.ones((len(root), self.values.shape[2]))
        of_column[:, self.home[rows]] = root
        return np.abs(self.values[:, np.asarray(rows)[place], column]) / root[:, place] / of_column[:, column]

    def choose(self, rows: list[Row], left: set[int]) -> tuple[int, int, int]:
        """The pivot that causes the least work, in its row's own column, unless those are often small; its sign."""
        present = self._next(left)
        entries = [(place, c) for place, r in enumerate(present) for c in rows[r]]
        if not entries:
            raise Untranslatable("equations that do not determine the unknowns, whatever the state")
        place, column = np.array(entries).T
        sizes = self._without_units(present, place, column)
        largest = np.zeros((len(sizes), self.values.shape[2]))
        np.maximum.at(largest.T, column, sizes.T)
        small = (sizes <= SMALL * largest[:, column]).sum(axis=0).tolist()
        counts = np.bincount([c for r in left for c in rows[r]], minlength=self.values.shape[2]).tolist()
        home, last = self.home.tolist(), self.last
        candidates = (
            ((c in last) != (home[r] in last), c != home[r] or 4 * few > len(sizes),
             few if c != home[r] else 0, (len(rows[r]) - 1) * (counts[c] - 1), c, r)
            for few, (r, c) in zip(small, ((present[place], c) for place, c in entries), strict=True)
        )  # fmt: skip
        *_, c, r = min(candidates)
        return r, c, _common_sign(self.values[:, r, c])

    def eliminate(self, i: int, j: int, left: set[int]) -> None:
        """The same step in numbers; states at which the pivot is too small have nothing more to say."""
        present = self._next({i, *left})
        sizes = self._without_units(present, np.arange(len(present)), np.full(len(present), j))
        self.values = self.values[sizes[:, present.index(i)] > SMALL * sizes.max(axis=1)]
        rest = sorted(left)
        touched = [r for r in rest if self.values[:, r, j].any()]
        columns = np.flatnonzero(self.values[:, i].any(axis=0))
        factor = self.values[:, touched, j] / self.values[:, i, None, j]
        change = factor[:, :, None] * self.values[:, i][:, None, columns]
        self.values[:, np.array(touched, int)[:, None], columns] -= change


def _common_sign(values: np.ndarray) -> int:
    """1 or -1 if all values have that sign, otherwise 0."""
    signs = set(np.sign(values[values != 0.0]).tolist())
    return int(signs.pop()) if len(signs) == 1 else 0


def positive_at_random(node: Node) -> Node:
    """Whether a node is positive: known now if it is the same at all random states."""
    sign = _common_sign(try_out([node])[0])
    build = node.build
    return build.number(sign > 0, "bool") if sign else build("greater", node, build.number(0, node.dtype))


def try_out(nodes: list[Node], size: float = 1.0) -> list[np.ndarray]:
    """Values of nodes at random inputs of that size; what a loop carries counts as near to where the loop begins."""
    values: dict[Node, np.ndarray] = {}
    evaluated(nodes, values, _sources, lambda node: _value(node, [values[x] for x in _sources(node)], size))
    return [values[node].astype(float) for node in nodes]


def _sources(node: Node) -> tuple[Node, ...]:
    if node.name in ("parameter", "result"):
        loop, i = node.value
        return (loop.begin[i],)
    return node.args


def _value(node: Node, arguments: list[np.ndarray], size: float) -> np.ndarray:
    random = np.random.default_rng(node.index)
    near = np.array([0.0, *random.normal(size=SAMPLES - 1)]) * NEAR
    if node.is_constant:
        return np.full(SAMPLES, node.value)
    if node.name in ("parameter", "result"):
        return arguments[0] + near if node.dtype.startswith("float") else arguments[0]
    if arguments:
        return evaluate(node.name, node.dtype, *arguments)
    if node.value is Role.STEP_SIZE:
        return np.full(SAMPLES, NEAR)
    if node.value is Role.PARAMETER:
        return np.exp(0.5 * random.normal(size=SAMPLES))
    if node.dtype.startswith("float"):  # states with zeros in them are common, and the ones that pivots may fear
        special = random.random(SAMPLES) < np.linspace(0.0, 0.5, SAMPLES)
        return size * np.where(special, random.integers(-1, 2, SAMPLES), random.normal(size=SAMPLES))
    return random.integers(0, 2, SAMPLES).astype(node.dtype)
