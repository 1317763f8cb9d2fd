"""From the jaxpr of a one-path function to arrays: one formula for all entries, and tables of which entries enter.

What JAX does with arrays is of three kinds.  *Moves* (reshaping, slicing, indexing with known indices) are done now, on
the tables.  What is done *entry by entry* is a `Formula`.  *Reductions* are `Combined`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from holonax.compiler.arrays.evaluate import REDUCTIONS
from holonax.compiler.arrays.kinds import Kind
from holonax.compiler.arrays.pieces import identity, of_piece, opened, piecewise, repetitions
from holonax.compiler.arrays.values import (
    Array,
    Combined,
    Formula,
    Joined,
    Ref,
    Table,
    fixed,
    known_number,
    known_values,
)
from holonax.compiler.frontend.primitives import ELEMENTWISE
from holonax.compiler.frontend.translate import Unknown, called, look
from holonax.compiler.ir.graph import Node, Untranslatable

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}
"""By name: `handler(translation, equation, *refs) -> ref or list of refs`."""


def handler(*names: str) -> Callable[[Handler], Handler]:
    """Register the translation of primitives."""

    def register(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return register


MOST_COLUMNS = 16
"""Terms of a sum up to which it is looked for pieces of joined arrays."""


@final
class Translation:
    """Makes arrays; equal ones are the same object (hash-consing)."""

    def __init__(self) -> None:
        self.known: dict[tuple, Array] = {}
        self.kinds: dict[tuple, Kind] = {}
        self.alive: Ref = fixed(True)  # whether a path takes part in a step
        self.solves: list[Any] = []  # the equations that were met
        self.doubts: list[Ref] = []  # whether they were not solved
        self.of_unknowns: dict[Array, bool] = {}  # whether the unknowns of equations enter

    # Arrays.

    def formula(self, kind: Kind, *arguments: Ref) -> Ref:
        """The formula of the entries of some arrays, all of one shape but for axes along which they are repeated."""
        shape = np.broadcast_shapes(*(x.table.shape for x in arguments))
        values = [known_values(x) for x in arguments]
        if all(x is not None for x in values):
            return fixed(np.broadcast_to(kind.on(values), shape).astype(kind.dtype))  # type: ignore[arg-type]
        numbers = [known_number(x) for x in arguments]
        kind = self._specialised(kind, tuple(numbers))
        if kind.output.is_constant:
            return fixed(np.full(shape, kind.output.value, kind.dtype))
        left = [x.to(shape) for x, number in zip(arguments, numbers, strict=True) if number is None]
        if kind.output in kind.inputs:
            return left[kind.inputs.index(kind.output)]
        if prod(shape) == 0 or _is_nothing(kind, left):
            return fixed(np.zeros(shape, kind.dtype))
        if all((x.table == x.table.flat[0]).all() for x in left):  # one number, repeated
            first = [Ref(x.array, x.table.reshape(-1)[:1]) for x in left]
            return Ref(self._shared(kind, first, 1), np.zeros(shape, np.int64))
        flat = [x.flat for x in left]
        if (times := repetitions(flat)) > 1:  # the same entries again, as of stages that are equal
            size = prod(shape) // times
            once = self.formula(kind, *(x[:size] for x in flat))
            return Ref(once.array, np.tile(once.table, times).reshape(shape))
        if (parted := piecewise([x for x in flat if isinstance(x.array, Joined)])) is not None:
            parts = [self.formula(kind, *(of_piece(x, where) for x in flat)) for where in parted]
            return self.joined(parts, np.argsort(np.concatenate(parted)).reshape(shape))
        array = self._shared(kind, flat, prod(shape))
        return Ref(array, np.arange(array.size).reshape(shape))

    def _specialised(self, kind: Kind, numbers: tuple) -> Kind:
        """The formula with the numbers that are known put in."""
        if all(x is None for x in numbers):
            return kind
        key = (kind, *(None if x is None else (np.asarray(x).tobytes(), str(np.asarray(x).dtype)) for x in numbers))
        if key not in self.kinds:
            types = tuple(x.dtype for x, number in zip(kind.inputs, numbers, strict=True) if number is None)

            def function(build: Any, *nodes: Node) -> Node:
                rest = iter(nodes)
                both = zip(kind.inputs, numbers, strict=True)
                return kind.at(build, [next(rest) if x is None else build.number(x, i.dtype) for i, x in both])

            self.kinds[key] = Kind.of(types, function)
        return self.kinds[key]

    def _shared(self, kind: Kind, arguments: list[Ref], size: int) -> Array:
        key = (kind, size, *map(identity, arguments))
        if key not in self.known:
            self.known[key] = Formula(kind, tuple(arguments), size)
        return self.known[key]

    def operation(self, name: str, *arguments: Ref) -> Ref:
        """An operation of the compiler's table, entry by entry."""
        types = tuple(x.array.dtype for x in arguments)
        key = (name, types)
        if key not in self.kinds:
            self.kinds[key] = Kind.of(types, lambda build, *x: build(name, *x))
        return self.formula(self.kinds[key], *arguments)

    def converted(self, x: Ref, dtype: str) -> Ref:
        """As numbers of another type."""
        key = ("convert", x.array.dtype, dtype)
        if key not in self.kinds:
            self.kinds[key] = Kind.of((x.array.dtype,), lambda build, node: build("convert", node, dtype=dtype))
        return self.formula(self.kinds[key], x)

    def combined(self, name: str, terms: Ref) -> Ref:
        """Rows combined, the last axis of the table being theirs; none must be empty."""
        *shape, width = terms.table.shape
        rows = np.ascontiguousarray(terms.table.reshape(-1, width))
        if width == 1 or len(rows) == 0:
            return Ref(terms.array, rows.reshape(shape))
        if (values := known_values(terms)) is not None:
            return fixed(REDUCTIONS[name].reduce(values, axis=-1))
        if isinstance(terms.array, Joined) and width <= MOST_COLUMNS and (result := self._by_pieces(name, terms, rows)):
            return Ref(result.array, result.table.reshape(shape))
        key = (name, terms.array, rows.tobytes(), width)
        if key not in self.known:
            self.known[key] = Combined(name, Ref(terms.array, rows))
        return Ref(self.known[key], np.arange(len(rows)).reshape(shape))

    def _by_pieces(self, name: str, terms: Ref, rows: Table) -> Ref | None:
        """Rows combined, piece by piece, where all terms of a row belong to one part of a joined array."""
        by_columns = [Ref(terms.array, column) for column in rows.T]
        if (parted := piecewise(by_columns)) is None:
            return None
        parts = []
        for where in parted:
            columns = [of_piece(column, where) for column in by_columns]
            if any(column.array is not columns[0].array for column in columns):
                return None
            parts.append(self.combined(name, Ref(columns[0].array, np.stack([x.table for x in columns], 1))))
        return self.joined(parts, np.argsort(np.concatenate(parted)))

    def joined(self, parts: list[Ref], table: Table) -> Ref:
        """Entries of several arrays, numbered through from the first part to the last, in the shape of the table."""
        parts, table = opened(parts, table)
        ends = np.cumsum([0, *(part.table.size for part in parts)])
        flat = table.reshape(-1)
        owner = np.searchsorted(ends, flat, side="right") - 1
        places = [np.flatnonzero(owner == i) for i in range(len(parts))]
        used = [
            (place, part.flat[flat[place] - begin])
            for place, part, begin in zip(places, parts, ends, strict=False)
            if place.size
        ]
        if len({id(part.array) for _, part in used}) <= 1:  # all of one array
            result = np.zeros(flat.size, np.int64)
            for place, part in used:
                result[place] = part.table
            return Ref(used[0][1].array if used else parts[0].array, result.reshape(table.shape))
        values = [known_values(part) for _, part in used]
        if all(x is not None for x in values):
            whole = np.zeros(flat.size, used[0][1].array.dtype)
            for (place, _), value in zip(used, values, strict=True):
                whole[place] = value
            return fixed(whole.reshape(table.shape))
        key = ("joined", *((identity(part), place.tobytes()) for place, part in used))
        if key not in self.known:
            self.known[key] = Joined(tuple(part for _, part in used), tuple(place for place, _ in used), flat.size)
        return Ref(self.known[key], np.arange(flat.size).reshape(table.shape))

    def concatenated(self, parts: list[Ref]) -> Ref:
        """Vectors one after another."""
        return self.joined(parts, np.arange(sum(part.table.size for part in parts)))

    # Programs.

    def closed(self, closed: ClosedJaxpr, arguments: list) -> list:
        """Evaluate a jaxpr that brings its constants along."""
        return self.jaxpr(closed.jaxpr, [fixed(x) for x in closed.consts], arguments)

    def jaxpr(self, jaxpr: Jaxpr, constants: list, arguments: list) -> list:
        """Evaluate a jaxpr on arrays."""
        values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

        def read(atom: Any) -> Any:
            return (
                fixed(np.asarray(atom.val, getattr(atom.aval, "dtype", None)))
                if isinstance(atom, Literal)
                else values[atom]
            )

        for equation in jaxpr.eqns:
            outputs = self._equation(equation, [read(x) for x in equation.invars])
            values.update(zip(equation.outvars, outputs, strict=True))
        return [read(x) for x in jaxpr.outvars]

    def _equation(self, equation: Any, inputs: list) -> list:
        name = equation.primitive.name
        if name in HANDLERS:
            unknown = next((x for x in inputs if isinstance(x, Unknown)), None)
            if unknown is not None and name not in PASSES_UNKNOWNS_ON:
                return [unknown] * len(equation.outvars)
            try:
                outputs = HANDLERS[name](self, equation, *inputs)
            except Untranslatable as reason:
                return [Unknown(str(reason))] * len(equation.outvars)
            return outputs if isinstance(outputs, list) else [outputs]
        if (inner := called(equation)) is not None:
            return self.closed(inner, inputs) if isinstance(inner, ClosedJaxpr) else self.jaxpr(inner, [], inputs)
        return [Unknown(f"the primitive {name!r}")] * len(equation.outvars)


