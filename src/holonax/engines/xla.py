"""Chunks of paths as an XLA program of lanes, on any JAX device: one array of paths per number."""

from __future__ import annotations

from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.engines.base import ROWS, LaneRunner, cores
from holonax.lanes.graph import Node
from holonax.lanes.program import Program, program
from holonax.lanes.schedule import Block
from holonax.methods.base import Method
from holonax.noise import words
from holonax.system import System

MOST_OPERATIONS = 12_000
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


class _Evaluation:
    """Values of nodes, as JAX arrays."""

    def __init__(self, program: Program, values: dict[Node, Array]) -> None:
        self.schedule, self.values = program.schedule, dict(values)

    def __getitem__(self, node: Node) -> Array:
        node = self.schedule.final(node)
        return jnp.asarray(node.value, node.dtype) if node.is_constant else self.values[node]

    def run(self, items: list[Node | Block]) -> _Evaluation:
        """Operations and loops, in order."""
        for item in items:
            if isinstance(item, Block):
                self.loop(item)
            else:
                self.values[item] = self.operation(item)
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

    def loop(self, block: Block) -> None:
        """A loop that runs while any lane goes on; lanes that are done keep their values."""
        loop = block.loop
        parameters = [loop.parameters[i] for i in block.carried]
        shape = next(iter(self.values.values())).shape if not parameters else None
        begin = [jnp.asarray(self[loop.begin[i]]) for i in block.carried]
        shape = jnp.broadcast_shapes(*(x.shape for x in begin), self[loop.alive].shape)

        def inside(carry: tuple) -> tuple[_Evaluation, Array]:
            here = _Evaluation.__new__(_Evaluation)
            here.schedule, here.values = self.schedule, self.values | dict(zip(parameters, carry, strict=True))
            here.run(block.test)
            return here, here[loop.going] & self[loop.alive]

        def body(carry: tuple) -> tuple:
            here, active = inside(carry)
            here.run(block.body)
            return tuple(
                jnp.where(active, here[loop.body[i]], old) for i, old in zip(block.carried, carry, strict=True)
            )

        end = lax.while_loop(
            lambda carry: jnp.any(inside(carry)[1]), body, tuple(jnp.broadcast_to(x, shape) for x in begin)
        )
        self.values.update(zip((loop.results[i] for i in block.carried), end, strict=True))


def _advance(
    program: Program, carried: list, path: Array, key: Array, h: Array, first: Array, stop: Array, stride: Array
) -> tuple[list, Array]:
    fixed = dict(zip((*program.key, *program.path, program.h), (*key, *path, h), strict=True))
    before = _Evaluation(program, fixed).run(program.schedule.before)
    n = program.n

    def body(step: Array, carry: tuple[list, Array]) -> tuple[list, Array]:
        carried, rows = carry
        now = dict(zip((*program.carried, program.step), (*carried, step), strict=True))
        here = _Evaluation(program, before.values | now).run(program.schedule.body)
        shape = carried[0].shape
        carried = [jnp.broadcast_to(here[x], shape).astype(x.dtype) for x in program.results]
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
    return XlaRunner(program(system, method, n, dtype, {}, MOST_OPERATIONS))
