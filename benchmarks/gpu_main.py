"""`python -m benchmarks.gpu_main [--quick] [case ...]`: the cases on an NVIDIA GPU, and beside them on its host's CPU.

Every run ends with the end states on the host, as `hx.simulate` returns them; runs are long enough for the copy not to
matter.  CPU rows use all cores and run in a process where JAX sees no GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

import holonax as hx
from benchmarks import children, gpu, report
from benchmarks.contestants import H, constraint, holonax, in_idiomatic_jax
from benchmarks.measure import Contestant, Row, measure

PATHS = 2**20
SIGMA = 0.3
QUICK = 8


def in_cuda(
    name: str, entry: hx.Entry, *, paths: int, steps: int, dtype: str = "float64", **more: Any
) -> list[Contestant]:
    """A kernel of `reference.cu`, first as written and then tuned."""
    kernel: Callable[..., tuple[Any, Any]] = getattr(gpu, name)
    start = np.asarray(entry.start.q), np.asarray(entry.start.p)

    def run(tuned: bool, steps: int) -> np.ndarray:
        q, p = kernel(*start, paths=paths, steps=steps, h=H, dtype=dtype, tuned=tuned, **more)
        p.get()
        return q.get().T

    suffix = ", float32" if dtype == "float32" else ""
    return [
        Contestant(f"{who}{suffix}", missing="CuPy is not installed")
        if gpu.cupy is None
        else Contestant(f"{who}{suffix}", paths * steps, partial(run, tuned, steps), partial(run, tuned, 1))
        for who, tuned in gpu.VARIANTS.items()
    ]


def on_device(case: str, quick: bool) -> list[Contestant]:
    """Who takes part in a case on the GPU."""
    _, entry, method, steps, _ = CASES[case]
    steps = steps // QUICK if quick else steps
    size = {"paths": PATHS, "steps": steps}
    few = {"paths": 2**17, "steps": 64}
    plain = f"idiomatic JAX on {jax.default_backend()}"
    ours = holonax(entry, method, "cuda", **size)
    if case == "pendulum-euler-a":
        single = {**size, "dtype": "float32"}
        return [
            *in_cuda("pendulum_euler_a", entry, **size),
            ours,
            in_idiomatic_jax(entry, None, **few, who=plain),
            *in_cuda("pendulum_euler_a", entry, **single),
            holonax(entry, method, "cuda", **single, who="holonax, cuda, float32"),
            in_idiomatic_jax(entry, None, **few, dtype="float32", who=f"{plain}, float32"),
        ]
    if case == "chain-8":
        few = {"paths": 2**14, "steps": 16}
        return [
            *in_cuda("chain_euler_a", entry, **size, sigma=SIGMA),
            ours,
            in_idiomatic_jax(entry, None, **few, who=plain),
        ]
    if case == "pendulum-kicked":
        return [ours]
    return [ours, in_idiomatic_jax(entry, None, **few, who=plain)]


def on_host(case: str, quick: bool) -> list[Contestant]:
    """The same by holonax on the CPU of this machine."""
    _, entry, method, _, steps = CASES[case]
    engine = "llvm" if find_spec("llvmlite") else "xla"
    steps = steps // QUICK if quick else steps
    return [holonax(entry, method, engine, paths=2**16, steps=steps, who=f"holonax, {engine}, all cores")]


CASES: dict[str, tuple[str, hx.Entry, hx.Method, int, int]] = {  # title, system, method, steps on GPU and on CPU
    "pendulum-euler-a": ("pendulum, EulerA", hx.systems.pendulum(), hx.EulerA(), 16384, 2048),
    "pendulum-kicked": ("pendulum, Kicked", hx.systems.pendulum(), hx.Kicked("symmetric"), 16384, 1024),
    "chain-8": ("chain of 8 beads, EulerA", hx.systems.chain(8, SIGMA), hx.EulerA(), 4096, 256),
    "rigid-body": ("rigid body, EulerA", hx.systems.rigid_body(), hx.EulerA(), 1024, 512),
    "ellipsoid": ("ellipsoid, EulerA", hx.systems.ellipsoid(), hx.EulerA(), 2048, 512),
}


def deviations(steps: int = 100, paths: int = 1000) -> dict[str, float]:
    """Largest difference between end positions of the kernels by hand and of `hx.simulate` with the same noise."""
    found = {}
    kernels = {"pendulum-euler-a": ("pendulum_euler_a", {}), "chain-8": ("chain_euler_a", {"sigma": SIGMA})}
    for case, (name, more) in kernels.items():
        _, entry, method, _, _ = CASES[case]
        theirs = holonax(entry, method, "cuda", paths=paths, steps=steps).run()
        for mine in in_cuda(name, entry, paths=paths, steps=steps, **more):
            found[f"{case}, {mine.who}"] = float(np.max(np.abs(mine.run() - theirs)))
    return found


def _rows(case: str, contestants: list[Contestant]) -> list[Row]:
    title, entry, *_ = CASES[case]
    return measure(title, contestants, constraint(entry.system))


def main() -> None:
    """Compare the references with holonax, run the cases, print and write the tables."""
    if sys.argv[1:2] == ["host"]:
        children.hand_over(_rows(sys.argv[2], on_host(sys.argv[2], sys.argv[3] == "quick")))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_main", description="Speed of holonax on a GPU.")
    parser.add_argument("case", nargs="*", help=f"which to run, of {', '.join(CASES)}; all if left out")
    parser.add_argument("--quick", action="store_true", help="shorter runs, for a look; writes nothing")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.case) - set(CASES)):
        parser.error(f"unknown case {', '.join(unknown)}; choose from {', '.join(CASES)}")

    try:
        for case, deviation in deviations().items():
            print(f"{case}: end positions agree with hx.simulate to {deviation:.1e} after 100 steps")
    except Exception as error:  # a table without references is better than none
        print(f"references not compared: {type(error).__name__}: {error}")
    rows: list[Row] = []
    length = "quick" if arguments.quick else "full"
    for case in arguments.case or CASES:
        new = _rows(case, on_device(case, arguments.quick))
        first = next((row.path_steps_per_second for row in new if row.path_steps_per_second), None)
        for row in children.rows("benchmarks.gpu_main", "host", case, length, JAX_PLATFORMS="cpu"):
            ratio = row.path_steps_per_second / first if first and row.path_steps_per_second else None
            new.append(replace(row, case=CASES[case][0], ratio=ratio))
        print(report.markdown(new), flush=True)
        rows += new
    if not arguments.quick:
        print("written:", report.write("gpu", rows, "Path-steps per second on a GPU"))


if __name__ == "__main__":
    main()
