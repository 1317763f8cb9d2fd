r"""Newton's method as lanes.

The equations are differentiated on the graph, so that only the entries of the Jacobian that are not zero exist.  Rows
whose derivatives do not depend on the unknowns are linear: they are solved for as many unknowns once, before the
iteration, which then runs on what is left.  For a Lagrangian with constant mass, $v$ disappears in this way and only
the multipliers are iterated; equations that are linear altogether, such as a projection, need no iteration at all, nor
does a quadratic in the one unknown that is left.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from holonax.lanes.elimination import Row, eliminate, substitute
from holonax.lanes.graph import Build, Loop, Node
from holonax.lanes.operations import FLOATS, OPERATIONS
from holonax.lanes.polynomial import coefficients_of, derivative_of, horner, quadratic
from holonax.lanes.translate import Untranslatable, array_of, look, primitive, run, run_closed
from holonax.solve import Newton, Status


@primitive("root")
def _root(build: Build, equation: Any, guess: np.ndarray, resolution: np.ndarray, *constants: Any) -> list:
    dtype = equation.invars[0].aval.dtype.name
    unknowns = [build.fresh("unknown", dtype) for _ in guess]
    residual = run(build, equation.params["equations"], list(constants), [array_of(unknowns, guess.shape)])
    rows = list(look(residual)[0])
    x, *solved = solve(build, rows, unknowns, list(guess), resolution.item(), equation.params["newton"])
    return [array_of(x, guess.shape), *(array_of([node], ()) for node in solved)]


@primitive("custom_linear_solve")
def _linear_solve(build: Build, equation: Any, *inputs: Any) -> list:
    lengths, matvec = equation.params["const_lengths"], equation.params["jaxprs"].matvec
    constants, right = look(list(inputs[: lengths.matvec])), look(list(inputs[sum(lengths) :]))
    unknowns = [np.vectorize(lambda b: build.fresh("unknown", b.dtype), otypes=[object])(b) for b in right]
    rows = look(run_closed(build, matvec, [*constants, *unknowns]))
    flat = [[x for array in arrays for x in array.flat] for arrays in (rows, unknowns, right)]
    if not flat[0]:
        return right
    pivots, _ = eliminate(build, derivative(build, *flat[:2]), flat[2], len(flat[0]), list(range(len(flat[0]))))
    solved = substitute(build, pivots)
    x = [solved[i][0] for i in range(len(flat[0]))]
    places = np.cumsum([b.size for b in right])[:-1]
    return [part.reshape(b.shape) for part, b in zip(np.split(array_of(x, (len(x),)), places), right, strict=True)]


def solve(
    build: Build, rows: list[Node], unknowns: list[Node], guess: list[Node], resolution: Node, newton: Newton
) -> tuple[list[Node], Node, Node, Node]:
    """Root of `rows`, with status, residual and iterations as floats, as `holonax.solve.root_p` returns them."""
    dtype = resolution.dtype
    zero = build.number(0, dtype)
    if not rows:
        return [], zero, zero, zero
    jacobian = derivative(build, rows, unknowns)
    linear = [i for i, row in enumerate(jacobian) if not any(x.depends_on_unknowns for x in row.values())]
    at_zero = build.rebuild([-rows[i] for i in linear], dict.fromkeys(unknowns, zero))
    pivots, singular = eliminate(build, [jacobian[i] for i in linear], at_zero, len(rows), linear)
    eliminated = substitute(build, pivots)
    others = [j for j in range(len(unknowns)) if j not in eliminated]

    def complete(x: list[Node]) -> dict[Node, Node]:
        """All unknowns, given those that are left."""
        left = dict(zip(others, x, strict=True))
        return {
            unknown: left[j] if j in left else _affine(build, *eliminated[j], left)
            for j, unknown in enumerate(unknowns)
        }

    status, residual, iterations = zero, zero, build.number(1, dtype)
    x: list[Node] = []
    if others:
        kept = [i for i in range(len(rows)) if i not in set(linear)]
        reduced = [_reduce(build, jacobian[i], eliminated, others) for i in kept]
        equations = [rows[i] for i in kept]
        spread = build.number(1, dtype)
        for _, coefficients in eliminated.values():
            spread = build.larger(spread, build.total([abs(b) for b in coefficients.values()], dtype))
        start = [guess[j] for j in others]
        alone = unknowns[others[0]] if len(others) == 1 else None
        powers = coefficients_of(build.rebuild(equations, complete([alone]))[0], alone) if alone else None
        if powers is not None and len(powers) == 3:
            root, going, late = quadratic(build, powers, start[0])
            x = [root]
        else:
            iteration = _Iteration(build, equations, reduced, complete, powers, spread, resolution, newton, len(rows))
            x, going, late, iterations = iteration.run(start)
        residual = build.largest(build.rebuild(equations, complete(x)), dtype)
        status = build("select", going, build.number(Status.NOT_CONVERGED, dtype), zero)
        singular = singular | late
        finite = build("isfinite", build.total([residual, *x], dtype))  # one that is not spoils the sum
        status = build("select", finite, status, build.number(Status.NON_FINITE, dtype))
    status = build("select", singular, build.number(Status.SINGULAR, dtype), status)
    return list(complete(x).values()), status, residual, iterations


def _affine(build: Build, constant: Node, coefficients: Row, x: dict[int, Node]) -> Node:
    return build.total([constant, *(b * x[j] for j, b in coefficients.items())])


def _reduce(build: Build, row: Row, eliminated: dict[int, tuple[Node, Row]], others: list[int]) -> Row:
    """A row of the Jacobian in terms of the unknowns that are left, renumbered."""
    place, terms = {j: i for i, j in enumerate(others)}, defaultdict(list)
    for j, entry in row.items():
        for d, b in eliminated[j][1].items() if j in eliminated else ((j, build.number(1, entry.dtype)),):
            terms[place[d]].append(entry * b)
    sums = {j: build.total(terms[j]) for j in sorted(terms)}
    return {j: x for j, x in sums.items() if not x.is_number(0)}


PATIENCE = 5
"""Iterations of Newton's method that are nothing unusual."""


