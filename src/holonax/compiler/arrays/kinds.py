"""Formulas for one entry: small graphs of operations, which serve for all entries of an array.

A formula is built by the same translations that make programs of single numbers (`compiler.frontend`), so it is folded
as they are, and has the same operations on every target.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any, final

import numpy as np

from holonax.compiler.frontend.derivative import derivative
from holonax.compiler.frontend.magnitude import magnitude_of
from holonax.compiler.frontend.translate import PRIMITIVES, array_of
from holonax.compiler.ir.graph import Build, Node, evaluated
from holonax.compiler.ir.operations import FLOATS, OPERATIONS, evaluate


@final
class Kind:
    """A formula: `output` as a function of the `inputs`."""

    def __init__(self, inputs: list[Node], output: Node) -> None:
        self.inputs, self.output = inputs, output

    @staticmethod
    def of(types: tuple[str, ...], function: Callable[..., Node]) -> Kind:
        """The formula that a function of a build and nodes of these types makes."""
        build = Build()
        inputs = [build.fresh("unknown", dtype) for dtype in types]
        return Kind(inputs, function(build, *inputs))

    @staticmethod
    def of_primitive(equation: Any, types: tuple[str, ...]) -> Kind:
        """That of one of JAX's primitives."""
        single = SimpleNamespace(
            params=equation.params,
            primitive=equation.primitive,
            outvars=[SimpleNamespace(aval=SimpleNamespace(shape=(), dtype=equation.outvars[0].aval.dtype))],
        )
        handler = PRIMITIVES[equation.primitive.name]
        return Kind.of(types, lambda build, *x: handler(build, single, *(array_of([node], ()) for node in x)).item())

    @property
    def dtype(self) -> str:
        """Of the output."""
        return self.output.dtype

    def at(self, build: Build, arguments: list[Node]) -> Node:
        """The formula's value, in another graph."""
        return self._evaluated(
            arguments,
            lambda node: build.number(node.value, node.dtype),
            lambda node, operands: build(node.name, *operands, dtype=node.dtype),
        )

    def copied(self, build: Build, arguments: list[Node]) -> Node:
        """The formula as it stands, in another graph: nothing is folded, whatever the arguments are."""
        return self._evaluated(
            arguments,
            lambda node: build.number(node.value, node.dtype),
            lambda node, operands: build.shared(node.name, node.dtype, tuple(operands)),
        )

    def on(self, arguments: list[np.ndarray]) -> np.ndarray:
        """The formula's value on arrays of NumPy."""
        return np.asarray(
            self._evaluated(
                arguments,
                lambda node: node.value,
                lambda node, operands: evaluate(node.name, node.dtype, *operands),
            )
        )

    def _evaluated(
        self, arguments: list[Any], constant: Callable[[Node], Any], operation: Callable[[Node, list[Any]], Any]
    ) -> Any:
        """What comes of the output, given what constants and operations come to."""
        known: dict[Node, Any] = dict(zip(self.inputs, arguments, strict=True))

        def value(node: Node) -> Any:
            return constant(node) if node.is_constant else operation(node, [known[x] for x in node.args])

        return evaluated([self.output], known, lambda node: node.args, value)[0]

    @cached_property
    def partials(self) -> dict[int, Kind]:
        """Derivatives with respect to those inputs on which the output depends, as formulas of the same inputs."""
        if self.dtype not in FLOATS:
            return {}
        (row,) = derivative(self.output.build, [self.output], self.inputs)
        return {i: Kind(self.inputs, node) for i, node in row.items()}

    def magnitude(self, depends: tuple[bool, ...]) -> Kind:
        """The magnitude of the output: a formula of the inputs, then of the magnitudes of those that are not data."""
        build = self.output.build
        sizes = [build.fresh("unknown", x.dtype) for x, unknown in zip(self.inputs, depends, strict=True) if unknown]
        unknown = [x for x, is_unknown in zip(self.inputs, depends, strict=True) if is_unknown]
        known = dict(zip(unknown, sizes, strict=True))
        return Kind([*self.inputs, *sizes], magnitude_of(build, self.output, known))

    @cached_property
    def cost(self) -> int:
        """About how many operations."""
        seen: set[Node] = set()
        stack, total = [self.output], 0
        while stack:
            node = stack.pop()
            if node not in seen and node.args:
                seen.add(node)
                total += 20 if OPERATIONS[node.name].is_costly else 1
                stack += node.args
        return total
