"""Chunks of paths as an XLA program of lanes, on any JAX device: one array of paths per number."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.engines.base import ROWS, LaneRunner, cores
from holonax.lanes.functions import FUNCTIONS_WITHOUT_FMA
from holonax.lanes.graph import Node
from holonax.lanes.program import Program, program
from holonax.lanes.schedule import Block
from holonax.methods.base import Method
from holonax.noise import words
from holonax.system import System

MOST_OPERATIONS = 6_000
"""Larger programs would take XLA too long to compile."""

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


MOST_REPEATED = 24
"""XLA computes what several results need once for each of them; more operations than this are worth storing."""


class _Evaluation:
    """Values of nodes as JAX arrays, one number per path.

    Left alone, XLA would repeat the whole noise for each of its consumers.  Results of a loop are not repeated, so a
    straight piece of the program is cut into stages, each the body of a loop that runs `once`; XLA must not know that.
    """

    def __init__(self, program: Program, once: Array, values: dict[Node, Array]) -> None:
        self.program, self.once, self.values = program, once, values

    def __getitem__(self, node: Node) -> Array:
        node = self.program.schedule.final(node)
        return jnp.asarray(node.value, node.dtype) if node.is_constant else self.values[node]

    def also(self, values: dict[Node, Array]) -> _Evaluation:
        """The same, and more."""
        return _Evaluation(self.program, self.once, self.values | values)

    def run(self, items: list[Node | Block], staged: bool = False) -> _Evaluation:
        """Operations and loops, in order."""
        for is_loop, piece in groupby(items, key=lambda item: isinstance(item, Block)):
            if is_loop:
                for block in piece:
                    self.loop(block)  # type: ignore[arg-type]
            elif staged:
                self.stages(list(piece))  # type: ignore[arg-type]
            else:
                for node in piece:
                    self.values[node] = self.operation(node)  # type: ignore[index, arg-type]
        return self

    def operation(self, node: Node) -> Array:
        """One operation."""
        x = [self[argument] for argument in node.args]
        if node.name == "convert":
            return x[0].astype(node.dtype)
        if node.name == "bitcast":
            return lax.bitcast_convert_type(x[0], jnp.dtype(node.dtype))
        if node.name == "shift_right_logical":
            x = jnp.broadcast_arrays(*x)
        return OPERATIONS[node.name](*x)

    def stages(self, nodes: list[Node]) -> None:
        """A straight piece, stage by stage; only what is stored is known afterwards."""
        final, users = self.program.schedule.final, self.program.schedule.used_by
        inside: set[object] = set(nodes)
        cost: dict[Node, int] = {}
        level: dict[Node, int] = {}
        stages: dict[int, list[Node]] = {}
        for node in nodes:
            arguments = [x for x in map(final, node.args) if x in inside]
            cost[node] = 1 + sum(cost[x] for x in arguments)
            level[node] = max((level[x] for x in arguments), default=0)
            if not users[node] <= inside or (len(users[node]) > 1 and cost[node] > MOST_REPEATED):
                stages.setdefault(level[node], []).append(node)
                cost[node], level[node] = 0, level[node] + 1
        for _, stored in sorted(stages.items()):
            here = self.also({})

            def body(_: Array, carry: list, here: _Evaluation = here, stored: list[Node] = stored) -> list:
                for node in nodes:
                    if node not in here.values and (node in stored or cost[node]) and here.knows(node):
                        here.values[node] = here.operation(node)
                return [jnp.broadcast_to(here[node], x.shape) for node, x in zip(stored, carry, strict=True)]

            shape = self[self.program.carried[0]].shape
            begin = [jnp.zeros(shape, node.dtype) for node in stored]
            self.values.update(zip(stored, lax.fori_loop(0, self.once, body, begin), strict=True))

    def knows(self, node: Node) -> bool:
        """Whether all arguments of a node have values."""
        return all(x.is_constant or x in self.values for x in map(self.program.schedule.final, node.args))

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


def _advance(
    program: Program, carried: list, path: Array, key: Array, h: Array, first: Array, stop: Array, stride: Array
) -> tuple[list, Array]:
    fixed = dict(zip((*program.key, *program.path, program.h), (*key, *path, h), strict=True))
    once = jnp.minimum(stop - first, 1)
    before = _Evaluation(program, once, fixed).run(program.schedule.before)
    n = program.n

    def body(step: Array, carry: tuple[list, Array]) -> tuple[list, Array]:
        carried, rows = carry
        now = dict(zip((*program.carried, program.step), (*carried, step), strict=True))
        here = before.also(now).run(program.schedule.body, staged=True)
        carried = list(carried)
        for i in program.changing:
            carried[i] = jnp.broadcast_to(here[program.results[i]], carried[i].shape)
        row = step // stride - first // stride  # overwritten until the multiple of the stride is reached
        return carried, rows.at[row].set(jnp.stack(carried[: 2 * n]))

    rows = jnp.zeros((ROWS, 2 * n, carried[0].shape[0]), program.dtype)
    return lax.fori_loop(first, stop, body, (carried, rows))


@final
class XlaRunner(LaneRunner):
    """Chunks of one size, near the cache of a CPU, or filling an accelerator."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        on_cpu = jax.default_backend() == "cpu"
        self.chunk = self.grain = 2048 if on_cpu else 2**17
        self.workers = cores() if on_cpu else 1
        self.compiled = jax.jit(partial(_advance, program))

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
    return XlaRunner(program(system, method, n, dtype, FUNCTIONS_WITHOUT_FMA, MOST_OPERATIONS))
