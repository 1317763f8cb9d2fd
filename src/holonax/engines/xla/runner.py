"""Chunks of paths as an XLA program of lanes, on any JAX device: one array of paths per number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.compiler import NoiseTables, Target, compile_step
from holonax.compiler.frontend.functions import FUNCTIONS_WITHOUT_FMA
from holonax.compiler.ir.program import Program
from holonax.engines.base import ROWS, cores, path_numbers
from holonax.engines.lanes import LaneRunner, Outline
from holonax.engines.xla.emit import TILE, Evaluation, apart
from holonax.mechanics.noise import random_words_p, words
from holonax.mechanics.system import System
from holonax.methods.base import Method

TARGET = Target("xla", FUNCTIONS_WITHOUT_FMA, most=6_000, tables=NoiseTables(random_words_p, 0, per_round=1))
"""Larger programs would take XLA too long to compile.  Random bits are always a table: it would compute them once for
each of their consumers."""

OPTIONS = {"xla_cpu_prefer_vector_width": 512}
"""Of this program alone.  XLA handles a vector at a time, by default of four doubles; eight wait less for each other,
also where the processor takes them in two halves."""


def _walk(fixed: Evaluation, carried: list[Array], begin: Array, end: Array, offset: Array) -> list[Array]:
    """The steps `begin`..`end - 1` of paths, with the noise of those `offset` later."""
    program = fixed.program

    def step(number: Array, carried: list[Array]) -> list[Array]:
        now = zip((*program.carried, program.inputs.step), (*carried, number + offset), strict=True)
        here, carried = fixed.also(dict(now)).run(program.body), list(carried)
        for i in program.changing:
            carried[i] = jnp.broadcast_to(here[program.results[i]], carried[i].shape)
        return carried

    return lax.fori_loop(begin, end, step, carried)


def _begun(fixed: Evaluation, carried: list[Array]) -> list[Array]:
    """What is carried; functions of q that do not exist yet are computed."""
    program = fixed.program
    here = fixed.also(dict(zip(program.carried, carried, strict=True)))
    for number, operations in program.beginnings:
        for node in operations:
            here.values[node] = here.operation(node)
            here.values.setdefault(program.final(node), here.values[node])  # by which others ask for it
        here.values[number] = jnp.where(jnp.isnan(here[number]), here.values[operations[-1]], here[number])
    return [here.values[node] for node in program.carried]


def _in_one_piece(steps: Callable[..., list[Array]], fixed: Evaluation, state: list[Array]) -> list[Array]:
    """A walk as one function of machine code.

    Otherwise XLA would call a function for each operation that it has not fused with others.  It aborts where it finds
    that such a function does not need one of its arguments; so all are needed, because they are results as well.
    """

    def both() -> tuple[list[Array], list[Array]]:
        return steps(fixed, state), [lax.max(x, x) for x in fixed.values.values()]  # x itself would not pass through it

    ends, _ = apart(both, xla_cpu_small_call="true")
    return ends


class _Tiles:
    """Arrays (paths,) as arrays (tiles, numbers, paths of a tile), one for each type of number."""

    def __init__(self, arrays: list[Array], tile: int) -> None:
        self.types = [x.dtype for x in arrays]
        self.kinds = sorted(set(self.types), key=str)
        self.all = self.pack([x.reshape(-1, tile) for x in arrays])

    def pack(self, arrays: list[Array]) -> list[Array]:
        """Those of a tile, or of all of them."""
        return [jnp.stack([x for x in arrays if x.dtype == kind], axis=-2) for kind in self.kinds]

    def unpack(self, packed: list[Array]) -> list[Array]:
        """The arrays again."""
        numbers = {kind: iter(jnp.moveaxis(x, -2, 0)) for kind, x in zip(self.kinds, packed, strict=True)}
        return [next(numbers[kind]) for kind in self.types]


def _advance(
    program: Program, tile: int, on_cpu: bool, carried: list, path: Array, key: Array, h: Array,
    first: Array, stop: Array, stride: Array, offset: Array,
) -> tuple[list, Array]:  # fmt: skip
    """All paths, tile by tile."""
    fixed = Evaluation(program, {program.inputs.h: h}, on_cpu)
    for node, word in zip((*program.inputs.key, *program.inputs.path), (*key, *path), strict=True):
        fixed.values[node] = word.astype(fixed.kind("uint32"))
    carried, given = carried[: len(program.carried)], carried[len(program.carried) :]
    fixed.values.update(zip(program.inputs.parameters, given, strict=True))
    fixed.run(program.before)
    carried = _begun(fixed, carried)
    same = {node: x for node, x in fixed.values.items() if x.ndim == 0}
    own = {node: x for node, x in fixed.values.items() if x.ndim}
    paths, states = _Tiles(list(own.values()), tile), _Tiles(carried, tile)
    floats = states.kinds.index(jnp.dtype(program.dtype))
    recorded = len(program.recorded)  # which come first

    def row(i: Array, carry: tuple[list, Array]) -> tuple[list, Array]:
        """The steps up to the next multiple of the stride; a row cut short may have no place, and needs none."""
        begin = (first // stride + i) * stride

        def walk(k: Array, now: list[Array]) -> list[Array]:
            mine = dict(zip(own, paths.unpack([x[k] for x in paths.all]), strict=True))
            state, here = [x[k] for x in now], Evaluation(program, same | mine, on_cpu)
            ends = _in_one_piece(steps, here, state) if on_cpu else steps(here, state)
            return [lax.dynamic_update_index_in_dim(x, end, k, 0) for x, end in zip(now, ends, strict=True)]

        def steps(here: Evaluation, state: list[Array]) -> list[Array]:
            ends = jnp.maximum(first, begin), jnp.minimum(stop, begin + stride)
            return states.pack(_walk(here, states.unpack(state), *ends, offset))

        now, rows = carry
        now = lax.fori_loop(0, len(now[0]), walk, now)
        return now, lax.dynamic_update_index_in_dim(rows, now[floats][:, :recorded], i, 0)

    count, shape = -(-stop // stride) - first // stride, (ROWS, len(states.all[0]), recorded, tile)
    now, rows = lax.fori_loop(0, count, row, (states.all, jnp.zeros(shape, program.dtype)))
    return [*(x.reshape(-1) for x in states.unpack(now)), *given], rows


@final
class XlaRunner(LaneRunner):
    """Chunks of one size, near the cache of a CPU, or filling an accelerator."""

    name = "xla"

    def __init__(self, program: Program) -> None:
        super().__init__(Outline.of(program))
        self.program = program
        self.on_cpu = on_cpu = jax.default_backend() == "cpu"
        self.chunk = self.grain = 2048 if on_cpu else 2**17
        self.workers = cores() if on_cpu else 1
        advance = partial(_advance, program, TILE if on_cpu else self.chunk, on_cpu)
        self.compiled = jax.jit(advance, compiler_options=OPTIONS if on_cpu else None)

    def advance(
        self, carried: list, paths: range, seed: int, h: float, first: int, stop: int, stride: int, offset: int = 0
    ) -> tuple[Any, Any, Any]:
        """One call of the compiled program."""
        steps = (np.int32(x) for x in (first, stop, stride, offset))
        size, index = np.asarray(h, self.outline.dtype), path_numbers(paths, len(carried[0]))
        carried, rows = self.compiled([*map(jnp.asarray, carried)], words(index), words(seed), size, *steps)
        jax.block_until_ready(carried)
        if self.on_cpu:  # nothing is copied to and fro, so only what has a meaning need be put together
            rows = np.asarray(rows)[: stop // stride - first // stride]
        rows = rows.swapaxes(1, 2)
        return carried, *self.split(rows.reshape(*rows.shape[:2], len(index)))


def lanes(program: Program) -> str:
    """How paths share the work."""
    on_cpu = jax.default_backend() == "cpu"
    return f"{TILE} paths in a tile, {cores()} cores" if on_cpu else "all paths of a chunk at a time"


def missing() -> str | None:
    """What this machine lacks for this engine: nothing."""
    return None


def prepare(system: System, method: Method, n: int, dtype: str) -> XlaRunner:
    """Trace and fold; XLA compiles at the first call."""
    return XlaRunner(compile_step(system, method, n, dtype, TARGET))
