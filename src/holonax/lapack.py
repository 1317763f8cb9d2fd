"""`over_paths`: `vmap`, with batches of matrices kept small where LAPACK factorises them.

On a CPU, XLA spreads a large batch of factorisations over its thread pool, and waits for them *inside* a thread of the
same pool.  Two at a time, from two threads or within one program, can wait for each other for ever.  With JAX 0.10.2 on
two cores, two threads never came back from inverting 8192 matrices (3, 3), 1024 (6, 6) or 256 (12, 12), nor from LU
factors of 64 matrices (24, 24); half as many matrices each time did come back, being too little work to be spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr

from holonax.solve import INLINE_UNKNOWNS, root_p

ROUTINES = {"cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "qr", "schur",
            "svd", "triangular_solve", "tridiagonal"}  # fmt: skip

NOT_SPREAD = 100_000
"""Batches of `number` matrices (n, n) up to this much work, counted as `number * n**3`, stay in one thread."""


def over_paths(function: Callable[..., Any], *arguments: Any) -> Any:
    """`jax.vmap(function)(*arguments)`; if it factorises larger batches of matrices, in pieces, one after another."""
    paths = jax.tree.leaves(arguments)[0].shape[0]
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), arguments)
    work = max(_factorisations(jax.make_jaxpr(function)(*one).jaxpr), default=0)
    if paths * work <= NOT_SPREAD:
        return jax.vmap(function)(*arguments)
    return lax.map(lambda x: function(*x), arguments, batch_size=max(1, NOT_SPREAD // work))


def _factorisations(jaxpr: Jaxpr) -> Iterator[int]:
    for equation in _equations(jaxpr):
        if equation.primitive.name in ROUTINES:
            *batch, n, m = equation.invars[0].aval.shape
            yield math.prod(batch) * max(n, m) ** 3
        elif equation.primitive is root_p and (n := equation.invars[0].aval.size) > INLINE_UNKNOWNS:
            yield n**3


def _equations(jaxpr: Jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for parameter in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(parameter):
                yield from _equations(parameter.jaxpr if isinstance(parameter, ClosedJaxpr) else parameter)


def _is_program(x: Any) -> bool:
    return isinstance(x, Jaxpr | ClosedJaxpr)
