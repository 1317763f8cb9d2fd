"""A step as a program of loops over arrays: from a traced step to statements and a frame.

Memory is in four parts: the *track* before the step and after it, what is *fixed* during a run (the noise's key, the
step size, parameters), and the *frame*, in which arrays that are not needed at the same time share places.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, final

import jax
import numpy as np

from holonax.compiler.arrays import equations, factors, moves  # noqa: F401 - they register translations
from holonax.compiler.arrays.commoning import kept_arrays
from holonax.compiler.arrays.loops import Fusion, consumers
from holonax.compiler.arrays.solve import Solve, home, in_memory
from holonax.compiler.arrays.statements import (
    ArrayLoop,
    Iterations,
    MatrixLoops,
    Reduction,
    Scatter,
    Statement,
    read_by,
    reads,
)
from holonax.compiler.arrays.translate import Translation
from holonax.compiler.arrays.values import Array, Fixed, Given, Joined, Ref, fixed
from holonax.compiler.frontend.step import trace
from holonax.compiler.frontend.translate import look
from holonax.mechanics.system import System
from holonax.methods.base import Method
from holonax.numerics.newton import Status

SLOT = 8
"""Bytes of memory per number, whatever its type."""

OWN = {"unknowns", "solution", "workspace", "moves"}
"""What equations have for themselves."""

ROUND = 8
"""Arrays in memory are as long as a multiple of this, and one entry longer than they need to be."""


def room(array: Array) -> int:
    """Numbers that an array takes in memory for each path."""
    return (array.size // ROUND + 1) * ROUND


def consecutive(arrays: Sequence[Array]) -> tuple[dict[Array, int], int]:
    """Where arrays are that lie one after another, in numbers per path; and where they end."""
    result: dict[Array, int] = {}
    used = 0
    for array in arrays:
        result[array] = used
        used += room(array)
    return result, used


@final
@dataclass(eq=False)
class Part:
    """Statements, in order; arrays in memory; and where these are in the frame, in numbers per path."""

    statements: list[Statement]
    stored: set[Array]
    frame: dict[Array, int]
    frame_size: int

    @staticmethod
    def of(wanted: Sequence[Array], kept: Iterable[Array], outside: set[Array]) -> Part:
        """What computes some arrays, given those that are kept; arrays that are outside of the frame have a place."""
        fusion = Fusion([*wanted], kept)
        statements = fusion.statements([*wanted])
        return Part(statements, fusion.stored, *lay_out(statements, fusion.stored, outside))


@final
@dataclass(eq=False)
class ArrayProgram:
    """A step of one path.

    Attributes:
        n: number of coordinates.
        dtype: of the numbers.
        track: arrays before the step, in the order of the leaves of a `Track`.
        results: the same after it.
        kept: further arrays that a step leaves for the next one, with what they are after it.
        fixed: what does not change during a call, by name.
        parameters: those of it that are parameters, in the order of the leaves of a dictionary of them.
        solves: the equations of the step.
        begin: computes what is kept before the first step.
        step: the step itself.
        seconds: what compiling took, by part.
    """

    n: int
    dtype: str
    track: list[Given]
    results: list[Joined]
    kept: dict[Array, Joined]
    fixed: dict[str, Given]
    parameters: list[Given]
    solves: list[Solve]
    begin: Part = field(init=False)
    step: Part = field(init=False)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def loops(self) -> int:
        """The number of loops of a step."""
        return sum(_count_loops(statement) for statement in self.step.statements)

    @property
    def frame_size(self) -> int:
        """Numbers per path in the frame."""
        return max(self.begin.frame_size, self.step.frame_size)


def _count_loops(statement: Statement) -> int:
    if not isinstance(statement, Iterations):
        return 1
    return sum(_count_loops(x) for part in statement.parts for x in part)


def compile_arrays(system: System, method: Method, n: int, dtype: str, values: dict[str, Any]) -> ArrayProgram:
    """The program of one step, for parameters of these shapes and types; `Untranslatable` says why there is none."""
    begin = time.perf_counter()
    traced = trace(system, method, n, dtype, trial=True, values=values)
    traced_at = time.perf_counter()
    leaves = jax.tree.leaves(traced.track)
    names = [f"track{i}" for i in range(len(leaves))]
    track = [Given(leaf.size, leaf.dtype.name, name) for leaf, name in zip(leaves, names, strict=True)]
    given = {
        "step": Given(1, "int32", "step"),
        "h": Given(1, dtype, "h"),
        "key": Given(2, "uint32", "key"),
        "path": Given(2, "uint32", "path"),
    }
    kinds = jax.tree.leaves(values)
    parameters = [Given(x.size, x.dtype.name, f"parameter{i}") for i, x in enumerate(kinds)]
    given |= {x.name: x for x in parameters}
    translation = Translation()
    status = track[len(jax.tree.leaves(traced.track.state))]
    translation.alive = translation.operation("equal", status.one, fixed(np.asarray(Status.CONVERGED, status.dtype)))
    tracked = [_shaped(x, leaf.shape) for x, leaf in zip(track, leaves, strict=True)]
    single = [given["step"].one, given["h"].one, given["key"].all, given["path"].all]
    own = [_shaped(x, kind.shape) for x, kind in zip(parameters, kinds, strict=True)]
    stays, *others = look(translation.closed(traced.ahead, [*tracked, *single, *own]))
    if traced.is_doubtful:
        stays = reduce(partial(translation.operation, "or"), translation.doubts, stays)
    ahead, failure = others[: len(leaves)], others[len(leaves) :]
    back = look(translation.closed(traced.back, [*tracked, *failure, single[0]]))
    results = [
        in_memory(translation.operation("select", stays, old, new)) if new.table.size else in_memory(new)
        for old, new in zip(back, ahead, strict=True)
    ]
    translated_at = time.perf_counter()
    wanted: list[Array] = [x for x in results if x.size]
    found = kept_arrays(translation, consumers(wanted)[0], track[0], ahead[0], set(parameters))
    kept = {x: in_memory(translation.operation("select", stays, x.all, end)) for x, end in found.items()}
    wanted += kept.values()
    program = ArrayProgram(n, dtype, track, results, kept, given, parameters, translation.solves)
    program.begin = Part.of([*kept], (), {*kept})
    program.step = Part.of(wanted, kept, {*results, *kept, *kept.values()})
    program.seconds = {
        "tracing": traced_at - begin,
        "translation": translated_at - traced_at,
        "loop fusion": time.perf_counter() - translated_at,
    }
    return program


def _shaped(array: Array, shape: tuple[int, ...]) -> Ref:
    return Ref(array, np.arange(array.size).reshape(shape))


# Liveness and the frame.


def lay_out(statements: list[Statement], stored: set[Array], outside: set[Array]) -> tuple[dict[Array, int], int]:
    """Places in the frame, without those that have a place outside of it."""
    known = lives(statements, stored)
    places, size = first_fit({array: known[array] for array in known if array not in outside})
    inside = parts_of_workspaces(statements)
    return places | {array: places[whole] + begin for array, (whole, begin) in inside.items()}, size


def parts_of_workspaces(statements: list[Statement]) -> dict[Array, tuple[Array, int]]:
    """Arrays that are parts of workspaces, and at which slot there they begin: numbers lie close together there."""
    solves = [statement.solve for statement in statements if isinstance(statement, Iterations)]
    return {
        array: (solve.workspace, begin * np.dtype(array.dtype).itemsize // SLOT)
        for solve in solves
        for array, begin in solve.parts.items()
    }


Lives = dict[Array, tuple[int, int]]
"""When arrays of the frame are accessed first and last."""


def lives(statements: list[Statement], stored: set[Array]) -> Lives:
    """Of all arrays that statements access."""
    found: Lives = {}
    inside = parts_of_workspaces(statements)
    for begin, end, accessed in _accesses(statements, stored, [0]):
        array = inside[accessed][0] if accessed in inside else home(accessed)
        first, last = found.get(array, (begin, end))
        found[array] = min(first, begin), max(last, end)
    return {array: life for array, life in found.items() if not isinstance(array, Fixed)}


def first_fit(lives: Lives) -> tuple[dict[Array, int], int]:
    """Places of arrays, and where they end: arrays whose lives do not overlap may share one (first fit)."""
    places: dict[Array, int] = {}
    taken: list[tuple[int, int, int]] = []  # begin, end of the place; last time
    total = 0
    for array in sorted(lives, key=lambda x: (lives[x][0], -x.size)):
        first, last = lives[array]
        taken = [x for x in taken if x[2] >= first]
        place = 0
        for begin, end, _ in sorted(taken):
            if place + room(array) <= begin:
                break
            place = max(place, end)
        places[array] = place
        taken.append((place, place + room(array), last))
        total = max(total, place + room(array))
    return places, total


def _accesses(statements: list[Statement], stored: set[Array], clock: list[int]) -> Iterator[tuple[int, int, Array]]:
    """Each array of the frame that is written or read, and when, as (begin, end)."""
    for statement in statements:
        clock[0] += 1
        now = clock[0]
        match statement:
            case ArrayLoop():
                for store in statement.stores:
                    yield now, now, store.array
                    yield from ((now, now, x) for x in read_by(store, stored) if _in_frame(x))
            case Reduction() | Scatter() | MatrixLoops():
                yield now, now, statement.array
                yield from ((now, now, x) for x in reads(statement.array.all, stored) if _in_frame(x))
            case Iterations():
                inner = [access for part in statement.parts for access in _accesses(part, stored, clock)]
                clock[0] += 1
                solve = statement.solve
                own: list[Array] = [*solve.own, *statement.found]
                updates = (update.value for round_ in solve.rounds for update in round_.updates)
                for ref in (solve.guess, solve.alive, *updates):
                    own += [ref.array] if ref.array in stored else reads(ref, stored)
                own += [x for x in solve.inside if x in stored]
                for array in [*(x for _, _, x in inner), *filter(_in_frame, own)]:
                    yield now, clock[0], array


def _in_frame(array: Array) -> bool:
    if isinstance(array, Given):
        return array.name in OWN
    return not isinstance(array, Fixed)
