"""The machine code of an array kernel, with what one has to know to call it: made from a program, or kept."""

from __future__ import annotations

import ctypes
import time
from typing import Any, NamedTuple, final

import numpy as np

from holonax.background import at_once
from holonax.compiler.arrays.program import SLOT, ArrayProgram
from holonax.engines.kept import StepCache, as_array
from holonax.engines.llvm.array_kernel import KERNEL, ArrayKernel
from holonax.engines.llvm.machine import load, object_code
from holonax.engines.llvm.meeting import meeting_place
from holonax.engines.llvm.pace import Pace

SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int64, *[ctypes.c_void_p] * 6, *[ctypes.c_int64] * 4, ctypes.c_void_p, *[ctypes.c_int64] * 2
)
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


WORTH_A_MEETING = 40_000
"""Operations that threads share between two meetings, from which on two are faster than one: a few microseconds."""


def kernel_for(program: ArrayProgram, paths: int) -> tuple[ArrayKernel, str]:
    """The kernel and its text; one that threads can share, if that is worth their while.

    Such a kernel takes a single thread as long as another one, if its loops are long.
    """
    kernel = ArrayKernel(program, paths, shared=True)
    text = kernel.text()
    if kernel.work < WORTH_A_MEETING * kernel.meetings:
        kernel = ArrayKernel(program, paths, shared=False)
        text = kernel.text()
    return kernel, text


@final
class Code:
    """The kernel for so many paths in a vector: where it expects what, its tables, and its machine code.

    A `shared` one may be called by several threads at a time.
    """

    def __init__(self, paths: int, layout: MemoryLayout, shared: bool, data: list[np.ndarray], code: bytes) -> None:
        self.paths, self.layout, self.shared, self.data = paths, layout, shared, data
        self.tables = np.array([x.ctypes.data for x in self.data], np.uint64)
        address, self.compiler = load(code, KERNEL)
        self.function = SIGNATURE(address)
        self.pace = Pace()

    @staticmethod
    def of(program: ArrayProgram, paths: int, kept: StepCache) -> Code:
        """Of a program, and kept."""
        kernel, text = kernel_for(program, paths)
        code = object_code(text)
        layout = MemoryLayout.of(kernel)
        kept.keep(paths, [layout, kernel.shared], [*kernel.data, as_array(code)])
        return Code(paths, layout, kernel.shared, kernel.data, code)

    @staticmethod
    def kept(paths: int, kept: StepCache) -> Code | None:
        """From the cache, if it is there."""
        if (found := kept.find(paths)) is None:
            return None
        (layout, shared), (*data, code) = found
        return Code(paths, MemoryLayout.read(layout), shared, data, code.tobytes())

    def call(self, pointers: tuple[np.ndarray, ...], first: int, stop: int, rest: tuple[int, int], threads: int) -> int:
        """Take steps, by so many threads or by one; the number of the step that would be next."""
        if not self.shared or threads == 1:
            return self._call(pointers, (first, stop, *rest), 1)
        number = self.pace.choose(threads, stop - first)
        begin = time.monotonic()
        now = self._call(pointers, (first, stop, *rest), number)
        self.pace.note(number, now - first, time.monotonic() - begin)
        return now

    def _call(self, pointers: tuple[np.ndarray, ...], numbers: tuple[int, ...], threads: int) -> int:
        place = meeting_place()
        addresses = [x.ctypes.data for x in (*pointers, place)]

        def one(thread: int, _held: Any = (pointers, place)) -> int:  # memory outlives a caller who is interrupted
            return int(self.function(*addresses[:-1], *numbers, addresses[-1], thread, threads))

        return at_once(one, threads) if threads > 1 else one(0)

    def new_frame(self) -> np.ndarray:
        """Memory for a step: of nobody else while the kernel runs."""
        return aligned_memory(self.layout.frame_size * self.paths)
