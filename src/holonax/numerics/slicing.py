"""Backward and forward slices of a traced program: what its results need, and what depends on one argument.

The equations of a step hold much that has no part in their Jacobian: forces at a place that is known, energies of which
only derivatives are used.  With a long list of neighbours that is most of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import Array
from jax.extend.core import Jaxpr, Literal


def slice_of(jaxpr: Jaxpr, constants: Sequence[Any]) -> tuple[Callable[..., list[Array]], list[Any]]:
    """The part of a program of one argument that depends on it: `function(x, *given)`, and the types of what is given.

    Constants whose values are not known yet are None.  What is computed from these, not from the argument, is given.
    """
    known = dict(zip(jaxpr.constvars, constants, strict=True))
    given = {v for v, value in known.items() if value is None}
    unknown = set(jaxpr.invars)
    useful = []
    for equation in jaxpr.eqns:
        variables = [x for x in equation.invars if not isinstance(x, Literal)]
        if any(x in unknown for x in variables):
            unknown.update(equation.outvars)
        elif any(x in given for x in variables):
            given.update(equation.outvars)
            continue
        useful.append(equation)
    needed = {x for x in jaxpr.outvars if not isinstance(x, Literal)}
    kept = []
    for equation in reversed(useful):
        if not needed.isdisjoint(equation.outvars):
            needed.update(x for x in equation.invars if not isinstance(x, Literal))
            kept.append(equation)
    arguments = [x for x in dict.fromkeys([*jaxpr.constvars, *_results(jaxpr)]) if x in given and x in needed]
    values = {v: value for v, value in known.items() if value is not None}
    sliced = jaxpr.replace(constvars=[*values, *arguments], eqns=kept[::-1])

    def function(x: Array, *others: Array) -> list[Array]:
        return jax.core.eval_jaxpr(sliced, [*values.values(), *others], x)

    return function, [x.aval for x in arguments]


def _results(jaxpr: Jaxpr) -> list[Any]:
    return [x for equation in jaxpr.eqns for x in equation.outvars]
