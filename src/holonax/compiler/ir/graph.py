"""Lane programs as graphs: every entry of every array is a node of its own.

Nodes are built once (equal nodes are the same object), and folded as they are built: zeros, ones and constants never
reach a kernel.  That is what reduces the general equations to what one would write by hand.

Folding takes numbers for real numbers, as one does by hand: $0 x = 0$ and $x - x = 0$ also where x is not finite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
from jax.extend.core import Primitive

from holonax.compiler.ir.operations import OPERATIONS, evaluate
from holonax.compiler.ir.simplify import FOLDS, is_nonnegative

K = TypeVar("K")
T = TypeVar("T")


class Untranslatable(Exception):  # noqa: N818 - an answer, not an accident
    """Says in plain words what cannot be turned into lanes."""


class TooLong(Untranslatable):
    """For what would be too long a program of single numbers."""


class Role(Enum):
    """What an input is, where the compiler cares when it tries a program out."""

    STEP_SIZE = "small and positive"
    PARAMETER = "such as a mass or a length: positive"


@final
class Node:
    """A number per lane: an operation on other nodes, a constant, an input, or the value of a loop.

    `value` is the number of a constant, the `Role` of an input that has one, (loop, i) for the i-th value that a loop
    carries ("parameter" inside of it, "result" outside), and (table, k) for the k-th entry of a table.
    """

    __slots__ = ("args", "build", "dtype", "index", "loops", "name", "nonnegative", "unknowns", "value")

    def __init__(self, build: Build, name: str, dtype: str, args: tuple[Node, ...], value: Any, index: int) -> None:
        self.build, self.name, self.dtype, self.args, self.value, self.index = build, name, dtype, args, value, index
        self.nonnegative = is_nonnegative(self)
        self.loops: Loops = frozenset().union(*(x.loops for x in args)) if args else frozenset()
        self.unknowns: frozenset[Node] = frozenset().union(*(x.unknowns for x in args)) if args else frozenset()

    @property
    def is_constant(self) -> bool:
        """Whether the value is known now."""
        return self.name == "constant"

    @property
    def depends_on_unknowns(self) -> bool:
        """Whether an unknown of an equation enters."""
        return bool(self.unknowns)

    def is_number(self, value: float) -> bool:
        """Whether this is the constant `value`."""
        return self.name == "constant" and bool(self.value == value)

    def _with(self, other: Any) -> Node:
        return other if isinstance(other, Node) else self.build.number(other, self.dtype)

    def __add__(self, other: Any) -> Node:
        return self.build("add", self, self._with(other))

    def __radd__(self, other: Any) -> Node:
        return self.build("add", self._with(other), self)

    def __sub__(self, other: Any) -> Node:
        return self.build("subtract", self, self._with(other))

    def __rsub__(self, other: Any) -> Node:
        return self.build("subtract", self._with(other), self)

    def __mul__(self, other: Any) -> Node:
        return self.build("multiply", self, self._with(other))

    def __rmul__(self, other: Any) -> Node:
        return self.build("multiply", self._with(other), self)

    def __truediv__(self, other: Any) -> Node:
        return self.build("divide", self, self._with(other))

    def __rtruediv__(self, other: Any) -> Node:
        return self.build("divide", self._with(other), self)

    def __neg__(self) -> Node:
        return self.build("negative", self)

    def __abs__(self) -> Node:
        return self.build("absolute", self)

    def __and__(self, other: Any) -> Node:
        return self.build("and", self, self._with(other))

    def __or__(self, other: Any) -> Node:
        return self.build("or", self, self._with(other))

    def __invert__(self) -> Node:
        return self.build("not", self)


Loops = frozenset["Loop | Table | Iteration"]
"""What a node depends on, and hence cannot be computed outside of."""


@final
class Loop:
    """Repeat `body` while `going` holds, lane by lane: a lane whose condition fails keeps its values.

    `parameters` stand for the carried values inside; `results` for their last values outside.  Lanes that are not
    `alive` when the loop begins take no part.  No lane goes round more than `most` times; a `rare` loop is
    seldom entered at all.
    """

    def __init__(
        self, build: Build, begin: list[Node], alive: Node, most: int | None = None, rare: bool = False
    ) -> None:
        self.begin, self.alive, self.most, self.rare = begin, alive, most, rare
        inside = frozenset({self}).union(self.alive.loops, *(x.loops for x in begin))
        self.parameters = [
            build.fresh("parameter", x.dtype, loops=inside, value=(self, i)) for i, x in enumerate(begin)
        ]
        for parameter, x in zip(self.parameters, begin, strict=True):
            parameter.unknowns = x.unknowns
        self.going: Node
        self.body: list[Node] = []
        self.results: list[Node] = []

    def close(self, build: Build, going: Node, body: list[Node]) -> list[Node]:
        """Say what is repeated; the results."""
        self.going, self.body = going, body
        outside = frozenset().union(*(x.loops for x in (going, *body, *self.begin, self.alive))) - {self}
        unknowns = frozenset().union(*(x.unknowns for x in (going, *body, *self.begin, self.alive)))
        self.results = [build.fresh("result", x.dtype, loops=outside, value=(self, i)) for i, x in enumerate(body)]
        for result in self.results:
            result.unknowns = unknowns
        return self.results


class NoiseTables(NamedTuple):
    """A target's way with noise: more than `written_out` blocks of it become a table, `per_round` at a time."""

    primitive: Primitive
    written_out: int
    per_round: int


