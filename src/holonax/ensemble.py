"""`simulate`: path indices -> chunks -> engine -> one result."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from holonax.chunks import Walk, in_order
from holonax.engines import ENGINES, Runner, runner
from holonax.errors import InputError, Interrupted, SimulationError, StepSizeWarning, whole_number
from holonax.initial import check_start, most_dependent
from holonax.methods.base import Method
from holonax.noise import check_counter
from holonax.observables import Observable
from holonax.path import Fate
from holonax.progress import Bar, notes
from holonax.recording import Grid, Recorder, Watch
from holonax.solve import Status
from holonax.system import State, System


@final
@dataclass(frozen=True)
class Run:
    """A simulated ensemble.

    Attributes:
        t: times, shape (times,).
        q: positions, shape (paths, times, n); a path that failed stays where it was.
        p: momenta, likewise.
        status: per path, 0 if every step was solved, otherwise the `Status` of its first failure.
        failed_step: per path, the number of the step that failed (from 0), or -1.
        residual: per path, the largest residual left by Newton, or that of the failure.
        iterations: per path, the largest number of Newton iterations in a step.
        counts: per path, how often each outcome of the method came about, by name; empty for most methods.
        observed: results of the observables, by name.
    """

    t: np.ndarray
    q: np.ndarray
    p: np.ndarray
    status: np.ndarray
    failed_step: np.ndarray
    residual: np.ndarray
    iterations: np.ndarray
    counts: dict[str, np.ndarray]
    observed: dict[str, Any]


def simulate(
    system: System,
    method: Method,
    start: State,
    *,
    t1: float,
    h: float,
    t0: float = 0.0,
    paths: int | None = None,
    seed: int = 0,
    save_every: int | None = 1,
    observe: Mapping[str, Observable] | None = None,
    engine: str = "auto",
    dtype: str = "float64",
    on_failure: str = "raise",
    progress: bool = True,
) -> Run:
    """Simulate an ensemble of paths from `t0` to `t1` in steps of `h`.

    Args:
        system: the system.
        method: the integrator.
        start: one initial state for all paths, or one per path (leading axis), from `hx.start`.
        t1: end time; `t1 - t0` must be a multiple of `h`.
        h: step size.
        t0: time at the start.
        paths: number of paths; left out, one, or as many as `start` holds.
        seed: with the index of a path it determines the noise of that path, whatever else runs beside it.
        save_every: j keeps the start and every j-th step; None keeps the end alone.
        observe: streaming observables by name, for example `{"energy": hx.Mean(system.energy)}`.
        engine: how chunks of paths run: "llvm" (machine code for this CPU, all cores), "cuda" (an NVIDIA GPU), "xla"
            (any JAX device), or "auto", the fastest of them that this machine has.
        dtype: "float64" or "float32".
        on_failure: "raise" a SimulationError at the end if a path failed, or only "mark" it in `run.status`.
        progress: show a progress bar on work longer than two seconds.

    Ctrl-C raises `Interrupted`, a KeyboardInterrupt whose `result` is the run of the paths that are complete.

    >>> import holonax as hx
    >>> entry = hx.systems.pendulum()
    >>> run = hx.simulate(entry.system, hx.EulerA(), entry.start, t1=1.0, h=2**-8, paths=10, seed=0, save_every=64)
    >>> run.q.shape, run.t
    ((10, 5, 3), array([0.  , 0.25, 0.5 , 0.75, 1.  ]))
    """
    steps = _number_of_steps(t0, t1, h)
    paths = _number_of_paths(paths, start)
    check_counter("seed", seed)
    if save_every is not None and not 1 <= (save_every := whole_number("save_every", save_every)) <= steps:
        raise InputError(f"save_every = {save_every!r}: must be an integer from 1 to the {steps} steps, or None")
    if not isinstance(method, Method):
        raise InputError(f"method = {method!r} is not a method; pass an instance such as hx.Kicked()")
    for name, seen in (observe or {}).items():
        if not isinstance(seen, Observable):
            raise InputError(f"observe[{name!r}] = {seen!r} is not an observable; wrap the function: hx.Mean(fn)")
    _choose("engine", engine, ("auto", *ENGINES))
    _choose("on_failure", on_failure, ("raise", "mark"))
    _choose("dtype", dtype, ("float64", "float32"))
    if jnp.zeros((), dtype).dtype != np.dtype(dtype):
        raise InputError('dtype = "float64" but JAX has it switched off; unset HOLONAX_ENABLE_X64 or use "float32"')
    check_start(system, start)
    method.check(system, start)

    grid = Grid(save_every, steps)
    n = start.q.shape[-1]
    _check_memory(paths, len(grid.numbers), n, np.dtype(dtype))
    recorder = Recorder(grid, paths, n, np.dtype(dtype))
    views = {name: seen.view(steps, save_every, paths, t0, t1, n, dtype) for name, seen in (observe or {}).items()}
    stride = math.gcd(grid.stride, *(view.grid.stride for view in views.values()))

    with notes(progress):
        program = runner(engine, system, method, n, dtype)
    walk = Walk(program, h, seed, steps, stride)
    chunk = _chunk_size(program, paths)
    initial = State(*(np.asarray(x, dtype) for x in (start.q, start.p, start.guess)))
    fates: list[Fate] = []
    summaries: dict[str, Any] = {}
    counted: dict[int, int] = {}  # path-steps done, by first path of the chunk

    def run_chunk(first: int) -> tuple[Fate, dict[str, Any]] | None:
        index = np.arange(first, min(first + chunk, paths))
        watches = {name: Watch(seen, views[name], index) for name, seen in (observe or {}).items()}
        column = 0
        for block in walk.blocks(_states(initial, index, _padded(program, len(index), bool(watches))), index):
            column = recorder.see(index, block, column)
            for watch in watches.values():
                watch.see(block)
            counted[first] = len(index) * block.done
        if block.done < steps:
            return None  # halted
        return Fate(*(x[: len(index)] for x in block.fate)), {name: watch.summary() for name, watch in watches.items()}

    def show_progress() -> None:
        bar.update(sum(list(counted.values())))

    def result() -> Run:
        """The chunks that are complete."""

        def time_of(numbers: np.ndarray) -> np.ndarray:
            return t0 + (t1 - t0) * (numbers / steps)

        observed = {name: seen.result(views[name], summaries[name]) for name, seen in (observe or {}).items()}
        fate = Fate(*(np.concatenate(x) for x in zip(*fates, strict=True)))
        done = len(fate.status)
        told = fate._asdict() | {"counts": dict(zip(method.outcomes, fate.counts.T, strict=True))}
        return Run(time_of(grid.numbers), recorder.q[:done], recorder.p[:done], **told, observed=observed)

    with Bar(paths * steps, "path-steps", show=progress) as bar:
        try:
            chunks = in_order(run_chunk, range(0, paths, chunk), program.workers, show_progress)
            for done in chunks:
                assert done is not None
                fates.append(done[0])
                for name, summary in done[1].items():
                    merge = (observe or {})[name].merge
                    summaries[name] = merge(summaries[name], summary) if name in summaries else summary
                show_progress()
        except KeyboardInterrupt:
            walk.halt.set()
            if not fates:
                raise
            finished = sum(len(fate.status) for fate in fates)
            raise Interrupted(f"interrupted: {finished} of {paths} paths are done", result()) from None

    run = result()
    if (concern := method.concern(run.counts)) is not None:
        warnings.warn(concern, StepSizeWarning, stacklevel=2)
    if on_failure == "raise" and run.status.any():
        raise SimulationError(_describe_failures(system, run, t0, h), run)
    return run


def _chunk_size(program: Runner, paths: int) -> int:
    """Paths per chunk: few enough that every worker has something to do."""
    share = -(-paths // program.workers)
    return min(program.chunk, -(-share // program.grain) * program.grain)


def _padded(program: Runner, paths: int, observed: bool) -> int:
    """Paths to run for a chunk of `paths`; observables, compiled for every size, see only powers of two."""
    groups = -(-paths // program.grain)
    return program.grain * (2 ** (groups - 1).bit_length() if observed else groups)


def _states(start: State, index: np.ndarray, size: int) -> State:
    """The states of the paths `index`, padded by repeating them."""
    padded = np.resize(index, size)
    return State(*(np.broadcast_to(x, (size, *x.shape)) if x.ndim == 1 else x[padded] for x in start))


# What can be wrong with the arguments.


def _number_of_steps(t0: float, t1: float, h: float) -> int:
    for name, value in (("h", h), ("t0", t0), ("t1", t1)):
        if not math.isfinite(value):
            raise InputError(f"{name} = {value} is not finite")
    if h <= 0:
        raise InputError(f"h = {h}: the step size must be positive")
    if t1 <= t0:
        raise InputError(f"t1 = {t1} is not after t0 = {t0}")
    ratio = (t1 - t0) / h
    steps = round(ratio)
    if steps < 1 or abs(ratio - steps) > 1e-9 * ratio:
        nearest = max(steps, 1)
        raise InputError(
            f"t1 - t0 = {t1 - t0} is {ratio:.6g} steps of h = {h}, not a whole number; "
            f"use t1 = {t0 + nearest * h:.15g} or h = {(t1 - t0) / nearest:.15g}"
        )
    return steps


def _number_of_paths(paths: int | None, start: State) -> int:
    held = len(start.q) if np.ndim(start.q) == 2 else None
    if paths is None:
        return held or 1
    paths = whole_number("paths", paths)
    if paths < 1:
        raise InputError(f"paths = {paths!r}: must be a positive integer")
    if held not in (None, paths):
        raise InputError(f"paths = {paths} but start holds {held} states; leave paths out or make them agree")
    return paths


def _choose(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} = {value!r}: choose one of {', '.join(map(repr, known))}")


def _check_memory(paths: int, times: int, n: int, dtype: np.dtype) -> None:
    needed = 2 * paths * times * n * dtype.itemsize
    present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf
    if needed > present:
        raise InputError(
            f"q and p at {times} times of {paths} paths need {needed / 2**30:.1f} GiB, this machine has "
            f"{present / 2**30:.1f}; save less with save_every=, or use observe= with save_every=None"
        )


def _describe_failures(system: System, run: Run, t0: float, h: float) -> str:
    failed = np.flatnonzero(run.status)
    path = failed[np.argmin(run.failed_step[failed])]
    step = run.failed_step[path]
    singular = run.status[path] == Status.SINGULAR
    where = f" ({most_dependent(system, run.q[path, -1])})" if singular else ""
    return (
        f"{len(failed)} of {len(run.status)} paths failed; first path {path} at step {step} (t = {t0 + step * h:.6g}), "
        f"residual {run.residual[path]:.2e}, h = {h:g}: {Status(run.status[path]).advice}{where}. "
        'on_failure="mark" returns the run with run.status instead of raising; it is also in .run of this error.'
    )
