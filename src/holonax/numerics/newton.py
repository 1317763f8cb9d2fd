r"""Newton's method for one path, to round-off, differentiable, and never silent.

The unknowns of a step are velocities $V$ and constraint impulses $\lambda$.  Both enter smoothly, so plain Newton
converges quadratically from the last velocity; nothing here is damped, and what does not converge says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import Jaxpr, Primitive
from jax.flatten_util import ravel_pytree
from jax.interpreters import batching, mlir

from holonax.errors import InputError
from holonax.inputs.checks import at_least, real_number
from holonax.numerics.linear import Elimination
from holonax.numerics.roundoff import SOLVED, of_motions, with_magnitudes
from holonax.numerics.structure import Sketch, SparseElimination

ROUGHLY = 1e-8
"""Residuals below this part of their magnitude that are not solved are spoilt by round-off, not far from a root."""

Evaluate = Callable[[Array, Array], tuple[Array, Array]]


class Status(IntEnum):
    """How the equations of a step were solved; 0 is success.  `advice` says what to do about the others."""

    CONVERGED = 0
    NOT_CONVERGED = 1
    SINGULAR = 2
    NON_FINITE = 3
    OTHER_BRANCH = 4
    ROUND_OFF = 5
    NOT_IMPLIED = 6
    STALE_LIST = 7

    @property
    def advice(self) -> str:
        """What happened and what to do, in one sentence."""
        return _ADVICE[self]


_ADVICE = {
    Status.CONVERGED: "every equation was solved to round-off",
    Status.NOT_CONVERGED: "Newton found no root within reach: the step is too large for the curvature of the "
    "constraint; use a smaller h",
    Status.SINGULAR: "the Newton matrix is singular: the constraints became dependent or the mass matrix singular "
    "at this state; remove redundant constraints or check the Lagrangian there",
    Status.NON_FINITE: "a function of the system returned NaN or infinity; check its domain, or use a smaller h",
    Status.OTHER_BRANCH: "the root that was found is not the near one: the path would have jumped to another part of "
    "the constraint manifold, because the step is too large for its curvature; use a smaller h",
    Status.ROUND_OFF: "round-off is too large for what was asked: updates no longer shrink although a residual is "
    "left; a smaller h does not help; make nearly dependent constraints independent, use float64, or ask "
    "for less with Newton(tolerance=)",
    Status.NOT_IMPLIED: "a redundant constraint no longer follows from the others: the path came to a state where the "
    "constraints have another rank, beyond which they do not determine the motion; keep away from it, or use "
    "other constraints",
    Status.STALE_LIST: "a particle moved further than a neighbour list allows, which is half of its skin, within a "
    "single step (with hx.integrate: since the start); use a smaller h or a larger skin",
}


class Solved(NamedTuple):
    """Outcome of one or several solves: first failure, largest residual, iterations in total."""

    status: Array
    residual: Array
    iterations: Array

    def then(self, later: Solved) -> Solved:
        """The outcome of both solves, `later` coming after."""
        return Solved(
            jnp.where(self.status == Status.CONVERGED, later.status, self.status),
            jnp.maximum(self.residual, later.residual),
            self.iterations + later.iterations,
        )


class Iterate(NamedTuple):
    """Where the iteration is, for one path."""

    x: Array
    step: Array  # from the last point inside the domain and on the near branch to x
    value: Array  # of the residual where it was last evaluated
    magnitude: Array  # what that was added up from
    motions: Array  # magnitudes of the motions of x, as they were computed
    singular: Array
    signs: Array  # of the pivots where nothing moves
    other: Array  # whether a root on another branch was met
    solved: Array
    done: Array


@final
@dataclass(frozen=True)
class Newton:
    r"""Newton's method; a row is solved once its residual is round-off: below $8\,\epsilon$ times its magnitude.

    The magnitude is what was added and cancelled when the row was evaluated (`holonax.numerics.roundoff`), so the test
    does not depend on units, on the scaling of a constraint, on the step size or on the condition of the equations.  A
    `tolerance` asks for less: residuals up to that part of the magnitude.

    An update that leaves the domain of the functions (where the residual is not finite), or the branch of the near
    root, is halved until it does not.
    Derivatives follow from the implicit function theorem (`custom_root`): they do not depend on the guess or on the
    number of iterations, and both `jax.jacfwd` and `jax.grad` work.
    """

    max_iterations: int = 25
    tolerance: float | None = None

    def __post_init__(self) -> None:
        at_least(1, "max_iterations", self.max_iterations, "Newton needs at least 1 iteration")
        if self.tolerance is not None and not 0.0 < real_number("tolerance", self.tolerance) < 1.0:
            raise InputError(f"tolerance = {self.tolerance}: must lie between 0 and 1 (None asks for round-off)")

    def bound(self, dtype: Any) -> float:
        """Residual over magnitude up to which a row counts as solved."""
        return max(SOLVED * float(jnp.finfo(dtype).eps), self.tolerance or 0.0)

    def __call__(self, residual: Callable[..., Any], guess: tuple[Array, ...]) -> tuple[tuple[Array, ...], Solved]:
        r"""Solve `residual(*unknowns) = 0`, starting at `guess`.

        Unknowns are motions, or motions $V$ and multipliers $\lambda$, with one row of the residual for each unknown:
        the momenta that belong to the motions, and the constraints that belong to the multipliers.  Of several roots
        the near one is meant, continuous from a step that does not move.  There the pivots of
        $g'(q_1) M^{-1} g'(q_0)^T$, which is what elimination of $V$ leaves, have the signs that they have at $V = 0$.
        If only roots where they do not were met, the status is `OTHER_BRANCH`.
        """
        flat_guess, unravel = ravel_pytree(guess)

        def parts(x: Array) -> list[Array]:
            return [jnp.ravel(rows).astype(x.dtype) for rows in jax.tree.leaves(residual(*unravel(x)))]

        def flat_residual(x: Array) -> Array:
            return jnp.concatenate(parts(x))

        motions = guess[0].size
        traced = jax.make_jaxpr(parts)(flat_guess)  # in parts, for each is linear or not
        sketch = Sketch(traced.jaxpr, traced.consts, motions)

        def solve(_: Any, x: Array) -> tuple[Array, Solved]:
            equations = jax.make_jaxpr(parts)(x)
            x, *solved = root_p.bind(
                x, *equations.consts, equations=equations.jaxpr, newton=self, motions=motions, sketch=sketch
            )
            return x, Solved(*solved)

        tangent = partial(_tangent_solve, sketch)
        x, solved = lax.custom_root(flat_residual, flat_guess, solve, tangent, has_aux=True)
        status, iterations = (x.astype(jnp.int32) for x in (solved.status, solved.iterations))
        return unravel(x), Solved(status, solved.residual, iterations)

    def iterate(self, f: Evaluate, x0: Array, elimination: Elimination | SparseElimination) -> tuple[Array, Solved]:
        """The iteration itself, for one path: `f` gives values and magnitudes, given those of the motions."""

        def improve(it: Iterate) -> Iterate:
            value, magnitude = f(it.x, it.motions)
            return self.improved(it, x0, value, magnitude, *elimination.update(it.x, value))

        return self.outcome(lax.while_loop(self.unfinished, improve, self.begin(x0, elimination.motions)))

    def begin(self, x0: Array, motions: int) -> Iterate:
        """Where nothing moves: the same multipliers, and no motion."""
        no, zeros = jnp.zeros((), bool), jnp.zeros_like(x0)
        still = x0.at[:motions].set(0.0)
        return Iterate(
            still, zeros, zeros, zeros, zeros[:motions], no, zeros[motions:], no, no, jnp.full((), -1, jnp.int32)
        )

    def unfinished(self, it: Iterate) -> Array:
        """Whether there is something left to do, and hope."""
        return ~(it.solved | it.singular | jnp.isnan(it.step[0])) & (it.done < self.max_iterations)

    def improved(
        self, it: Iterate, x0: Array, value: Array, magnitude: Array, update: Array, singular: Array, signs: Array,
        masses: Array,
    ) -> Iterate:  # fmt: skip
        """After a round, which evaluates and improves; the last one too, so what is solved becomes a little better.

        The first one looks at where nothing moves, for the signs of the pivots there.  Written like that, everything is
        in the program once.
        """
        first = it.done < 0
        near = jnp.all(signs == it.signs) | first
        outside = ~(jnp.all(jnp.isfinite(value)) & near)
        zero = jnp.all(jnp.abs(value) <= self.bound(x0.dtype) * magnitude) & (it.done > 0)
        step = jnp.where(outside, 0.5 * it.step, update)
        step = jnp.where(jnp.any(step != 0.0) | ~outside, step, jnp.nan)  # no way back
        x = it.x + jnp.where(outside, -step, step)
        return Iterate(
            jnp.where(first, x0, x),
            jnp.where(first, x0 - it.x, step),
            value,
            magnitude,
            of_motions(magnitude[: masses.size], masses),
            singular & ~outside & ~first & ~zero,
            jnp.where(first, signs, it.signs),
            it.other | (zero & ~near),
            zero & near,
            it.done + jnp.where(zero & near, 0, 1),
        )

    def outcome(self, end: Iterate) -> tuple[Array, Solved]:
        """The root, and how it was found."""
        residual = _norm(end.value)
        rough = jnp.all(jnp.abs(end.value) <= ROUGHLY * end.magnitude)
        status = jnp.select(
            [end.singular, ~jnp.isfinite(residual + _norm(end.x)), end.solved, end.other, rough],
            [Status.SINGULAR, Status.NON_FINITE, Status.CONVERGED, Status.OTHER_BRANCH, Status.ROUND_OFF],
            Status.NOT_CONVERGED,
        )
        # floats, because custom_root wants tangents of what is returned here
        return end.x, Solved(status.astype(end.x.dtype), residual, end.done.astype(end.x.dtype))


root_p = Primitive("root")
"""Newton's problem as one equation of a traced program, so that the lane compiler can see it as a whole: operands are
the guess and what the equations close over; results the root and the fields of `Solved`."""
root_p.multiple_results = True


def _root(x: Array, *constants: Array, equations: Jaxpr, newton: Newton, motions: int, sketch: Sketch) -> list:
    def evaluate(x: Array, sizes: Array) -> tuple[Array, Array]:
        values, magnitudes = with_magnitudes(equations, constants, x, sizes)
        return jnp.concatenate(values), jnp.concatenate(magnitudes)

    def residual(x: Array) -> list[Array]:
        return jax.core.eval_jaxpr(equations, constants, x)

    structure = sketch.structure
    if structure is None:
        _check_size(motions if sketch.mass is None else x.size - motions)
    elimination = (
        Elimination(residual, x, motions, sketch.mass)
        if structure is None
        else SparseElimination(residual, x, structure, motions)
    )
    x, solved = newton.iterate(evaluate, x, elimination)
    return [x, *solved]


def _root_types(x: Any, *_: Any, **__: Any) -> list:
    one = x.update(shape=())
    return [x, one, one, one]


def _root_batch(operands: tuple, axes: tuple, **parameters: Any) -> tuple[list, list[int]]:
    return jax.vmap(partial(_root, **parameters), in_axes=tuple(axes))(*operands), [0, 0, 0, 0]


root_p.def_impl(lambda *operands, **parameters: jax.jit(partial(_root, **parameters))(*operands))
root_p.def_abstract_eval(_root_types)
mlir.register_lowering(root_p, mlir.lower_fun(_root, multiple_results=True))
batching.primitive_batchers[root_p] = _root_batch


MOST_DENSE = 6000
"""Rows of a matrix that is factorised as a whole, for every path: 0.3 GB, and a minute for one step of Newton's."""


def _check_size(rows: int) -> None:
    if rows > MOST_DENSE:
        raise InputError(
            f"the equations of a step need a dense matrix of {rows} rows (at most {MOST_DENSE}): nearly every unknown "
            "touches every other one, as in Lobatto and VPRK methods where all coordinates act on each other; Rattle, "
            "Kicked and the Euler methods need no derivatives of forces"
        )


def _norm(x: Array) -> Array:
    return jnp.max(jnp.abs(x), initial=0.0)


def _tangent_solve(sketch: Sketch, linear: Callable[[Array], Array], b: Array) -> Array:
    if (structure := sketch.structure) is not None:
        return structure.solve(linear, b)
    return jnp.linalg.solve(jax.jacfwd(linear)(jnp.zeros_like(b)), b)  # not in a hot loop: LAPACK compiles faster
