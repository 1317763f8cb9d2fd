"""Chunks of paths as one vectorised machine-code kernel, made by LLVM while the program runs: threads over chunks."""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np

from holonax.compiler import NoiseTables, Target, compile_step
from holonax.compiler.frontend.functions import FUNCTIONS
from holonax.compiler.ir.graph import TooLong, Untranslatable
from holonax.compiler.ir.program import Program
from holonax.engines.base import ROWS, cores, path_numbers
from holonax.engines.lanes import LaneRunner
from holonax.engines.llvm.array_runner import ArrayRunner
from holonax.engines.llvm.kernel import KERNEL, kernel
from holonax.engines.llvm.machine import compile_module
from holonax.mechanics.noise import normal_pairs_p
from holonax.mechanics.system import State, System
from holonax.methods.base import Method

TARGET = Target(
    "llvm", FUNCTIONS, most=120_000, tables=NoiseTables(normal_pairs_p, 32, per_round=4), trials=True, long=6_000
)
"""Larger programs would take more than some 15 seconds to compile.  More noise than that would leave the cache of code;
the chains of four blocks do not wait for each other."""

ORDER_FOR = ('"tune-cpu"="atom"',)
"""Processors for whose sake LLVM orders instructions: those that cannot reorder them.  A vector of lanes has so many
independent chains that even those that can profit from it (docs/decisions.md)."""

_LARGEST = np.dtype(np.float64)  # of the numbers that are carried
_BUFFER = 2**24  # bytes of recorded states in a call, so that they stay near the cache


def missing() -> str | None:
    """What this machine lacks for this engine, or None."""
    return None if importlib.util.find_spec("llvmlite") else "llvmlite is not installed (pip install llvmlite)"


def width_of(operations: int) -> int:
    """Lanes of a vector; 8 fill a register with AVX-512, more of them hide latencies and share constants.

    The fewer the larger a program is, since the values of all lanes compete for the registers (docs/decisions.md).
    """
    return 32 if operations < 1500 else 16 if operations < 6000 else 8


def lanes(program: Program) -> str:
    """How paths share the work."""
    return f"{width_of(program.size)} paths in a vector, {cores()} cores"


def machine_code(program: Program, width: int) -> tuple[Any, Any]:
    """The kernel as a function of four pointers and four sizes, and what must be kept alive with it."""
    import llvmlite.binding as llvm

    attributes = ORDER_FOR if llvm.get_process_triple().startswith("x86_64") else ()
    address, compiler = compile_module(kernel(program, width, *attributes), KERNEL)
    return SIGNATURE(address), compiler


SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 4)


@final
class Again:
    """The kernel by which steps in doubt are taken again: compiled when the first one is, which is rare.

    `place` holds the address to be called: at first that of `compile_and_call`.
    """

    def __init__(self, program: Callable[[], Program], width: int) -> None:
        self.program, self.width, self.lock = program, width, threading.Lock()
        self.error: BaseException | None = None
        self.kernel: Any = None
        self.first = SIGNATURE(self.compile_and_call)
        self.place = np.array([ctypes.cast(self.first, ctypes.c_void_p).value], np.uint64)

    def compile_and_call(self, *arguments: Any) -> None:
        """Called by a kernel, which knows no exceptions; `raise_errors` does."""
        try:
            with self.lock:
                if self.kernel is None:
                    self.kernel, self.compiler = machine_code(self.program(), self.width)
                    self.place[0] = ctypes.cast(self.kernel, ctypes.c_void_p).value or 0
            self.kernel(*arguments)
        except BaseException as error:
            self.error = error

    def raise_errors(self) -> None:
        """What went wrong while compiling."""
        if self.error is not None:
            raise self.error


@final
class LlvmRunner(LaneRunner):
    """Any multiple of the vector's width in a call: lanes do not know of each other."""

    name = "llvm"

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.grain = width_of(program.size)
        row = len(program.recorded) * np.dtype(program.dtype).itemsize
        self.chunk = max(self.grain, min(4096, 2 ** int(np.log2(_BUFFER / (ROWS * row)))))
        self.workers = cores()
        self.kernel, self.compiler = machine_code(program, self.grain)
        assert program.again is not None  # by our target
        self.again = Again(program.again, self.grain)

    def begin(self, states: State, parameters: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The entries as rows of one matrix, whose addresses need not be asked for one by one."""
        entries = self.entries(states, parameters)
        carried = list(np.empty((len(entries), len(states.q)), _LARGEST))
        for i, x in enumerate(entries):
            if x.dtype != _LARGEST:
                carried[i] = carried[i].view(x.dtype)[: len(x)]
            carried[i][:] = x
        return carried

    def advance(
        self, carried: list, paths: range, seed: int, h: float, first: int, stop: int, stride: int, offset: int = 0
    ) -> tuple[Any, Any, Any]:
        """One call of the kernel, in place; the interpreter is free meanwhile."""
        size = len(carried[0])
        arrays = carried[0].ctypes.data + np.arange(len(carried), dtype=np.uint64) * np.uint64(size * _LARGEST.itemsize)
        index = path_numbers(paths, size)
        words = np.concatenate([index & np.uint64(0xFFFFFFFF), index >> np.uint64(32)])
        again = self.again.place.ctypes.data
        size_of_step = int(np.float64(h).view(np.uint64))
        fixed = np.array([seed & 0xFFFFFFFF, seed >> 32, size_of_step, again, offset], np.uint64)
        rows = self.rows(np, size, first, stop, stride)
        pointers = (x.ctypes.data for x in (arrays, words, fixed, rows))
        self.kernel(*pointers, size, first, stop, stride)
        self.again.raise_errors()
        return carried, *self.split(rows)


def prepare(system: System, method: Method, n: int, dtype: str) -> LlvmRunner | ArrayRunner:
    """Trace, fold and compile: as single numbers, or with loops over arrays where these would be too many."""
    if system.recipes:
        return ArrayRunner(system, method, n, dtype, "lists of neighbours change on the way")
    try:
        return LlvmRunner(compile_step(system, method, n, dtype, TARGET, times=1))
    except TooLong as length:
        try:
            return ArrayRunner(system, method, n, dtype, f"{length} would take too long")
        except Untranslatable:
            return LlvmRunner(compile_step(system, method, n, dtype, TARGET))
