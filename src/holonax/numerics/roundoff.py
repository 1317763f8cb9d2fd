r"""What round-off allows: the magnitudes that were added and cancelled in the value of a function.

A computed value $y$ is uncertain by a small multiple of $\epsilon\,m(y)$, where the *magnitude* $m$ follows the
computation as a running error analysis does (Wilkinson; Higham, *Accuracy and Stability of Numerical Algorithms*, 3.3):

$$ m(x) = |x|, \qquad m(a \pm b) = m(a) + m(b), \qquad m(ab) = |a|\,m(b) + m(a)\,|b|, \qquad
   m(f(a)) = |f'(a)|\,m(a) + |f(a)|. $$

A residual below that is zero as far as anyone can tell, whatever the units, the step size and the condition of the
equations.  `holonax.compiler.frontend.magnitude` has the same rules for kernels.

A motion $V$ is itself computed: from its row of the equations, $A V = p + B\lambda + \dots$, which is solved for it.
Where forces and reactions balance, what is left of $V$ is their round-off, and $|V|$ says nothing.  Its magnitude is
therefore that of its row over the mass $A_{ii}$, in which $|V|$ is contained.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

SOLVED = 8.0
"""Multiples of $\\epsilon\\,m$ up to which a residual counts as zero: a sum of many terms rounds many times."""

MOVES = {"reshape", "squeeze", "expand_dims", "transpose", "rev", "slice", "copy", "convert_element_type"}
"""Primitives of one argument that only move its entries: their magnitudes move with them."""

MOVES_BY_INDEX = {"broadcast_in_dim", "dynamic_slice", "gather"}
"""The same with indices or sizes as further arguments."""

_SAME_FOR_MAGNITUDES = MOVES | {
    "reduce_sum", "cumsum", "copy_p", "reduce_precision", "stop_gradient", "optimization_barrier",
}  # fmt: skip
"""Of one argument: what happens to values happens to their magnitudes."""

_AS_A_WHOLE = {"custom_linear_solve", "cond", "while"}
"""What must not see one of its arguments vary alone: a matrix in several forms, or programs that hold one."""


def with_magnitudes(jaxpr: Jaxpr, constants: Any, x: Array, motions: Array) -> tuple[list[Array], list[Array]]:
    """Values and magnitudes of a function of x, whose first entries are motions with at least these magnitudes."""
    size, moving = jnp.abs(x), motions.size
    if moving:
        own = jnp.maximum(size[:moving], motions)
        size = size.at[:moving].set(own + beside_others(x.dtype) * jnp.max(own))
    return _run(jaxpr, [*map(_fresh, constants)], [(x, size)])


def of_motions(rows: Array, masses: Array) -> Array:
    """The magnitudes of motions, by those of their rows; without a mass, or outside of a domain, nothing is known."""
    sizes = rows / jnp.abs(masses)
    return jnp.where(jnp.isfinite(sizes), sizes, 0.0)


def beside_others(dtype: Any) -> float:
    """The part of the largest motion that counts towards the magnitude of every other one.

    A coordinate that stays at zero while others move, as z does where $z e^x = 0$, is all magnitude: nothing cancels in
    its constraint, which would have to vanish exactly.  Momenta along it do cancel, and leave the round-off of their
    round-off in its motion.
    """
    return float(jnp.finfo(dtype).eps) ** 0.75


def _run(jaxpr: Jaxpr, constants: list, arguments: list) -> tuple[list, list]:
    """The same with arguments that have magnitudes already."""
    known: dict[Any, tuple[Any, Any]] = dict(
        zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True)
    )

    def read(atom: Any) -> tuple[Any, Any]:
        return _fresh(atom.val) if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        values, sizes = zip(*map(read, equation.invars), strict=True) if equation.invars else ((), ())
        known.update(zip(equation.outvars, _rule(equation, values, sizes), strict=True))
    results = [read(x) for x in jaxpr.outvars]
    return [value for value, _ in results], [size for _, size in results]


def magnitude(function: Any, x: Array, size: Array | None = None) -> Array:
    """Of a function's value at x, whose entries have magnitudes of their own if so told."""
    traced = jax.make_jaxpr(function)(x)
    size = jnp.abs(x) if size is None else jnp.broadcast_to(size, x.shape)
    return _run(traced.jaxpr, [*map(_fresh, traced.consts)], [(x, size)])[1][0]


