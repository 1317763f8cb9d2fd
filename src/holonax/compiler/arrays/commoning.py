"""Predictive commoning for arrays: what the end of a step computes of q, the next step need not compute again.

RATTLE and the splittings evaluate the force at the end of a step, and again at the beginning of the next.  A costly
array that depends on the positions alone is put at the new positions (`moved`); since equal arrays are the same object,
it is then known whether the step computes that anyway.  If so, it is kept in memory from step to step.
"""

from __future__ import annotations

from holonax.compiler.arrays.matrices import dense
from holonax.compiler.arrays.translate import Translation
from holonax.compiler.arrays.values import Array, Combined, DenseArray, Fixed, Formula, Given, Joined, Ref
from holonax.compiler.ir.graph import evaluated

WORTHWHILE = 10
"""Operations per entry from which on an array is kept."""


def kept_arrays(
    translation: Translation, order: list[Array], q: Given, new_q: Ref, parameters: set[Given]
) -> dict[Array, Ref]:
    """Arrays of a program (`order`, operands first) that need not be computed again, and what they are in the end.

    Matrices and right sides of equations are not among them: elimination wants them in its workspace.  What they are
    joined from may be.
    """
    of_q: dict[Array, bool] = {}
    weight: dict[Array, float] = {}
    in_workspaces = {array for solve in translation.solves for array in solve.parts}
    for array in order:
        known = isinstance(array, Fixed) or array is q or array in parameters
        can_move = _can_move(array) and array not in in_workspaces
        of_q[array] = known or (can_move and all(of_q[x.array] for x in array.operands))
        weight[array] = _work(array) + sum(weight[x] for x in {x.array for x in array.operands})
    there = set(order)
    moves: dict[Array, Ref] = {q: new_q}
    used_elsewhere = {x.array for array in order if not of_q[array] for x in array.operands}
    kept: dict[Array, Ref] = {}
    for array in order:
        if of_q[array] and array in used_elsewhere and weight[array] >= WORTHWHILE * array.size:
            end = _moved(translation, array, moves)
            if end.array is not array and end.array in there:
                kept[array] = end
    return kept


def _can_move(array: Array) -> bool:
    return isinstance(array, (Formula, Combined, Joined, DenseArray))


def _work(array: Array) -> float:
    if isinstance(array, Formula):
        return array.size * array.kind.cost
    if isinstance(array, DenseArray):
        return float(array.size * array.inner)
    return float(array.terms.table.size) if isinstance(array, Combined) else 0.0


def _moved(translation: Translation, array: Array, moves: dict[Array, Ref]) -> Ref:
    """The array at the new positions, given what some are there."""
    return evaluated([array], moves, lambda x: x.sources, lambda x: _made_again(translation, x, moves))[0]


def _made_again(translation: Translation, array: Array, moves: dict[Array, Ref]) -> Ref:
    def at(ref: Ref) -> Ref:
        return moves[ref.array][ref.table]

    match array:
        case Formula():
            return translation.formula(array.kind, *(at(x) for x in array.arguments))
        case Combined():
            return translation.combined(array.operation, at(array.terms))
        case Joined():
            return translation.joined([at(part) for part in array.parts], array.inverse)
        case DenseArray():
            moved = [at(x) for x in array.operands]
            return dense(translation, array.operation, moved, (array.batches, array.rows, array.inner, array.columns))
        case _:
            return array.all
