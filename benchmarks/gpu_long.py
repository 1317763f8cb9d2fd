"""`python -m benchmarks.gpu_long [--seconds 420] [beads ...]`: chains of 16 to 128 beads on an NVIDIA GPU, by `EulerA`.

Each with a thread per path, written out or with loops over the links, and with a block per path: seconds until the
kernel is there, registers and memory of a thread, bead-steps per second of a launch by numbers of paths, and how far
paths are from those of the CPU after a hundred steps.  Then, for 64 beads, other ways to write and launch the kernel
with loops; the best of them again for all chains.  Lines are printed as they come; what fails says so, and the next one
follows.  Nothing new begins after so many seconds.

With `--here`, no GPU is needed: what nvcc says of the same kernels.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import holonax as hx
from benchmarks.contestants import H
from benchmarks.gpu_arrays import arrays_runner, begun, rate
from holonax.compiler import Program, Target, compile_step
from holonax.compiler.ir.program import Block, Items, Rounds, pieces
from holonax.compiler.passes.rerolling import Rolled
from holonax.engines import runner
from holonax.engines.base import Runner
from holonax.engines.cuda.device import KERNEL, compiled
from holonax.engines.cuda.emit import NOT_UNROLLED
from holonax.engines.cuda.kernel import kernel
from holonax.engines.cuda.runner import LONG, NOISE, TARGET, CudaRunner

BEADS = (16, 32, 48, 64, 128)
PATHS = tuple(2**k for k in (10, 12, 14, 16, 17, 18))
ON_BLOCKS = PATHS[:3]
TRIED_WITH = PATHS[3:4]
VARIED = 64
"""Beads of the chain on which variants are tried."""

WRITTEN_OUT = 32
"""Beads up to which the kernel without loops is tried."""

BLOCKS = "a block per path"
NEVER = 2**40
CHECKED_PATHS, CHECKED_STEPS = 8, 100


class Variant(NamedTuple):
    """A way to write and launch the kernel with loops.

    Attributes:
        threads: of a block.
        blocks: that a multiprocessor shall hold, which bounds the registers of a thread; 0 if that is left open.
        scratch: whether arrays lie in a buffer that we interleave by warps, instead of memory of the thread.
        unrolled: rounds of a loop over links at a time.
        per_round: blocks of noise at a time.
        cached: whether the device is asked to use shared memory as cache.
    """

    threads: int = 128
    blocks: int = 4
    scratch: bool = False
    unrolled: int = 1
    per_round: int = NOISE.per_round
    cached: bool = False

    def __str__(self) -> str:
        own = (f"{name} {value}" for name, value in self._asdict().items() if value != self._field_defaults[name])
        return ", ".join(own) or "as it is"


VARIANTS = (
    *(Variant(blocks=blocks) for blocks in (4, 0, 3, 5, 6, 8)),
    *(Variant(blocks=blocks, scratch=True) for blocks in (4, 0, 3, 6)),
    Variant(threads=64, blocks=0), Variant(threads=64, blocks=8), Variant(threads=256, blocks=2),
    *(Variant(blocks=blocks, cached=True) for blocks in (4, 0)),
    *(Variant(unrolled=unrolled) for unrolled in (2, 4)),
    *(Variant(scratch=True, unrolled=unrolled) for unrolled in (2, 4)),
    *(Variant(per_round=per_round) for per_round in (2, 4)),
)  # fmt: skip

POOL = """
struct Interleaved { REAL *first; __device__ REAL &operator[](int i) const { return first[32 * i]; } };
__device__ REAL *pool;
"""
"""Arrays in a buffer: the entries of the 32 paths of a warp lie side by side."""


@cache
def entry_of(beads: int) -> Any:
    """The chain."""
    return hx.systems.chain(beads)


def program_of(beads: int, target: Target) -> Program:
    """The program of its step."""
    entry = entry_of(beads)
    return compile_step(entry.system.form, hx.EulerA(), entry.n, "float64", target)


@cache
def long_program(beads: int, per_round: int = NOISE.per_round) -> Program:
    """The program with loops."""
    return program_of(beads, LONG._replace(tables=NOISE._replace(per_round=per_round)))


def source_of(program: Program, variant: Variant) -> tuple[str, int]:
    """The kernel of a variant, and how many numbers of a path its buffer holds."""
    source, entries = kernel(program), 0
    bounds = f"__launch_bounds__({variant.threads}, {variant.blocks}) " if variant.blocks else ""
    source = re.sub(r"__launch_bounds__\(.*?\) ", bounds, source)
    source = source.replace(NOT_UNROLLED, f"#pragma unroll {variant.unrolled}")
    if variant.scratch:
        found = re.findall(r"^(\w+) (memory|states|table\d+)\[(\d+)\];$", source, re.M)
        total = sum(int(size) for *_, size in found)
        for real, name, size in found:
            place = f"pool + (lane / 32 * {total} + {entries}) * 32 + lane % 32"
            source = source.replace(f"{real} {name}[{size}];", f"Interleaved {name}{{{place}}};")
            entries += int(size)
        source = POOL.replace("REAL", "double") + source
    return source, entries


class Launched:
    """A kernel that is launched with so many threads in a block as its variant says."""

    def __init__(self, source: str, entries: int, variant: Variant) -> None:
        import cupy

        self.entries, self.variant, self.pool = entries, variant, None
        if variant.scratch:
            self.module = cupy.RawModule(code=source, options=("--std=c++17",))
            self.function = self.module.get_function(KERNEL)
        else:
            self.function = compiled(source)
        if variant.cached:
            self.function.preferred_shared_memory_carveout = 0

    def __call__(self, grid: tuple[int], block: tuple[int], arguments: tuple) -> None:
        """As the kernel that it stands for."""
        import cupy

        paths, threads = grid[0] * block[0], self.variant.threads
        if self.variant.scratch and (self.pool is None or self.pool.size < paths * self.entries):
            self.pool = None
            self.pool = cupy.empty(paths * self.entries)
            place = cupy.ndarray(1, np.uint64, self.module.get_global("pool"))
            place[0] = self.pool.data.ptr
            cupy.cuda.Device().synchronize()
        self.function((-(-paths // threads),), (threads,), arguments)


@cache
def with_loops(beads: int) -> CudaRunner:
    """The runner whose kernel variants replace."""
    return CudaRunner(long_program(beads))


def made_by(beads: int, variant: Variant) -> CudaRunner:
    """A runner of a variant."""
    program, made = long_program(beads, variant.per_round), copy(with_loops(beads))
    made.kernel = Launched(*source_of(program, variant), variant)
    return made


def places(made: Runner, entry: Any) -> np.ndarray:
    """Where some paths are after a hundred steps, half of them recorded on the way."""
    carried = begun(made, entry, CHECKED_PATHS)
    half = CHECKED_STEPS // 2
    carried, q, p = made.advance(carried, range(CHECKED_PATHS), 0, H, 0, CHECKED_STEPS, half)
    return np.concatenate([*map(np.asarray, (q[0], p[0])), *made.places(carried)])


@cache
def expected(beads: int) -> np.ndarray:
    """By the CPU."""
    entry = entry_of(beads)
    options = {"t1": CHECKED_STEPS * H, "h": H, "paths": CHECKED_PATHS, "save_every": CHECKED_STEPS // 2}
    run = hx.simulate(entry.system, hx.EulerA(), entry.start, **options, engine="llvm", progress=False)
    return np.concatenate([run.q[:, 1], run.p[:, 1], run.q[:, 2], run.p[:, 2]])


def traffic(program: Program, items: Items) -> tuple[float, float]:
    """Numbers that a step reads and writes in loops over links: outside of Newton's method, and in each iteration."""
    outside = inside = 0.0
    for piece in pieces(items):
        if isinstance(piece, Rounds):
            outside += piece.rounds * len(piece.table.outputs)
        elif isinstance(piece, Block):
            inside += sum(traffic(program, piece.body))
        else:
            rolled = [x for x in program.layout.parts.get(piece[0], []) if isinstance(x, Rolled)]
            outside += sum(x.times * (len(x.read) + len(x.written)) for x in rolled)
    return outside, inside


