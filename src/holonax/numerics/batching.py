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
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr

from holonax.numerics.linear import INLINE_UNKNOWNS
from holonax.numerics.newton import root_p

ROUTINES = {"cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "qr", "schur",
            "svd", "triangular_solve", "tridiagonal"}  # fmt: skip

NOT_SPREAD = 100_000
"""Batches of `number` matrices (n, n) up to this much work, counted as `number * n**3`, stay in one thread."""


def over_paths(function: Callable[..., Any], *arguments: Any) -> Any:
    """`jax.vmap(function)(*arguments)`; if it factorises larger batches of matrices, in pieces, one after another."""
    paths = jax.tree.leaves(arguments)[0].shape[0]
    batch = batch_size(function, *(jax.tree.map(lambda x: x[0], argument) for argument in arguments))
    if paths <= batch:
        return jax.vmap(function)(*arguments)

    # lax.map cannot take arrays without entries to pieces, such as the counts of a method without outcomes
    leaves, tree = jax.tree.flatten(arguments)
    full = [i for i, x in enumerate(leaves) if x.size]
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), arguments)
    types, out = jax.tree.flatten(jax.eval_shape(function, *one))

    def of_one(entries: list) -> list:
        whole = [jnp.zeros(x.shape[1:], x.dtype) for x in leaves]
        for i, x in zip(full, entries, strict=True):
            whole[i] = x
        return [x for x in jax.tree.leaves(function(*jax.tree.unflatten(tree, whole))) if x.size]

    results = iter(lax.map(of_one, [leaves[i] for i in full], batch_size=batch))
    return jax.tree.unflatten(
        out, [next(results) if math.prod(x.shape) else jnp.zeros((paths, *x.shape), x.dtype) for x in types]
    )


def batch_size(function: Callable[..., Any], *one: Any) -> int:
    """How many paths a function may take at a time, given the arguments (or their types) for one path."""
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), one)
    return largest_batch(jax.make_jaxpr(function)(*types).jaxpr)


def largest_batch(jaxpr: Jaxpr) -> int:
    """How many paths a program for one path may take at a time."""
    work = max(_factorisations(jaxpr), default=0)
    return max(1, NOT_SPREAD // work) if work else 2**31


def is_sparse(jaxpr: Jaxpr) -> bool:
    """Whether a program solves equations entry by entry, and none with large matrices."""
    roots = [equation for equation in equations(jaxpr) if equation.primitive is root_p]
    return any(root.params["sketch"].structure is not None for root in roots) and largest_batch(jaxpr) == 2**31


def _factorisations(jaxpr: Jaxpr) -> Iterator[int]:
    for equation in equations(jaxpr):
        if equation.primitive.name in ROUTINES:
            *batch, n, m = equation.invars[0].aval.shape
            yield math.prod(batch) * max(n, m) ** 3
        elif equation.primitive is root_p:
            motions = equation.params["motions"]
            n = max(motions, equation.invars[0].aval.size - motions)
            if n > INLINE_UNKNOWNS and equation.params["sketch"].structure is None:
                yield n**3


def equations(jaxpr: Jaxpr) -> Iterator[Any]:
    """Of a program and of the programs inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in programs_in(equation):
            yield from equations(inner)


def programs_in(equation: Any) -> list[Jaxpr]:
    """What an equation calls, repeats or chooses from; from JAX 0.11 on, an object may hold it (`custom_root`)."""
    parameters = equation.params
    hidden = getattr(parameters.get("_prim"), "params", {})
    leaves = jax.tree.leaves([*parameters.values(), *hidden.values()], is_leaf=_is_program)
    return [x.jaxpr if isinstance(x, ClosedJaxpr) else x for x in leaves if _is_program(x)]


def _is_program(x: Any) -> bool:
    return isinstance(x, Jaxpr | ClosedJaxpr)
