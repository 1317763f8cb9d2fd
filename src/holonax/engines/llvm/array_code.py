"""The machine code of an array kernel, with what one has to know to call it: made from a program, or kept."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, NamedTuple, final

import numpy as np

from holonax.compiler.arrays.program import ArrayProgram
from holonax.engines.kept import StepCache, as_array
from holonax.engines.llvm.array_kernel import KERNEL, SLOT, ArrayKernel
from holonax.engines.llvm.machine import load, object_code

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 6, *[ctypes.c_int64] * 4)
ALIGNMENT = 64


def aligned_memory(numbers: int) -> np.ndarray:
    """Room for so many numbers, beginning where a line of the cache does."""
    size = numbers * SLOT + ALIGNMENT * 8
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset : offset + size]


class Place(NamedTuple):
    """Where an array is in memory, in numbers per path; how many numbers it has; their type."""

    begin: int
    size: int
    dtype: str


class MemoryLayout(NamedTuple):
    """Where the arrays of a kernel are that others than itself write or read, and how much memory it needs."""

    track: list[Place]
    fixed: dict[str, Place]
    parameters: list[Place]
    track_size: int
    fixed_size: int
    frame_size: int

    @staticmethod
    def of(kernel: ArrayKernel) -> MemoryLayout:
        """Of a kernel whose text is written."""
        program = kernel.arrays
        fixed = {name: Place(kernel.fixed[x], x.size, x.dtype) for name, x in program.fixed.items()}
        track = [Place(kernel.track[x], x.size, x.dtype) for x in program.track]
        own = [fixed[x.name] for x in program.parameters]
        return MemoryLayout(track, fixed, own, kernel.track_size, kernel.fixed_size, kernel.frame_size)

    @staticmethod
    def read(told: list[Any]) -> MemoryLayout:
        """From what was written as JSON."""
        track, fixed, own, *sizes = told
        places = {name: Place(*x) for name, x in fixed.items()}
        return MemoryLayout([Place(*x) for x in track], places, [Place(*x) for x in own], *sizes)


@final
class Code:
    """The kernel for so many paths in a vector: where it expects what, its tables, and its machine code."""

    def __init__(self, paths: int, layout: MemoryLayout, data: list[np.ndarray], code: bytes) -> None:
        self.paths, self.layout, self.data = paths, layout, data
        self.tables = np.array([x.ctypes.data for x in self.data], np.uint64)
        address, self.compiler = load(code, KERNEL)
        self.function = SIGNATURE(address)
        self.frames = threading.local()

    @staticmethod
    def of(program: ArrayProgram, paths: int, kept: StepCache) -> Code:
        """Of a program, and kept."""
        kernel = ArrayKernel(program, paths)
        code = object_code(kernel.text())
        layout = MemoryLayout.of(kernel)
        kept.keep(paths, layout, [*kernel.data, as_array(code)])
        return Code(paths, layout, kernel.data, code)

    @staticmethod
    def kept(paths: int, kept: StepCache) -> Code | None:
        """From the cache, if it is there."""
        if (found := kept.find(paths)) is None:
            return None
        told, (*data, code) = found
        return Code(paths, MemoryLayout.read(told), data, code.tobytes())

    @property
    def frame(self) -> np.ndarray:
        """Of this thread."""
        if not hasattr(self.frames, "memory"):
            self.frames.memory = aligned_memory(self.layout.frame_size * self.paths)
        return self.frames.memory
