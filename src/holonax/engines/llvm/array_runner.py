"""Chunks of paths of large systems: machine code with loops over arrays, for one path or for a vector of them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import jax
import numpy as np

from holonax.compiler.arrays.program import ArrayProgram, compile_arrays
from holonax.engines.base import Runner, cores, path_numbers
from holonax.engines.llvm.array_kernel import KERNEL, SLOT, ArrayKernel
from holonax.engines.llvm.machine import compile_module
from holonax.engines.plain import PlainRunner
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import IN_DOUBT, Fate, Track, begin

PATHS = 8
"""Paths in a vector: as many as fill a register."""

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 6, *[ctypes.c_int64] * 4)
ALIGNMENT = 64


def _memory(numbers: int) -> np.ndarray:
    """Room for so many numbers, beginning where a line of the cache does."""
    raw = np.zeros(numbers * SLOT + 2 * ALIGNMENT * 8, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset:]


@final
class Code:
    """The kernel for so many paths in a vector."""

    def __init__(self, program: ArrayProgram, paths: int) -> None:
        kernel = ArrayKernel(program, paths)
        text = kernel.text()
        self.paths, self.kernel = paths, kernel
        self.data = kernel.data  # kept alive
        self.tables = np.array([x.ctypes.data for x in self.data], np.uint64)
        address, self.compiler = compile_module(text, KERNEL)
        self.function = SIGNATURE(address)
        self.frames = threading.local()

    @property
    def frame(self) -> np.ndarray:
        """Of this thread."""
        if not hasattr(self.frames, "memory"):
            self.frames.memory = _memory(self.kernel.frame_size * self.paths)
        return self.frames.memory


@dataclass
class Vector:
    """Paths of a vector: their track in memory, and where the next one goes."""

    code: Code
    paths: range  # of the chunk
    track: np.ndarray
    other: np.ndarray
    fixed: np.ndarray


@final
class ArrayRunner(Runner):
    """Eight paths in a vector where there are as many, otherwise one by one, with the same bits."""

    name = "llvm"
    sparse = True
    chunk = PATHS
    grain = 1

    def __init__(self, system: System, method: Method, n: int, dtype: str, length: str) -> None:
        self.how = f"with loops over arrays, for {length} would take too long"
        self.system, self.method, self.n, self.dtype = system, method, n, dtype
        self.program = compile_arrays(system, method, n, dtype)
        self.workers = cores()
        self.lock = threading.Lock()
        self.codes: dict[int, Code] = {}

    @property
    def lanes(self) -> str:
        """How paths share the work."""
        return f"{PATHS} paths in a vector or one by one, {cores()} cores"

    def code(self, paths: int) -> Code:
        """Compiled when it is first needed."""
        with self.lock:
            if paths not in self.codes:
                self.codes[paths] = Code(self.program, paths)
            return self.codes[paths]

    @cached_property
    def plain(self) -> PlainRunner:
        """By which steps in doubt are taken again."""
        return PlainRunner(self.system, self.method, self.n, self.dtype)

    # Between NumPy's arrays and those of the kernel.

    def _view(self, code: Code, memory: np.ndarray, place: int, size: int, dtype: str) -> np.ndarray:
        """An array of the kernel, (size, paths)."""
        kind = np.dtype(dtype if dtype in ("float64", "float32", "int32") else np.int64)
        start = place * SLOT * code.paths
        return memory[start : start + size * code.paths * kind.itemsize].view(kind).reshape(size, code.paths)

    def _tracked(self, group: Vector) -> list[np.ndarray]:
        """The track of a group: one view (size, paths) for each leaf."""
        kernel = group.code.kernel
        return [self._view(group.code, group.track, kernel.track[x], x.size, x.dtype) for x in self.program.track]

    def begin(self, states: State, parameters: Mapping[str, np.ndarray]) -> list[Vector]:
        """Groups of paths at their start."""
        state = State(*(np.asarray(x, self.dtype) for x in states))
        leaves = jax.tree.leaves(begin(state, len(self.method.outcomes)))
        paths = len(state.q)
        size = PATHS if paths == PATHS else 1
        groups = []
        for first in range(0, paths, size):
            code = self.code(size)
            kernel, own = code.kernel, range(first, first + size)
            group = Vector(
                code, own, *(_memory(k * size) for k in (kernel.track_size, kernel.track_size, kernel.fixed_size))
            )
            for view, leaf in zip(self._tracked(group), leaves, strict=True):
                view[:] = np.reshape(leaf[first : first + size], (size, -1)).T
            for name, value in parameters.items():
                array = self.program.fixed[f"parameter {name}"]
                view = self._view(code, group.fixed, kernel.fixed[array], array.size, array.dtype)
                view[:] = np.reshape(value[first : first + size], (size, -1)).T
            groups.append(group)
        return groups

    def advance(
        self,
        carried: list[Vector],
        paths: range,
        seed: int,
        h: float,
        first: int,
        stop: int,
        stride: int,
        offset: int = 0,
    ) -> tuple[Any, Any, Any]:
        """One call of the kernel for each group, and more where steps are in doubt."""
        rows = stop // stride - first // stride
        numbers = path_numbers(paths, carried[-1].paths.stop)
        q, p = (np.empty((rows, len(numbers), self.n), self.dtype) for _ in range(2))
        for group in carried:
            own = slice(group.paths.start, group.paths.stop)
            buffer = self._advance_group(group, numbers[own], seed, h, first, stop, stride, offset)
            q[:, own], p[:, own] = (buffer[:, k].swapaxes(1, 2) for k in range(2))
        return carried, q, p

    def _advance_group(
        self, group: Vector, paths: np.ndarray, seed: int, h: float, first: int, stop: int, stride: int, offset: int
    ) -> np.ndarray:
        code, kernel = group.code, group.code.kernel
        values = {
            "h": np.array([h]),
            "key": np.array([seed & 0xFFFFFFFF, seed >> 32]),
            "path": np.array([paths & np.uint64(0xFFFFFFFF), paths >> np.uint64(32)]),
        }
        for name, value in values.items():
            array = self.program.fixed[name]
            view = self._view(code, group.fixed, kernel.fixed[array], array.size, array.dtype)
            view[:] = value if value.ndim == 2 else value[:, None]
        rows = stop // stride - first // stride
        buffer = np.empty((max(rows, 1), 2, self.n, code.paths), self.dtype)
        now = first
        while now < stop:
            written = now // stride - first // stride
            pointers = (group.track, group.other, group.fixed, code.frame, code.tables, buffer[written:])
            begun = now
            now = code.function(*(x.ctypes.data for x in pointers), now, stop, stride, offset)
            if (now - begun) % 2:
                group.track, group.other = group.other, group.track
            self._take_again(group, paths, seed, h, now - 1, offset)
            if now % stride == 0:
                for k, view in enumerate(self._tracked(group)[:2]):
                    buffer[now // stride - first // stride - 1, k] = view
        return buffer[:rows]

    def _take_again(self, group: Vector, paths: np.ndarray, seed: int, h: float, step: int, offset: int) -> None:
        """The step of paths that are in doubt, on the plain engine."""
        views = self._tracked(group)
        status = views[3]
        for lane in np.flatnonzero(status[0] == IN_DOUBT).tolist():
            status[0, lane] = 0
            track = self._alone(views, lane)
            kernel = group.code.kernel
            values: dict[str, Any] = {}
            for name, shape in ((name, np.shape(x)) for name, x in self.system.parameters.items()):
                array = self.program.fixed[f"parameter {name}"]
                view = self._view(group.code, group.fixed, kernel.fixed[array], array.size, array.dtype)
                values[name] = np.reshape(view[:, lane], (1, *shape))
            number, plain = int(paths[lane]), self.plain
            (_, track), _, _ = plain.advance(
                (values, track), range(number, number + 1), seed, h, step, step + 1, step + 2, offset
            )
            for view, leaf in zip(views, jax.tree.leaves(track), strict=True):
                view[:, lane] = np.asarray(leaf).reshape(-1)

    def _alone(self, views: list[np.ndarray], lane: int) -> Track:
        """The track of one path of a group."""
        q, p, v, status, failed, residual, iterations, counts = (view[:, lane].copy() for view in views)
        fate = Fate(status, failed, residual, iterations, counts[None])
        return Track(State(q[None], p[None], v[None]), fate)

    # What became of the paths.

    def _joined(self, carried: list[Vector], which: int) -> np.ndarray:
        return np.concatenate([self._tracked(group)[which].T for group in carried])

    def fate(self, carried: list[Vector]) -> Fate:
        """How the paths fared so far, as NumPy arrays."""
        *single, counts = (self._joined(carried, i) for i in range(3, 8))
        return Fate(*(x[:, 0] for x in single), counts)  # type: ignore[call-arg]

    def places(self, carried: list[Vector]) -> tuple[np.ndarray, np.ndarray]:
        """Positions and momenta, as NumPy arrays (paths, n)."""
        return self._joined(carried, 0), self._joined(carried, 1)

    def velocities(self, carried: list[Vector]) -> Callable[[], np.ndarray] | None:
        """Where Newton's method would begin."""
        own = self._joined(carried, 2)
        return lambda: own