def _fresh(value: Any) -> tuple[Any, Any]:
    return value, jnp.abs(value) if _is_float(value) else jnp.zeros(jnp.shape(value))


def _is_float(value: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(value), jnp.floating))


def _rule(equation: Any, values: tuple, sizes: tuple) -> list[tuple[Any, Any]]:
    name, parameters = equation.primitive.name, equation.params
    if (inner := program_called(equation)) is not None:
        jaxpr, constants = (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, ())
        return list(zip(*_run(jaxpr, [*map(_fresh, constants)], [*zip(values, sizes, strict=True)]), strict=True))
    if name == "scan":
        return _scan(parameters, values, sizes)
    results = equation.primitive.bind(*values, **parameters)
    outputs = list(results) if equation.primitive.multiple_results else [results]
    if not any(map(_is_float, outputs)):
        return [_fresh(x) for x in outputs]

    def same(*operands: Any) -> Any:
        return equation.primitive.bind(*operands, **parameters)

    if name in _SAME_FOR_MAGNITUDES and len(values) == 1 and _is_float(values[0]) and len(outputs) == 1:
        return [(outputs[0], same(sizes[0]))]
    if name in MOVES_BY_INDEX and _is_float(values[0]):
        return [(outputs[0], jnp.abs(same(sizes[0], *values[1:])))]
    if name in ("add", "sub", "add_any"):
        return [(outputs[0], sizes[0] + sizes[1])]
    if name == "neg":
        return [(outputs[0], sizes[0])]
    if name == "concatenate":
        return [(outputs[0], same(*sizes))]
    if name in ("mul", "dot_general"):
        return [(outputs[0], same(jnp.abs(values[0]), sizes[1]) + same(sizes[0], jnp.abs(values[1])))]
    total = [jnp.abs(x) if _is_float(x) else jnp.zeros(jnp.shape(x)) for x in outputs]
    floats = [i for i, x in enumerate(values) if _is_float(x)]
    for together in [floats] if name in _AS_A_WHOLE else [[i] for i in floats]:
        for i, change in enumerate(_change(same, values, sizes, together)):
            total[i] = total[i] + jnp.abs(change) if _is_float(outputs[i]) else total[i]
    return list(zip(outputs, total, strict=True))


def _scan(parameters: dict[str, Any], values: tuple, sizes: tuple) -> list[tuple[Any, Any]]:
    """Magnitudes go through the loop beside the values: a sum in a loop cancels as any other does."""
    program, fixed, carried = parameters["jaxpr"], parameters["num_consts"], parameters["num_carry"]
    every = list(zip(values, sizes, strict=True))
    begin, along = every[fixed : fixed + carried], every[fixed + carried :]

    def once(carry: list, items: list) -> tuple[list, list]:
        arguments = [*every[:fixed], *carry, *items]
        results = list(zip(*_run(program.jaxpr, [*map(_fresh, program.consts)], arguments), strict=True))
        ahead = [(x, size.astype(old.dtype)) for (x, size), (_, old) in zip(results, carry, strict=False)]
        return ahead, results[carried:]

    options = {name: parameters[name] for name in ("length", "reverse", "unroll")}
    end, collected = lax.scan(once, begin, along, **options)
    return [*end, *collected]


def _change(function: Any, values: tuple, sizes: tuple, places: list[int]) -> tuple:
    """What an operation makes of changes of some of its arguments by their magnitudes, to first order."""

    def varied(*x: Any) -> tuple:
        arguments = list(values)
        for i, value in zip(places, x, strict=True):
            arguments[i] = value
        result = function(*arguments)
        return tuple(result) if isinstance(result, (list, tuple)) else (result,)

    tangents = tuple(sizes[i].astype(jnp.result_type(values[i])) for i in places)
    return jax.jvp(varied, tuple(values[i] for i in places), tangents)[1]


def program_called(equation: Any) -> Any:
    """The program that an equation merely calls."""
    name = equation.primitive.name
    if name in ("custom_jvp_call", "custom_vjp_call"):
        return equation.params.get("call_jaxpr")
    return equation.params.get("jaxpr") if name in ("jit", "pjit", "closed_call", "remat", "checkpoint") else None
