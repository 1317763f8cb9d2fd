"""Chunks of paths of large systems: machine code with loops over arrays, for one path or for a vector of them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import jax
import numpy as np

from holonax.compiler.arrays.program import ArrayProgram, compile_arrays
from holonax.engines.base import Runner, cores, path_numbers
from holonax.engines.llvm.array_kernel import KERNEL, SLOT, ArrayKernel
from holonax.engines.llvm.machine import compile_module
from holonax.engines.plain import PlainRunner
from holonax.inputs.parameters import kinds
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import IN_DOUBT, Fate, Track, begin

PATHS = 8
"""Paths in a vector: as many as fill a register."""

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 6, *[ctypes.c_int64] * 4)
ALIGNMENT = 64


def _memory(numbers: int) -> np.ndarray:
    """Room for so many numbers, beginning where a line of the cache does."""
    size = numbers * SLOT + ALIGNMENT * 8
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset : offset + size]


def _copied(memory: np.ndarray) -> np.ndarray:
    copy = _memory((len(memory) - ALIGNMENT * 8) // SLOT)
    copy[:] = memory
    return copy


def _of_paths(parameters: Mapping[str, Any], paths: range) -> dict[str, Any]:
    return jax.tree.map(lambda x: x[paths.start : paths.stop], dict(parameters))


def _shapes(values: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(x.shape for x in jax.tree.leaves(values))


@final
class Code:
    """The kernel for so many paths in a vector."""

    def __init__(self, program: ArrayProgram, paths: int) -> None:
        kernel = ArrayKernel(program, paths)
        text = kernel.text()
        self.program, self.paths, self.kernel = program, paths, kernel
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
    parameters: dict[str, Any]  # of the paths, in `fixed`


@final
class ArrayRunner(Runner):
    """Eight paths in a vector where there are as many, otherwise one by one, with the same bits.

    Programs are compiled for shapes of parameters: that of lists, whose lengths are known when they are made, when the
    first of a length is met.
    """

    name = "llvm"
    sparse = True
    chunk = PATHS
    grain = 1

    def __init__(self, system: System, method: Method, n: int, dtype: str, reason: str) -> None:
        self.how = f"with loops over arrays, for {reason}"
        self.system, self.method, self.n, self.dtype = system, method, n, dtype
        values = kinds(system.parameters, n, dtype)
        self.program = compile_arrays(system, method, n, dtype, values)
        self.programs = {_shapes(values): self.program}
        self.workers = cores()
        self.lock = threading.Lock()
        self.codes: dict[tuple[ArrayProgram, int], Code] = {}

    @property
    def lanes(self) -> str:
        """How paths share the work."""
        return f"{PATHS} paths in a vector or one by one, {cores()} cores"

    def code(self, paths: int, values: dict[str, Any]) -> Code:
        """For parameters of so many paths; compiled when it is first needed."""
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), values)
        shapes = _shapes(one)
        with self.lock:
            if shapes not in self.programs:
                self.programs[shapes] = compile_arrays(self.system, self.method, self.n, self.dtype, one)
            key = self.programs[shapes], paths
            if key not in self.codes:
                self.codes[key] = Code(*key)
            return self.codes[key]

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
        code = group.code
        return [self._view(code, group.track, code.kernel.track[x], x.size, x.dtype) for x in code.program.track]

    def _fixed(self, code: Code, values: dict[str, Any]) -> np.ndarray:
        """Memory of what does not change during a call, with these parameters."""
        fixed = _memory(code.kernel.fixed_size * code.paths)
        for array, value in zip(code.program.parameters, jax.tree.leaves(values), strict=True):
            view = self._view(code, fixed, code.kernel.fixed[array], array.size, array.dtype)
            view[:] = np.reshape(value, (code.paths, -1)).T
        return fixed

    def begin(self, states: State, parameters: Mapping[str, Any]) -> list[Vector]:
        """Groups of paths at their start."""
        state = State(*(np.asarray(x, self.dtype) for x in states))
        leaves = jax.tree.leaves(begin(state, len(self.method.outcomes)))
        paths = len(state.q)
        size = PATHS if paths == PATHS else 1
        groups = []
        for first in range(0, paths, size):
            own = range(first, first + size)
            values = _of_paths(parameters, own)
            code = self.code(size, values)
            track, other = (_memory(code.kernel.track_size * size) for _ in range(2))
            group = Vector(code, own, track, other, self._fixed(code, values), values)
            for view, leaf in zip(self._tracked(group), leaves, strict=True):
                view[:] = np.reshape(leaf[first : first + size], (size, -1)).T
            groups.append(group)
        return groups

    def renewed(self, carried: list[Vector], parameters: Mapping[str, Any]) -> list[Vector]:
        """Other values of some parameters; tracks lie in memory alike whatever the shapes of parameters are."""
        groups = []
        for group in carried:
            values = group.parameters | _of_paths(parameters, group.paths)
            code = self.code(group.code.paths, values)
            groups.append(replace(group, code=code, fixed=self._fixed(code, values), parameters=values))
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
        if self.system.recipes:  # steps may be repeated with other lists
            carried = [replace(group, track=_copied(group.track)) for group in carried]
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
            array = code.program.fixed[name]
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
            values = _of_paths(group.parameters, range(lane, lane + 1))
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
