"""Chunks of paths as one CUDA kernel, a thread per path, compiled by NVRTC through CuPy."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any, final

import numpy as np

from holonax.compiler import Target, compile_step
from holonax.compiler.frontend.functions import FUNCTIONS
from holonax.compiler.ir.program import Program
from holonax.engines.cuda.emit import KERNEL, again, kernel
from holonax.engines.lanes import LaneRunner
from holonax.mechanics.system import State, System
from holonax.methods.base import Method

TARGET = Target("cuda", FUNCTIONS, most=50_000, trials=True)
"""Larger programs would take too long to compile, and spill out of the registers of a thread."""

THREADS = 128


def missing() -> str | None:
    """What this machine lacks for this engine, or None."""
    if not importlib.util.find_spec("cupy"):
        return "CuPy is not installed (pip install 'holonax[cuda]')"
    import cupy

    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no NVIDIA GPU ({error})"
    return None


def lanes(program: Program) -> str:
    """How paths share the work."""
    return f"a thread per path, {THREADS} in a block"


WORKERS = 4
"""Chunks at a time, each with a stream of its own: while one is copied or stored, the device computes others."""


def compiled(source: str) -> Any:
    """A kernel, by NVRTC."""
    import cupy

    return cupy.RawModule(code=source, options=("--std=c++17",)).get_function(KERNEL)


@final
class CudaRunner(LaneRunner):
    """Up to a million paths in a call; everything stays on the device until it is recorded."""

    name = "cuda"

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.chunk, self.grain, self.workers = 2**20, THREADS, WORKERS
        self.kernel = compiled(kernel(program))
        self.lock = threading.Lock()
        self.mine = threading.local()  # a chunk stays in one thread

    @cached_property
    def again(self) -> Any:
        """The kernel by which steps in doubt are taken again: compiled when the first one is, which is rare."""
        assert self.program.again is not None  # by our target
        return compiled(again(self.program.again()))

    @property
    def stream(self) -> Any:
        """The stream of this thread."""
        import cupy

        if not hasattr(self.mine, "stream"):
            self.mine.stream = cupy.cuda.Stream(non_blocking=True)
        return self.mine.stream

    def begin(self, states: State, parameters: Mapping[str, np.ndarray]) -> list:
        """As the other engines, on the device; what is the same for all paths is not copied a million times."""
        import cupy

        def on_device(x: np.ndarray) -> Any:
            return cupy.full(x.shape, x[0], x.dtype) if x.strides == (0,) else cupy.asarray(np.ascontiguousarray(x))

        self.mine.paths = None, None  # of the last call, here and on the device
        with self.stream:
            return [on_device(x) for x in self.entries(states, parameters)]

    def advance(
        self, carried: list, paths: np.ndarray, seed: int, h: float, first: int, stop: int, stride: int, offset: int = 0
    ) -> tuple[Any, Any, Any]:
        """In place: one launch, unless steps are in doubt."""
        import cupy

        size = len(paths)
        numbers = [np.int64(x) for x in (size, first, stop, stride, offset)]
        scalars = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32), np.dtype(self.program.dtype).type(h)
        with self.stream:
            arrays = cupy.asarray(np.array([array.data.ptr for array in carried], np.uint64))
            if self.mine.paths[0] is not paths:
                self.mine.paths = paths, cupy.asarray(paths)
            rows = self.rows(cupy, size, first, stop, stride)
            after, doubts = cupy.full(size, first, np.int64), cupy.zeros(1, np.int32)
            launch = (-(-size // THREADS),), (THREADS,)
            arguments = (arrays, self.mine.paths[1], rows, after, doubts, *scalars, *numbers)
            self.kernel(*launch, arguments)
            while int(doubts.get()[0]):
                with self.lock:
                    take_again = self.again
                doubts.fill(0)
                take_again(*launch, arguments)
                self.kernel(*launch, arguments)
            return carried, *(cupy.ascontiguousarray(part).get() for part in self.split(rows))

    def fetched(self, arrays: list) -> list[np.ndarray]:
        """Some of what is carried, as NumPy arrays."""
        with self.stream:
            return [x.get() for x in arrays]


def prepare(system: System, method: Method, n: int, dtype: str) -> CudaRunner:
    """Trace, fold and compile."""
    return CudaRunner(compile_step(system, method, n, dtype, TARGET))
