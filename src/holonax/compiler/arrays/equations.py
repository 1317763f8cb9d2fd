r"""The equations of a step: Newton's method as a loop whose values, magnitudes and derivatives are arrays.

An iteration evaluates the equations where the path is.  Paths whose residuals are round-off are done.  For the others
a sparse matrix is factorised (`holonax.numerics.tape`) and the unknowns are updated.  That is a trial: a path that is
not done after a few iterations, or at whose matrix a pivot is round-off or has not the sign that it has where nothing
moves, takes its step again on the plain engine, which knows what to do or what to say.

With $F_V$ the rows of the motions $V$, $F_\lambda$ those of the multipliers, an update solves
$A\,\delta V + B\,\delta\lambda = -F_V$ and $C\,\delta V + D\,\delta\lambda = -F_\lambda$.  Where $A$ is diagonal, and
$A$ and $B$ do not depend on the unknowns, as with constant masses, motions are eliminated (block elimination):

$$ (D - C A^{-1} B)\,\delta\lambda = C w - F_\lambda, \qquad \delta V = -w - A^{-1} B\,\delta\lambda, \qquad
   w = A^{-1} F_V. $$

After the first update $F_V = 0$, so that $w$ is what the motions lie behind at the guess, and zero in later rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from holonax.compiler.arrays.jacobian import Differentiation, Group, assembled
from holonax.compiler.arrays.magnitudes import Magnitudes
from holonax.compiler.arrays.pieces import is_periodic, repetitions
from holonax.compiler.arrays.solve import Found, Round, Solve, Update, in_memory
from holonax.compiler.arrays.translate import Translation, handler
from holonax.compiler.arrays.values import Given, Joined, Ref, Table, fixed
from holonax.compiler.frontend.translate import look
from holonax.compiler.ir.graph import Untranslatable
from holonax.numerics.hubs import waited_for
from holonax.numerics.newton import Newton
from holonax.numerics.roundoff import beside_others
from holonax.numerics.tape import EliminationTape, elimination_tape

MOST_ITERATIONS = 8
"""Of a trial."""

MOST_PRODUCTS = 2**24
"""Of a factorisation, beyond which the lists of places would fill the memory."""


@handler("root")
def _root(translation: Translation, equation: Any, guess: Ref, *constants: Ref) -> list:
    newton, motions = equation.params["newton"], equation.params["motions"]
    size, dtype = guess.table.size, guess.array.dtype

    def rows_at(x: Ref) -> list[Ref]:
        rows = look(translation.jaxpr(equation.params["equations"], list(constants), [x]))
        return [row.flat for row in rows]

    times = equal_stages(guess.flat, rows_at, motions)
    own = motions // times
    table = np.concatenate([np.tile(np.arange(own), times), own + np.arange(size - motions)])
    _, first = np.unique(table, return_index=True)

    def own_rows_at(x: Ref) -> list[Ref]:
        momenta, *others = rows_at(x[table])
        return [momenta[:own], *others]

    unknowns, begin = Given(own + size - motions, dtype, "unknowns"), guess.flat[first]
    rows = Rows(translation, newton, unknowns, own_rows_at(unknowns.all), own)
    solve = rows.condensed(begin, lambda: own_rows_at(begin)[0]) or rows.general(begin)
    translation.solves.append(solve)
    found = [Found(solve, "unknowns", unknowns.size, dtype)]
    found += [Found(solve, what, 1, dtype) for what in ("status", "residual", "iterations")]
    translation.doubts.append(translation.operation("not_equal", found[1].one, fixed(np.zeros((), dtype))))
    return [found[0].all[table], *(x.one for x in found[1:])]


def equal_stages(guess: Ref, rows_at: Callable[[Ref], list[Ref]], motions: int) -> int:
    r"""How many times the motions of the first stage are those of all: 1, unless guess and equations say so.

    With a constant mass both stages of RATTLE have the momentum $p + \tfrac h2 f(q) + g'^T\lambda$.  If all begin at
    the same motions, and equations of equal motions are the same ones again, Newton's method keeps them equal.
    """
    times = repetitions([guess[:motions]]) if motions else 1
    if times == 1:
        return 1
    own, rest = motions // times, np.arange(motions, guess.table.size)
    table = np.concatenate([np.tile(np.arange(own), times), rest])
    unknowns = Given(guess.table.size, guess.array.dtype, "unknowns")
    return times if is_periodic(rows_at(unknowns.all[table])[0], own) else 1


@final
class Rows:
    """The rows of the equations, those of the motions first, and their derivatives."""

    def __init__(
        self, translation: Translation, newton: Newton, unknowns: Given, rows: list[Ref], motions: int
    ) -> None:
        self.translation, self.newton, self.unknowns = translation, newton, unknowns
        self.rows, self.motions = rows, motions
        self.derivatives = Differentiation(translation, unknowns)
        self.dtype, self.size = unknowns.dtype, unknowns.size

    def general(self, guess: Ref) -> Solve:
        """All unknowns at once."""
        matrix = self.derivatives.matrix(self.rows).part_by_part()
        solution, moves = Given(self.size, self.dtype, "solution"), Given(1, "bool", "moves")
        tape = self._analysed(matrix, self.motions)
        change = self.translation.operation("negative", solution.all)
        return Solve(
            unknowns=self.unknowns,
            guess=guess,
            **self._judged(guess, self.rows, _diagonal(matrix, self.motions)),
            entries=in_memory(matrix.entries),
            first=None,
            later=Round(
                in_memory(self.translation.concatenated(self.rows)), self._added(moves, np.arange(self.size), change)
            ),
            tape=tape,
            motions=self.motions,
            solution=solution,
            workspace=Given(tape.places, self.dtype, "workspace"),
            moves=moves,
        )

    def condensed(self, guess: Ref, momenta_at_guess: Callable[[], Ref]) -> Solve | None:
        """Motions eliminated, if that can be done once and for all."""
        n, k = self.motions, self.size - self.motions
        t, depends = self.translation, self.derivatives.depends
        momenta = self.derivatives.groups(self.rows[0])
        diagonal, across = _split(momenta, n)
        if any(depends(group.entries.array) for group in momenta) or any(
            (group.rows != group.columns).any() for group in diagonal
        ):
            return None
        mass = assembled(t, diagonal, n)
        if not np.array_equal(mass.rows, np.arange(n)):
            return None
        inverse = t.operation("divide", fixed(np.ones(1, self.dtype)), mass.entries)
        across = [
            group._replace(entries=t.operation("multiply", inverse[group.rows], group.entries)) for group in across
        ]
        own = self.derivatives.stacked(self.rows[1:])
        along, direct = _split(own, n)
        touching = [np.concatenate([np.zeros(0, np.int64), *(g[i] for g in along)]) for i in range(2)]
        if not waited_for(*touching).all():
            return None  # multipliers that share a hub would fill the matrix
        solution, moves = Given(k, self.dtype, "solution"), Given(1, "bool", "moves")
        negative = [
            group._replace(entries=t.operation("negative", group.entries)) for group in _products(t, along, across)
        ]
        matrix = assembled(t, [*direct, *negative], max(k, 1)).part_by_part()
        if k and not np.isin(np.arange(k), matrix.rows).all():
            return None  # a row without entries
        tape = self._analysed(matrix, 0)
        step = solution.all
        moved = [Group(g.rows, g.columns, t.operation("multiply", g.entries, step[g.columns])) for g in across]
        shift = _row_sums(t, moved, n, self.dtype)
        behind = t.operation("multiply", inverse, momenta_at_guess())
        pushed = _row_sums(
            t, [Group(g.rows, g.columns, t.operation("multiply", g.entries, behind[g.columns])) for g in along], k,
            self.dtype,
        )  # fmt: skip
        residual = t.concatenated(self.rows[1:]) if k else fixed(np.zeros(0, self.dtype))

        def round_of(right: Ref, backwards: Ref) -> Round:
            moved_on = self._added(moves, np.arange(n), t.operation("negative", backwards))
            return Round(in_memory(right), (*moved_on, *self._added(moves, n + np.arange(k), step)))

        return Solve(
            unknowns=self.unknowns,
            guess=guess,
            **self._judged(guess, self.rows[1:], mass.entries),
            entries=in_memory(matrix.entries),
            first=round_of(t.operation("subtract", pushed, residual), t.operation("add", behind, shift)),
            later=round_of(t.operation("negative", residual), shift),
            tape=tape,
            motions=0,
            solution=solution,
            workspace=Given(tape.places, self.dtype, "workspace"),
            moves=moves,
        )

    def _added(self, moves: Given, places: Table, change: Ref) -> tuple[Update, ...]:
        """Unknowns of paths that move, changed."""
        old = self.unknowns.all[places]
        return self._becomes(self.unknowns, moves, self.translation.operation("add", old, change), places)

    def _becomes(self, target: Given, moves: Given, new: Ref, places: Table | None = None) -> tuple[Update, ...]:
        places = np.arange(target.size) if places is None else places
        if not len(places):
            return ()
        value = self.translation.operation("select", moves.one, new, target.all[places])
        if not isinstance(value.array, Joined):
            return (Update(target, places, value),)
        order = np.argsort(value.table)  # entry i of what is joined goes to this place
        parts = zip(value.array.parts, value.array.places, strict=True)
        return tuple(Update(target, places[order[own]], part) for part, own in parts)

    def _analysed(self, matrix: Group, motions: int) -> EliminationTape:
        size = int(matrix.rows.max()) + 1 if len(matrix.rows) else 0
        least = _least_products(matrix, motions, size)
        if least > MOST_PRODUCTS:  # seen before the lists are made, which would fill the memory
            raise Untranslatable(f"equations whose solution takes at least {least} products")
        tape = elimination_tape(matrix.rows, matrix.columns, motions, size)
        if tape.operations > MOST_PRODUCTS:
            raise Untranslatable(f"equations whose solution takes {tape.operations} products")
        return tape

    def _slack(self, guess: Ref) -> Ref:
        """What counts towards the magnitude of every unknown (`holonax.numerics.roundoff.beside_others`)."""
        t, none = self.translation, fixed(np.zeros(1, self.dtype))
        if not self.motions:
            return none[np.zeros(self.size, np.int64)]
        largest = t.combined("maximum", t.operation("absolute", guess[: self.motions]))
        part = t.operation("multiply", largest, fixed(np.asarray(beside_others(self.dtype), self.dtype))).flat
        return t.concatenated(
            [part[np.zeros(self.motions, np.int64)], none[np.zeros(self.size - self.motions, np.int64)]]
        )

    def _judged(self, guess: Ref, rows: list[Ref], masses: Ref | None) -> dict[str, Any]:
        """Whether some residual is more than round-off (or NaN), and the largest residual."""
        t = self.translation
        most = min(MOST_ITERATIONS, self.newton.max_iterations)
        if not sum(row.table.size for row in rows):
            no = t.operation("and", t.alive, t.operation("not", t.alive))
            none = t.converted(no, self.dtype)
            return {"alive": t.alive, "unsolved": _stored(no), "largest": _stored(none), "most": most}
        slack = self._slack(guess)
        sizes = Magnitudes(t, self.derivatives, self.rows, slack)
        if masses is not None:
            sizes = Magnitudes(t, self.derivatives, self.rows, slack, sizes.of_unknowns(self.rows[0], masses))
        values, magnitudes = t.concatenated(rows), t.concatenated([sizes.of(row) for row in rows])
        absolute = t.operation("absolute", values)
        allowed = t.operation("multiply", magnitudes, fixed(np.asarray(self.newton.bound(self.dtype), self.dtype)))
        solved = t.operation("less_equal", absolute, allowed)
        unsolved = t.combined("or", t.operation("not", solved))
        largest = t.combined("maximum", absolute)
        return {"alive": t.alive, "unsolved": _stored(unsolved), "largest": _stored(largest), "most": most}


def _least_products(matrix: Group, motions: int, size: int) -> int:
    """Of the elimination of the motions, without fill-in: each couples the multipliers that wait for it."""
    rows, columns = matrix.rows, matrix.columns
    lower, upper = (columns < motions) & (rows >= motions), (rows < motions) & (columns >= motions)
    waits = waited_for(rows[lower], columns[lower])
    others = rows[lower][~waits] * size + columns[lower][~waits]
    below = np.bincount(columns[lower][waits], minlength=size)
    beside = np.bincount(rows[upper & ~np.isin(columns * size + rows, others)], minlength=size)
    return int(below @ beside)


def _diagonal(matrix: Group, size: int) -> Ref | None:
    """The first entries of the diagonal, if they are all there."""
    where = np.flatnonzero((matrix.rows == matrix.columns) & (matrix.rows < size))
    return matrix.entries[where] if len(where) == size else None


def _stored(ref: Ref) -> Ref:
    """A single number, in memory."""
    return in_memory(ref).one


def _split(groups: list[Group], n: int) -> tuple[list[Group], list[Group]]:
    """Columns of motions, and those of multipliers, counted from 0."""
    first, second = [], []
    for group in groups:
        own = group.columns < n
        if own.any():
            first.append(Group(group.rows[own], group.columns[own], group.entries[np.flatnonzero(own)]))
        if not own.all():
            rest = np.flatnonzero(~own)
            second.append(Group(group.rows[rest], group.columns[rest] - n, group.entries[rest]))
    return first, second


def _products(translation: Translation, left: list[Group], right: list[Group]) -> list[Group]:
    """The product of two sparse matrices, as groups."""
    terms = sum(int(np.bincount(b.rows, minlength=a.columns.max() + 1)[a.columns].sum()) for a in left for b in right)
    if terms > MOST_PRODUCTS:
        raise Untranslatable(f"equations whose matrix takes {terms} products")
    result = []
    for a in left:
        for b in right:
            own, place = b.of_rows(a.columns)
            if len(place):
                entries = translation.operation("multiply", a.entries[place], own.entries)
                result.append(Group(a.rows[place], own.columns, entries))
    return result


def _row_sums(translation: Translation, groups: list[Group], size: int, dtype: str) -> Ref:
    """Sums of the entries of each row."""
    if size == 0:
        return fixed(np.zeros(0, dtype))
    whole_rows = assembled(translation, [g._replace(columns=np.zeros_like(g.columns)) for g in groups], 1)
    if np.array_equal(whole_rows.rows, np.arange(size)):
        return whole_rows.entries
    table = np.zeros(size, np.int64)
    table[whole_rows.rows] = 1 + np.arange(len(whole_rows.rows))
    return translation.joined([fixed(np.zeros(1, dtype)), whole_rows.entries], table)
