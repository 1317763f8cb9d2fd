r"""Sparse Jacobians: where the equations of a step have derivatives, found once, then computed a few at a time.

Of the $(n + k)^2$ derivatives of the equations of a large system nearly all are zero: a rod touches two beads.  Which
ones are not is seen in the traced equations (Jacobian sparsity by abstract interpretation, the library `asdex`), for
all values of the unknowns at once.  Columns that share no row are then pushed through the equations together, as one
tangent; rows that share no column are pulled back together (graph colouring; Curtis, Powell and Reid 1974).  A chain
takes three tangents and two cotangents, whatever its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_batching import custom_vmap
from jax.extend.core import Jaxpr

from holonax.cache.arrays import recalled
from holonax.numerics.linear import Mass, MassFactors, factors_of_diagonal, is_linear
from holonax.numerics.slicing import slice_of
from holonax.numerics.sparse import EliminationPlan, analyse
from holonax.numerics.sparse_matrices import SparseMatrices

WORTHWHILE = 100
"""Unknowns from which on it is asked whether the equations are sparse."""

PER_OPERATION = 20
"""An operation on single entries takes about as long as so many of a dense factorisation."""

Parts = Callable[[Array], list[Array]]


@dataclass(frozen=True, eq=False)
class ColouredRows:
    """Some rows of a Jacobian: where they have entries, and which columns (or rows) are taken together."""

    rows: np.ndarray
    columns: np.ndarray
    colours: np.ndarray  # of the columns, or of the rows if these are pulled back
    number: int
    backwards: bool

    @cached_property
    def diagonal(self) -> np.ndarray:
        """Where the diagonal is among the entries."""
        own = np.flatnonzero(self.rows == self.columns)
        return own[np.argsort(self.rows[own])]

    def entries(self, function: Callable[[Array], Array], x: Array) -> Array:
        """Of the Jacobian of a function with these rows, in the order of `rows` and `columns`."""
        seeds = np.asarray(self.colours == np.arange(self.number)[:, None], x.dtype)
        if self.backwards:
            pull = jax.vjp(function, x)[1]
            compressed = jax.vmap(lambda seed: pull(seed)[0])(seeds)
            return jnp.ravel(compressed)[self.colours[self.rows] * x.size + self.columns]
        push = jax.linearize(function, x)[1]
        compressed = jax.vmap(push)(seeds)
        return jnp.ravel(compressed)[self.colours[self.columns] * compressed.shape[1] + self.rows]


@final
@dataclass(frozen=True, eq=False)
class Structure:
    """The sparse Jacobian of equations whose first rows are those of the motions, and how to eliminate it."""

    momenta: ColouredRows
    constraints: ColouredRows
    matrices: SparseMatrices

    def solve(self, linear: Callable[[Array], Array], b: Array) -> Array:
        """The x at which a linear function with this Jacobian is b; for derivatives, backwards too."""
        n, zero = self.matrices.motions, jnp.zeros_like(b)
        blocks = [(self.momenta, slice(None, n)), (self.constraints, slice(n, None))]
        entries = [block.entries(_part(linear, rows), zero) for block, rows in blocks]
        return self.matrices.solve(jnp.concatenate(entries), b)


@final
@dataclass(frozen=True, eq=False)
class SparseMass:
    """The factors of a mass with few entries, as `holonax.numerics.linear.Mass` has them."""

    entries: ColouredRows
    plan: EliminationPlan

    def __call__(self, momenta: Callable[[Array], Array], v: Array) -> MassFactors:
        """The last axis of all factors stands for columns, so that all columns are divided at once."""
        entries = self.entries.entries(momenta, v)
        factors = self.plan.factorize(entries[:, None])

        def solve(b: Array) -> Array:
            return factors.solve(b) if b.ndim == 2 else factors.solve(b[:, None])[:, 0]

        return MassFactors(solve, factors.singular[0], entries[self.entries.diagonal], factors.margins[:, 0])


def _part(function: Callable[[Array], Array], rows: slice) -> Callable[[Array], Array]:
    return lambda x: function(x)[rows]


class Sketch:
    """The equations that Newton solves, with the values that are known when they are traced; a static parameter.

    Its structure is looked for when it is first asked for: compilers that look at entries themselves never do.
    """

    def __init__(self, jaxpr: Jaxpr, constants: Sequence[Any], motions: int) -> None:
        self.jaxpr, self.constants, self.motions = jaxpr, constants, motions

    @property
    def size(self) -> int:
        """The number of unknowns."""
        unknowns: Any = self.jaxpr.invars[0].aval
        return unknowns.size

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Of the entries of the Jacobian; None if there are few unknowns, or it cannot be told."""
        return None if self.size < WORTHWHILE else pattern(self.jaxpr, self.constants)

    @cached_property
    def mass(self) -> Mass | None:
        """How to divide by the mass without making a matrix of it; None where it is small, dense or not known."""
        if self.places is None:
            return None
        (rows, columns), n = self.places, self.motions
        own = (rows < n) & (columns < n)
        rows, columns = rows[own], columns[own]
        if np.array_equal(rows, columns):
            return factors_of_diagonal
        products = np.sum(np.bincount(columns, minlength=n).astype(float) ** 2)
        if np.count_nonzero(rows == columns) < n or PER_OPERATION * products > n**2:
            return None
        coloured = colour(rows, columns, (n, n))
        plan = analyse(rows, columns, n, n)
        return SparseMass(coloured, plan) if PER_OPERATION * max(coloured.number * n, plan.operations) < n**2 else None

    @cached_property
    def structure(self) -> Structure | None:
        """None where a dense factorisation serves as well."""
        if self.places is None:
            return None
        (rows, columns), size = self.places, self.size
        n, k = self.motions, size - self.motions
        if np.count_nonzero((rows == columns) & (rows < n)) < n:
            return None  # a mass with zeros on its diagonal needs exchanges of rows, which only dense elimination makes
        motions = (rows < n) & (columns < n)
        uncoupled = np.array_equal(rows[motions], columns[motions])
        dense = max(k**3 / 3 + n * k, n**2) if uncoupled else size**3 / 3
        products = np.sum(np.bincount(columns, minlength=size)[:n].astype(float) ** 2)  # of what the motions touch
        if PER_OPERATION * products > dense:
            return None
        first = rows < n
        momenta = colour(rows[first], columns[first], (n, size))
        constraints = colour(rows[~first] - n, columns[~first], (k, size))
        if (momenta.number + constraints.number) * PER_OPERATION > size:
            return None
        where = np.argsort(~first, kind="stable")
        matrices = SparseMatrices.of(rows[where], columns[where], n, size)
        return Structure(momenta, constraints, matrices) if PER_OPERATION * matrices.operations < dense else None


