r"""What the end of a step has computed, the next step need not compute again.

Many methods evaluate the same functions of q at the end of a step as at the beginning of the next one: RATTLE, for
example, the kick $\gamma'(q_{k+1})$.  Where the graph holds both $f(q_k)$ and $f(q_{k+1})$, the latter is carried along
and takes the place of the former.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from holonax.compiler.ir.graph import Build, Loop, Node, evaluated
from holonax.compiler.ir.operations import OPERATIONS


class Carried(NamedTuple):
    """A function of q, and the number carried by the loop that stands for it.

    A run begins with NaN instead of the number, and kernels compute it themselves: so a run that goes on from the end
    of another one has the same bits as one that was never interrupted.
    """

    function: Node
    number: Node

    def operations(self, expansions: Mapping[str, Callable[[Build, Node], Node]]) -> list[Node]:
        """What computes the function, in order."""
        build, order = self.function.build, []

        @cache
        def expanded(node: Node) -> Node:
            if not node.args:
                return node
            arguments = [expanded(x) for x in node.args]
            if node.name in expansions:
                return expansions[node.name](build, *arguments)
            return build(node.name, *arguments, dtype=node.dtype)

        evaluated([expanded(self.function)], {}, lambda node: node.args, lambda node: order.append(node))
        return [node for node in order if node.args]


def carry_over(build: Build, loop: Loop, results: list[Node], n: int) -> list[Carried]:
    """Extend the loop over steps, and the branch for failures at its end, by functions that both ends compute.

    `results` are the values at the end of a step, of which the first n are q.  A path that fails stays where it was,
    and so do its functions.
    """
    end = _branch(results[:n])
    if end is None:
        return []
    later = {q: end.begin[node.value[1]] for q, node in zip(loop.parameters, results[:n], strict=False)}
    found = []

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
                number = _extend(build, loop)
                _extend(build, end, begin=again, body=number)
                results.append(end.results[-1])
                found.append(Carried(node, number))
    return found


def carry_the_same(build: Build, loop: Loop, results: list[Node], n: int, carried: list[Carried]) -> None:
    """Let another program of the same step carry functions that were found for the first."""
    end = _branch(results[:n])
    assert end is not None or not carried

    @cache
    def at_the_end(node: Node) -> Node:
        if node.is_constant:
            return build.number(node.value, node.dtype)
        if not node.args:
            _, entry = node.value
            return end.begin[results[entry].value[1]]  # type: ignore[union-attr]
        return build(node.name, *map(at_the_end, node.args), dtype=node.dtype)

    for function, _ in carried:
        number = _extend(build, loop)
        _extend(build, end, begin=at_the_end(function), body=number)  # type: ignore[arg-type]
        results.append(end.results[-1])  # type: ignore[union-attr]


def _branch(q: list[Node]) -> Loop | None:
    """The branch for failures at the end of a step, which all coordinates come out of."""
    ends = {node.value[0] if node.name == "result" else None for node in q}
    return ends.pop() if len(ends) == 1 else None


def _extend(build: Build, loop: Loop, begin: Node | None = None, body: Node | None = None) -> Node:
    """One more value in a loop; its parameter."""
    place, like = len(loop.parameters), loop.parameters[0]
    loop.begin.append(begin or build.fresh("input", like.dtype))
    loop.parameters.append(build.fresh("parameter", like.dtype, loops=like.loops, value=(loop, place)))
    if body is not None:
        loop.body.append(body)
        loop.results.append(build.fresh("result", like.dtype, loops=loop.results[0].loops, value=(loop, place)))
    return loop.parameters[-1]
