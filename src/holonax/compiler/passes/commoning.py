r"""Predictive commoning: what the end of a step has computed, the next step need not compute again.

Many methods evaluate the same functions of q at the end of a step as at the beginning of the next one: RATTLE, for
example, the kick $\gamma'(q_{k+1})$.  Where the graph holds both $f(q_k)$ and $f(q_{k+1})$, the latter is carried along
and takes the place of the former.  It pays for sines and exponentials; the rest costs less than a register.
"""

from __future__ import annotations

from functools import cache

from holonax.compiler.ir.graph import Build, Loop, Node
from holonax.compiler.ir.operations import OPERATIONS
from holonax.compiler.ir.program import Carried, Program


def carry_functions_over(program: Program) -> Program:
    """Extend the loop over steps, and the branch for failures at its end, by functions that both ends compute.

    A path that fails stays where it was, and so do its functions.
    """
    if program.agrees_with is not None:
        return _carry_the_same(program, program.agrees_with)
    build, later = program.build, _at_the_end(program)

    @cache
    def is_function_of_q(node: Node) -> bool:
        return all(map(is_function_of_q, node.args)) if node.args else node.is_constant or node in later

    @cache
    def at_the_end(node: Node) -> Node:
        if not node.args:
            return later.get(node, node)
        return build(node.name, *map(at_the_end, node.args), dtype=node.dtype)

    for node in list(build.known.values()):
        if node.args and OPERATIONS[node.name].is_costly and is_function_of_q(node):
            before = build.count
            again = at_the_end(node)
            if build.count == before and again is not node:
                number = _carry(program, again)
                program.functions.append(Carried(node, number))
    program.stands_for |= dict(program.functions)
    return program


def _carry_the_same(program: Program, functions: list[Carried]) -> Program:
    """Let another program of the same step carry functions that were found for the first."""
    build, later = program.build, _at_the_end(program)

    @cache
    def at_the_end(node: Node) -> Node:
        if node.is_constant:
            return build.number(node.value, node.dtype)
        if not node.args:
            _, entry = node.value
            return later[program.loop.parameters[entry]]
        return build(node.name, *map(at_the_end, node.args), dtype=node.dtype)

    for function, _ in functions:
        _carry(program, at_the_end(function))
    return program


def _at_the_end(program: Program) -> dict[Node, Node]:
    """For each coordinate at the beginning of a step the one at its end, if the step does not fail."""
    return {program.loop.parameters[i]: program.failure.begin[i] for i in program.track.state.q}


def _carry(program: Program, again: Node) -> Node:
    """One more value for the loop over steps to carry; its parameter."""
    build, loop, failure = program.build, program.loop, program.failure
    number = _extend(build, loop)
    _extend(build, failure, begin=again, body=number)
    loop.body.append(failure.results[-1])
    return number


def _extend(build: Build, loop: Loop, begin: Node | None = None, body: Node | None = None) -> Node:
    """One more value in a loop; its parameter."""
    place, like = len(loop.parameters), loop.parameters[0]
    loop.begin.append(begin or build.fresh("input", like.dtype))
    loop.parameters.append(build.fresh("parameter", like.dtype, loops=like.loops, value=(loop, place)))
    if body is not None:
        loop.body.append(body)
        loop.results.append(build.fresh("result", like.dtype, loops=loop.results[0].loops, value=(loop, place)))
    return loop.parameters[-1]
