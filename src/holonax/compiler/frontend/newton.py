r"""Newton's method as lanes.

The equations are differentiated on the graph, so that only the entries of the Jacobian that are not zero exist.  Rows
whose derivatives do not depend on the unknowns are linear: they are solved for as many unknowns once, before the
iteration, which then runs on what is left.  For a Lagrangian with constant mass, $v$ disappears in this way and only
the multipliers are iterated; equations that are linear altogether, such as a projection, need no iteration at all, nor
does a quadratic in the one unknown that is left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holonax.compiler.frontend.derivative import derivative
from holonax.compiler.frontend.elimination import Row, definite, eliminate, positive_at_random, substitute
from holonax.compiler.frontend.polynomial import quadratic
from holonax.compiler.frontend.problem import Problem, reduced
from holonax.compiler.frontend.translate import array_of, look, primitive, translate_jaxpr
from holonax.compiler.ir.graph import Build, Equations, Loop, Node
from holonax.numerics.newton import ROUGHLY, Newton, Status


@primitive("root")
def _root(build: Build, equation: Any, guess: np.ndarray, *constants: Any) -> list:
    dtype = equation.invars[0].aval.dtype.name
    unknowns = [build.fresh("unknown", dtype) for _ in guess]
    residual = translate_jaxpr(build, equation.params["equations"], list(constants), [array_of(unknowns, guess.shape)])
    rows = [row for part in look(residual) for row in part]
    newton, motions = equation.params["newton"], equation.params["motions"]
    x, *outcome = solve(build, rows, unknowns, list(guess), newton, motions)
    return [array_of(x, guess.shape), *(array_of([node], ()) for node in outcome)]


def solve(
    build: Build, rows: list[Node], unknowns: list[Node], guess: list[Node], newton: Newton, motions: int
) -> tuple[list[Node], Node, Node, Node]:
    """Root of `rows`, with status, residual and iterations as floats, as returned by `root_p`."""
    dtype = rows[0].dtype if rows else "float64"
    zero = build.number(0, dtype)
    if not rows:
        return [], zero, zero, zero
    jacobian = derivative(build, rows, unknowns)
    linear = _linear_rows(build, jacobian, motions)
    at_zero = build.rebuild([-rows[i] for i in linear], dict.fromkeys(unknowns, zero))
    multipliers, first = range(motions, len(unknowns)), [jacobian[i] for i in linear]
    pivots, singular, order = eliminate(build, first, at_zero, len(rows), linear, multipliers)
    sound = definite(order, first, linear, motions)
    if not sound:  # nothing is solved without being verified
        linear, pivots, singular = [], [], build.number(False, "bool")
    problem = Problem(build, rows, unknowns, jacobian, linear, substitute(build, pivots), newton, motions, sound)
    if not problem.others:
        build.solved.append(Equations(len(unknowns), len(unknowns), ""))
        build.doubts.append(singular)
        status = build("select", singular, build.number(Status.SINGULAR, dtype), zero)
        return problem.completed([]), status, zero, build.number(1, dtype)

    quick = quickly(problem, guess)
    build.solved.append(Equations(len(unknowns), len(problem.eliminated), quick.solver))
    if build.trial:
        values = problem.at(problem.rows, quick.x)
        is_solved = verified(problem, quick, values) & ~singular
        build.doubts.append(~is_solved)
        status = build("select", is_solved, zero, build.number(1, dtype))
        return quick.x, status, build.largest(values, dtype), quick.iterations
    end = carefully(problem, guess, quick)
    residual = build.largest(end.values, dtype)
    codes = [build.number(code, dtype) for code in (Status.OTHER_BRANCH, Status.ROUND_OFF, Status.NOT_CONVERGED)]
    failed = build("select", end.other, codes[0], build("select", end.rough, *codes[1:]))
    status = build("select", end.unsolved, failed, zero)
    finite = build("isfinite", build.total([residual, *end.x], dtype))  # one that is not spoils the sum
    status = build("select", finite, status, build.number(Status.NON_FINITE, dtype))
    status = build("select", singular | end.singular, build.number(Status.SINGULAR, dtype), status)
    return end.x, status, residual, end.iterations


def _linear_rows(build: Build, jacobian: list[Row], motions: int) -> list[int]:
    """Rows that can be solved once for the unknowns that belong to them.

    A linear constraint is one of them only if its multiplier is left in it when linear momenta are eliminated: solved
    for a velocity it would fail where that entry of its gradient vanishes.
    """
    linear = [i for i, row in enumerate(jacobian) if not any(x.depends_on_unknowns for x in row.values())]
    momenta, constraints = [i for i in linear if i < motions], [i for i in linear if i >= motions]
    if not constraints:
        return momenta
    zeros = [build.number(0, next(iter(jacobian[0].values())).dtype)] * len(momenta)
    known = substitute(build, eliminate(build, [jacobian[i] for i in momenta], zeros, len(jacobian), momenta).pivots)
    left = [i for i in constraints if i in jacobian[i] or any(i in known[c][1] for c in jacobian[i] if c in known)]
    return momenta + left


class Quick(NamedTuple):
    """All unknowns after a few iterations, and whether there is any `doubt` about them; magnitudes of the rows."""

    x: list[Node]
    magnitudes: list[Node]
    doubt: Node
    singular: Node
    iterations: Node
    solver: str = "Newton's method"


def quickly(problem: Problem, guess: list[Node]) -> Quick:
    """A root to round-off, unless something unusual happens: what comes out has to be verified.

    The first iteration is linearised at the guess of *all* unknowns: of a strong force along the normal, which the
    multipliers balance, nothing is left in it.  Where all motions are eliminated, and hence any guess of them will do,
    that is a step that does not move, where the equations are simplest: this projects the free momentum at $q_k$.  The
    other iterations run on the unknowns that are left.  Newton's method is quadratic: once a residual is below
    `PROMISING`, one more update makes it round-off.
    """
    build = problem.build
    if min(problem.others) >= problem.motions:
        guess = [build.number(0, problem.dtype)] * problem.motions + guess[problem.motions :]
    derivatives = problem.derivatives(guess)
    if (powers := problem.quadratic()) is not None:
        slope = reduced(build, derivatives[0], problem.eliminated, problem.others)[0]
        root, none, singular = quadratic(build, powers, positive_at_random(slope))
        x = problem.completed([root])
        sizes, count = problem.at(problem.rough_magnitudes, x), build.number(1, problem.dtype)
        return Quick(x, sizes, none, singular, count, solver="the formula for quadratics")
    x, size = [guess[j] for j in problem.others], len(problem.others)
    sizes = problem.at(problem.rough_magnitudes, guess)
    promising = [PROMISING * float(np.finfo(problem.dtype).eps) ** 0.5 * m for m in sizes]
    true, count, singular = build.number(True, "bool"), build.number(0, problem.dtype), build.number(False, "bool")
    near = true
    if problem.eliminated or not build.trial:  # otherwise the first iteration is like all others
        ahead = [a - b for a, b in zip(problem.completed(x), guess, strict=True)]
        values = problem.pushed(problem.at(problem.rows, guess), derivatives, ahead)
        update, singular, near = problem.update(derivatives, values)
        x, count = [a + d for a, d in zip(x, update, strict=True)], count + 1.0
    if not problem.total and not build.trial:  # a step that leaves the domain must be taken back, which is not quick
        return Quick(problem.completed(x), sizes, true, singular, count)
    loop = Loop(build, [*x, true, near, count], build.alive, most=min(QUICK, problem.newton.max_iterations))
    x, (going, _, count) = loop.parameters[:size], loop.parameters[size:]
    here = problem.completed(x)
    values = problem.at(problem.rows, here)
    update, _, near = problem.update(problem.derivatives(here), values)
    body = [*(a + d for a, d in zip(x, update, strict=True)), problem.unsolved(values, promising), near, count + 1.0]
    *x, _, near, count = loop.close(build, going, body)
    return Quick(problem.completed(x), sizes, ~near, singular, count)


PROMISING = 0.3
"""Residuals over their magnitudes, in units of sqrt(eps), from which on one more update solves an equation."""

QUICK = 5
"""Iterations of Newton's method that are nothing unusual."""


