r"""Sparse Gaussian elimination of the Newton matrix of a step, without exchanges, level by level.

The matrix has the motions first and the multipliers after them, $J = \begin{pmatrix} A & B \\ C & D \end{pmatrix}$.
Its pattern decides once and for all in which order it is eliminated (`holonax.numerics.sparse_order`).  In that order

$$ J = L U, \qquad u_{jj} = a_{jj} - \sum_{t<j} l_{jt} u_{tj}, \qquad u_{ji} = a_{ji} - \sum_{t<j} l_{jt} u_{ti}, \qquad
   l_{ij} = \Bigl(a_{ij} - \sum_{t<j} l_{it} u_{tj}\Bigr) / u_{jj}, $$

for $i > j$.  Each of these is computed once, at the level of $j$, from factors of earlier levels (left-looking), so
that all of a level are a few operations on arrays: numbers are gathered by tables of indices that are known beforehand,
multiplied and added, and a level writes one contiguous part of the factors.  Substitution is the same,

$$ y_j = b_j - \sum_{t<j} l_{jt} y_t, \qquad x_j = \Bigl(y_j - \sum_{i>j} u_{ji} x_i\Bigr) / u_{jj}. $$

The pattern is symmetrised, so an *edge* of the graph stands for an $l_{ij}$ and a $u_{ji}$, and one table serves both.
The first axis of all arrays counts entries or unknowns; further axes, if any, are paths.  With the paths last, what is
gathered are contiguous rows, which is several times as fast as `vmap` over a leading axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.numerics.sparse_order import Indices, Order, elimination_levels, multiply_adds
from holonax.numerics.sparse_tables import Stage, Sums, Tables, Tail

UNROLLED = 16
"""Sums of up to this many terms are written out, which XLA turns into faster code than a reduction."""


def analyse(rows: Indices, columns: Indices, motions: int, size: int) -> EliminationPlan:
    """How to eliminate a matrix whose entries are at (rows, columns), each place named once."""
    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    return plan_in_order(rows, columns, motions, size, elimination_levels(rows, columns, motions, size))


def plan_in_order(rows: Indices, columns: Indices, motions: int, size: int, order: Order) -> EliminationPlan:
    """The same where the order is known."""
    places = rows * size + columns
    if len(np.unique(places)) < len(places):
        raise ValueError("an entry of the matrix is named twice")
    tables = Tables(*order, size)
    stages = [tables.stage(i) for i in range(len(tables.levels))]
    tail, *rest = tables.rest()
    row, column = (np.concatenate([*(stage[i] for stage in stages), rest[i - 1]]) for i in (1, 2))
    return EliminationPlan(
        tuple(stage[0] for stage in stages),
        tail,
        tables.own(0, size),
        tables.entries(row, column, places),
        tables.order,
        tables.place,
        motions,
        multiply_adds(order),
    )


def _total(sums: Sums, terms: Array) -> Array:
    """The sums of the terms."""
    parts, start = [], 0
    for width, number in sums.shapes:
        parts.append(_added(terms[start : start + width * number], width, number))
        start += width * number
    return _rows(jnp.concatenate(parts) if len(parts) > 1 else parts[0], sums.order)


def _added(terms: Array, width: int, number: int) -> Array:
    """Sums of the rows of a table."""
    if width == 0:
        return jnp.zeros((number, *terms.shape[1:]), terms.dtype)
    if width > UNROLLED:
        return jnp.sum(terms.reshape(width, number, *terms.shape[1:]), axis=0)
    total = terms[:number]
    for i in range(1, width):
        total = total + terms[i * number : (i + 1) * number]
    return total


def _rows(array: Array, index: np.ndarray) -> Array:
    """Rows of an array at indices that are known, contiguous ones without a gather."""
    if len(index) == 0:
        return array[:0]
    if np.array_equal(index, np.arange(index[0], index[0] + len(index))):
        return array[int(index[0]) : int(index[0]) + len(index)]
    return array.at[index].get(mode="promise_in_bounds")


def _write(array: Array, rows: Array, start: int) -> Array:
    """With the barrier, XLA writes into the array instead of a copy, for nothing that is computed still reads it."""
    array, rows = lax.optimization_barrier((array, rows))
    return lax.dynamic_update_slice_in_dim(array, rows, start, 0)


@dataclass(frozen=True, eq=False)
class EliminationPlan:
    """How to eliminate matrices of one pattern; equal to itself only, so that it can be a parameter of a program."""

    stages: tuple[Stage, ...]
    tail: Tail
    diagonal: Sums  # of rows of L and rows of U, for all pivots
    entries: np.ndarray  # of the matrix in the order in which they are used, counted from 1; 0 where there is none
    order: np.ndarray  # unknowns in the order of elimination
    place: np.ndarray  # of each unknown in that order
    motions: int
    operations: int

    @property
    def levels(self) -> int:
        """Number of levels; a dense rest counts as one."""
        return len(self.stages) + (self.tail.size > 0)

    def factorize(self, entries: Array) -> Factors:
        """Factors of matrices with these entries, (entries, ...)."""
        a = _rows(jnp.concatenate([jnp.zeros_like(entries, shape=(1, *entries.shape[1:])), entries]), self.entries)
        factors = jnp.zeros_like(a, shape=(1 + 2 * sum(stage.edges for stage in self.stages), *a.shape[1:]))
        used, pivots, earlier = 0, [], []
        for stage in self.stages:
            number, edges = len(stage.own.counts), stage.edges
            lower, upper, pairs = _gather(factors, [*stage.own.places[:2]], stage.pairs)
            pivot = a[used : used + number] - _total(stage.own, lower * upper)
            values = a[used + number : used + number + 2 * edges] - _total(stage.pairs, pairs)
            below = values[:edges] * _rows(1.0 / pivot, stage.owners)
            factors = _write(factors, jnp.concatenate([below, values[edges:]]), stage.first_row)
            used += number + 2 * edges
            pivots.append(pivot)
            earlier.append(lower)
        lower, _, pairs = _gather(factors, [*self.tail.own.places[:2]], self.tail.pairs)
        matrix = (a[used:] - _total(self.tail.pairs, pairs)).reshape(self.tail.size, self.tail.size, *a.shape[1:])
        dense, own = _dense_factors(matrix)
        pivot = jnp.concatenate([*pivots, _diagonal(dense)])
        left, right = (_rows(factors, places) for places in self.diagonal.places[:2])
        subtracted = _total(self.diagonal, jnp.abs(left * right)).at[self.tail.pivots].add(own)
        counts = self.diagonal.counts + np.maximum(np.arange(len(pivot)) - self.tail.pivots.start, 0)
        lost = _is_round_off(pivot, subtracted, counts)
        signs = jnp.sign(_rows(pivot, self.place[self.motions :]))
        margins = _rows(jnp.abs(pivot) / (jnp.abs(pivot) + subtracted), self.place)
        return Factors(self, factors, 1.0 / pivot, (*earlier, lower), dense, jnp.any(lost, axis=0), signs, margins)


def _gather(factors: Array, places: list[np.ndarray], pairs: Sums) -> tuple[Array, Array, Array]:
    """Numbers at two places for all diagonals, and the products for all other entries, with a gather for each side."""
    count = len(places[0])
    left = _rows(factors, np.concatenate([places[0], pairs.places[0]]))
    right = _rows(factors, np.concatenate([places[1], pairs.places[1]]))
    return left[:count], right[:count], left[count:] * right[count:]


@dataclass(frozen=True)
class Factors:
    """Of one matrix, or of one for each path."""

    plan: EliminationPlan
    factors: Array
    inverse: Array  # of the pivots
    earlier: tuple[Array, ...]  # entries of L as substitution needs them, level by level
    dense: Array
    singular: Array  # whether a pivot is round-off or not finite
    signs: Array  # of the pivots of the multipliers
    margins: Array  # pivots over the sum of the magnitudes that they are the difference of

    def solve(self, b: Array) -> Array:
        """The solutions of J x = b, (unknowns, ...)."""
        plan = self.plan
        b = _rows(b, plan.order)
        x = jnp.zeros_like(b, shape=(1 + len(b), *b.shape[1:]))
        for stage, lower in zip(plan.stages, self.earlier, strict=False):
            y = b[stage.pivots] - _total(stage.own, lower * _rows(x, stage.own.places[2]))
            x = _write(x, y, 1 + stage.pivots.start)
        own = plan.tail.own
        y = b[plan.tail.pivots] - _total(own, self.earlier[-1] * _rows(x, own.places[2]))
        x = _write(x, _dense_solve(self.dense, y), 1 + plan.tail.pivots.start)
        for stage in reversed(plan.stages):
            terms = _rows(self.factors, stage.later.places[0]) * _rows(x, stage.later.places[1])
            y = x[1 + stage.pivots.start : 1 + stage.pivots.stop]
            x = _write(x, (y - _total(stage.later, terms)) * self.inverse[stage.pivots], 1 + stage.pivots.start)
        return _rows(x, 1 + plan.place)


def _is_round_off(pivot: Array, subtracted: Array, counts: np.ndarray) -> Array:
    """Whether pivots are the differences of so large magnitudes that nothing is left of them, or not finite."""
    bound = _column((counts + 1.0) * float(jnp.finfo(pivot.dtype).eps), pivot).astype(pivot.dtype)
    return ~(jnp.abs(pivot) > bound * (jnp.abs(pivot) + subtracted)) | jnp.isinf(pivot)


def _column(values: np.ndarray, array: Array) -> np.ndarray:
    return values.reshape(values.shape + (1,) * (array.ndim - values.ndim))


def _diagonal(matrix: Array) -> Array:
    index = np.arange(len(matrix))
    return matrix[index, index]


def _dense_factors(matrix: Array) -> tuple[Array, Array]:
    """Both factors of a full matrix in one, the diagonal of the lower one being 1, and what is subtracted in pivots."""
    size = len(matrix)
    if size == 0:
        return matrix, matrix.reshape(0, *matrix.shape[2:])
    both = _dense_elimination(matrix, -(-size // 4))
    below = _column(np.arange(size)[:, None] > np.arange(size), both)
    both = jnp.where(below, both / _diagonal(both), both)
    return both, jnp.sum(jnp.abs(jnp.where(below, both * jnp.swapaxes(both, 0, 1), 0.0)), axis=1)


def _dense_elimination(matrix: Array, steps: int) -> Array:
    """The upper factor, and the lower one times the pivots; after some steps what is left is a smaller matrix."""
    index = _column(np.arange(len(matrix)), matrix[0])

    def step(j: Array, reduced: Array) -> Array:
        column = lax.dynamic_index_in_dim(reduced, j, 1, keepdims=False)
        factor = jnp.where(index > j, column / lax.dynamic_index_in_dim(column, j, 0), 0.0)
        row = jnp.where(index > j, lax.dynamic_index_in_dim(reduced, j, 0, keepdims=False), 0.0)
        reduced, factor, row = lax.optimization_barrier((reduced, factor, row))
        return reduced - factor[:, None] * row

    matrix = lax.fori_loop(0, min(steps, len(matrix) - 1), step, matrix)
    if len(matrix) <= steps:
        return matrix
    return matrix.at[steps:, steps:].set(_dense_elimination(matrix[steps:, steps:], steps))


def _dense_solve(factors: Array, b: Array) -> Array:
    index = _column(np.arange(len(b)), b)

    def column(j: Array) -> Array:
        return lax.dynamic_index_in_dim(factors, j, 1, keepdims=False)

    def forward(j: Array, x: Array) -> Array:
        return x - jnp.where(index > j, column(j), 0.0) * x[j]

    def backward(i: Array, x: Array) -> Array:
        j = len(b) - 1 - i
        last = x[j] / factors[j, j]
        return jnp.where(index == j, last, x - jnp.where(index < j, column(j), 0.0) * last)

    if len(b) == 0:
        return b
    return lax.fori_loop(0, len(b), backward, lax.fori_loop(0, len(b) - 1, forward, b))
