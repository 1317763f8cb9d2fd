"""Chunks of paths as one CUDA kernel, a thread per path, compiled by NVRTC through CuPy."""

from __future__ import annotations

import importlib.util
import threading
from typing import Any, final

import numpy as np

from holonax.engines.base import LaneRunner
from holonax.engines.cuda_emit import KERNEL, kernel
from holonax.lanes.functions import FUNCTIONS
from holonax.lanes.program import Program, Target, program
from holonax.methods.base import Method
from holonax.system import System

TARGET = Target(FUNCTIONS, most=50_000)
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


WORKERS = 4
"""Chunks at a time, each with a stream of its own: while one is copied or stored, the device computes others."""


@final
class CudaRunner(LaneRunner):
    """Up to a million paths in a call; everything stays on the device until it is recorded."""

    def __init__(self, program: Program) -> None:
        import cupy

        super().__init__(program)
        self.chunk, self.grain, self.workers = 2**20, THREADS, WORKERS
        self.module = cupy.RawModule(code=kernel(program), options=("--std=c++17",))
        self.kernel = self.module.get_function(KERNEL)
        self.mine = threading.local()  # a chunk stays in one thread

    @property
    def stream(self) -> Any:
        """The stream of this thread."""
        import cupy

        if not hasattr(self.mine, "stream"):
            self.mine.stream = cupy.cuda.Stream(non_blocking=True)
        return self.mine.stream

    def begin(self, states: Any) -> list:
        """As the other engines, on the device; what is the same for all paths is not copied a million times."""
        import cupy

        def on_device(x: np.ndarray) -> Any:
            return cupy.full(x.shape, x[0], x.dtype) if x.strides == (0,) else cupy.asarray(np.ascontiguousarray(x))

        self.mine.paths = None, None  # of the last call, here and on the device
        with self.stream:
            return [on_device(x) for x in self.entries(states)]

    def advance(
        self, carried: list, paths: np.ndarray, seed: int, h: float, first: int, stop: int, stride: int
    ) -> tuple[Any, Any, Any]:
        """One launch, in place."""
        import cupy

        size = len(paths)
        numbers = (np.int64(x) for x in (size, first, stop, stride))
        scalars = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32), np.dtype(self.program.dtype).type(h)
        with self.stream:
            arrays = cupy.asarray(np.array([array.data.ptr for array in carried], np.uint64))
            if self.mine.paths[0] is not paths:
                self.mine.paths = paths, cupy.asarray(paths)
            rows = self.rows(cupy, size, first, stop, stride)
            self.kernel((-(-size // THREADS),), (THREADS,), (arrays, self.mine.paths[1], rows, *scalars, *numbers))
            self.stream.synchronize()
            return carried, *(cupy.ascontiguousarray(part).get() for part in self.split(rows))

    def fate(self, carried: list) -> Any:
        """How the paths fared so far, as NumPy arrays."""
        with self.stream:
            return super().fate([x.get() if i >= 3 * self.program.n else x for i, x in enumerate(carried)])


def prepare(system: System, method: Method, n: int, dtype: str) -> CudaRunner:
    """Trace, fold and compile."""
    return CudaRunner(program(system, method, n, dtype, TARGET))