def report(name: str, beads: int, made: Runner, seconds: float, numbers: tuple[int, ...]) -> list[float]:
    """A line of what there is to say of a runner; its rates."""
    entry = entry_of(beads)
    function = getattr(made, "kernel", None)
    function = getattr(function, "function", function)
    size = getattr(function, "num_regs", None), getattr(function, "local_size_bytes", None)
    print(f"{beads} beads, {name}: {seconds:.1f} s, registers and bytes of a thread {size}", end="", flush=True)
    off = abs(places(made, entry) - expected(beads)).max()
    print(f", differs by {off:.1e}{'' if off < 1e-9 else ' WRONG'}", end="", flush=True)
    rates = []
    for paths in numbers:
        rates.append(rate(made, entry, paths, NEVER))
        print(f", {paths}: {rates[-1]:.2e}", end="", flush=True)
    print(flush=True)
    return rates if off < 1e-9 else [0.0 for _ in rates]


def tried(name: str, beads: int, make: Callable[[], Runner], numbers: tuple[int, ...]) -> float:
    """Make and report a runner; its best rate, or 0 if that fails."""
    begin = time.perf_counter()
    try:
        made = make()
        return max(report(name, beads, made, time.perf_counter() - begin, numbers))
    except Exception as error:
        print(f"\n{beads} beads, {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        return 0.0


def kernels(beads: int) -> Iterator[tuple[str, Callable[[], Runner]]]:
    """The ways to run a chain, by name."""
    entry, method = entry_of(beads), hx.EulerA()
    yield "as chosen", lambda: runner("cuda", entry.system.form, method, entry.n, "float64")
    if beads <= WRITTEN_OUT:
        yield "a thread per path, written out", lambda: CudaRunner(program_of(beads, TARGET._replace(most=50_000)))
    yield BLOCKS, lambda: arrays_runner(entry, method)


def on_device(beads: tuple[int, ...], deadline: float) -> None:
    """Measure, as far as the time goes."""

    def late() -> bool:
        return time.perf_counter() > deadline

    for n in beads:
        for name, make in kernels(n):
            late() or tried(name, n, make, ON_BLOCKS if name == BLOCKS else PATHS)
    rates: dict[Variant, float] = {}
    for variant in VARIANTS:
        if not late():
            rates[variant] = tried(str(variant), VARIED, partial(made_by, VARIED, variant), TRIED_WITH)
    for variant in sorted(rates, key=lambda variant: -rates[variant])[:2]:
        for n in beads:
            late() or tried(str(variant), n, partial(made_by, n, variant), PATHS)
    print(f"{time.perf_counter() - deadline:.0f} s after the last beginning", flush=True)


def by_nvcc(beads: tuple[int, ...]) -> None:
    """What nvcc says of the kernels with loops, and what they read and write."""
    for n in beads:
        begin = time.perf_counter()
        program = long_program(n)
        translated = time.perf_counter() - begin
        outside, inside = (x / n for x in traffic(program, program.trial.items))
        print(f"{n} beads: {program.size} operations, {translated:.1f} s", end="")
        print(f"; read or written per bead-step: {outside:.0f} numbers, and {inside:.0f} in an iteration", flush=True)
        for variant in VARIANTS if n == VARIED else VARIANTS[:3]:
            if variant.per_round == Variant().per_round:
                print(f"    {variant}: {nvcc(source_of(program, variant)[0])}", flush=True)


def nvcc(source: str) -> str:
    """Its seconds, and what it says of registers and memory."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cu"
        file.write_text(source)
        command = ["nvcc", "-std=c++17", "-arch=sm_90", "-Xptxas", "-v", "-cubin", "-o", f"{file}.cubin", file]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        seconds = time.perf_counter() - begin
    said = re.findall(r"Used \d+ registers|\d+ bytes stack frame|\d+ bytes spill \w+", done.stderr)
    return f"{seconds:.1f} s, {', '.join(said)}"


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_long", description="Chains on a GPU.")
    parser.add_argument("--seconds", type=float, default=420.0, help="after which nothing new begins")
    parser.add_argument("--here", action="store_true", help="what nvcc says, without a GPU")
    parser.add_argument("beads", type=int, nargs="*", default=BEADS)
    arguments = parser.parse_args()
    if arguments.here:
        by_nvcc(tuple(arguments.beads))
    else:
        on_device(tuple(arguments.beads), time.perf_counter() + arguments.seconds)


if __name__ == "__main__":
    main()
