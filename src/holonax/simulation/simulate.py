"""`simulate`: path indices -> chunks -> engine -> one result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from holonax.background import in_background, in_order
from holonax.engines import ENGINES, Runner, runner
from holonax.errors import Interrupted, SimulationError, StepSizeWarning
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import Fate
from holonax.observables import Observable
from holonax.progress import Bar, notes
from holonax.simulation.chunks import Walk
from holonax.simulation.plan import simulate_arguments
from holonax.simulation.recording import End, Grid, Recorder, Watch
from holonax.simulation.run import Ends, Run, describe_failures, in_words
from holonax.warn import warn


def simulate(
    system: System,
    method: Method,
    start: State,
    *,
    t1: float,
    h: float,
    t0: float = 0.0,
    parameters: Mapping[str, Any] | None = None,
    paths: int | None = None,
    seed: int = 0,
    first_step: int | None = None,
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
        parameters: values of the system's parameters, other than its own: one for all paths, or one per path (leading
            axis).  New values need no new program.  A state is q and p: a start from velocities is made for these
            parameters, `hx.start(..., parameters=)`.
        paths: number of paths; left out, one, or as many as `start` or `parameters` hold.
        seed: with the index of a path it determines the noise of that path, whatever else runs beside it.
        first_step: number that the first step has in that noise; left out, `t0 / h` where that is a whole number, so
            that a run from `run.state` and `t0=run.t1` goes on with the noise instead of repeating it, and otherwise 0.
            With another h the numbers mean other times: give such a run another seed.
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
    >>> longer = hx.simulate(entry.system, hx.EulerA(), run.state, t0=run.t1, t1=2.0, h=2**-8, save_every=64)
    >>> longer.first_step
    256
    """
    asked = simulate_arguments(
        system, method, start, parameters=parameters, t0=t0, t1=t1, h=h, first_step=first_step, paths=paths, seed=seed,
        save_every=save_every, observe=observe, engine=engine, engines=ENGINES, dtype=dtype, on_failure=on_failure,
    )  # fmt: skip
    start, values, t0, t1, h, steps, offset, paths, seed, save_every, observe = asked
    n, form = start.q.shape[-1], system.form

    grid = Grid(save_every, steps)
    recorder = Recorder(grid, paths, n, np.dtype(dtype))
    observe = {name: seen.about(system) for name, seen in observe.items()}
    views = {
        name: seen.view(steps, save_every, paths, t0, t1, n, dtype, form.parameters) for name, seen in observe.items()
    }
    stride = math.gcd(grid.stride, *(view.grid.stride for view in views.values()))

    clock = time.perf_counter()
    with notes(progress):
        program = in_background(runner, engine, form, method, n, dtype)
    compiling = time.perf_counter() - clock
    if program.fallback is not None and program.fallback not in _told:
        _told.add(program.fallback)
        warn(f"the {program.fallback}; these paths run on the plain XLA engine instead: the same results, more slowly")
    walk = Walk(program, h, seed, steps, stride, offset)
    chunk = _chunk_size(program, paths)
    initial = State(*(np.asarray(x, dtype) for x in (start.q, start.p, start.guess)))
    fates: list[Fate] = []
    ends: list[End] = []
    summaries: dict[str, Any] = {}
    counted: dict[int, int] = {}  # path-steps done, by first path of the chunk

    def run_chunk(first: int) -> tuple[Fate, End, dict[str, Any]] | None:
        index = np.arange(first, min(first + chunk, paths))
        watches = {name: Watch(seen, views[name], index) for name, seen in observe.items()}
        column, padded = 0, np.resize(index, _padded(program, len(index), bool(watches)))
        for block in walk.blocks(_states(initial, padded), values.of_paths(padded, dtype), index):
            column = recorder.see(index, block, column)
            for watch in watches.values():
                watch.see(block)
            counted[first] = len(index) * block.done
        if block.done < steps:
            return None  # halted
        fate, end = Fate(*(x[: len(index)] for x in block.fate)), block.end(grid.last == steps)
        return fate, end, {name: watch.summary() for name, watch in watches.items()}

    def show_progress() -> None:
        bar.update(sum(list(counted.values())))

    def result() -> Run:
        """The chunks that are complete."""

        def time_of(numbers: np.ndarray) -> np.ndarray:
            return t0 + (t1 - t0) * (numbers / steps)

        observed = {name: seen.result(views[name], summaries[name]) for name, seen in observe.items()}
        fate = Fate(*(np.concatenate(x) for x in zip(*fates, strict=True)))
        done = len(fate.status)
        told = fate._asdict() | {"counts": dict(zip(method.outcomes, fate.counts.T, strict=True))}
        sizes = [len(fate.status) for fate in fates]
        fetch = partial(_fetch, [end.v for end in ends], sizes)
        if grid.last == steps:
            where = Ends(recorder.q[:done, -1], recorder.p[:done, -1], fetch)
        else:
            where = Ends(_unpadded([end.q for end in ends], sizes), _unpadded([end.p for end in ends], sizes), fetch)
        seconds = {"compiling": compiling, "running": time.perf_counter() - clock - compiling}
        return Run(
            time_of(grid.numbers), recorder.q[:done], recorder.p[:done], **told, observed=observed,
            ends=where, system=in_words(form, n), method=method, parameters=values.shared | values.own,
            h=h, t1=t1, steps=steps, seed=seed, first_step=offset, engine=program.name,
            reason=_why(engine, program), seconds=seconds,
        )  # fmt: skip

    with Bar(paths * steps, "path-steps", show=progress) as bar:
        try:
            chunks = in_order(run_chunk, range(0, paths, chunk), program.workers, show_progress)
            for done in chunks:
                assert done is not None
                fates.append(done[0])
                ends.append(done[1])
                for name, summary in done[2].items():
                    merge = observe[name].merge
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
        warn(concern, StepSizeWarning)
    if on_failure == "raise" and run.status.any():
        raise SimulationError(describe_failures(system, values, run, t0), run)
    return run


_told: set[str] = set()  # reasons for another engine: once each is enough


def _why(asked: str, program: Runner) -> str:
    if program.fallback is not None:
        return f"the {program.fallback}"
    return "the fastest that this machine has" if asked == "auto" else "asked for"


def _unpadded(parts: Sequence[Any], sizes: list[int]) -> np.ndarray:
    return np.concatenate([x[:size] for x, size in zip(parts, sizes, strict=True)])


def _fetch(velocities: list[Callable[[], np.ndarray] | None], sizes: list[int]) -> np.ndarray | None:
    """Of all chunks; None if the engine has none."""
    return _unpadded([fetch() for fetch in velocities if fetch], sizes) if velocities[0] else None


def _chunk_size(program: Runner, paths: int) -> int:
    """Paths per chunk: few enough that every worker has something to do."""
    share = -(-paths // program.workers)
    return min(program.chunk, -(-share // program.grain) * program.grain)


def _padded(program: Runner, paths: int, observed: bool) -> int:
    """Paths to run for a chunk of `paths`; observables, compiled for every size, see only powers of two."""
    groups = -(-paths // program.grain)
    return program.grain * (2 ** (groups - 1).bit_length() if observed else groups)


def _states(start: State, index: np.ndarray) -> State:
    return State(*(np.broadcast_to(x, (len(index), *x.shape)) if x.ndim == 1 else x[index] for x in start))
