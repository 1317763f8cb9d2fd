"""Chunks of paths as an XLA program of lanes, on any JAX device: one array of paths per number."""

from __future__ import annotations

from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.engines.base import ROWS, LaneRunner, cores
from holonax.lanes.functions import FUNCTIONS_WITHOUT_FMA
from holonax.lanes.graph import Node, Rolling
from holonax.lanes.operations import FLOATS
from holonax.lanes.program import Program, Target, program
from holonax.lanes.schedule import Block, Items, Rounds, pieces
from holonax.methods.base import Method
from holonax.noise import random_words, words
from holonax.system import System

OPERATIONS: dict[str, Any] = {
    "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply, "divide": jnp.divide,
    "negative": jnp.negative, "absolute": jnp.abs, "maximum": jnp.maximum, "minimum": jnp.minimum,
    "floor": jnp.floor, "ceil": jnp.ceil, "rint": jnp.rint, "sqrt": jnp.sqrt, "cbrt": jnp.cbrt, "exp": jnp.exp,
    "expm1": jnp.expm1, "log": jnp.log, "log1p": jnp.log1p, "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan,
    "arcsin": jnp.arcsin, "arccos": jnp.arccos, "arctan": jnp.arctan, "sinh": jnp.sinh, "cosh": jnp.cosh,
    "tanh": jnp.tanh, "erf": jax.scipy.special.erf, "power": jnp.power, "arctan2": jnp.arctan2,
    "fma": lambda x, y, z: x * y + z, "and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor,
    "not": jnp.bitwise_not, "shift_left": jnp.left_shift, "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": jnp.right_shift, "equal": jnp.equal, "not_equal": jnp.not_equal, "less": jnp.less,
    "less_equal": jnp.less_equal, "greater": jnp.greater, "greater_equal": jnp.greater_equal,
    "isfinite": jnp.isfinite, "select": jnp.where,
}  # fmt: skip


TARGET = Target(FUNCTIONS_WITHOUT_FMA, most=6_000, rolling=Rolling(random_words, few=0, together=1))
"""Larger programs would take XLA too long to compile.  Random bits are always a table: it would compute them once for
each of their consumers."""

OPTIONS = {"xla_cpu_prefer_vector_width": 512}
"""Of this program alone.  XLA handles a vector at a time, by default of four doubles; eight wait less for each other,
also where the processor takes them in two halves."""

MOST_REPEATED = 24
"""XLA computes what several results need once for each of them; more operations than this are worth storing."""


class _Evaluation:
    """Values of nodes as JAX arrays, one number per path.

    XLA fuses operations into those that use them, and repeats them for each; the numbers of many operations would be
    computed again and again.  It does not repeat a quotient, so what shall be `stored` is divided by a `one` that XLA
    must not know.  Nor does it repeat the results of a loop: that is how tables are computed, two numbers at a time as
    one complex number.
    """

    def __init__(self, program: Program, one: Array, values: dict[Node, Array], tables: list[Array]) -> None:
        self.program, self.one, self.values, self.tables = program, one, values, tables

    def __getitem__(self, node: Node) -> Array:
        node = self.program.schedule.final(node)
        return jnp.asarray(node.value, node.dtype) if node.is_constant else self.values[node]

    def also(self, values: dict[Node, Array]) -> _Evaluation:
        """The same, and more."""
        return _Evaluation(self.program, self.one, self.values | values, self.tables)

    def run(self, items: Items, storing: bool = True) -> _Evaluation:
        """Operations and loops, in order."""
        for piece in pieces(items):
            if isinstance(piece, Rounds):
                self.rounds(piece)
            elif isinstance(piece, Block):
                self.loop(piece)
            else:
                self.operations(piece, storing)
        return self

    def operations(self, nodes: list[Node], storing: bool) -> None:
        """A straight piece."""
        stored = self.stored(nodes) if storing else set()
        for node in nodes:
            value = self.operation(node)
            self.values[node] = value / self.one.astype(value.dtype) if node in stored else value

    def operation(self, node: Node) -> Array:
        """One operation."""
        if node.name == "entry":
            return self.values[node]
        x = [self[argument] for argument in node.args]
        if node.name == "convert":
            return x[0].astype(node.dtype)
        if node.name == "bitcast":
            return lax.bitcast_convert_type(x[0], jnp.dtype(node.dtype))
        if node.name == "shift_right_logical":
            x = jnp.broadcast_arrays(*x)
        return OPERATIONS[node.name](*x)

    def stored(self, nodes: list[Node]) -> set[Node]:
        """What of a straight piece is worth storing."""
        final, users = self.program.schedule.final, self.program.schedule.used_by
        inside: set[object] = set(nodes)
        cost: dict[Node, int] = {}
        result: set[Node] = set()
        for node in nodes:
            cost[node] = 1 + sum(cost[x] for x in map(final, node.args) if x in inside)
            if node.dtype in FLOATS and len(users[node]) > 1 and cost[node] > MOST_REPEATED:
                result.add(node)
                cost[node] = 0
        return result

    def rounds(self, block: Rounds) -> None:
        """A table, all rounds at once, in the place of that of the last step."""
        place = list(self.program.schedule.entries).index(block.table)
        rows, outputs = self.tables[place], block.table.outputs

        def fill(_: Array, rows: Array) -> Array:
            rounds = jnp.arange(block.rounds, dtype=jnp.uint32)[:, None]
            here = self.also({block.table.index: rounds}).run(block.body, storing=False)
            words = (jnp.broadcast_to(here[x], rows.shape) for x in outputs)
            return lax.complex(*(lax.bitcast_convert_type(x, rows.real.dtype) for x in words))

        rows = self.tables[place] = lax.fori_loop(0, self.one.astype(jnp.int32), fill, rows)
        for node in self.program.schedule.entries[block.table]:
            row, part = divmod(node.value[1], len(outputs))
            word = rows[row].imag if part else rows[row].real
            self.values[node] = lax.bitcast_convert_type(word, node.dtype)

    def loop(self, block: Block) -> None:
        """A loop that runs while any lane goes on; lanes that are done keep their values."""
        loop = block.loop
        parameters = [loop.parameters[i] for i in block.carried]
        shape = self[self.program.carried[0]].shape
        begin = [jnp.broadcast_to(self[loop.begin[i]], shape) for i in block.carried]

        def inside(carry: tuple) -> tuple[_Evaluation, Array]:
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


