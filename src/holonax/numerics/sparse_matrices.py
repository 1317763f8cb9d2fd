"""Matrices of one pattern, eliminated in one of two ways: by array operations of a program, or as a list by NumPy.

A program that runs for many steps is compiled as a whole, with an operation for each level of the elimination.  That
takes XLA seconds, and tens of seconds with much fill-in.  What runs a few times is therefore left as one equation of
the traced program, `eliminated_p`, in whose place NumPy works through a list (`holonax.numerics.host`).  Nor is
anything written out where nobody uses it: every root has a rule for its derivative, and few are differentiated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, final
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from holonax.numerics.sparse import EliminationPlan, plan_in_order
from holonax.numerics.sparse_order import Indices, Order, elimination_levels, multiply_adds
from holonax.numerics.tape import EliminationTape, tape_in_order


@final
@dataclass(frozen=True, eq=False)
class SparseMatrices:
    """With entries at (rows, columns), each place named once, the first unknowns being motions."""

    rows: Indices
    columns: Indices
    motions: int
    size: int

    @staticmethod
    def of(rows: Indices, columns: Indices, motions: int, size: int) -> SparseMatrices:
        """The same ones for the same pattern, as long as somebody has them: several equations of a system share it."""
        pattern = blake2b(repr((motions, size)).encode())
        for places in (rows, columns):
            pattern.update(np.ascontiguousarray(places, np.int64).tobytes())
        return _in_use.setdefault(pattern.digest(), SparseMatrices(rows, columns, motions, size))

    @cached_property
    def order(self) -> Order:
        """Of the elimination, the same in both ways."""
        return elimination_levels(self.rows, self.columns, self.motions, self.size)

    @property
    def operations(self) -> int:
        """Multiply-adds of an elimination."""
        return multiply_adds(self.order)

    @cached_property
    def plan(self) -> EliminationPlan:
        """How a compiled program eliminates them."""
        return plan_in_order(self.rows, self.columns, self.motions, self.size, self.order)

    @cached_property
    def tape(self) -> EliminationTape:
        """How NumPy does."""
        return tape_in_order(self.rows, self.columns, self.size, self.order)

    def solve(self, entries: Array, b: Array) -> Array:
        """The solution for a right side."""
        return eliminated_p.bind(entries, b, matrices=self)

    def margins(self, entries: Array) -> Array:
        """Pivots of all unknowns over the sum of the magnitudes that they are the difference of."""
        return eliminated_p.bind(entries, matrices=self)


_in_use: WeakValueDictionary[bytes, SparseMatrices] = WeakValueDictionary()

eliminated_p = Primitive("eliminated")
"""A solution, given entries and a right side, or margins, given entries alone.  Further axes of both are paths."""


def _eliminated(entries: Array, *right: Array, matrices: SparseMatrices) -> Array:
    factors = matrices.plan.factorize(entries)
    return factors.solve(*right) if right else factors.margins


def _eliminated_type(entries: Any, *_: Any, matrices: SparseMatrices) -> Any:
    return entries.update(shape=(matrices.size, *entries.shape[1:]))


def _eliminated_batch(operands: tuple, axes: tuple, *, matrices: SparseMatrices) -> tuple[Array, int]:
    """Paths come last: what is gathered are then contiguous numbers of all paths, several times as fast."""
    (paths,) = {x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None}
    last = [
        jnp.broadcast_to(x[..., None], (*x.shape, paths)) if axis is None else jnp.moveaxis(x, axis, -1)
        for x, axis in zip(operands, axes, strict=True)
    ]
    return eliminated_p.bind(*last, matrices=matrices), last[0].ndim - 1


def _eliminated_jvp(values: tuple, tangents: tuple, *, matrices: SparseMatrices) -> tuple[Array, Array]:
    tangents = tuple(map(ad.instantiate_zeros, tangents))
    return jax.jvp(partial(_eliminated, matrices=matrices), values, tangents)


def _eliminated_transpose(cotangent: Any, entries: Array, b: Any, *, matrices: SparseMatrices) -> list:
    """Of solutions, which are linear in their right sides."""
    right = jax.ShapeDtypeStruct(b.aval.shape, b.aval.dtype)
    (back,) = jax.linear_transpose(partial(_eliminated, entries, matrices=matrices), right)(cotangent)
    return [None, back]


eliminated_p.def_impl(lambda *operands, matrices: jax.jit(partial(_eliminated, matrices=matrices))(*operands))
eliminated_p.def_abstract_eval(_eliminated_type)
mlir.register_lowering(eliminated_p, mlir.lower_fun(_eliminated, multiple_results=False))
batching.primitive_batchers[eliminated_p] = _eliminated_batch
ad.primitive_jvps[eliminated_p] = _eliminated_jvp
ad.primitive_transposes[eliminated_p] = _eliminated_transpose
