"""Chunks of paths of large systems on a GPU: loops over arrays, a block of threads per path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final
from weakref import finalize

import jax
import numpy as np

from holonax.compiler.arrays.program import SLOT, ArrayProgram
from holonax.engines.arrays import ArrayEngine, of_one_path, of_paths
from holonax.engines.base import ROWS
from holonax.engines.cuda.array_kernel import Shape, block_kernel, columns_of
from holonax.engines.cuda.array_memory import SHARED
from holonax.engines.cuda.device import compiled, fetched_later, idle_stream, landed, released
from holonax.engines.cuda.emit import REALS
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import IN_DOUBT, Fate, begin

MOST_PATHS = 2**14
MOST_BYTES = 2**31
"""Paths of a chunk, and the bytes that its recorded states may take on the device."""

RESERVED = 1024
"""Bytes of shared memory that the device takes for itself per block, and that sums over all threads take at most."""

WORKERS = 4
"""Chunks at a time: while one is copied or stored, the device computes others."""


OBSERVED_TOGETHER = 32
"""Paths."""

FEWEST, MOST = 32, 256
"""Threads per path."""

FEWEST_BLOCKS, MOST_BLOCKS = 2, 16
"""Paths per multiprocessor."""


def block_shape(program: ArrayProgram, shared: int) -> Shape:
    """Threads for every second coordinate; as many paths as the shared memory of a multiprocessor has room for."""
    threads = min(MOST, max(FEWEST, 1 << (program.n // 2).bit_length()))
    everything = block_kernel(program, Shape(threads, 1), shared // SLOT)
    room = SLOT * (everything.memory.used[SHARED] + everything.scratch_slots)
    return Shape(threads, min(MOST_BLOCKS, max(FEWEST_BLOCKS, shared // (room + RESERVED))))


@final
class BlockCode:
    """The compiled kernel of a program, and its tables on the device."""

    def __init__(self, program: ArrayProgram, shape: Shape | None = None) -> None:
        import cupy

        cupy.cuda.Device().use()  # this thread may be a new one
        device = cupy.cuda.Device().attributes
        shared = device["MaxSharedMemoryPerMultiprocessor"]
        shape = shape or block_shape(program, shared)
        budget = min(device["MaxSharedMemoryPerBlockOptin"], shared // shape.blocks - RESERVED) - RESERVED
        self.program, self.threads = program, shape.threads
        self.kernel = block_kernel(program, shape, budget // SLOT)
        self.function = compiled(self.kernel.source())
        self.shared = self.kernel.shared_bytes
        self.function.max_dynamic_shared_size_bytes = self.shared
        resident = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            self.function.kernel.ptr, shape.threads, self.shared
        )
        self.resident = max(1, resident) * device["MultiProcessorCount"]
        self.tables = cupy.asarray(np.frombuffer(b"".join(self.kernel.data) or bytes(1), np.uint8))


@final
@dataclass(frozen=True, eq=False)
class Blocks:
    """Paths on the device: a row of real numbers and one of whole numbers for each, on which one stream works."""

    code: BlockCode
    reals: Any
    whole: Any
    fixed: Any  # parameters, once or for each path
    values: dict[str, Any]  # the same on the host
    stream: Any

    @property
    def size(self) -> int:
        """Number of paths."""
        return int(self.reals.shape[0])

    @property
    def apart(self) -> int:
        """Slots from the parameters of a path to those of the next."""
        return int(self.fixed.shape[1]) if len(self.fixed) > 1 else 0


@final
class CudaArrayRunner(ArrayEngine):
    """Everything stays on the device until it is recorded."""

    name = "cuda"
    grain = 1
    workers = WORKERS

    def __init__(self, system: System, method: Method, n: int, dtype: str, reason: str) -> None:
        super().__init__(system, method, n, dtype, reason)
        self.chunk = max(1, min(MOST_PATHS, MOST_BYTES // (2 * n * ROWS * SLOT)))
        self.codes = {self.program: BlockCode(self.program)}
        self.least = min(self.chunk, self.codes[self.program].resident)

    @property
    def block(self) -> int:
        """Paths that are observed together, although the kernel computes each by itself."""
        return OBSERVED_TOGETHER if self.chunk >= OBSERVED_TOGETHER else 1

    @property
    def lanes(self) -> str:
        """How paths share the work."""
        return f"a block of {self.codes[self.program].threads} threads per path"

    def code(self, values: Mapping[str, Any]) -> BlockCode:
        """For parameters of paths; compiled when it is first needed."""
        with self.lock:
            program = self.program_for(of_one_path(values))
            if program not in self.codes:
                self.codes[program] = BlockCode(program)
            return self.codes[program]

    def begin(self, states: State, parameters: Mapping[str, Any], fate: Fate | None = None) -> Blocks:
        """The track of one path for all, then what each has of its own."""
        import cupy

        code, size = self.code(parameters), len(states.q)
        one = begin(State(*(np.asarray(x[:1], self.dtype) for x in states)), len(self.method.outcomes))
        leaves = [np.reshape(leaf, (1, -1)) for leaf in jax.tree.leaves(one)]
        columns = columns_of(code.program.track)
        with (stream := idle_stream()):
            matrices: list[Any] = []
            for real in (True, False):
                row = [leaf for leaf, (of, _) in zip(leaves, columns, strict=True) if (of == REALS) == real]
                matrix = cupy.empty((size, sum(leaf.shape[1] for leaf in row)), self.dtype if real else np.int32)
                matrix[...] = cupy.asarray(np.concatenate(row, axis=1))
                matrices.append(matrix)
            for (_, column), x in zip(columns[:3], states, strict=True):
                if x.strides[0] and size > 1:
                    matrices[0][:, column : column + self.n] = cupy.asarray(np.ascontiguousarray(x, self.dtype))
            for (of, column), x in zip(columns[3:], fate or (), strict=fate is not None):
                rows = np.reshape(x, (size, -1))
                matrices[of != REALS][:, column : column + rows.shape[1]] = cupy.asarray(rows)
            fixed = cupy.asarray(self._fixed(code, parameters))
        blocks = Blocks(code, matrices[0], matrices[1], fixed, dict(parameters), stream)
        finalize(blocks, released, stream)
        return blocks

    def _fixed(self, code: BlockCode, values: Mapping[str, Any]) -> np.ndarray:
        """Parameters as the kernel has them: one row if all paths share them."""
        leaves = [np.asarray(x) for x in jax.tree.leaves(dict(values))]
        rows = max((len(x) if x.strides[0] else 1 for x in leaves), default=1)
        fixed = np.zeros((rows, max(code.kernel.parameters_size, 1)))
        for array, value in zip(code.program.parameters, leaves, strict=True):
            place = code.kernel.parameter_places[array]
            room = fixed[:, place : place + array.size].view(np.dtype(array.dtype))
            room[:, : array.size] = value.reshape(len(value), -1)[:rows]
        return fixed

    def advance(
        self, carried: Blocks, paths: range, seed: int, h: float, first: int, stop: int, stride: int, offset: int = 0
    ) -> tuple[Any, Any, Any]:
        """In place: one launch, unless steps are in doubt."""
        import cupy

        code, size = carried.code, carried.size
        numbers = [np.int64(x) for x in (size, carried.apart, first, stop, stride, offset)]
        scalars = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32), np.dtype(self.dtype).type(h)
        whose = np.uint64(paths.start), np.uint32(len(paths))
        grid = min(size, code.resident)
        with carried.stream:
            rows = cupy.empty((stop // stride - first // stride, size, 2 * self.n), self.dtype)
            scratch = cupy.empty(max(1, grid * code.kernel.scratch_slots), np.float64)
            after, doubts = cupy.full(size, first, np.int64), cupy.zeros(1, np.int32)
            own = (carried.reals, carried.whole, carried.fixed, scratch, code.tables, rows, after, doubts)
            while True:
                code.function((grid,), (code.threads,), (*own, *scalars, *whose, *numbers), shared_mem=code.shared)
                if not int(doubts.get()[0]):
                    break
                doubts.fill(0)
                self._take_again(carried, paths, seed, h, rows, after.get(), first, stride, offset)
            found = landed(rows)
        return carried, found[..., : self.n], found[..., self.n :]

    def _take_again(
        self,
        carried: Blocks,
        paths: range,
        seed: int,
        h: float,
        rows: Any,
        after: np.ndarray,
        first: int,
        stride: int,
        offset: int,
    ) -> None:
        """The steps of paths that are in doubt, on the plain engine."""
        import cupy

        track, status = carried.code.program.track, carried.whole[:, 0].get()
        for own in np.flatnonzero(status == IN_DOUBT).tolist():
            matrices = {matrix: getattr(carried, matrix)[own].get() for matrix in ("reals", "whole")}
            columns = columns_of(track)
            before = [matrices[of][column : column + x.size] for x, (of, column) in zip(track, columns, strict=True)]
            values, step = of_paths(carried.values, range(own, own + 1)), int(after[own]) - 1
            number = paths.start + own % len(paths)
            leaves = self.taken_again(before, values, number, seed, h, step, offset)
            for view, leaf in zip(before, leaves, strict=True):
                view[:] = leaf
            for matrix, numbers in matrices.items():
                getattr(carried, matrix)[own] = cupy.asarray(numbers)
            if (step + 1) % stride == 0:
                row = (step + 1) // stride - first // stride - 1
                rows[row, own] = cupy.asarray(np.concatenate(leaves[:2]))

    # What became of the paths.

    def fate(self, carried: Blocks) -> Fate:
        """How the paths fared so far, as NumPy arrays."""
        with carried.stream:
            whole, residual = landed(carried.whole), landed(carried.reals[:, 3 * self.n])
        status, failed, iterations = whole[:, :3].T
        return Fate(status, failed, residual, iterations, whole[:, 3:])

    def places(self, carried: Blocks) -> tuple[np.ndarray, np.ndarray]:
        """Positions and momenta, as NumPy arrays (paths, n)."""
        with carried.stream:
            found = landed(carried.reals[:, : 2 * self.n])
        return found[:, : self.n], found[:, self.n :]

    def velocities(self, carried: Blocks) -> Callable[[], np.ndarray] | None:
        """Where Newton's method would begin, to be fetched later."""
        with carried.stream:
            own = carried.reals[:, 2 * self.n : 3 * self.n].copy()
        return partial(fetched_later, carried.stream, own)