_PAIRS = {"uint64": jnp.complex128, "uint32": jnp.complex64}
"""Two words as the bits of one complex number, since XLA computes one result at a time."""


def _advance(
    program: Program, carried: list, path: Array, key: Array, h: Array, first: Array, stop: Array, stride: Array
) -> tuple[list, Array]:
    fixed = dict(zip((*program.key, *program.path, program.h), (*key, *path, h), strict=True))
    one = jnp.minimum(stop - first, 1).astype(program.dtype)
    before = _Evaluation(program, one, fixed, []).run(program.schedule.before)
    n, size = program.n, carried[0].shape[0]

    def step(number: Array, carry: tuple[list, list]) -> tuple[list, list]:
        carried, tables = carry
        now = dict(zip((*program.carried, program.step), (*carried, number), strict=True))
        here = before.also(now)
        here.tables = list(tables)
        here.run(program.schedule.body)
        carried = list(carried)
        for i in program.changing:
            carried[i] = jnp.broadcast_to(here[program.results[i]], carried[i].shape)
        return carried, here.tables

    def row(i: Array, carry: tuple[list, list, Array]) -> tuple[list, list, Array]:
        """The steps up to the next multiple of the stride; a row cut short may have no place, and needs none."""
        *now, rows = carry
        begin = (first // stride + i) * stride
        carried, tables = lax.fori_loop(jnp.maximum(first, begin), jnp.minimum(stop, begin + stride), step, tuple(now))
        return carried, tables, rows.at[i].set(jnp.stack(carried[: 2 * n]))

    rows = jnp.zeros((ROWS, 2 * n, size), program.dtype)
    count = -(-stop // stride) - first // stride
    tables = [
        jnp.zeros((program.schedule.rounds(table), size), _PAIRS[table.outputs[0].dtype])
        for table in program.schedule.entries
    ]
    carried, _, rows = lax.fori_loop(0, count, row, (carried, tables, rows))
    return carried, rows


@final
class XlaRunner(LaneRunner):
    """Chunks of one size, near the cache of a CPU, or filling an accelerator."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        on_cpu = jax.default_backend() == "cpu"
        self.chunk = self.grain = 2048 if on_cpu else 2**17
        self.workers = cores() if on_cpu else 1
        self.compiled = jax.jit(partial(_advance, program), compiler_options=OPTIONS if on_cpu else None)

    def advance(
        self, carried: list, paths: np.ndarray, seed: int, h: float, first: int, stop: int, stride: int
    ) -> tuple[Any, Any, Any]:
        """One call of the compiled program."""
        steps = (np.int32(x) for x in (first, stop, stride))
        size = np.asarray(h, self.program.dtype)
        carried, rows = self.compiled([*map(jnp.asarray, carried)], words(paths), words(seed), size, *steps)
        return jax.block_until_ready(carried), *self.split(rows)


def missing() -> str | None:
    """What this machine lacks for this engine: nothing."""
    return None


def prepare(system: System, method: Method, n: int, dtype: str) -> XlaRunner:
    """Trace and fold; XLA compiles at the first call."""
    return XlaRunner(program(system, method, n, dtype, TARGET))
