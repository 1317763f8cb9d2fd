"""`python -m benchmarks.gpu_arrays [--sweep] [beads ...]`: chains of 16 to 1000 beads on an NVIDIA GPU.

First some systems and methods, a few paths by the GPU and by this machine's CPU: how far they are apart.  Then chains,
by `EulerA`: seconds until the kernel is compiled, bead-steps per second of a launch, for one path and for many, and
beside it the kernel with a thread per path, where that is compiled, and all cores of the CPU.  With `--sweep`, other
numbers of threads per path and of paths that share a multiprocessor.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import holonax as hx
from benchmarks.contestants import H
from holonax.compiler import compile_step
from holonax.engines import runner
from holonax.engines.base import Runner, cores
from holonax.engines.cuda.array_runner import BlockCode, CudaArrayRunner, Shape
from holonax.engines.cuda.runner import TARGET, CudaRunner

BEADS = (16, 32, 64, 128, 256, 1000)
LONGEST_IN_THREADS = 32
SECONDS = 0.15
SHAPES = {
    16: ((32, 16),),
    32: ((32, 12), (64, 8)),
    64: ((32, 5), (64, 5), (64, 8), (128, 3), (128, 5), (256, 5)),
    128: ((128, 2), (128, 4)),
    256: ((128, 4), (256, 2), (256, 4)),
    1000: ((256, 1), (256, 2), (512, 1), (512, 2), (1024, 1)),
}
"""Threads per path, and paths per multiprocessor."""


def arrays_runner(entry: Any, method: hx.Method) -> CudaArrayRunner:
    """A runner with a block per path, whatever the size."""
    return CudaArrayRunner(entry.system.form, method, entry.n, "float64", "a comparison")


def begun(made: Runner, entry: Any, paths: int) -> Any:
    """Paths at the start."""
    start = (entry.start.q, entry.start.p, entry.start.guess)
    return made.begin(hx.State(*(np.broadcast_to(np.asarray(x), (paths, entry.n)) for x in start)), {})


def places(made: Runner, entry: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where eight paths are after twenty steps."""
    carried, *_ = made.advance(begun(made, entry, 8), range(8), 0, 1e-3, 0, 20, 20)
    return made.places(carried)


def check() -> None:
    """Compare with the CPU."""
    cases = (
        ("chain 40", hx.systems.chain(40), hx.EulerA()),
        ("net 5 x 4", hx.systems.net(5, 4), hx.Rattle()),
    )
    for name, entry, method in cases:
        others = arrays_runner(entry, method), runner("llvm", entry.system.form, method, entry.n, "float64")
        found, expected = (np.concatenate(places(made, entry)) for made in others)
        print(f"{name}, {method}: differs by {abs(found - expected).max():.1e}", flush=True)


def rate(made: Runner, entry: Any, paths: int, stride: int | None = None) -> float:
    """Bead-steps per second, by the median of three calls of about the same duration.

    Every step whose number is a multiple of `stride` is recorded; by default the last one of each call.
    """
    carried, steps, first, found = begun(made, entry, paths), 4, 0, []
    while len(found) < 3:
        begin = time.perf_counter()
        carried, *_ = made.advance(carried, range(paths), 0, H, first, first + steps, stride or steps)
        spent = time.perf_counter() - begin
        first += steps
        if spent > SECONDS / 3:
            found.append(paths * entry.n / 3 * steps / spent)
        else:
            steps *= 4 if spent < SECONDS / 16 else 2
            first = -(-first // steps) * steps
    return statistics.median(found)


def on_all_cores(entry: Any, paths: int) -> float:
    """Bead-steps per second of the CPU."""
    options = {"h": H, "paths": paths, "save_every": None, "engine": "llvm", "progress": False}
    steps = max(8, int(1e8 / (paths * entry.n / 3)))
    for _ in range(2):  # the first one compiles, also what takes steps in doubt again
        begin = time.perf_counter()
        hx.simulate(entry.system, hx.EulerA(), entry.start, t1=steps * H, **options)
        seconds = time.perf_counter() - begin
    return paths * entry.n / 3 * steps / seconds


def sweep(made: CudaArrayRunner, entry: Any, paths: int, shapes: list[Shape]) -> None:
    """Rates by shapes of blocks."""
    with ThreadPoolExecutor(8) as pool:
        codes = [*pool.map(lambda shape: BlockCode(made.program, shape), shapes)]
    before = made.codes[made.program]
    for shape, code in zip(shapes, codes, strict=True):
        made.codes[made.program] = code
        registers, spilled = code.function.num_regs, code.function.local_size_bytes
        print(
            f"    {tuple(shape)}: {rate(made, entry, paths):.2e}, {code.resident} at a time, {code.shared} shared, "
            f"{8 * code.kernel.scratch_slots} scratch, {registers} registers, {spilled} bytes spilled",
            flush=True,
        )
    made.codes[made.program] = before


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_arrays", description="Large systems on a GPU.")
    parser.add_argument("--sweep", action="store_true", help="also other numbers of threads and paths")
    parser.add_argument("--no-cpu", action="store_true", help="do not measure the CPU")
    parser.add_argument("--no-check", action="store_true", help="do not compare with the CPU")
    parser.add_argument("beads", type=int, nargs="*", default=BEADS)
    arguments = parser.parse_args()
    if not arguments.no_check:
        check()
    for beads in arguments.beads:
        entry = hx.systems.chain(beads)
        begin = time.perf_counter()
        made = arrays_runner(entry, hx.EulerA())
        seconds = time.perf_counter() - begin
        code = made.codes[made.program]
        many = 2**14 if beads <= 64 else 2**12 if beads <= 256 else 2**11
        rates = "  ".join(f"{paths} paths {rate(made, entry, paths):.2e}" for paths in (1, many))
        print(
            f"{beads} beads: compiled in {seconds:.1f} s, {code.threads} threads, {code.shared} bytes shared, "
            f"{8 * code.kernel.scratch_slots} scratch, {code.resident} resident; {rates}",
            flush=True,
        )
        if beads <= LONGEST_IN_THREADS and not arguments.no_cpu:
            begin = time.perf_counter()
            target = TARGET._replace(most=50_000)  # also where the engine would rather make loops
            threads = CudaRunner(compile_step(entry.system.form, hx.EulerA(), entry.n, "float64", target))
            seconds = time.perf_counter() - begin
            print(f"    a thread per path: {seconds:.1f} s, {rate(threads, entry, 2**18):.2e}", flush=True)
        if not arguments.no_cpu:
            print(f"    {cores()} cores: {on_all_cores(entry, 8 * 4 * cores()):.2e}", flush=True)
        if arguments.sweep:
            sweep(made, entry, many, [Shape(*x) for x in SHAPES[beads]])


if __name__ == "__main__":
    main()
