"""Values of a lane program as JAX arrays, one number per path.

XLA fuses operations into those that use them and repeats them for each, so the numbers of many operations would be
computed again and again.  On a CPU, therefore, what is worth storing is the result of a function that XLA must not
inline.  And there, as in LLVM's kernels, 32-bit unsigned numbers live in 64-bit lanes whose upper halves are arbitrary,
since the products of the random generator have 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental.xla_metadata import set_xla_metadata

from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.operations import FLOATS, OPERATIONS
from holonax.compiler.ir.program import Block, Items, Program, Rounds, visit
from holonax.mechanics.noise import has_float64

TILE = 64
"""Paths that a CPU takes through their steps together: their numbers stay in the nearest cache."""

MOST_REPEATED = 24
"""More operations than this are worth storing for several users."""

_COST_OF_NUMBER, _MOST, _TOGETHER = 80, 180_000 // TILE, 4
"""XLA leaves an array to two threads where it estimates twice 100 000 cycles: one for each operation, ten for each byte
that is read or written.  The function of a tile has no threads, so nothing in it may cost that much: what does is cut
by storing a part of it, and tables are computed four rounds at a time."""

_PAIRS = {"uint64": jnp.complex128, "uint32": jnp.complex64}
"""Two words as the bits of one complex number, since XLA computes one result at a time."""

_LOW_WORD = np.uint64(0xFFFFFFFF)


def apart(function: Callable[[], Any], **hints: str) -> Any:
    """The results of a function that XLA compiles by itself; `hints` for how."""
    return set_xla_metadata(jax.jit(function)(), inlineable="false", **hints)


class Evaluation:
    """What is known of a program's values, on a CPU or on an accelerator."""

    def __init__(self, program: Program, values: dict[Node, Array], on_cpu: bool) -> None:
        self.program, self.values, self.on_cpu = program, values, on_cpu
        self.wide = on_cpu and has_float64()

    def also(self, values: dict[Node, Array]) -> Evaluation:
        """The same, and more."""
        return Evaluation(self.program, self.values | values, self.on_cpu)

    def kind(self, dtype: str) -> np.dtype:
        """In which numbers those of a type live."""
        return np.dtype("uint64" if dtype == "uint32" and self.wide else dtype)

    def __getitem__(self, node: Node) -> Array:
        node = self.program.final(node)
        return jnp.asarray(node.value, self.kind(node.dtype)) if node.is_constant else self.values[node]

    def masked(self, node: Node) -> Array:
        """A value whose upper half, if it has one that is arbitrary, is zero."""
        return self[node] & _LOW_WORD if node.dtype == "uint32" and self.wide else self[node]

    def run(self, items: Items) -> Evaluation:
        """Operations and loops, in order."""
        visit(items, self.straight, self.loop, self.rounds)
        return self

    # Operations.

    def straight(self, nodes: list[Node]) -> None:
        """A straight piece; on a CPU what is worth it is stored."""
        stored = self.stored(nodes) if self.on_cpu else set()
        place = {node: i for i, node in enumerate(nodes) if node.name != "entry"}
        for node in nodes:
            if node in stored:
                self.values[node] = apart(partial(self.last, self.cone(node, place)))
                del place[node]
            else:
                self.operations([node])

    def stored(self, nodes: list[Node]) -> set[Node]:
        """What of a straight piece is worth storing, or must be because too much depends on it."""
        final, users = self.program.final, self.program.used_by
        operations: dict[Node, int] = {}
        numbers: dict[Node, set[Node]] = {}
        result: set[Node] = set()

        def cost(node: Node) -> int:
            return operations[node] + _COST_OF_NUMBER * len(numbers[node])

        def store(node: Node) -> None:
            result.add(node)
            operations[node], numbers[node] = 0, {node}

        def count(node: Node, known: list[Node]) -> None:
            operations[node] = 1 + sum(operations.get(x, 0) for x in known)
            numbers[node] = set().union(*(numbers.get(x, {x}) for x in known))

        for node in nodes:
            known = [x for x in map(final, node.args) if not x.is_constant]
            count(node, known)
            while cost(node) > _MOST:
                store(max((x for x in known if x in operations), key=cost))
                count(node, known)
            if node.dtype in FLOATS and len(users[node]) > 1 and operations[node] > MOST_REPEATED:
                store(node)
        return result

    def cone(self, last: Node, place: dict[Node, int]) -> list[Node]:
        """The operations, among those that have a place, that lead to a value, in order."""
        found, todo = {last}, [last]
        while todo:
            new = {x for x in map(self.program.final, todo.pop().args) if x in place} - found
            found |= new
            todo += new
        return sorted(found, key=place.__getitem__)

    def last(self, nodes: list[Node]) -> Array:
        """The last of some operations; the others are forgotten."""
        here = self.also({})
        here.operations(nodes)
        return here[nodes[-1]]

    def operations(self, nodes: list[Node]) -> None:
        """One after the other."""
        for node in nodes:
            self.values[node] = self.operation(node)

    def operation(self, node: Node) -> Array:
        """One operation."""
        if node.name == "entry":
            return self.values[node]
        function = OPERATIONS[node.name].xla
        if not callable(function):
            return _BY_TYPE[node.name](self, node)
        return function(*map(self.masked if node.dtype == "bool" else self.__getitem__, node.args))

    def _convert(self, node: Node) -> Array:
        x = node.args[0]
        return (self[x] if x.dtype == node.dtype else self.masked(x)).astype(self.kind(node.dtype))

    def _bitcast(self, node: Node) -> Array:
        bits = lax.bitcast_convert_type(self[node.args[0]].astype(node.args[0].dtype), jnp.dtype(node.dtype))
        return bits.astype(self.kind(node.dtype))

    def _shift_right_logical(self, node: Node) -> Array:
        return lax.shift_right_logical(*jnp.broadcast_arrays(self.masked(node.args[0]), self[node.args[1]]))

    # Loops.

    def rounds(self, block: Rounds) -> None:
        """A table, many rounds at once."""
        outputs, shape = block.table.outputs, self[self.program.carried[0]].shape
        kind = self.kind(outputs[0].dtype)

        def pairs(first: int, number: int) -> Array:
            rounds = first + lax.iota(self.kind("uint32"), number)[:, None]
            here = self.also({block.table.index: rounds}).run(block.body)
            part, shapes = jnp.finfo(_PAIRS[kind.name]).dtype, (number, *shape)
            return lax.complex(*(lax.bitcast_convert_type(jnp.broadcast_to(here[x], shapes), part) for x in outputs))

        if self.on_cpu:
            firsts = range(0, block.rounds, _TOGETHER)
            tables = [apart(partial(pairs, first, min(_TOGETHER, block.rounds - first))) for first in firsts]
        else:
            tables = [pairs(0, block.rounds)]
        rows = [row for table in tables for row in table]
        for node in self.program.entries[block.table]:
            row, part = divmod(node.value[1], len(outputs))
            self.values[node] = lax.bitcast_convert_type(rows[row].imag if part else rows[row].real, kind)

    def loop(self, block: Block) -> None:
        """A loop that runs while any lane goes on; lanes that are done keep their values."""
        loop = block.loop
        parameters = [loop.parameters[i] for i in block.carried]
        shape = self[self.program.carried[0]].shape
        begin = [jnp.broadcast_to(self[loop.begin[i]], shape) for i in block.carried]

        def inside(carry: tuple) -> tuple[Evaluation, Array]:
            here = self.also(dict(zip(parameters, carry[1:], strict=True))).run(block.test)
            return here, here[loop.going] & self[loop.alive]

        def going(carry: tuple) -> Array:
            some = jnp.any(inside(carry)[1])
            return some if loop.most is None else some & (carry[0] < loop.most)

        def body(carry: tuple) -> tuple:
            here, active = inside(carry)
            here.run(block.body)
            old = zip(block.carried, carry[1:], strict=True)
            return carry[0] + 1, *(jnp.where(active, here[loop.body[i]], x) for i, x in old)

        _, *end = lax.while_loop(going, body, (jnp.int32(0), *begin))
        self.values.update(zip((loop.results[i] for i in block.carried), end, strict=True))


_BY_TYPE: dict[str, Callable[[Evaluation, Node], Array]] = {
    "convert": Evaluation._convert,
    "bitcast": Evaluation._bitcast,
    "shift_right_logical": Evaluation._shift_right_logical,
}
