"""`python -m benchmarks.gpu_short [--sweep]`: short runs on an NVIDIA GPU, end to end, against their kernel alone.

A run of some milliseconds shows what the host does beside the kernel: checks, starts, transfers, bookkeeping.  The
kernel alone is one launch for all paths, timed by events of the device; end to end is the time that `hx.simulate` takes
with its program compiled and results on the host.  Then when each part of such a run begins and ends, thread by thread;
with `--sweep`, other sizes of chunks and other numbers of workers.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np

import holonax as hx
from benchmarks.contestants import H
from holonax.engines import runner
from holonax.engines.cuda.runner import CudaRunner
from holonax.simulation.plan import Plan
from holonax.simulation.recording import Recorder

ENTRY = hx.systems.pendulum()
SIZES = ((2**20, 1000), (2**24, 256), (2**16, 1000), (2**10, 1000))
REPEATS = 9
CHUNKS, LEAST, WORKERS = (2**16, 2**17, 2**18), (2**15, 2**16, 2**17), (4, 8)


def program(dtype: str = "float64") -> CudaRunner:
    """The compiled pendulum."""
    made = runner("cuda", ENTRY.system.form, hx.EulerA(), 3, dtype)
    assert isinstance(made, CudaRunner)
    return made


def alone(paths: int, steps: int) -> float:
    """Seconds of one launch for all paths."""
    import cupy

    made, found = program(), []
    kernel = made.kernel
    q, p = (np.broadcast_to(np.asarray(x), (paths, 3)) for x in (ENTRY.start.q, ENTRY.start.p))

    def timed(*launch: Any) -> None:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        kernel(*launch)
        end.record()
        end.synchronize()
        found.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)

    made.kernel = timed
    for _ in range(REPEATS):
        made.advance(made.begin(hx.State(q, p, p), {}), range(paths), 0, H, 0, steps, steps)
    made.kernel = kernel
    return statistics.median(found)


def simulate(paths: int, steps: int) -> hx.Run:
    """A run that keeps the end alone."""
    options = {"paths": paths, "seed": 0, "save_every": None, "engine": "cuda", "progress": False}
    return hx.simulate(ENTRY.system, hx.EulerA(), ENTRY.start, t1=steps * H, h=H, **options)


def end_to_end(paths: int, steps: int) -> list[float]:
    """Seconds of runs, in order, after some that need not count."""
    found = []
    for _ in range(REPEATS + 3):
        begin = time.perf_counter()
        simulate(paths, steps)
        found.append(time.perf_counter() - begin)
    return found[3:]


@contextmanager
def watched(places: dict[str, tuple[Any, str]]) -> Iterator[list[tuple[int, str, float, float]]]:
    """Notes of thread, name, begin and end of every call of some functions."""
    notes: list[tuple[int, str, float, float]] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            begin = time.perf_counter()
            result = function(*arguments, **more)
            notes.append((threading.get_ident(), name, begin, time.perf_counter()))
            return result

        return call

    before = {name: vars(owner)[attribute] for name, (owner, attribute) in places.items()}
    for name, (owner, attribute) in places.items():
        new = noted(name, getattr(owner, attribute))
        setattr(owner, attribute, staticmethod(new) if isinstance(before[name], staticmethod) else new)
    try:
        yield notes
    finally:
        for name, (owner, attribute) in places.items():
            setattr(owner, attribute, before[name])


def timeline(paths: int, steps: int) -> str:
    """When the parts of a run begin and end, in milliseconds."""
    places = {
        "checks": (Plan, "of"), "begin": (CudaRunner, "begin"), "spread": (CudaRunner, "_for_all"),
        "advance": (CudaRunner, "advance"),
        "fate": (CudaRunner, "fate"), "save": (Recorder, "_save"), "keep": (Recorder, "_keep"),
    }  # fmt: skip
    with watched(places) as notes:
        begin = time.perf_counter()
        simulate(paths, steps)
        end = time.perf_counter()
    lines = [f"2^{np.log2(paths):g} x {steps}: {1e3 * (end - begin):.2f} ms"]
    for thread in dict.fromkeys(note[0] for note in sorted(notes, key=lambda note: note[2])):
        own = [f"{name} {1e3 * (a - begin):.2f}-{1e3 * (b - begin):.2f}" for who, name, a, b in notes if who == thread]
        lines.append("  " + ", ".join(own))
    return "\n".join(lines)


def sweep(paths: int, steps: int, kernel: float) -> None:
    """Fractions of the kernel's speed by sizes of the first chunks and the last ones, and by workers."""
    made = program()
    before = made.chunk, made.least, made.workers
    for made.chunk, made.least, made.workers in product(CHUNKS, LEAST, WORKERS):
        ratio = kernel / statistics.median(end_to_end(paths, steps))
        sizes = f"chunks of 2^{np.log2(made.chunk):g} to 2^{np.log2(made.least):g}, {made.workers} workers"
        print(f"  2^{np.log2(paths):g} x {steps}, {sizes}: {ratio:.3f}", flush=True)
    made.chunk, made.least, made.workers = before


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_short", description="Short runs on a GPU.")
    parser.add_argument("--sweep", action="store_true", help="also other sizes of chunks and numbers of workers")
    arguments = parser.parse_args()
    kernels = {}
    for paths, steps in SIZES:
        kernels[paths, steps] = kernel = alone(paths, steps)
        runs = end_to_end(paths, steps)
        whole, rate = statistics.median(runs), paths * steps
        print(
            f"2^{np.log2(paths):g} x {steps}: kernel {1e3 * kernel:.2f} ms ({rate / kernel:.2e} path-steps/s), "
            f"end to end {1e3 * whole:.2f} ms ({rate / whole:.2e}), "
            f"from {1e3 * min(runs):.2f} to {1e3 * max(runs):.2f}; ratio {kernel / whole:.3f}",
            flush=True,
        )
    for size in SIZES[:1]:
        print(timeline(*size), flush=True)
    if arguments.sweep:
        for size in SIZES[:1]:
            sweep(*size, kernels[size])


if __name__ == "__main__":
    main()