@final
class Table:
    """Many numbers of one kind: one program computes them for index 0, `stride`, ..., and leaves them in memory.

    A round computes the `outputs`, as functions of the `index`; `entry(k)` is the k-th number of all rounds.
    """

    def __init__(self, build: Build, stride: int) -> None:
        self.stride = stride
        self.index = build.fresh("parameter", "uint32", loops=frozenset({self}))
        self.outputs: list[Node] = []

    def entry(self, build: Build, k: int) -> Node:
        """To be called when all outputs are there."""
        outside = frozenset().union(*(x.loops for x in self.outputs)) - {self}
        return build.fresh("entry", self.outputs[0].dtype, loops=outside, value=(self, k))


def combined(operation: Callable[[Node, Node], Node], numbers: list[Node]) -> Node:
    """The sum of some numbers, or the like: sixteen at a time, so that not every operation waits for the last one."""
    return reduce(operation, [reduce(operation, numbers[i : i + 16]) for i in range(0, len(numbers), 16)])


def evaluated(
    nodes: list[K], known: dict[K, T], sources: Callable[[K], Iterable[K]], value: Callable[[K], T]
) -> list[T]:
    """The `known` values of nodes, or arrays; those that are not yet known become so, after those of their `sources`.

    A recursion, but for the depth, which Python limits.
    """
    for node in nodes:
        stack = [node]
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
            elif missing := [x for x in sources(top) if x not in known]:
                stack += missing
            else:
                known[stack.pop()] = value(top)
    return [known[node] for node in nodes]


class Equations(NamedTuple):
    """What became of the equations of a step: so many unknowns were eliminated, the others are left to `solver`."""

    unknowns: int
    eliminated: int
    solver: str


@final
class Iteration:
    """Stands for the loop by which Newton's method will find some unknowns, before there is one."""


ITERATION = Iteration()


