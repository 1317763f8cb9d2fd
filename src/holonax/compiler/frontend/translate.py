"""From the jaxpr of a one-path function to lanes: arrays of nodes instead of arrays of numbers.

An array is a NumPy array of objects, one node per entry.  What only moves entries (reshaping, slicing, indexing with
known indices) is done now, once, and leaves no trace in the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from holonax.compiler.ir.graph import Build, Loop, Node, Untranslatable

MOST_ITERATIONS = 4096  # of a loop that is written out


@final
class Unknown:
    """The value of a primitive that has no translation: an error only for those who look at it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


Handler = Callable[..., Any]
PRIMITIVES: dict[str, Handler] = {}
"""By name: `handler(build, equation, *arrays) -> array or list of arrays`."""


def primitive(*names: str) -> Callable[[Handler], Handler]:
    """Register the translation of primitives."""

    def register(handler: Handler) -> Handler:
        PRIMITIVES.update(dict.fromkeys(names, handler))
        return handler

    return register


def numbers(build: Build, values: Any) -> np.ndarray:
    """Constants as an array of nodes."""
    values = np.asarray(values)
    result = np.empty(values.shape, object)
    for i in np.ndindex(values.shape):
        result[i] = build.number(values[i], values.dtype.name)
    return result


def array_of(nodes: list[Node], shape: tuple[int, ...]) -> np.ndarray:
    """A list of nodes as an array."""
    result = np.empty(len(nodes), object)
    result[:] = nodes
    return result.reshape(shape)


def known(array: np.ndarray, what: str) -> np.ndarray:
    """The values of an array that must be constant."""
    if not all(x.is_constant for x in array.flat):
        raise Untranslatable(f"{what} that depends on the state")
    return np.array([x.value for x in array.flat]).reshape(array.shape)


def translate_jaxpr(build: Build, jaxpr: Jaxpr, constants: list, arguments: list) -> list:
    """Evaluate a jaxpr on arrays of nodes."""
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return numbers(build, atom.val) if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inputs = [read(x) for x in equation.invars]
        handler = PRIMITIVES.get(name)
        unknown = next((x for x in inputs if isinstance(x, Unknown)), None)
        inner = called(equation) if handler is None else None
        if unknown is not None and inner is None and name not in LENIENT:
            outputs: Any = [unknown] * len(equation.outvars)
        elif inner is not None:
            outputs = _evaluate(build, inner, inputs)
        elif handler is None:
            outputs = [Unknown(f"the primitive {name!r}")] * len(equation.outvars)
        else:
            outputs = handler(build, equation, *inputs)
            outputs = outputs if isinstance(outputs, list) else [outputs]
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(x) for x in jaxpr.outvars]


def translate_closed(build: Build, closed: ClosedJaxpr, arguments: list) -> list:
    """Evaluate a jaxpr that brings its constants along."""
    return translate_jaxpr(build, closed.jaxpr, [numbers(build, x) for x in closed.consts], arguments)


def look(arrays: list) -> list:
    """The arrays, all of which must be known."""
    for x in arrays:
        if isinstance(x, Unknown):
            raise Untranslatable(x.reason)
    return arrays


# Calls and control flow.

LENIENT = {"call_hi_primitive", "custom_jvp_call", "custom_vjp_call", "custom_linear_solve"}
"""What passes unknown values on to those who may not need them."""


def called(equation: Any) -> Any:
    """The program that an equation merely calls, whatever it is called by: the only one it has, of the same type."""
    programs = [x for x in equation.params.values() if isinstance(x, (Jaxpr, ClosedJaxpr))]
    if len(programs) != 1:
        return None
    jaxpr = programs[0].jaxpr if isinstance(programs[0], ClosedJaxpr) else programs[0]
    types = [[x.aval.strip_weak_type() for x in side] for side in (equation.invars, equation.outvars)]
    own = [[x.aval.strip_weak_type() for x in side] for side in (jaxpr.invars, jaxpr.outvars)]
    complete = isinstance(programs[0], ClosedJaxpr) or not jaxpr.constvars
    return programs[0] if types == own and complete else None


def _evaluate(build: Build, inner: Any, inputs: list) -> list:
    return (
        translate_closed(build, inner, inputs)
        if isinstance(inner, ClosedJaxpr)
        else translate_jaxpr(build, inner, [], inputs)
    )


@primitive("custom_jvp_call", "custom_vjp_call")
def _custom(build: Build, equation: Any, *inputs: Any) -> list:
    return translate_closed(build, equation.params["call_jaxpr"], list(inputs))


@primitive("call_hi_primitive")
def _expanded(build: Build, equation: Any, *inputs: Any) -> list:
    """What newer versions of JAX write for functions such as `custom_root`: it knows what it stands for."""
    function = equation.params["_prim"]

    def expanded(*flat: Any) -> list:
        return jax.tree.leaves(function.expand(*jax.tree.unflatten(function.in_tree, flat)))

    types = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in equation.invars]
    return translate_closed(build, jax.make_jaxpr(expanded)(*types), list(inputs))


