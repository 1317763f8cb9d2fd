"""The C of `reference.c`, hand-written or also hand-tuned, compiled for this machine and called through ctypes."""

from __future__ import annotations

import atexit
import ctypes
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("reference.c")
FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-Wno-psabi", "-shared", "-fPIC")
VARIANTS = {"hand-written C": False, "hand-tuned C": True}  # and whether -DTUNED, which reference.c explains
PENDULUM_VECTORS = 4  # vectors of 8 paths side by side: among the fastest of 1 to 6 on a Zen 4 core

_ARRAY = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
_COUNTS = [ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_uint64]  # first path, paths, steps, seed
_STATES = [_ARRAY] * 4  # q0, p0, q, p


def compiler() -> str | None:
    """The C compiler of this machine, if it has one."""
    return next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)


@cache
def _library(tuned: bool, vectors: int, beads: int | None = None) -> ctypes.CDLL | None:
    if (cc := compiler()) is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="holonax-benchmarks-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = folder / "reference.so"
    machine = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
    macros = [f"-DVECTORS={vectors}", *(["-DTUNED"] if tuned else []), *([f"-DBEADS={beads}"] if beads else [])]
    command = [cc, machine, *FLAGS, *macros, str(SOURCE), "-o", str(target), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    library = ctypes.CDLL(str(target))
    parameters = [] if beads is None else [ctypes.c_double]  # sigma
    names = ("pendulum_euler_a", "pendulum_rattle", "pendulum_kicked") if beads is None else ("chain_euler_a",)
    for name in names:
        function = getattr(library, name)
        function.argtypes, function.restype = [*_COUNTS, ctypes.c_double, *parameters, *_STATES], None
    return library


def pendulum(
    method: str,
    q0: np.ndarray,
    p0: np.ndarray,
    *,
    paths: int,
    steps: int,
    h: float,
    seed: int = 0,
    first: int = 0,
    tuned: bool = False,
    vectors: int = PENDULUM_VECTORS,
) -> tuple[np.ndarray, np.ndarray] | None:
    """End states `(q, p)` of shape (3, paths) by `method` "euler_a", "rattle" or "kicked"; None without a compiler."""
    if (library := _library(tuned, vectors)) is None:
        return None
    q, p = np.empty((3, paths)), np.empty((3, paths))
    getattr(library, f"pendulum_{method}")(first, paths, steps, seed, h, _vector(q0), _vector(p0), q, p)
    return q, p


def chain(
    q0: np.ndarray,
    p0: np.ndarray,
    *,
    paths: int,
    steps: int,
    h: float,
    sigma: float,
    seed: int = 0,
    first: int = 0,
    tuned: bool = False,
    vectors: int | None = None,
) -> tuple[np.ndarray, np.ndarray] | None:
    """End states `(q, p)` of shape (3 beads, paths) by EulerA, for as many beads as `q0` has."""
    if vectors is None:
        vectors = 2 if len(q0) <= 48 else 1  # two long chains do not fit into the first-level cache
    if (library := _library(tuned, vectors, len(q0) // 3)) is None:
        return None
    q, p = np.empty((len(q0), paths)), np.empty((len(q0), paths))
    library.chain_euler_a(first, paths, steps, seed, h, sigma, _vector(q0), _vector(p0), q, p)
    return q, p


def _vector(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float64)
