"""Chunks of paths as one CUDA kernel, a thread per path, compiled by NVRTC through CuPy."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, final
from weakref import finalize

import numpy as np

from holonax.compiler import NoiseTables, Target, compile_step
from holonax.compiler.frontend.functions import FUNCTIONS
from holonax.compiler.ir.graph import TooLong, Untranslatable
from holonax.compiler.ir.program import Program
from holonax.engines.base import ROWS
from holonax.engines.cuda.array_runner import CudaArrayRunner
from holonax.engines.cuda.device import Room, compiled, fetched_later, idle_stream, landed, missing, released
from holonax.engines.cuda.emit import REALS, THREADS, WHOLE, rows_of
from holonax.engines.cuda.kernel import again, kernel
from holonax.engines.lanes import LaneRunner, Outline
from holonax.mechanics.noise import normal_pairs_p
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import Fate

TARGET = Target("cuda", FUNCTIONS, most=30_000, trials=True)
"""Larger programs would leave the registers of a thread and the cache of code, and are better off as loops."""

NOISE = NoiseTables(normal_pairs_p, 16, per_round=1)
LONG = TARGET._replace(most=120_000, tables=NOISE, long=0, patience=12.0)
"""Programs that become loops, their arrays in memory: larger ones would take too long to translate.  They are worth
more patience than on a CPU, for they are four to five times as fast as blocks of threads (chain of 128 beads)."""

MOST_CODE = 16_000
"""Operations that are left of them, since not all are alike: nvcc would take a minute for twice as many."""


def lanes(program: Program) -> str:
    """How paths share the work."""
    return f"a thread per path, {THREADS} in a block"


WORKERS = 8
"""Chunks at a time, each with a stream of its own: while one is copied or stored, the device computes others."""

CHUNK, LEAST = 2**19, 2**16
"""Paths in a chunk: at most, for the host is to be busy with some while the device computes others; and at least, where
there are so many, for a chunk costs the host about a millisecond."""

AT_ONCE = 64
"""Steps of a long program in a launch.  A path in doubt walks them again while nobody else has anything to do, and each
step of such a program takes a tenth of a millisecond or more."""

MOST_RECORDED = 2**32
"""Bytes of recorded states that a chunk of a long program may have on the device; each worker asks for as much."""

BLOCK = 2**14
"""Paths that are observed together."""


@final
@dataclass(frozen=True, eq=False)
class Chunk:
    """Paths on the device: a row per entry, of real or of whole numbers, on which one stream works."""

    reals: Any
    whole: Any
    stream: Any

    @property
    def size(self) -> int:
        """Number of paths."""
        return int(self.reals.shape[1])


@final
class CudaRunner(LaneRunner):
    """Everything stays on the device until it is recorded."""

    name = "cuda"
    least, tapered = LEAST, True

    def __init__(self, program: Program) -> None:
        super().__init__(Outline.of(program))
        self.program = program
        self.chunk, self.grain, self.workers = CHUNK, THREADS, WORKERS
        if program.layout is not None:
            row = 2 * program.n * np.dtype(program.dtype).itemsize
            self.chunk = max(THREADS, min(CHUNK, 2 ** int(np.log2(MOST_RECORDED / (ROWS * row)))))
            self.least = min(LEAST, self.chunk)
        self.rows_of = rows_of(program)
        self.kernel = compiled(kernel(program))
        self.lock, self.beginning, self.room = threading.Lock(), threading.Lock(), Room(self.kernel, THREADS)
        self.sent: dict[tuple[str, bytes], Any] = {}

    @cached_property
    def again(self) -> Any:
        """The kernel by which steps in doubt are taken again: compiled when the first one is, which is rare."""
        assert self.program.again is not None  # by our target
        return compiled(again(self.program.again()))

    @property
    def block(self) -> int:
        """More than threads in a block of the device, for which a few of them are a few microseconds."""
        return min(BLOCK, self.chunk)

    def begin(self, states: State, parameters: Mapping[str, np.ndarray], fate: Fate | None = None) -> Chunk:
        """As the other engines, on the device: the entries of one path for all, then what each has of its own.

        What they share is made for one chunk after another: Python would do it for all at the same pace, and the first
        could not be launched before the last.
        """
        import cupy

        size, one = len(states.q), State(*(x[:1] for x in states))
        with (stream := idle_stream()):
            with self.beginning:
                entries = self.entries(one, {name: x[:1] for name, x in parameters.items()})
                reals, whole = (
                    self._for_all([x for (of, _), x in zip(self.rows_of, entries, strict=True) if of == matrix], size)
                    for matrix in (REALS, WHOLE)
                )
            for first, x in self._own(states, parameters):
                array = cupy.asarray(np.ascontiguousarray(x, self.program.dtype)).reshape(size, -1)
                reals[first : first + array.shape[1]] = array.T
            for entries, x in zip(self.places_of_fate, fate or (), strict=fate is not None):
                for entry, numbers in zip(entries, np.reshape(x, (size, -1)).T, strict=True):
                    matrix, row = self.rows_of[entry]
                    (reals if matrix == REALS else whole)[row] = cupy.asarray(numbers)
        chunk = Chunk(reals, whole, stream)
        finalize(chunk, released, stream)
        return chunk

    def _for_all(self, column: list[np.ndarray], size: int) -> Any:
        """A matrix on the device whose columns are all the same, and sent once: each copy would wait for others."""
        import cupy

        numbers = np.stack(column)
        key = numbers.dtype.str, numbers.tobytes()
        with self.lock:
            if key not in self.sent:
                if len(self.sent) > 1:
                    self.sent.clear()
                self.sent[key] = cupy.asarray(numbers)
                cupy.cuda.get_current_stream().synchronize()  # other streams use it too
            sent = self.sent[key]
        matrix = cupy.empty((len(column), size), numbers.dtype)
        matrix[...] = sent
        return matrix

    def _own(self, states: State, parameters: Mapping[str, np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """Arrays whose rows, one for each path, are not all the same, and where their columns begin among the reals."""
        entry = len(self.program.carried)
        given = [(places[0], x) for places, x in zip(self.state, states, strict=True)]
        for _, x in sorted(parameters.items()):
            given.append((entry, x))
            entry += math.prod(x.shape[1:])
        return ((self.rows_of[first][1], x) for first, x in given if x.strides[0] and x.size)

    def advance(
        self, carried: Chunk, paths: range, seed: int, h: float, first: int, stop: int, stride: int, offset: int = 0
    ) -> tuple[Any, Any, Any]:
        """In place: a launch, or one after another, and more where steps are in doubt."""
        import cupy

        size = carried.size
        scalars = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32), np.dtype(self.program.dtype).type(h)
        with carried.stream:
            rows = cupy.empty((stop // stride - first // stride, 2, size, self.program.n), self.program.dtype)
            after, doubts = cupy.full(size, first, np.int64), cupy.zeros(1, np.int32)
            launch = (-(-size // THREADS),), (THREADS,)
            whose = np.uint64(paths.start), np.uint32(len(paths))
            own = carried.reals, carried.whole, rows, after, doubts, *scalars, *whose
            at_once = stop if self.program.layout is None else AT_ONCE
            for end in range(first, stop, at_once):
                numbers = (np.int64(x) for x in (size, first, min(end + at_once, stop), stride, offset))
                self._launch(launch, (*own, *numbers), doubts)
            found = landed(rows)
        return carried, found[:, 0], found[:, 1]

    def _launch(self, launch: tuple[tuple[int], tuple[int]], arguments: tuple[Any, ...], doubts: Any) -> None:
        """Take all paths to the same step."""
        with self.room.entered(launch[0][0] * THREADS):
            self.kernel(*launch, arguments)
            while int(doubts.get()[0]):
                with self.lock:
                    take_again = self.again
                doubts.fill(0)
                take_again(*launch, arguments)
                self.kernel(*launch, arguments)

    def fate(self, carried: Chunk) -> Fate:
        """How the paths fared so far, as NumPy arrays."""
        row = {i: row for i, (_, row) in enumerate(self.rows_of)}
        (status,), (failed,), (residual,), (iterations,), counts = self.places_of_fate
        with carried.stream:
            whole, largest = landed(carried.whole), landed(carried.reals[row[residual]])
        first = row[counts[0]] if counts else len(whole)
        return Fate(whole[row[status]], whole[row[failed]], largest, whole[row[iterations]], whole[first:].T)

    def places(self, carried: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Positions and momenta, as NumPy arrays (paths, n)."""
        with carried.stream:
            q, p = (landed(self._columns(carried, entries)) for entries in (self.state.q, self.state.p))
        return q, p

    def velocities(self, carried: Chunk) -> Callable[[], np.ndarray] | None:
        """Where Newton's method would begin, to be fetched later, unless the program knows that by itself."""
        if self.state.v[0] not in self.program.changing:
            return None
        with carried.stream:
            own = self._columns(carried, self.state.v).copy()  # so that the others need not be kept
        return partial(fetched_later, carried.stream, own)

    def _columns(self, carried: Chunk, entries: Sequence[int]) -> Any:
        """Some entries of consecutive numbers, (paths, entries)."""
        first = self.rows_of[entries[0]][1]
        return carried.reals[first : first + len(entries)].T


def _with_loops(system: System, method: Method, n: int, dtype: str) -> CudaRunner:
    program = compile_step(system, method, n, dtype, LONG, times=1)
    if (size := program.layout.code_size) > MOST_CODE:
        raise TooLong(f"a program of {size} operations that do not repeat themselves (the limit is {MOST_CODE})")
    return CudaRunner(program)


def prepare(system: System, method: Method, n: int, dtype: str) -> CudaRunner | CudaArrayRunner:
    """Trace, fold and compile: a thread per path, written out or with loops; or a block per path, by arrays."""
    try:
        return CudaRunner(compile_step(system, method, n, dtype, TARGET, times=1))
    except TooLong:
        pass
    try:
        return _with_loops(system, method, n, dtype)
    except TooLong as length:
        reason = f"{length} would not fit a thread"
    try:
        return CudaArrayRunner(system, method, n, dtype, reason)
    except Untranslatable:
        return CudaRunner(compile_step(system, method, n, dtype, LONG))


__all__ = ["CudaRunner", "lanes", "missing", "prepare"]