@final
class Build:
    """Makes nodes, folding and sharing them: `build(name, *arguments)`.

    In a `trial` equations are solved quickly, or say that they are not.
    """

    def __init__(self, tables: NoiseTables | None = None, most: int | None = None, trial: bool = False) -> None:
        self.tables, self.most, self.trial = tables, most, trial
        self.known: dict[tuple, Node] = {}
        self.count = 0
        self.alive = self.number(True, "bool")
        self.solved: list[Equations] = []  # for those who ask what became of the equations
        self.doubts: list[Node] = []  # of a trial, for each of its equations: whether it was not solved

    def _new(self, name: str, dtype: str, args: tuple[Node, ...] = (), value: Any = None) -> Node:
        self.count += 1
        if self.most is not None and self.count > self.most:
            raise TooLong(f"a program of more than {self.most} operations")
        return Node(self, name, dtype, args, value, self.count)

    def number(self, value: Any, dtype: str) -> Node:
        """A constant."""
        value = np.asarray(value).astype(dtype)[()]
        key = ("constant", dtype, value.tobytes())
        if key not in self.known:
            self.known[key] = self._new("constant", dtype, value=value)
        return self.known[key]

    def fresh(self, name: str, dtype: str, loops: Loops = frozenset(), value: Any = None) -> Node:
        """A node that equals no other: "input", "unknown", "parameter", "result" or "entry"."""
        node = self._new(name, dtype, value=value)
        node.loops = loops
        if name == "unknown":  # as a value that a loop will carry
            node.unknowns = frozenset({node})
            node.loops = self.alive.loops | {ITERATION}
        return node

    def __call__(self, name: str, *args: Node, dtype: str | None = None) -> Node:
        """The node of an operation, or what it folds to."""
        operation = OPERATIONS[name]
        dtype = dtype or ("bool" if operation.is_condition else args[-1].dtype)
        if all(x.is_constant for x in args):
            return self.number(evaluate(name, dtype, *(x.value for x in args)), dtype)
        folded = FOLDS[name](self, *args) if name in FOLDS else None
        if folded is not None:
            return folded
        if name in ("convert", "bitcast") and args[0].dtype == dtype:
            return args[0]
        if name == "convert" and dtype == "bool":
            return self("not_equal", args[0], self.number(0, args[0].dtype))
        if name == "convert" and args[0].name == "convert" and args[0].args[0].dtype == "bool":
            return self("convert", args[0].args[0], dtype=dtype)
        if name == "convert" and args[0].name == "select" and any(x.is_constant for x in args[0].args[1:]):
            condition, *cases = args[0].args
            return self("select", condition, *(self(name, x, dtype=dtype) for x in cases))
        if operation.is_commutative and (args[1].is_constant, -args[1].index) > (args[0].is_constant, -args[0].index):
            args = args[::-1]  # a constant first
        return self.shared(name, dtype, args)

    def shared(self, name: str, dtype: str, args: tuple[Node, ...]) -> Node:
        """The one node of an operation, as it stands."""
        key = (name, dtype, *(x.index for x in args))
        if key not in self.known:
            self.known[key] = self._new(name, dtype, args)
        return self.known[key]

    def total(self, numbers: list[Node], dtype: str = "float64") -> Node:
        """Sum of many, of none 0; those that come several times are added up together."""
        times: dict[int, list[Node]] = {}
        for x, count in Counter(numbers).items():
            times.setdefault(count, []).append(x)
        zero = self.number(0, numbers[0].dtype if numbers else dtype)
        return sum((count * combined(add, terms) for count, terms in times.items()), start=zero)

    def larger(self, x: Node, y: Node) -> Node:
        """The larger of two, where NaN may get lost; a common factor comes afterwards."""
        if x.name == y.name == "multiply":
            for common in x.args:
                if common.nonnegative and common in y.args:
                    return common * self.larger(*(z.args[z.args[0] is common] for z in (x, y)))
        return self("larger", x, y)

    def largest(self, numbers: list[Node], dtype: str) -> Node:
        """Largest absolute value, of none 0."""
        return combined(self.larger, [abs(x) for x in numbers]) if numbers else self.number(0, dtype)

    def rebuild(self, nodes: list[Node], instead: dict[Node, Node]) -> list[Node]:
        """The same expressions with some nodes replaced, folded anew."""
        done, concerned = dict(instead), frozenset(instead)

        def sources(node: Node) -> tuple[Node, ...]:
            return node.args if node.unknowns & concerned else ()

        def again(node: Node) -> Node:
            changed = bool(node.unknowns & concerned)
            return self(node.name, *(done[x] for x in node.args), dtype=node.dtype) if changed else node

        return evaluated(nodes, done, sources, again)
