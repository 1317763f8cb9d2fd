"""The CUDA of `reference.cu`, hand-written or also hand-tuned, compiled by NVRTC and launched through CuPy."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).with_name("reference.cu")
VARIANTS = {"hand-written CUDA": False, "hand-tuned CUDA": True}  # and whether -DTUNED, which reference.cu explains
THREADS = 128  # per block; the kernels are compiled for this number

try:
    import cupy
except ImportError:  # a machine without a GPU
    cupy = None


@cache
def _module(dtype: str, tuned: bool, beads: int) -> Any:
    options = ["--std=c++17", f"-DBEADS={beads}", *["-DSINGLE"] * (dtype == "float32"), *["-DTUNED"] * tuned]
    return cupy.RawModule(code=SOURCE.read_text(), options=tuple(options), backend="nvrtc")


def _launch(
    name: str, q0: np.ndarray, p0: np.ndarray, numbers: tuple, *, paths: int, dtype: str, tuned: bool
) -> tuple[Any, Any]:
    kernel = _module(dtype, tuned, max(len(q0) // 3, 1) if name.startswith("chain") else 8).get_function(name)
    q, p = cupy.empty((len(q0), paths), dtype), cupy.empty((len(q0), paths), dtype)
    start = cupy.asarray(q0, dtype), cupy.asarray(p0, dtype)
    kernel((-(-paths // THREADS),), (THREADS,), (np.int64(paths), *numbers, *start, q, p))
    cupy.cuda.get_current_stream().synchronize()
    return q, p


def pendulum_euler_a(
    q0: np.ndarray,
    p0: np.ndarray,
    *,
    paths: int,
    steps: int,
    h: float,
    seed: int = 0,
    dtype: str = "float64",
    tuned: bool = False,
) -> tuple[Any, Any]:
    """End states `(q, p)` of shape (3, paths), on the device."""
    numbers = (np.int64(steps), np.uint64(seed), np.dtype(dtype).type(h))
    return _launch("pendulum_euler_a", q0, p0, numbers, paths=paths, dtype=dtype, tuned=tuned)


def chain_euler_a(
    q0: np.ndarray,
    p0: np.ndarray,
    *,
    paths: int,
    steps: int,
    h: float,
    sigma: float,
    seed: int = 0,
    dtype: str = "float64",
    tuned: bool = False,
) -> tuple[Any, Any]:
    """End states `(q, p)` of shape (3 beads, paths), on the device, for as many beads as `q0` has."""
    real = np.dtype(dtype).type
    numbers = (np.int64(steps), np.uint64(seed), real(h), real(sigma))
    return _launch("chain_euler_a", q0, p0, numbers, paths=paths, dtype=dtype, tuned=tuned)
