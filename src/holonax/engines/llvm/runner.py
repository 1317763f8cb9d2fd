"""Chunks of paths as one vectorised machine-code kernel, made by LLVM while the program runs: threads over chunks."""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, final

import numpy as np

from holonax.compiler import NoiseTables, Target, compile_step
from holonax.compiler.frontend.functions import FUNCTIONS
from holonax.compiler.ir.graph import TooLong, Untranslatable
from holonax.compiler.ir.program import Program
from holonax.engines.base import ROWS, cores, path_numbers
from holonax.engines.kept import FROM_CACHE, NOT_KEPT, StepCache, as_array
from holonax.engines.lanes import LaneRunner, Outline
from holonax.engines.llvm.array_runner import ArrayRunner
from holonax.engines.llvm.kernel import KERNEL, kernel
from holonax.engines.llvm.machine import is_x86, load, object_code, processor
from holonax.mechanics.noise import normal_pairs_p
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import Fate

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


def machine_code(program: Program, width: int) -> bytes:
    """The kernel as an object file."""
    attributes = ORDER_FOR if is_x86() else ()
    return object_code(kernel(program, width, *attributes))


SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 4)


def callable_kernel(code: bytes) -> tuple[Any, Any]:
    """The kernel as a function of four pointers and four sizes, and what must be kept alive with it."""
    address, compiler = load(code, KERNEL)
    return SIGNATURE(address), compiler


@final
class Again:
    """The kernel by which steps in doubt are taken again: compiled when the first one is, which is rare.

    `place` holds the address to be called: at first that of `compile_and_call`.
    """

    def __init__(self, code: Callable[[], bytes]) -> None:
        self.code, self.lock = code, threading.Lock()
        self.error: BaseException | None = None
        self.kernel: Any = None
        self.first = SIGNATURE(self.compile_and_call)
        self.place = np.array([ctypes.cast(self.first, ctypes.c_void_p).value], np.uint64)

    def compile_and_call(self, *arguments: Any) -> None:
        """Called by a kernel, which knows no exceptions; `raise_errors` does."""
        try:
            with self.lock:
                if self.kernel is None:
                    self.kernel, self.compiler = callable_kernel(self.code())
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
    """Any multiple of the vector's width in a call: lanes do not know of each other.

    Made from the machine code of the kernel, and what makes that of the kernel by which steps are taken again.
    `program` is what was compiled, if it was in this process.
    """

    name = "llvm"
    program: Program | None = None

    def __init__(self, outline: Outline, code: bytes, again: Callable[[], bytes]) -> None:
        super().__init__(outline)
        self.grain = width_of(outline.size)
        row = 2 * outline.n * np.dtype(outline.dtype).itemsize
        self.chunk = max(self.grain, min(4096, 2 ** int(np.log2(_BUFFER / (ROWS * row)))))
        self.workers = cores()
        self.kernel, self.compiler = callable_kernel(code)
        self.again = Again(again)

    def begin(self, states: State, parameters: Mapping[str, np.ndarray], fate: Fate | None = None) -> list[np.ndarray]:
        """The entries as rows of one matrix, whose addresses need not be asked for one by one."""
        entries = self.entries(states, parameters, fate)
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
        rows = self.rows(size, first, stop, stride)
        pointers = (x.ctypes.data for x in (arrays, words, fixed, rows))
        self.kernel(*pointers, size, first, stop, stride)
        self.again.raise_errors()
        return carried, *self.split(rows)


_KERNEL, _AGAIN, _REASON = "kernel", "again", "reason"


def runner_of(program: Program, kept: StepCache = NOT_KEPT) -> LlvmRunner:
    """The runner of a program, whose code is kept."""
    outline = Outline.of(program)
    code = machine_code(program, width_of(outline.size))
    kept.keep(_KERNEL, asdict(outline), [as_array(code)])
    runner = LlvmRunner(outline, code, partial(_code_again, kept, lambda: program, outline))
    runner.program = program
    return runner


def _code_again(kept: StepCache, program: Callable[[], Program], outline: Outline) -> bytes:
    """Of the kernel by which steps are taken again, which is kept too."""
    if (found := kept.find(_AGAIN)) is not None:
        return found[1][0].tobytes()
    again = program().again
    assert again is not None  # by our target
    code = machine_code(again(), width_of(outline.size))
    kept.keep(_AGAIN, None, [as_array(code)])
    return code


def prepare(system: System, method: Method, n: int, dtype: str) -> LlvmRunner | ArrayRunner:
    """From the cache, or trace, fold and compile."""
    kept = StepCache.of(processor(), system, method, n, dtype)
    if (found := kept.find(_KERNEL)) is None:
        return _compiled(kept, system, method, n, dtype)
    told, arrays = found
    if _REASON in told:
        return ArrayRunner(system, method, n, dtype, told[_REASON], kept)
    outline, compiled = Outline(**told), partial(compile_step, system, method, n, dtype, TARGET)
    runner = LlvmRunner(outline, arrays[0].tobytes(), partial(_code_again, kept, compiled, outline))
    runner.how = FROM_CACHE
    return runner


def _compiled(kept: StepCache, system: System, method: Method, n: int, dtype: str) -> LlvmRunner | ArrayRunner:
    """As single numbers, or with loops over arrays where these would be too many."""
    reason = "lists of neighbours change on the way"
    if not system.recipes:
        try:
            return runner_of(compile_step(system, method, n, dtype, TARGET, times=1), kept)
        except TooLong as length:
            reason = f"{length} would take too long to compile entry by entry"
    try:
        runner = ArrayRunner(system, method, n, dtype, reason, kept)
        runner.check_translatable()
    except Untranslatable as in_arrays:
        if system.recipes:
            raise Untranslatable(f"neighbour lists with {method}: {in_arrays}") from None
        try:
            return runner_of(compile_step(system, method, n, dtype, TARGET), kept)
        except TooLong as length:
            raise Untranslatable(f"{in_arrays} as loops over arrays, nor {length} entry by entry") from None
    kept.keep(_KERNEL, {_REASON: reason}, [])
    return runner
