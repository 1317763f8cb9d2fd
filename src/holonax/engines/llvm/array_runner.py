"""Chunks of paths of large systems: machine code with loops over arrays, for one path or for a vector of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import numpy as np

from holonax.compiler.arrays.program import SLOT
from holonax.engines.arrays import ArrayEngine, Shapes, of_one_path, of_paths, shapes_of
from holonax.engines.base import cores, path_numbers
from holonax.engines.kept import FROM_CACHE, NOT_KEPT, StepCache
from holonax.engines.llvm.array_code import ALIGNMENT, Code, Place, aligned_memory, kernel_for
from holonax.engines.llvm.machine import processor
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import IN_DOUBT, Fate, begin

PATHS = 8
"""Paths in a vector: as many as fill a register."""


def _copied(memory: np.ndarray) -> np.ndarray:
    copy = aligned_memory((len(memory) - ALIGNMENT * 8) // SLOT)
    copy[:] = memory
    return copy


def _frame(frames: dict[Code, np.ndarray], code: Code) -> np.ndarray:
    """That of a code, made when it is first needed."""
    if code not in frames:
        frames[code] = code.new_frame()
    return frames[code]


@dataclass
class Vector:
    """Paths of a vector: their track in memory, where the next one goes, and a frame that vectors of a chunk share."""

    code: Code
    paths: range  # of the chunk
    track: np.ndarray
    other: np.ndarray
    fixed: np.ndarray
    frame: np.ndarray
    parameters: dict[str, Any]  # of the paths, in `fixed`


@final
class ArrayRunner(ArrayEngine):
    """Eight paths in a vector where there are as many, otherwise one by one, with the same bits."""

    name = "llvm"
    chunk = PATHS
    grain = 1

    def __init__(
        self, system: System, method: Method, n: int, dtype: str, reason: str, kept: StepCache = NOT_KEPT
    ) -> None:
        super().__init__(system, method, n, dtype, reason)
        self.kept, self.workers = kept, cores()
        self.codes: dict[tuple[Shapes, int], Code] = {}
        self.threads = 1  # that share a path, at most
        self.alike: dict[int, ArrayRunner] = {}  # by their threads

    @property
    def lanes(self) -> str:
        """How paths share the work."""
        shared = cores() > 1 and kernel_for(self.program, 1)[0].shared
        return f"{PATHS} paths in a vector or one by one, {cores()} cores{', which share a single path' * shared}"

    def beside(self, chunks: int) -> ArrayRunner:
        """With a share of the cores for each path."""
        threads = max(1, self.workers // chunks)
        with self.lock:
            if threads not in self.alike:
                self.alike[threads] = copy(self)
                self.alike[threads].threads = threads
            return self if threads == self.threads else self.alike[threads]

    def code(self, paths: int, values: dict[str, Any]) -> Code:
        """For parameters of so many paths; from the cache or compiled, when it is first needed."""
        one = of_one_path(values)
        key = shapes_of(one), paths
        with self.lock:
            if key not in self.codes:
                kept = self.kept
                if shapes_of(one) != shapes_of(self.values):
                    kept = StepCache.of(processor(), self.system, self.method, self.n, self.dtype, one)
                if (code := Code.kept(paths, kept)) is None:
                    code = Code.of(self.program_for(one), paths, kept)
                else:
                    self._tell(FROM_CACHE)
                self.codes[key] = code
            if self.codes[key].shared and self.threads > 1:
                self._tell(f"up to {self.threads} threads to a path")
            return self.codes[key]

    def _tell(self, what: str) -> None:
        """Add something to what is said of the way in which it runs, once."""
        if what not in str(self.how):
            self.how = f"{self.how}, {what}"

    # Between NumPy's arrays and those of the kernel.

    def _view(self, code: Code, memory: np.ndarray, place: Place) -> np.ndarray:
        """An array of the kernel, (size, paths)."""
        kind = np.dtype(place.dtype if place.dtype in ("float64", "float32", "int32") else np.int64)
        start, shape = place.begin * SLOT * code.paths, (place.size, code.paths)
        return memory[start : start + place.size * code.paths * kind.itemsize].view(kind).reshape(shape)

    def _tracked(self, group: Vector) -> list[np.ndarray]:
        """The track of a group: one view (size, paths) for each leaf."""
        return [self._view(group.code, group.track, place) for place in group.code.layout.track]

    def _fixed(self, code: Code, values: dict[str, Any]) -> np.ndarray:
        """Memory of what does not change during a call, with these parameters."""
        fixed = aligned_memory(code.layout.fixed_size * code.paths)
        for place, value in zip(code.layout.parameters, jax.tree.leaves(values), strict=True):
            self._view(code, fixed, place)[:] = np.reshape(value, (code.paths, -1)).T
        return fixed

    @property
    def block(self) -> int:
        """As many as a chunk has at most, not one by one."""
        return PATHS

    def begin(self, states: State, parameters: Mapping[str, Any], fate: Fate | None = None) -> list[Vector]:
        """Groups of paths at their start, or on their way."""
        state = State(*(np.asarray(x, self.dtype) for x in states))
        leaves = jax.tree.leaves(begin(state, len(self.method.outcomes), fate))
        paths = len(state.q)
        size = PATHS if paths == PATHS else 1
        groups: list[Vector] = []
        frames: dict[Code, np.ndarray] = {}
        for first in range(0, paths, size):
            own = range(first, first + size)
            values = of_paths(parameters, own)
            code = self.code(size, values)
            track, other = (aligned_memory(code.layout.track_size * size) for _ in range(2))
            frame = _frame(frames, code)
            group = Vector(code, own, track, other, self._fixed(code, values), frame, values)
            for view, leaf in zip(self._tracked(group), leaves, strict=True):
                view[:] = np.reshape(leaf[first : first + size], (size, -1)).T
            groups.append(group)
        return groups

    def renewed(self, carried: list[Vector], parameters: Mapping[str, Any]) -> list[Vector]:
        """Other values of some parameters; tracks lie in memory alike whatever the shapes of parameters are."""
        groups = []
        frames = {group.code: group.frame for group in carried}
        for group in carried:
            values = group.parameters | of_paths(parameters, group.paths)
            code = self.code(group.code.paths, values)
            frame = _frame(frames, code)
            groups.append(replace(group, code=code, fixed=self._fixed(code, values), frame=frame, parameters=values))
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
        code = group.code
        values = {
            "h": np.array([h]),
            "key": np.array([seed & 0xFFFFFFFF, seed >> 32]),
            "path": np.array([paths & np.uint64(0xFFFFFFFF), paths >> np.uint64(32)]),
        }
        for name, value in values.items():
            view = self._view(code, group.fixed, code.layout.fixed[name])
            view[:] = value if value.ndim == 2 else value[:, None]
        rows = stop // stride - first // stride
        buffer = np.empty((max(rows, 1), 2, self.n, code.paths), self.dtype)
        now = first
        while now < stop:
            written = now // stride - first // stride
            pointers = (group.track, group.other, group.fixed, group.frame, code.tables, buffer[written:])
            begun = now
            now = code.call(pointers, now, stop, (stride, offset), self.threads)
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
        for lane in np.flatnonzero(views[3][0] == IN_DOUBT).tolist():
            values = of_paths(group.parameters, range(lane, lane + 1))
            before = [view[:, lane] for view in views]
            after = self.taken_again(before, values, int(paths[lane]), seed, h, step, offset)
            for view, leaf in zip(views, after, strict=True):
                view[:, lane] = leaf

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
