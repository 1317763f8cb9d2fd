"""The device, through CuPy: what engines on it share."""

from __future__ import annotations

import importlib.util
from queue import Empty, SimpleQueue
from typing import Any

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


_LANDING = 2**26
"""Bytes of an array up to which it is copied from the device into page-locked memory, which is several times as fast.
Such memory is kept for the next one, and nobody else can have it."""

_idle: SimpleQueue[Any] = SimpleQueue()
"""Streams that no chunk has.  They are never given up, because CuPy keeps free memory for the stream that had it."""


def compiled(source: str) -> Any:
    """The kernel of a source, compiled by NVRTC."""
    import cupy

    return cupy.RawModule(code=source, options=("--std=c++17",)).get_function(KERNEL)


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