class _Iteration:
    """The loop, with the same rules as `Newton.iterate`."""

    def __init__(
        self,
        build: Build,
        equations: list[Node],
        jacobian: list[Row],
        complete: Any,
        powers: list[Node] | None,
        spread: Node,
        resolution: Node,
        newton: Newton,
        size: int,
    ) -> None:
        self.build, self.equations, self.jacobian, self.complete = build, equations, jacobian, complete
        self.powers, self.newton, self.size, self.dtype = powers, newton, size, resolution.dtype
        eps = float(np.finfo(self.dtype).eps)
        tolerance = 0.1 * eps**0.5 if newton.tolerance is None else newton.tolerance
        self.tolerance, self.spread = tolerance, spread
        self.floor = 16 * eps * _simplified(resolution)
        self.total = all(map(_is_total, equations))

    def run(self, guess: list[Node]) -> tuple[list[Node], Node, Node, Node]:
        """The unknowns; whether the iteration was still going when it ended, and singular; how often it went.

        Where all unknowns begin at zero and no step can leave the domain, the first iteration is much simpler than the
        others: it comes before the loop, and judges for all of them whether the matrix is singular.
        """
        build, size = self.build, len(guess)
        true, false, zero = (build.number(x, dtype) for x, dtype in ((1, "bool"), (0, "bool"), (0, self.dtype)))
        at_zero = self.total and all(x.is_number(0) for x in guess)
        begin, first, late = guess, 0, false
        if at_zero:
            begin, late = self.update(*self.linearized(guess))
            first = 1
        begin = [*begin, *([zero] * size), true, late, build.number(first, self.dtype)]
        loop = Loop(build, begin, build.alive, most=self.newton.max_iterations - first)
        x, step, (going, late, done) = loop.parameters[:size], loop.parameters[size:-3], loop.parameters[-3:]
        values, matrix = self.linearized(x)
        update, singular = self.update(values, matrix)

        outside = false if self.total else ~_all_finite(build, values)
        step = [build("select", outside, 0.5 * old, new) for old, new in zip(step, update, strict=True)]
        x1 = [build("select", outside, a - d, a + d) for a, d in zip(x, step, strict=True)]
        moved, length = (build.total([abs(number) for number in numbers]) for numbers in (step, x1))
        onwards = build("greater", moved, self.tolerance * length)
        onwards = self.patience(onwards, done, moved)
        onwards = build("select", outside, build("greater", moved, zero), onwards)
        late = late if at_zero else singular & ~outside
        results = loop.close(build, going, [*x1, *step, onwards, late, done + 1.0])
        return results[:size], results[-3], results[-2], results[-1]

    def update(self, values: list[Node], matrix: list[Row]) -> tuple[list[Node], Node]:
        """What to add to the unknowns, and whether the matrix is singular."""
        right, size = [-value for value in values], len(values)
        pivots, singular = eliminate(self.build, matrix, right, self.size, list(range(size)))
        solved = substitute(self.build, pivots)
        return [solved[j][0] for j in range(size)], singular

    def patience(self, onwards: Node, done: Node, moved: Node) -> Node:
        """What goes on for long may be round-off of unknowns that are zero: only then is it asked what that would be.

        No eliminated unknown moves farther than `spread` times the others.
        """
        build = self.build
        late = onwards & build("greater_equal", done, build.number(PATIENCE, self.dtype))
        loop = Loop(build, [onwards, late, moved], build.alive, rare=True)
        above = build("greater", self.spread * loop.parameters[2], self.floor)
        return loop.close(build, loop.parameters[1], [above, build.number(False, "bool"), loop.parameters[2]])[0]

    def linearized(self, x: list[Node]) -> tuple[list[Node], list[Row]]:
        """Values and derivatives at x.  A polynomial in one unknown is evaluated as such, its coefficients once."""
        build = self.build
        if self.powers is not None:
            value, slope = (horner(build, powers, x[0]) for powers in (self.powers, derivative_of(self.powers)))
            return [value], [{0: slope}]
        at = self.complete(x)
        values = build.rebuild(self.equations, at)
        numbers = iter(build.rebuild([d for row in self.jacobian for d in row.values()], at))
        rows = [{j: next(numbers) for j in row} for row in self.jacobian]
        scales = [build.number(_scale(row), self.dtype) for row in rows]
        values = [scale * value for scale, value in zip(scales, values, strict=True)]
        return values, [{j: scale * x for j, x in row.items()} for scale, row in zip(scales, rows, strict=True)]


