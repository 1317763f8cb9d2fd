"""`simulate`: path indices -> chunks -> engine -> one result."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.engines import ENGINES
from holonax.errors import InputError, Interrupted, SimulationError, whole_number
from holonax.initial import check_start
from holonax.methods.base import Method
from holonax.noise import check_counter, words
from holonax.observables import Observable
from holonax.path import Fate
from holonax.progress import Bar
from holonax.recording import Block, Grid, Recorder, Watch
from holonax.solve import Status
from holonax.system import State, System

ROWS = 64
"""Recorded states per path in one call into the engine."""

_CALL_SECONDS = 0.3  # how long one call should last: progress and Ctrl-C answer that fast


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
        observed: results of the observables, by name.
    """

    t: np.ndarray
    q: np.ndarray
    p: np.ndarray
    status: np.ndarray
    failed_step: np.ndarray
    residual: np.ndarray
    iterations: np.ndarray
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
        engine: how a chunk of paths runs: "auto" or "xla".
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

    grid = Grid(save_every, steps)
    n = start.q.shape[-1]
    _check_memory(paths, len(grid.numbers), n, np.dtype(dtype))
    recorder = Recorder(grid, paths, n, np.dtype(dtype))
    watches = {name: Watch(seen, Grid(seen.every or save_every, steps)) for name, seen in (observe or {}).items()}
    stride = math.gcd(grid.stride, *(watch.grid.stride for watch in watches.values()))

    chunk = _chunk_size()
    runner = ENGINES["xla" if engine == "auto" else engine]
    fates: list[Fate] = []

    def result() -> Run:
        """The chunks that are complete."""

        def time_of(numbers: np.ndarray) -> np.ndarray:
            return t0 + (t1 - t0) * (numbers / steps)

        observed = {
            name: watch.observable.result(time_of(watch.grid.numbers), watch.summary) for name, watch in watches.items()
        }
        fate = Fate(*(np.concatenate(x) for x in zip(*fates, strict=True)))
        done = len(fate.status)
        return Run(time_of(grid.numbers), recorder.q[:done], recorder.p[:done], **fate._asdict(), observed=observed)

    with Bar(paths * steps, "path-steps", show=progress) as bar:
        try:
            for first in range(0, paths, chunk):
                index = np.arange(first, min(first + chunk, paths))
                column = 0
                states = _states(start, index, chunk, dtype)
                for block in _blocks(runner, system, method, states, index, h, seed, steps, stride):
                    column = recorder.see(index, block, column)
                    for watch in watches.values():
                        watch.see(block)
                    bar.update(first * steps + len(index) * block.done)
                for watch in watches.values():
                    watch.end_chunk()
                fates.append(Fate(*(x[: len(index)] for x in block.fate)))
        except KeyboardInterrupt:
            if not fates:
                raise
            raise Interrupted(f"interrupted: {len(fates) * chunk} of {paths} paths are done", result()) from None

    run = result()
    if on_failure == "raise" and run.status.any():
        raise SimulationError(_describe_failures(run, t0, h), run)
    return run


def _chunk_size() -> int:
    """Paths per call into the engine, whatever the number of paths.

    Every chunk is padded to this size, so that the compiled program, and with it every bit of a path, is the same in
    an ensemble of any size.  On a CPU 32 paths reach most of the throughput and cost a single path little
    (docs/decisions.md has the measurement); an accelerator wants to be filled.
    """
    return 32 if jax.default_backend() == "cpu" else 2**14


def _blocks(
    engine: ModuleType,
    system: System,
    method: Method,
    states: State,
    index: np.ndarray,
    h: float,
    seed: int,
    steps: int,
    stride: int,
) -> Iterator[Block]:
    """Run one chunk, a block of states at a time; the first block is the start itself."""
    track = engine.begin(states)
    path, key, size = words(np.resize(index, len(states.q))).T, words(seed), jnp.asarray(h, states.q.dtype)

    def block(done: int, numbers: np.ndarray, q: Array, p: Array) -> Block:
        return Block(done, numbers, q, p, Fate(*map(np.asarray, track.fate)), len(index))

    yield block(0, np.array([0]), _one_row(states.q), _one_row(states.p))
    first, most = 0, ROWS
    while first < steps:
        stop = min(steps, first + most, (first // stride + ROWS) * stride)
        begin = time.monotonic()
        track, q, p = engine.advance(system, method, ROWS, track, key, path, size, first, stop, stride)
        jax.block_until_ready(track)
        if time.monotonic() - begin < _CALL_SECONDS / 2:
            most *= 2
        yield block(stop, np.arange(first // stride + 1, stop // stride + 1) * stride, q, p)
        first = stop


def _one_row(states: Array) -> Array:
    """A buffer like the engine's with one row in use, so that observables compile once."""
    return jnp.zeros((ROWS, *states.shape), states.dtype).at[0].set(states)


def _states(start: State, index: np.ndarray, chunk: int, dtype: str) -> State:
    """The states of the paths `index`, padded to a chunk by repeating them."""
    padded = np.resize(index, chunk)
    arrays = (jnp.asarray(x, dtype) for x in (start.q, start.p, start.guess))
    return State(*(jnp.tile(x, (chunk, 1)) if x.ndim == 1 else x[padded] for x in arrays))


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


def _describe_failures(run: Run, t0: float, h: float) -> str:
    failed = np.flatnonzero(run.status)
    path = failed[np.argmin(run.failed_step[failed])]
    step = run.failed_step[path]
    return (
        f"{len(failed)} of {len(run.status)} paths failed; first path {path} at step {step} (t = {t0 + step * h:.6g}), "
        f"residual {run.residual[path]:.2e}, h = {h:g}: {Status(run.status[path]).advice}. "
        'on_failure="mark" returns the run with run.status instead of raising; it is also in .run of this error.'
    )