class End(NamedTuple):
    """Where the iteration ended: unknowns and residuals; whether they are unsolved, a root on another branch was met,
    or round-off spoils them.
    """

    x: list[Node]
    values: list[Node]
    unsolved: Node
    other: Node
    rough: Node
    singular: Node
    iterations: Node


def verified(problem: Problem, quick: Quick, values: list[Node]) -> Node:
    """Whether the `values` of the equations are round-off, and nothing else is in doubt."""
    solved = ~problem.unsolved(values, [problem.bound * m for m in quick.magnitudes])
    return solved & ~problem.is_lost(values) & ~quick.doubt & ~quick.singular


def carefully(problem: Problem, guess: list[Node], quick: Quick) -> End:
    """Verify a root; where it is in doubt, which is rare, begin again at the guess, by the rules of `Newton.iterate`.

    All unknowns are carried, also the eliminated ones, and added to: recomputed from the multipliers they would keep
    the round-off of forces that cancel.
    """
    build, unknowns, size = problem.build, len(guess), len(problem.rows)
    false, zero = build.number(False, "bool"), build.number(0, problem.dtype)
    values = problem.at(problem.rows, quick.x)
    doubt = problem.unsolved(values, [problem.bound * m for m in quick.magnitudes]) | quick.doubt
    begin = [*quick.x, *values, *[zero] * unknowns, doubt, false, false, ~false, quick.iterations]
    loop = Loop(build, begin, build.alive, most=problem.newton.max_iterations, rare=problem.total)
    going, other, _, fresh, count = loop.parameters[-5:]
    motion = [x if j < problem.motions else zero for j, x in enumerate(guess)]
    here, before = (
        [build("select", fresh, a, b) for a, b in zip(first, later, strict=True)]
        for first, later in (
            (guess, loop.parameters[:unknowns]),
            (motion, loop.parameters[unknowns + size : -5]),
        )
    )
    count = build("select", fresh, zero, count)
    values, sizes = problem.at(problem.rows, here), problem.at(problem.magnitudes, here)
    update, near = problem.whole_update(here, values)
    outside = ~near | problem.is_lost(values)
    round_off = ~problem.unsolved(values, [problem.bound * m for m in sizes]) & build("greater", count, zero)
    root = round_off & near
    rough = ~problem.unsolved(values, [ROUGHLY * m for m in sizes])
    step = [build("select", outside, 0.5 * a, b) for a, b in zip(before, update, strict=True)]
    there = [build("select", outside, a - d, a + d) for a, d in zip(here, step, strict=True)]
    count = build("select", root, count, count + 1.0)
    body = [*there, *values, *step, ~root, other | (round_off & ~near), rough, false, count]
    results = loop.close(build, going, body)
    unsolved, other, rough, _, count = results[-5:]
    x, values = results[:unknowns], results[unknowns : unknowns + size]
    return End(x, values, unsolved, other, rough, quick.singular, count)
