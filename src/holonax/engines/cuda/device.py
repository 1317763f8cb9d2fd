"""The device, through CuPy: what engines on it share."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, final

import numpy as np

KERNEL = "advance"


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


_LANDING = 2**27
"""Bytes of an array up to which it is copied from the device into page-locked memory, which is several times as fast.
Such memory is kept for the next one, and nobody else can have it."""

_idle: SimpleQueue[Any] = SimpleQueue()
"""Streams that no chunk has.  They are never given up, because CuPy keeps free memory for the stream that had it."""


def compiled(source: str) -> Any:
    """The kernel of a source, compiled by NVRTC."""
    import cupy

    return cupy.RawModule(code=source, options=("--std=c++17",)).get_function(KERNEL)


@final
class Room:
    """For kernels of a run side by side: two of them, or more as long as these have few threads.

    If all ran at a time, all would end together, and the host would have everything to store when the device has
    nothing left to do.  With twice as many threads as fit the device, it is busy while one ends and the next begins.
    """

    def __init__(self, kernel: Any, block: int) -> None:
        import cupy

        resident = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.kernel.ptr, block, 0)
        self.few = 2 * resident * block * cupy.cuda.Device().attributes["MultiProcessorCount"]
        self.inside: list[int] = []  # threads of the kernels that run
        self.changed = threading.Condition()

    @contextmanager
    def entered(self, threads: int) -> Iterator[None]:
        """Wait for room for a kernel of so many threads; it has the room until the end of the context."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.inside) < 2 or sum(self.inside) < self.few)
            self.inside.append(threads)
        try:
            yield
        finally:
            with self.changed:
                self.inside.remove(threads)
                self.changed.notify_all()


def idle_stream() -> Any:
    """A stream that nobody uses, kept from earlier calls or new."""
    import cupy

    try:
        return _idle.get_nowait()
    except Empty:
        return cupy.cuda.Stream(non_blocking=True)


def released(stream: Any) -> None:
    """Give a stream back, for `idle_stream`."""
    _idle.put(stream)


def landed(array: Any) -> np.ndarray:
    """A copy on the host of what the current stream computes; waits for it."""
    import cupy

    array = cupy.ascontiguousarray(array)
    if not 0 < array.nbytes <= _LANDING:
        return np.asarray(array.get())
    memory = cupy.cuda.alloc_pinned_memory(2 ** (array.nbytes - 1).bit_length())  # few sizes, to find them again
    return np.asarray(array.get(out=np.ndarray(array.shape, array.dtype, memory)))


def fetched_later(stream: Any, array: Any) -> np.ndarray:
    """A copy on the host of what a stream computes; waits for it when it is called."""
    with stream:
        return landed(array)