PASSES_UNKNOWNS_ON = {"custom_jvp_call", "custom_vjp_call", "call_hi_primitive"}
"""What passes unknown values on to those who may not need them."""


def _is_nothing(kind: Kind, arguments: list[Ref]) -> bool:
    """Whether this is x - x."""
    if kind.output.name != "subtract" or list(kind.output.args) != kind.inputs:
        return False
    x, y = arguments
    return x.array is y.array and np.array_equal(x.table, y.table)


def _entry_by_entry(translation: Translation, equation: Any, *inputs: Ref) -> Ref:
    types = tuple(x.array.dtype for x in inputs)
    key = (equation.primitive.name, str(equation.params), types)
    if key not in translation.kinds:
        translation.kinds[key] = Kind.of_primitive(equation, types)
    shape = equation.outvars[0].aval.shape
    return translation.formula(translation.kinds[key], *(x.to(shape) for x in inputs))


for _name in ELEMENTWISE:
    handler(_name)(_entry_by_entry)


@handler("copy", "copy_p", "stop_gradient", "reduce_precision")
def _same(translation: Translation, equation: Any, x: Ref) -> Ref:
    return x


@handler("optimization_barrier")
def _barrier(translation: Translation, equation: Any, *inputs: Ref) -> list:
    return list(inputs)


