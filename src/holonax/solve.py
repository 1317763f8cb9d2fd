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

INLINE_UNKNOWNS = 12
"""Systems up to this size are eliminated inline; larger ones go to LAPACK (docs/decisions.md has the measurement)."""


class Status(IntEnum):
    """How the equations of a step were solved; 0 is success.  `advice` says what to do about the others."""

    CONVERGED = 0
    NOT_CONVERGED = 1
    SINGULAR = 2
    NON_FINITE = 3

    @property
    def advice(self) -> str:
        """What happened and what to do, in one sentence."""
        return _ADVICE[self]


_ADVICE = {
    Status.CONVERGED: "every equation was solved to round-off",
    Status.NOT_CONVERGED: "Newton did not converge: the step is too large for the curvature of the constraint; "
    "use a smaller h",
    Status.SINGULAR: "the Newton matrix is singular: the constraints became dependent or the mass matrix singular "
    "at this state; remove redundant constraints or check the Lagrangian there",
    Status.NON_FINITE: "a function of the system returned NaN or infinity; check its domain, or use a smaller h",
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


def factorize(matrix: Array) -> tuple[Callable[[Array], Array], Array]:
    r"""LU factors of a square matrix with partial pivoting: `(solve, singular)`.

    `singular` is judged free of scales: a pivot $u_{jj}$ is round-off when it is below $n\,\epsilon$ times
    $(|L||U|)_{jj}$, the sum of the magnitudes it is the difference of.  Scaling rows or columns changes both alike.
    """
    n = matrix.shape[0]
    if n == 0:
        return (lambda b: b), jnp.zeros((), bool)
    if n <= INLINE_UNKNOWNS:
        lu, order = _inline_lu(matrix)

        def solve(b: Array) -> Array:
            return _inline_substitution(lu, b[order])
    else:
        lu, pivots = jax.scipy.linalg.lu_factor(matrix)

        def solve(b: Array) -> Array:
            return jax.scipy.linalg.lu_solve((lu, pivots), b)

    lower, upper = jnp.abs(jnp.tril(lu, -1)), jnp.abs(jnp.triu(lu))
    pivot = jnp.diagonal(upper)
    subtracted = jnp.sum(lower * upper.T, axis=1)
    return solve, jnp.any(pivot <= n * jnp.finfo(lu.dtype).eps * (pivot + subtracted))


def _inline_lu(matrix: Array) -> tuple[Array, Array]:
    """Gaussian elimination, column by column, in plain array operations that batch well under `vmap`."""
    rows = jnp.arange(matrix.shape[0])

    def eliminate(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        lu, order = carry
        pivot = jnp.argmax(jnp.where(rows >= j, jnp.abs(lu[:, j]), -1.0))
        swapped = jnp.where(rows == j, pivot, jnp.where(rows == pivot, j, rows))
        lu, order = lu[swapped], order[swapped]
        factor = jnp.where(rows > j, lu[:, j] / lu[j, j], 0.0)
        reduced = lu - factor[:, None] * jnp.where(rows > j, lu[j], 0.0)
        return jnp.where((rows[:, None] > j) & (rows == j), factor[:, None], reduced), order

    return lax.fori_loop(0, len(rows) - 1, eliminate, (matrix, rows))


def _inline_substitution(lu: Array, b: Array) -> Array:
    rows = jnp.arange(lu.shape[0])

    def forward(j: Array, x: Array) -> Array:
        return x - jnp.where(rows > j, lu[:, j], 0.0) * x[j]

    def backward(i: Array, x: Array) -> Array:
        j = len(rows) - 1 - i
        last = x[j] / lu[j, j]
        return jnp.where(rows == j, last, x - jnp.where(rows < j, lu[:, j], 0.0) * last)

    return lax.fori_loop(0, len(rows), backward, lax.fori_loop(0, len(rows) - 1, forward, b))


class _Iterate(NamedTuple):
    x: Array
    step: Array  # from the last point inside the domain to x
    error: Array  # its relative size; NaN once there is no way on
    singular: Array
    done: Array


@final
@dataclass(frozen=True)
class Newton:
    r"""Newton's method; converged once an update is below `tolerance` relative to the unknowns.

    The default tolerance is $0.1\sqrt\epsilon$: the error left after an update of relative size $\delta$ is of order
    $\delta^2$, that is, below round-off.  An update that leaves the domain of the functions (where the residual is not
    finite) is halved until it does not.  Derivatives follow from the implicit function theorem (`custom_root`): they do
    not depend on the guess or on the number of iterations, and both `jax.jacfwd` and `jax.grad` work.
    """

    max_iterations: int = 25
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise InputError(f"max_iterations = {self.max_iterations}: Newton needs at least 1 iteration")
        if self.tolerance is not None and not 0.0 < self.tolerance < 1.0:
            raise InputError(f"tolerance = {self.tolerance}: must lie between 0 and 1 (None chooses 0.1 sqrt(eps))")

    def __call__(
        self, residual: Callable[..., Any], guess: tuple[Array, ...], resolution: Array | float = 0.0
    ) -> tuple[tuple[Array, ...], Solved]:
        r"""Solve `residual(*unknowns) = 0`, starting at `guess`.

        `resolution` is a magnitude whose round-off the unknowns inherit: where $g(q + hv)/h = 0$ determines $v$, no
        update below $\epsilon |q|/h$ means anything, however small $v$ itself is.
        """
        flat_guess, unravel = ravel_pytree(guess)

        def flat_residual(x: Array) -> Array:
            return ravel_pytree(residual(*unravel(x)))[0].astype(x.dtype)

        def solve(f: Callable[[Array], Array], x: Array) -> tuple[Array, Solved]:
            equations = jax.make_jaxpr(f)(x)
            operands = (x, jnp.asarray(resolution, x.dtype), *equations.consts)
            x, *solved = root_p.bind(*operands, equations=equations.jaxpr, newton=self)
            return x, Solved(*solved)

        x, solved = lax.custom_root(flat_residual, flat_guess, solve, _tangent_solve, has_aux=True)
        status, iterations = (x.astype(jnp.int32) for x in (solved.status, solved.iterations))
        return unravel(x), Solved(status, solved.residual, iterations)

    def iterate(self, f: Callable[[Array], Array], x0: Array, resolution: Array) -> tuple[Array, Solved]:
        """The iteration itself, for one path."""
        eps = jnp.finfo(x0.dtype).eps
        tolerance = 0.1 * eps**0.5 if self.tolerance is None else self.tolerance
        floor = 16 * eps * resolution

        def value_and_jacobian(x: Array) -> tuple[Array, Array]:
            jacobian, value = jax.jacfwd(lambda y: (f(y),) * 2, has_aux=True)(x)
            return value, jacobian

        def unfinished(it: _Iterate) -> Array:
            return (it.error > tolerance) & (it.done < self.max_iterations)  # a NaN error ends the loop

        def improve(it: _Iterate) -> _Iterate:
            value, jacobian = value_and_jacobian(it.x)
            outside = ~jnp.all(jnp.isfinite(value))
            solve, singular = factorize(jacobian)
            step = jnp.where(outside, 0.5 * it.step, -solve(value))
            x = it.x + jnp.where(outside, -step, step)
            size = _norm(step)
            error = jnp.where(size <= floor, 0.0, size / _norm(x))
            retreat = jnp.where(size > 0.0, jnp.inf, jnp.nan)  # the guess itself may lie outside
            return _Iterate(x, step, jnp.where(outside, retreat, error), singular & ~outside, it.done + 1)

        no = jnp.zeros((), bool)
        begin = _Iterate(x0, jnp.zeros_like(x0), jnp.full((), jnp.inf, x0.dtype), no, jnp.zeros((), jnp.int32))
        end = lax.while_loop(unfinished, improve, begin)
        residual = _norm(f(end.x))
        status = jnp.select(
            [end.singular, ~jnp.isfinite(residual + _norm(end.x)), ~(end.error <= tolerance)],
            [Status.SINGULAR, Status.NON_FINITE, Status.NOT_CONVERGED],
            Status.CONVERGED,
        )
        # floats, because custom_root wants tangents of what is returned here
        return end.x, Solved(status.astype(x0.dtype), residual, end.done.astype(x0.dtype))


root_p = Primitive("root")
"""Newton's problem as one equation of a traced program, so that the lane compiler can see it as a whole: operands are
the guess, the resolution and what the equations close over; results the root and the fields of `Solved`."""
root_p.multiple_results = True


def _root(x: Array, resolution: Array, *constants: Array, equations: Jaxpr, newton: Newton) -> list:
    def residual(x: Array) -> Array:
        return jax.core.eval_jaxpr(equations, constants, x)[0]

    x, solved = newton.iterate(residual, x, resolution)
    return [x, *solved]


def _root_types(x: Any, resolution: Any, *_: Any, **__: Any) -> list:
    return [x, resolution, resolution, resolution]


def _root_batch(operands: tuple, axes: tuple, **parameters: Any) -> tuple[list, list[int]]:
    return jax.vmap(partial(_root, **parameters), in_axes=tuple(axes))(*operands), [0, 0, 0, 0]


root_p.def_impl(jax.jit(_root, static_argnames=("equations", "newton")))
root_p.def_abstract_eval(_root_types)
mlir.register_lowering(root_p, mlir.lower_fun(_root, multiple_results=True))
batching.primitive_batchers[root_p] = _root_batch


def _norm(x: Array) -> Array:
    return jnp.max(jnp.abs(x), initial=0.0)


def _tangent_solve(linear: Callable[[Array], Array], b: Array) -> Array:
    return jnp.linalg.solve(jax.jacfwd(linear)(jnp.zeros_like(b)), b)  # not in a hot loop: LAPACK compiles faster
