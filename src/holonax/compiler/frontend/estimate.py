"""How large a program would become, told from the traced step before any of it is translated.

Every entry of every array becomes an operation, most of them twice: once where Newton's method begins and once in its
loop.  Equations whose rows for the motions are not linear are eliminated as a whole, which grows with the cube of the
unknowns.  Zeros and constants fold away later, and how many there are is not known yet: programs have been seen to have
0.3 to 3 times as many operations as estimated.  So only what is hopeless is refused beforehand; the rest is given up
when it has become too large.
"""

from __future__ import annotations

import math
from typing import Any

import jax
from jax.extend.core import Jaxpr

from holonax.numerics.batching import equations, programs_in
from holonax.numerics.linear import is_linear
from holonax.numerics.newton import root_p
from holonax.numerics.roundoff import MOVES, MOVES_BY_INDEX

SECONDS, SECONDS_OF_PIVOTS = 4e-5, 2e-5
"""For an operation, from Python to machine code, and for the square of the number of unknowns, on one busy core."""

HOPELESS = 4
"""Estimates above so many times the limit are believed."""

MOST_UNKNOWNS = 600
"""Of one system of equations: the seconds that its pivots take are believed above."""

_WITHOUT_OPERATIONS = MOVES | MOVES_BY_INDEX | {"concatenate", "iota", "pad", "split", "stack", "unstack"}
"""Primitives that arrange numbers and compute none."""


def estimated_operations(jaxpr: Jaxpr) -> int:
    """Of a traced program."""
    return 2 * sum(map(_of_one, jaxpr.eqns))


def expected_seconds(operations: int, unknowns: int) -> float:
    """Until a program is compiled: fitted to chains of 40 to 100 beads, grows with their length for every method."""
    return SECONDS * operations + SECONDS_OF_PIVOTS * unknowns**2


def most_unknowns(jaxpr: Jaxpr) -> int:
    """Of the equations that a program solves at a time."""
    roots = (x for x in equations(jaxpr) if x.primitive is root_p)
    return max((equation.invars[0].aval.size for equation in roots), default=0)


def _of_one(equation: Any) -> int:
    name, parameters = equation.primitive.name, equation.params
    if equation.primitive is root_p:
        return _of_root(equation)
    if inner := programs_in(equation):
        repeated = parameters["length"] if name == "scan" else 1
        return repeated * sum(_of_one(equation) for jaxpr in inner for equation in jaxpr.eqns)
    if name in _WITHOUT_OPERATIONS:
        return 0
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        shape = equation.invars[0].aval.shape
        return 2 * math.prod(shape[d] for d in contracted) * math.prod(equation.outvars[0].aval.shape)
    arrays = (*equation.invars, *equation.outvars) if name.startswith("reduce") else equation.outvars
    return max((math.prod(x.aval.shape) for x in arrays), default=0)


def _of_root(equation: Any) -> int:
    rows_of_all = equation.params["equations"]
    x, *constants = (jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars)
    once = sum(map(_of_one, rows_of_all.eqns))

    def rows(*constants: Any) -> bool:
        return is_linear(lambda x: jax.core.eval_jaxpr(rows_of_all, constants, x)[0], x)  # type: ignore[arg-type]

    linear: list[bool] = []
    jax.eval_shape(lambda *constants: linear.append(rows(*constants)), *constants)
    return once if linear[0] else once + x.shape[0] ** 3 // 8