def pattern(jaxpr: Jaxpr, constants: Sequence[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and columns of the entries of the Jacobian of a traced function, all results one after another.

    None if it cannot be told, because the library is missing or does not know an operation.
    """
    known = [None if isinstance(c, jax.core.Tracer) else np.asarray(c) for c in constants]
    found = recalled(lambda: _search(jaxpr, known), "pattern", jaxpr, known)
    return None if found is None else (found["rows"], found["columns"])


def _search(jaxpr: Jaxpr, known: Sequence[np.ndarray | None]) -> dict[str, np.ndarray] | None:
    try:
        from asdex import jacobian_sparsity
    except ModuleNotFoundError:  # equations are solved all the same
        return None
    function, given = slice_of(jaxpr, known)
    arguments: list[Any] = [jaxpr.invars[0].aval, *given]

    def residual(x: Array, *values: Array) -> Array:
        return jnp.concatenate([jnp.ravel(part) for part in function(x, *values)])

    try:
        found = jacobian_sparsity(residual, *(np.zeros(a.shape, a.dtype) for a in arguments))
    except NotImplementedError:
        return None
    return {"rows": np.asarray(found.rows, np.int64), "columns": np.asarray(found.cols, np.int64)}


def colour(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> ColouredRows:
    """Rows of a Jacobian with columns, or rows, of the same colour where these have nothing in common."""
    found = recalled(lambda: _colours(rows, columns, shape), "colours", rows, columns, shape)
    assert found is not None  # there is always a colouring
    by_column, by_row = found["columns"], found["rows"]
    forwards, backwards = (int(colours.max(initial=-1)) + 1 for colours in (by_column, by_row))
    if 2 * backwards < forwards:  # a pullback takes about twice as long
        return ColouredRows(rows, columns, by_row, backwards, True)
    return ColouredRows(rows, columns, by_column, forwards, False)


def _colours(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    from asdex import SparsityPattern, color_cols, color_rows

    pattern = SparsityPattern.from_coo(rows, columns, shape)
    return {"columns": np.asarray(color_cols(pattern)[0]), "rows": np.asarray(color_rows(pattern)[0])}


def entries_of(function: Callable[[Array], Array], x: Array) -> tuple[np.ndarray, np.ndarray, Array]:
    """Rows, columns and values of a Jacobian: all of them, or those that may not be zero where they are few."""
    traced = jax.make_jaxpr(function)(x)
    size = (traced.out_avals[0].size, x.size)
    found = pattern(traced.jaxpr, traced.consts) if max(size) >= WORTHWHILE else None
    if found is not None:
        coloured = colour(*found, size)
        if coloured.number * PER_OPERATION < x.size:
            return coloured.rows, coloured.columns, coloured.entries(function, x)
    rows, columns = (np.ravel(i) for i in np.indices(size))
    return rows, columns, jnp.ravel(jax.jacfwd(function)(x))


class SparseElimination:
    """As `holonax.numerics.linear.Elimination`, with entries instead of matrices."""

    def __init__(self, parts: Parts, x0: Array, structure: Structure, motions: int) -> None:
        self.parts, self.structure, self.motions = parts, structure, motions
        fixed = is_linear(self._momenta, x0)
        self.fixed = structure.momenta.entries(self._momenta, x0) if fixed else None

    def _momenta(self, x: Array) -> Array:
        return self.parts(x)[0]

    def _constraints(self, x: Array) -> Array:
        return jnp.concatenate([jnp.zeros((0,), x.dtype), *self.parts(x)[1:]])

    def update(self, x: Array, value: Array) -> tuple[Array, Array, Array, Array]:
        """What to add to the unknowns, whether that is singular, signs of the pivots of the multipliers, and masses."""
        entries = self.entries(x)
        return *_paths_last(self._solve)(entries, value), entries[self.structure.momenta.diagonal]

    def margins(self, x: Array) -> Array:
        """Pivots of all unknowns over the sum of the magnitudes that they are the difference of."""
        return self.structure.matrices.margins(self.entries(x))

    def entries(self, x: Array) -> Array:
        """Of the Jacobian, in the order of the structure."""
        momenta = self.structure.momenta.entries(self._momenta, x) if self.fixed is None else self.fixed
        return jnp.concatenate([momenta, self.structure.constraints.entries(self._constraints, x)])

    def _solve(self, entries: Array, value: Array) -> tuple[Array, Array, Array]:
        factors = self.structure.matrices.plan.factorize(entries)
        return -factors.solve(value), factors.singular, factors.signs


def _paths_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays that may have paths as a further, last axis: `vmap` hands it all paths at once.

    What is gathered by tables of indices are then contiguous numbers of all paths, several times as fast.
    """
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def all_paths(size: int, batched: list[bool], *operands: Array) -> tuple[Any, Any]:
        last = [
            jnp.moveaxis(x, 0, -1) if is_batched else jnp.broadcast_to(x[..., None], (*x.shape, size))
            for x, is_batched in zip(operands, batched, strict=True)
        ]
        results = function(*last)
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), results), jax.tree.map(lambda _: True, results)

    return mapped