# Calls and control flow.


@handler("custom_jvp_call", "custom_vjp_call")
def _custom(translation: Translation, equation: Any, *inputs: Any) -> list:
    return translation.closed(equation.params["call_jaxpr"], list(inputs))


@handler("call_hi_primitive")
def _expanded(translation: Translation, equation: Any, *inputs: Any) -> list:
    """What newer versions of JAX write for functions such as `custom_root`: it knows what it stands for."""
    function = equation.params["_prim"]

    def expanded(*flat: Any) -> list:
        return jax.tree.leaves(function.expand(*jax.tree.unflatten(function.in_tree, flat)))

    types = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in equation.invars]
    return translation.closed(jax.make_jaxpr(expanded)(*types), list(inputs))


@handler("cond")
def _cond(translation: Translation, equation: Any, which: Ref, *inputs: Any) -> list:
    """All branches are computed, and one is chosen."""
    branches = equation.params["branches"]
    if (number := known_number(which)) is not None:
        return translation.closed(branches[int(np.clip(number, 0, len(branches) - 1))], list(inputs))
    results = [look(translation.closed(branch, list(inputs))) for branch in branches]
    chosen = results[-1]
    for i in range(len(branches) - 2, -1, -1):
        here = translation.operation("less_equal", which, fixed(np.asarray(i, which.array.dtype)))
        chosen = [translation.operation("select", here, x, y) for x, y in zip(results[i], chosen, strict=True)]
    return chosen
