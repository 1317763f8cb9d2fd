r"""The linear algebra of Newton's method for one path: motions are eliminated, and what is left are the multipliers.

With $F_V$ the rows of the motions $V$, $F_\lambda$ those of the multipliers, an update solves

$$ \begin{pmatrix} A & B \\ C & D \end{pmatrix} \begin{pmatrix} \delta V \\ \delta\lambda \end{pmatrix}
   = -\begin{pmatrix} F_V \\ F_\lambda \end{pmatrix}, \qquad
   S\,\delta\lambda = C A^{-1} F_V - F_\lambda, \qquad \delta V = -A^{-1}(F_V + B\,\delta\lambda), $$

where $S = D - C A^{-1} B$ is the Schur complement: $g'(q_1) M^{-1} g'(q_0)^T$ for a step with one multiplier per
constraint.  Where $A$ and $B$ do not depend on the unknowns, as with a constant mass, $A$ is factorised once, and the
derivatives that an iteration takes are as many as there are multipliers.  Where the mass of many coordinates has few
entries it is never a matrix (`Mass`), and $S$ is the only matrix that is factorised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import Literal

INLINE_UNKNOWNS = 12
"""Systems up to this size are eliminated inline; larger ones go to LAPACK (CHANGELOG.md has the measurement)."""

INLINE_FIXED = 128
"""The same for matrices that are the same in all iterations.  They may be the same for all paths as well, and JAX 0.10
then forgets, in some programs, by which convention LAPACK is called ("No registered implementation")."""

Solve = Callable[[Array], Array]


class MassFactors(NamedTuple):
    """How to divide a vector, or the columns of a matrix, by a mass; its diagonal, and how singular it is.

    `margins` are the pivots over the sum of the magnitudes that they are the difference of.
    """

    solve: Solve
    singular: Array
    diagonal: Array
    margins: Array


Mass = Callable[[Callable[[Array], Array], Array], MassFactors]
"""Factors of the derivative of momenta with respect to motions, given these functions and where it is taken."""


def factors_of_diagonal(momenta: Callable[[Array], Array], v: Array) -> MassFactors:
    """Of momenta each of which depends on its own motion only."""
    own = jax.jvp(momenta, (v,), (jnp.ones_like(v),))[1]
    none = own == 0.0
    return MassFactors(lambda b: (b.T / own).T, jnp.any(none), own, jnp.where(none, 0.0, own / own))


class Elimination:
    """Updates and pivots of equations in parts: the rows of the `motions`, which are the first unknowns, come first."""

    def __init__(
        self, parts: Callable[[Array], list[Array]], x0: Array, motions: int, mass: Mass | None = None
    ) -> None:
        """Where A has a `mass` it is not made as a matrix."""
        self.mass = mass
        self.parts, self.motions, self.multipliers = parts, motions, x0.size - motions
        self.fixed = self._eliminated(x0) if is_linear(lambda x: parts(x)[0], x0) else None

    def residual(self, x: Array) -> Array:
        """All rows."""
        return jnp.concatenate(self.parts(x))

    def _eliminated(self, x0: Array) -> tuple[Solve, Array, Array, Array]:
        """How to divide by A, $A^{-1} B$, whether A is singular, and its diagonal."""
        n = self.motions

        def momenta(x: Array) -> Array:
            return self.parts(x)[0]

        def beside(y: Array) -> Array:
            return momenta(jnp.append(x0[:n], y))

        if self.mass is not None:
            solve, singular, own, _ = self.mass(lambda v: momenta(jnp.append(v, x0[n:])), x0[:n])
            return solve, solve(jax.jacfwd(beside)(x0[n:])), singular, own
        known = constant_value(lambda x: jax.jacfwd(momenta)(x)[:, :n], x0)
        if known is None:
            both = jax.jacfwd(momenta)(x0)
            matrix, across = both[:, :n], both[:, n:]
        else:
            matrix = jnp.asarray(known, x0.dtype)
            across = jax.jacfwd(beside)(x0[n:])
        if known is not None and np.count_nonzero(known - np.diag(np.diag(known))) == 0:
            diagonal = jnp.diagonal(matrix)
            solve, singular = (lambda b: (b.T / diagonal).T), jnp.any(diagonal == 0.0)
        else:
            solve, singular = factorize(matrix, INLINE_FIXED)
        return solve, _each_column(solve, across), singular, jnp.diagonal(matrix)

    def update(self, x: Array, value: Array) -> tuple[Array, Array, Array, Array]:
        """What to add to the unknowns, whether that is singular, the signs of the pivots of S, the diagonal of A."""
        n, k = self.motions, self.multipliers
        if self.fixed is None and self.mass is None:
            jacobian = jax.jacfwd(self.residual)(x)
            solve, singular = factorize(jacobian[:n, :n])
            columns = _each_column(solve, jnp.append(jacobian[:n, n:], value[:n, None], axis=1))
            across, first = columns[:, :k], columns[:, k]
            schur = jacobian[n:, n:] - jacobian[n:, :n] @ across
            through = jacobian[n:, :n] @ first
            masses = jnp.diagonal(jacobian)[:n]
        else:
            solve, across, singular, masses = self.fixed or self._eliminated(x)
            first = solve(value[:n])
            directions = jnp.block([[-across.T, jnp.eye(k, dtype=x.dtype)], [first, jnp.zeros(k, x.dtype)]])
            pushed = jax.vmap(lambda d: jax.jvp(self._constraints, (x,), (d,))[1])(directions).T
            schur, through = pushed[:, :k], pushed[:, k]
        if k == 0:
            return -first, singular, jnp.zeros((0,), x.dtype), masses
        solve_schur, dependent = factorize(schur)
        multipliers = solve_schur(through - value[n:])
        both = jnp.append(-first - across @ multipliers, multipliers)
        return both, singular | dependent, pivot_signs(schur), masses

    def _constraints(self, x: Array) -> Array:
        return jnp.concatenate([jnp.zeros((0,), x.dtype), *self.parts(x)[1:]])


def pivot_signs(matrix: Array) -> Array:
    """Signs of the pivots of Gaussian elimination in the order of the rows, without exchanges."""
    rows = jnp.arange(matrix.shape[0])

    def eliminate(j: Array, reduced: Array) -> Array:
        factor = jnp.where(rows > j, reduced[:, j] / reduced[j, j], 0.0)
        return reduced - factor[:, None] * reduced[j]

    return jnp.sign(jnp.diagonal(lax.fori_loop(0, len(rows) - 1, eliminate, matrix)))


def _each_column(solve: Solve, matrix: Array) -> Array:
    return matrix if matrix.shape[1] == 0 else jax.vmap(solve, in_axes=1, out_axes=1)(matrix)


def is_linear(function: Callable[[Array], Array], x: Array) -> bool:
    """Whether the derivative of a function is seen not to depend on x."""
    return not _depends(jax.make_jaxpr(jax.jacfwd(function))(x).jaxpr, [True])[0]


def constant_value(function: Callable[[Array], Array], x: Array) -> np.ndarray | None:
    """The value of a function that depends on nothing that is traced, or None."""
    traced = jax.make_jaxpr(function)(x)
    unknown = [isinstance(c, jax.core.Tracer) for c in traced.consts]
    if _depends(traced.jaxpr, [True], unknown)[0]:
        return None
    with jax.ensure_compile_time_eval():
        constants = [np.zeros(c.shape, c.dtype) if u else c for c, u in zip(traced.consts, unknown, strict=True)]
        return np.asarray(jax.core.eval_jaxpr(traced.jaxpr, constants, np.zeros(x.shape, x.dtype))[0])


def _depends(jaxpr: Any, arguments: list[bool], constants: list[bool] | None = None) -> list[bool]:
    """Which results of a program depend on the marked arguments."""
    marked = {v for v, m in zip(jaxpr.invars, arguments, strict=True) if m}
    marked |= {v for v, m in zip(jaxpr.constvars, constants or [False] * len(jaxpr.constvars), strict=True) if m}
    for equation in jaxpr.eqns:
        inputs = [not isinstance(x, Literal) and x in marked for x in equation.invars]
        outputs = _outputs_depend(equation, inputs)
        marked |= {v for v, m in zip(equation.outvars, outputs, strict=True) if m}
    return [not isinstance(x, Literal) and x in marked for x in jaxpr.outvars]


def _outputs_depend(equation: Any, inputs: list[bool]) -> list[bool]:
    name, parameters = equation.primitive.name, equation.params
    if name in ("jit", "pjit"):
        return _depends(parameters["jaxpr"].jaxpr, inputs)
    if name != "scan":
        return [any(inputs)] * len(equation.outvars)
    # What a loop carries depends on what it carried: to and fro until nothing is added.
    first, carried = parameters["num_consts"], parameters["num_carry"]
    outputs = _depends(parameters["jaxpr"].jaxpr, inputs)
    ahead = [a or b for a, b in zip(inputs[first:], outputs[:carried], strict=False)]
    if ahead == inputs[first : first + carried]:
        return outputs
    return _outputs_depend(equation, [*inputs[:first], *ahead, *inputs[first + carried :]])


def factorize(matrix: Array, inline: int = INLINE_UNKNOWNS) -> tuple[Callable[[Array], Array], Array]:
    r"""LU factors of a square matrix with partial pivoting: `(solve, singular)`; `inline` up to so many unknowns.

    `singular` is judged free of scales: a pivot $u_{jj}$ is round-off when it is below $n\,\epsilon$ times
    $(|L||U|)_{jj}$, the sum of the magnitudes it is the difference of.  Scaling rows or columns changes both alike.
    """
    n = matrix.shape[0]
    if n == 0:
        return (lambda b: b), jnp.zeros((), bool)
    if n <= inline:
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