@primitive("cond")
def _cond(build: Build, equation: Any, index: np.ndarray, *inputs: Any) -> list:
    """Two branches are the second and, where some lane takes it, the first; more of them are all computed."""
    which, branches = index.item(), equation.params["branches"]
    if which.is_constant:
        return translate_closed(build, branches[int(np.clip(which.value, 0, len(branches) - 1))], list(inputs))
    shapes = [x.aval.shape for x in equation.outvars]
    results = [_flat(look(translate_closed(build, branch, list(inputs)))) for branch in branches]
    if len(branches) == 2 and not any(x.depends_on_unknowns for x in (which, *results[0], *results[1])):
        condition = build("convert", which, dtype="bool")
        branch = conditional(build, condition, branches[1], look(list(inputs)), results[0])
        return _unflatten(branch.results[: len(results[0])], shapes)
    chosen = results[-1]
    for i in range(len(branches) - 2, -1, -1):
        here = build("less_equal", which, build.number(i, which.dtype))
        chosen = [build("select", here, x, y) for x, y in zip(results[i], chosen, strict=True)]
    return _unflatten(chosen, shapes)


def conditional(
    build: Build, condition: Node, branch: ClosedJaxpr, inputs: list[np.ndarray], otherwise: list[Node]
) -> Loop:
    """A loop that ends after one round: its first results are `otherwise`, or of the branch in lanes that take it.

    The branch's inputs are carried, unchanged, so that what it computes of them is computed in the loop.
    """
    true, carried = build.number(True, "bool"), _flat(inputs)
    loop = Loop(build, [*otherwise, condition, *carried], alive=true, rare=True)
    inside = loop.parameters[len(otherwise) + 1 :]
    then = _flat(look(translate_closed(build, branch, _unflatten(inside, [x.shape for x in inputs]))))
    loop.close(build, loop.parameters[len(otherwise)], [*then, ~true, *inside])
    return loop


def _flat(arrays: list[np.ndarray]) -> list[Node]:
    return [x for array in arrays for x in array.flat]


def _unflatten(nodes: list[Node], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Nodes as arrays of these shapes."""
    places = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    pieces = np.split(array_of(nodes, (len(nodes),)), places)
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def sizes_of_scan(parameters: dict[str, Any]) -> tuple[int, int]:
    """Numbers of constants and of carried arrays, which JAX tells in another way from 0.11 on."""
    if "num_consts" in parameters:
        return parameters["num_consts"], parameters["num_carry"]
    consts, carried, _ = parameters["ft_in"].unpack()
    return len(consts), len(carried)


@primitive("scan")
def _scan(build: Build, equation: Any, *inputs: Any) -> list:
    parameters = equation.params
    consts, carried = sizes_of_scan(parameters)
    fixed, carry, xs = inputs[:consts], list(inputs[consts : consts + carried]), inputs[consts + carried :]
    length = parameters["length"]
    if length > MOST_ITERATIONS:
        raise Untranslatable(f"a loop of {length} iterations (slices and index arrays need none)")
    order = range(length - 1, -1, -1) if parameters["reverse"] else range(length)
    rows: dict[int, list] = {}
    for i in order:
        results = look(translate_closed(build, parameters["jaxpr"], [*fixed, *carry, *(np.asarray(x[i]) for x in xs)]))
        carry, rows[i] = results[:carried], results[carried:]
    shapes = [x.aval.shape for x in equation.outvars[carried:]]
    stacked = [
        np.stack([rows[i][j] for i in range(length)]) if length else np.empty(shape, object)
        for j, shape in enumerate(shapes)
    ]
    return [*carry, *stacked]


@primitive("while")
def _while(build: Build, equation: Any, *inputs: Any) -> list:
    parameters = equation.params
    split = parameters["cond_nconsts"], parameters["cond_nconsts"] + parameters["body_nconsts"]
    for_condition, for_body, carry = inputs[: split[0]], inputs[split[0] : split[1]], list(inputs[split[1] :])

    def condition(values: list) -> Node:
        return look(translate_closed(build, parameters["cond_jaxpr"], [*for_condition, *values]))[0].item()

    def body(values: list) -> list:
        return look(translate_closed(build, parameters["body_jaxpr"], [*for_body, *values]))

    for _ in range(MOST_ITERATIONS):
        going = condition(carry)
        if not going.is_constant:
            return _lane_wise(build, condition, body, carry)
        if not going.value:
            return carry
        carry = body(carry)
    raise Untranslatable(f"a loop of more than {MOST_ITERATIONS} iterations")


def _lane_wise(build: Build, condition: Callable, body: Callable, carry: list) -> list:
    """A loop whose number of iterations differs from lane to lane."""
    shapes = [x.shape for x in carry]
    loop = Loop(build, _flat(carry), build.alive)
    values = _unflatten(loop.parameters, shapes)
    return _unflatten(loop.close(build, condition(values), _flat(body(values))), shapes)
