"""`python -m benchmarks.gpu_profile [beads] [threads] [blocks]`: where the cycles of an array kernel on a GPU go.

Between any two statements of the step, the first thread of every block adds the cycles since the last one to a counter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import holonax as hx
from benchmarks.contestants import H
from benchmarks.gpu_arrays import arrays_runner, begun
from holonax.engines.cuda import array_runner
from holonax.engines.cuda.array_kernel import BlockKernel

COUNTERS = "__device__ unsigned long long cycles[128];\n"
CLOCK = "long long before = clock64();"


def marked(notes: list[str], name: str, method: Callable[..., None]) -> Callable[..., None]:
    """A method that writes statements, and after each of them the lines that count its cycles."""

    def write(kernel: Any, *arguments: Any) -> None:
        method(kernel, *arguments)
        what = getattr(arguments[0], "size", "") if arguments else ""
        notes.append(f"{name} {what}")
        kernel.lines.append(
            f"if (thread == 0) {{ long long after = clock64(); atomicAdd(cycles + {len(notes) - 1},"
            " (unsigned long long)(after - before)); before = after; }"
        )

    return write


def main() -> None:
    """Print cycles per step of a path, statement by statement."""
    import cupy

    beads, threads, blocks, paths, steps = [*map(int, sys.argv[1:]), *(64, 64, 4, 4096, 32)[len(sys.argv) - 1 :]]
    entry = hx.systems.chain(beads)
    notes: list[str] = []
    modules: list[Any] = []
    source = BlockKernel.source

    def compiled(text: str) -> Any:
        text = COUNTERS + text.replace("const int thread = threadIdx.x;", "const int thread = threadIdx.x; " + CLOCK)
        modules.append(cupy.RawModule(code=text, options=("--std=c++17",)))
        return modules[-1].get_function("advance")

    def anew(kernel: Any) -> str:
        notes.clear()
        return source(kernel)

    BlockKernel.source = anew  # type: ignore[method-assign]
    for name in ("write_loop", "write_reduction", "_linear", "_sweep"):
        setattr(BlockKernel, name, marked(notes, name, getattr(BlockKernel, name)))
    array_runner.compiled = compiled
    made = arrays_runner(entry, hx.EulerA())
    made.codes[made.program] = array_runner.BlockCode(made.program, threads, blocks)
    carried = begun(made, entry, paths)
    made.advance(carried, range(paths), 0, H, 0, steps, steps)
    found = cupy.ndarray(128, np.uint64, modules[-1].get_global("cycles")).get()
    print(
        f"{beads} beads, {threads} threads, {made.codes[made.program].resident // 132} paths at a time: cycles per step"
    )
    for note, number in zip(notes, found, strict=False):
        print(f"  {number / (paths * steps):8.0f}  {note}")
    print(f"  {found.sum() / (paths * steps):8.0f}  in all")


if __name__ == "__main__":
    main()