def _scale(row: Row) -> float:
    """What frees a row of the constant that its first entry begins with."""
    for entry in row.values():
        product = entry.args[0] if entry.name == "negative" else entry
        return float(1 / product.args[0].value) if product.name == "multiply" and product.args[0].is_constant else 1.0
    return 1.0


def _simplified(node: Node) -> Node:
    """A maximum without care for NaN, which would cost more than the numbers; the residual tells of NaN."""
    if node.name not in ("maximum", "multiply", "divide"):
        return node
    x = [_simplified(argument) for argument in node.args]
    return node.build.larger(*x) if node.name == "maximum" else node.build(node.name, *x)


def _all_finite(build: Build, values: list[Node]) -> Node:
    result = build.number(True, "bool")
    for value in values:
        result = result & build("isfinite", value)
    return result


def _is_total(node: Node) -> bool:
    """Whether an expression of the unknowns is finite wherever they are: then no step can leave its domain."""
    seen, stack = set(), [node]
    while stack:
        top = stack.pop()
        if top not in seen and top.depends_on_unknowns:
            seen.add(top)
            if top.args and not OPERATIONS[top.name].total:
                return False
            stack += top.args
    return True


def derivative(build: Build, rows: list[Node], unknowns: list[Node]) -> list[Row]:
    """Jacobian, row by row, without its zeros: forward mode on the graph."""
    tangents: dict[Node, Row] = {x: {i: build.number(1, x.dtype)} for i, x in enumerate(unknowns)}

    def tangent(node: Node) -> Row:
        result: Row = {}
        if node.name in ("parameter", "result"):
            raise Untranslatable("a loop inside the equations of a step")
        if node.name == "select":
            condition, x, y = node.args
            zero = build.number(0, node.dtype)
            for i in tangents[x].keys() | tangents[y].keys():
                result[i] = build("select", condition, tangents[x].get(i, zero), tangents[y].get(i, zero))
        elif (partials := OPERATIONS[node.name].partials) is not None and node.dtype in FLOATS:
            for x, partial in zip(node.args, partials(build, node), strict=True):
                for i, dx in tangents[x].items():
                    term = partial * build("convert", dx, dtype=node.dtype)
                    result[i] = result[i] + term if i in result else term
        return {i: d for i, d in sorted(result.items()) if not d.is_number(0)}

    for row in rows:
        stack = [row]
        while stack:
            top = stack[-1]
            if top in tangents:
                stack.pop()
            elif not top.depends_on_unknowns:
                tangents[stack.pop()] = {}
            elif missing := [x for x in top.args if x not in tangents]:
                stack += missing
            else:
                tangents[stack.pop()] = tangent(top)
    return [tangents[row] for row in rows]
