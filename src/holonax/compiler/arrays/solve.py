"""Equations of a step in an array program: what an iteration of Newton's method computes, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from holonax.compiler.arrays.evaluate import array_values
from holonax.compiler.arrays.values import Array, Fixed, Given, Joined, Ref, Table
from holonax.compiler.ir.operations import FLOATS
from holonax.numerics.newton import Status
from holonax.numerics.tape import EliminationTape
from holonax.numerics.tape_factors import TapeFactors
from holonax.numerics.tape_runs import GIVEN

NOT_SOLVED = float(Status.NOT_CONVERGED)
"""The status of a path that must take its step again."""


class Update(NamedTuple):
    """What some entries become after an iteration."""

    target: Given
    places: Table
    value: Ref


class Round(NamedTuple):
    """What a round of Newton's method solves for, and what it changes: `updates` in order.

    Each update needs of its target only what stands at the same places.
    """

    right: Joined
    updates: tuple[Update, ...]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Solve:
    """Equations to be solved: all that depends on its `own` arrays is computed in every iteration.

    Attributes:
        unknowns: where the path is.
        guess: where it begins.
        alive: whether the path takes part.
        unsolved: whether some residual is more than round-off.
        largest: the largest residual.
        most: rounds that are taken at most.
        entries: of the matrix.
        first: the first round, if it is another one than the `later` ones; it is then taken in any case.
        later: the other rounds.
        tape: how to eliminate the matrix.
        motions: how many of the unknowns of the linear equations are motions.
        solution: of the linear equations.
        workspace: where elimination works; entries, right side and solution are parts of it.
        moves: whether the path is updated.
    """

    unknowns: Given
    guess: Ref
    alive: Ref
    unsolved: Ref
    largest: Ref
    most: int
    entries: Joined
    first: Round | None
    later: Round
    tape: EliminationTape
    motions: int
    solution: Given
    workspace: Given
    moves: Given

    @cached_property
    def signs(self) -> np.ndarray:
        """Of the pivots, in the order of elimination, at the near root; 0 where that is not known."""
        return near_signs(self)

    @cached_property
    def parts(self) -> dict[Array, int]:
        """Arrays that are in the workspace, and where they begin."""
        rights: dict[Array, int] = {round_.right: self.tape.right for round_ in self.rounds}
        return {self.entries: GIVEN, self.solution: self.tape.solution, **rights}

    @property
    def rounds(self) -> tuple[Round, ...]:
        """All kinds of them."""
        return (self.later,) if self.first is None else (self.first, self.later)

    @property
    def own(self) -> tuple[Given, ...]:
        """What changes from iteration to iteration."""
        return self.unknowns, self.solution, self.workspace, self.moves

    @property
    def inside(self) -> tuple[Array, ...]:
        """What an iteration computes."""
        updates = [update.value.array for round_ in self.rounds for update in round_.updates]
        rights = [round_.right for round_ in self.rounds]
        return self.unsolved.array, self.largest.array, self.entries, *rights, *updates

    @cached_property
    def outside(self) -> tuple[Ref, ...]:
        """What the equations need that does not change from iteration to iteration."""
        found: dict[Array, None] = {}
        depends: dict[Array, bool] = dict.fromkeys(self.own, True)

        def visit(array: Array) -> bool:
            if array not in depends:
                parts = [visit(x.array) for x in array.operands]
                depends[array] = any(parts)
                for x in array.operands if depends[array] else ():
                    if not depends[x.array] and not isinstance(x.array, Fixed):
                        found[x.array] = None
            return depends[array]

        for array in self.inside:
            if not visit(array) and not isinstance(array, Fixed):
                found[array] = None
        return self.guess, self.alive, *(x.all for x in found)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Found(Array):
    """What comes of the solution of equations: "unknowns", "status", "residual" or "iterations"."""

    solve: Solve
    what: str
    size: int
    dtype: str

    @property
    def operands(self) -> tuple[Ref, ...]:
        """What the equations need."""
        return self.solve.outside


def home(array: Array) -> Array:
    """The array in whose place another one is found: that of the unknowns, for their last values."""
    return array.solve.unknowns if isinstance(array, Found) and array.what == "unknowns" else array


def in_memory(ref: Ref) -> Joined:
    """A vector as an array of its own."""
    ref, places = ref.flat, np.arange(ref.table.size)
    if isinstance(ref.array, Joined) and np.array_equal(ref.table, np.arange(ref.array.size)):
        return Joined(ref.array.parts, ref.array.places, ref.array.size)
    return Joined((ref,), (places,), len(places))


TRIALS = 3
"""Random states at which the signs of pivots are looked at."""


def near_signs(solve: Solve) -> np.ndarray:
    """Signs of the pivots of the multipliers where nothing moves, as far as random states agree; otherwise 0.

    With one multiplier for a constraint the matrix is $g' M^{-1} g'^T$, whose pivots are positive; with several stages
    signs depend on the tableau, not on the state.
    """
    found = []
    for trial in range(TRIALS):
        random = np.random.default_rng(trial)
        known: dict[Array, np.ndarray] = {x: np.zeros(x.size, x.dtype) for x in solve.own}
        for array in _inputs(solve.entries, known):
            known[array] = _typical(array, random)
        with np.errstate(all="ignore"):
            entries = array_values(solve.entries, known)
        found.append(np.sign(TapeFactors(solve.tape, entries).pivots))
    agreed = np.all([signs == found[0] for signs in found], axis=0)
    multipliers = solve.tape.order >= solve.motions
    return np.where(agreed & multipliers, found[0], 0.0)


def _inputs(array: Array, known: dict[Array, np.ndarray]) -> list[Array]:
    """What has no value of its own."""
    seen: set[Array] = set(known)
    stack: list[Array] = [array]
    result: list[Array] = []
    while stack:
        top = stack.pop()
        if top in seen:
            continue
        seen.add(top)
        if isinstance(top, (Given, Found)):
            result.append(top)
        else:
            stack += [x.array for x in top.operands]
    return result


def _typical(array: Array, random: np.random.Generator) -> np.ndarray:
    """Numbers that an input might be."""
    if array.dtype not in FLOATS:
        return np.zeros(array.size, array.dtype)
    numbers = random.normal(size=array.size)
    if isinstance(array, Given) and array.name == "h":
        numbers = np.full(1, 1e-3)
    elif isinstance(array, Given) and not array.name.startswith("track"):
        numbers = 0.5 + np.abs(numbers)  # a parameter, such as a mass or a length
    return numbers.astype(array.dtype)
