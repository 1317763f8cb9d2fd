"""Traced programs, cut at some of their equations: what lies in between is compiled, these are left to the caller.

Equations are put into stages: those of stage 0 need nothing that was left to the caller, those of stage 1 need some of
what they are given after stage 0, and so on.  However they are mixed in the program, there is one piece for each stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from holonax.numerics.roundoff import program_called

IsLeft = Callable[[Any], bool]
"""Whether an equation is left to the caller."""


class Step(NamedTuple):
    """An equation, with numbers instead of variables: a program that is called twice has other numbers each time."""

    equation: Any
    inputs: list[int]
    outputs: list[int]

    def evaluate(self, known: dict[int, Any], program: Jaxpr) -> None:
        """Adds its results to what is known; `program` is any one, of which JAX makes one with this equation alone."""
        variables = {x: known[i] for x, i in zip(self.equation.invars, self.inputs, strict=True) if _is_variable(x)}
        results = self.equation.outvars
        alone = program.replace(constvars=[*variables], invars=[], outvars=results, eqns=[self.equation])
        known.update(zip(self.outputs, jax.core.eval_jaxpr(alone, [*variables.values()]), strict=True))


class Piece(NamedTuple):
    """Equations of a stage, and then those that need all of them and are left to the caller."""

    steps: list[Step]
    inputs: list[int]
    outputs: list[int]
    left: list[Step]


class Cut(NamedTuple):
    """A program in pieces.

    Attributes:
        whole: as it was traced.
        pieces: one for each stage.
        given: the values of constants, by number; arguments have the first numbers.
        results: the numbers of the results.
        mapped: numbers of what has an axis of paths.
    """

    whole: Jaxpr
    pieces: list[Piece]
    given: dict[int, Any]
    results: list[int]
    mapped: set[int]

    def evaluate(self, piece: Piece, *values: Any) -> list[Any]:
        """The outputs of a piece, given its inputs."""
        known = {**self.given, **dict(zip(piece.inputs, values, strict=True))}
        for step in piece.steps:
            step.evaluate(known, self.whole)
        return [known[i] for i in piece.outputs]


def cut_at(is_left: IsLeft, traced: ClosedJaxpr, mapped: Sequence[bool]) -> Cut:
    """A program cut at the equations that are left; arguments have an axis of paths or have not."""
    names = _Names(is_left)
    arguments = [next(names.fresh) for _ in traced.jaxpr.invars]
    steps: list[Step] = []
    results = names.steps(traced.jaxpr, traced.consts, arguments, steps)
    steps = _needed(steps, set(results))
    paths = {i for i, has_paths in zip(arguments, mapped, strict=True) if has_paths}
    for step in steps:
        if not paths.isdisjoint(step.inputs):
            paths.update(step.outputs)
    return Cut(traced.jaxpr, list(_pieces(steps, is_left, names.given, set(results))), names.given, results, paths)


class _Names:
    """Numbers for variables."""

    def __init__(self, is_left: IsLeft) -> None:
        self.is_left, self.fresh = is_left, count()
        self.given: dict[int, Any] = {}

    def constant(self, value: Any) -> int:
        number = next(self.fresh)
        self.given[number] = value
        return number

    def steps(self, jaxpr: Jaxpr, constants: Sequence[Any], arguments: list[int], found: list[Step]) -> list[int]:
        """Adds the equations of a program to those found, and returns the numbers of its results."""
        numbers: dict[Any, int] = dict(zip(jaxpr.constvars, map(self.constant, constants), strict=True))
        numbers.update(zip(jaxpr.invars, arguments, strict=True))

        def number(atom: Any) -> int:
            return numbers[atom] if _is_variable(atom) else self.constant(atom.val)

        for equation in jaxpr.eqns:
            inputs = [number(x) for x in equation.invars]
            if (inner := program_called(equation)) is not None and any(map(self.is_left, _equations(inner))):
                program, values = (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, ())
                outputs = self.steps(program, values, inputs, found)
            else:
                outputs = [next(self.fresh) for _ in equation.outvars]
                found.append(Step(equation, inputs, outputs))
            numbers.update(zip(equation.outvars, outputs, strict=True))
        return [number(x) for x in jaxpr.outvars]


def _is_variable(atom: Any) -> bool:
    return not isinstance(atom, Literal)


def _equations(program: Any) -> Iterator[Any]:
    """Of a program and of those that it calls."""
    for equation in program.eqns:
        yield equation
        if (inner := program_called(equation)) is not None:
            yield from _equations(inner)


def _needed(steps: list[Step], needed: set[int]) -> list[Step]:
    """Without what nobody uses."""
    kept = []
    for step in reversed(steps):
        if step.equation.effects or not needed.isdisjoint(step.outputs):
            needed.update(step.inputs)
            kept.append(step)
    return kept[::-1]


def _pieces(steps: list[Step], is_left: IsLeft, given: dict[int, Any], results: set[int]) -> Iterator[Piece]:
    """Stage by stage."""
    stage: dict[int, int] = {}
    inside: list[list[Step]] = [[]]
    left: list[list[Step]] = [[]]
    for step in steps:
        own, is_last = max((stage.get(i, 0) for i in step.inputs), default=0), is_left(step.equation)
        (left if is_last else inside)[own].append(step)
        stage.update(dict.fromkeys(step.outputs, own + is_last))
        if is_last and own + 1 == len(inside):
            inside.append([])
            left.append([])
    for number, here in enumerate(inside):
        made = {i: None for step in here for i in step.outputs}
        users = [step for part in (*inside[number + 1 :], *left[number:]) for step in part]
        wanted = results.union(*(step.inputs for step in users))
        taken = dict.fromkeys(i for step in here for i in step.inputs)
        inputs = [i for i in taken if i not in given and i not in made]
        yield Piece(here, inputs, [i for i in made if i in wanted], left[number])
