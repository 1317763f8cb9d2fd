"""`simulate`: a checked plan, an engine's program for it, chunks of paths that run it, what is recorded: the run."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from holonax.background import in_background
from holonax.engines import Runner, automatic, runner
from holonax.errors import InputError, Interrupted, SimulationError, StepSizeWarning
from holonax.inputs.checks import memory as enough
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.observables import Observable
from holonax.progress import notes
from holonax.simulation.chunks import Notify, cut, run_chunks
from holonax.simulation.cluster import Dask
from holonax.simulation.crew import Crew, crew_of
from holonax.simulation.exchange import ToRecorder
from holonax.simulation.plan import Plan
from holonax.simulation.recording import Complete, Recorder
from holonax.simulation.run import Run, describe_failures, in_words
from holonax.simulation.segments import Stepper
from holonax.simulation.sizes import bytes_of
from holonax.simulation.stored import execute_stored
from holonax.store.ledger import folder_of
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
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    cluster: Dask | None = None,
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
        store: a folder such as "run.zarr" that the run is written to as it goes, and that `hx.open` and xarray read
            meanwhile.  If it is there already, the run in it goes on, or is extended to a later `t1` or more paths; an
            InputError if it is another run.
        memory: what the process may have resident while it works on a store, such as "1GiB"; left out, a quarter of
            what is free.  Without a store, what the result may take.
        cluster: where chunks of paths run: in this process, or by the workers of `hx.Dask(...)`; the same results.

    Ctrl-C raises `Interrupted`, a KeyboardInterrupt whose `result` is the run of the paths that are complete;
    with a store, all that was done is in it, and the message says how to go on.

    >>> import holonax as hx
    >>> entry = hx.systems.pendulum()
    >>> run = hx.simulate(entry.system, hx.EulerA(), entry.start, t1=1.0, h=2**-8, paths=10, seed=0, save_every=64)
    >>> run.q.shape, run.t
    ((10, 5, 3), array([0.  , 0.25, 0.5 , 0.75, 1.  ]))
    >>> longer = hx.simulate(entry.system, hx.EulerA(), run.state, t0=run.t1, t1=2.0, h=2**-8, save_every=64)
    >>> longer.first_step
    256
    """
    plan = Plan.of(
        system, method, start, parameters=parameters, t0=t0, t1=t1, h=h, first_step=first_step, paths=paths, seed=seed,
        save_every=save_every, observe=observe, engine=engine, dtype=dtype, on_failure=on_failure,
    )  # fmt: skip
    if store is None:
        _check_memory(plan, memory)
        with crew_of(cluster) as crew:
            return execute(plan, progress, crew)
    limit, folder = bytes_of(memory), folder_of(store)
    with crew_of(cluster) as crew:
        begin = time.perf_counter()
        program = _compiled(plan, progress)
        told: dict[str, Any] = {"reason": why(plan.engine, program), "compiling": time.perf_counter() - begin}
        run = execute_stored(plan, program, folder, limit, progress, crew, **told)
    _judge(plan, run, int(np.count_nonzero(run.status)))
    return run


def _check_memory(plan: Plan, memory: Any) -> None:
    """Raise if the result is larger than it may be."""
    size = 2 * plan.paths * plan.grid.times * plan.n * np.dtype(plan.dtype).itemsize
    what = f"q and p at {plan.grid.times} times of {plan.paths} paths"
    remedy = (
        'write them to disk with store="run.zarr", save less with save_every=, or use observe= with save_every=None'
    )
    enough(what, size, remedy)
    if memory is not None and size > (limit := bytes_of(memory)):
        raise InputError(f"{what} need {size / 2**20:.0f} MiB, more than memory = {limit / 2**20:.0f} MiB; {remedy}")


def execute(plan: Plan, progress: bool, crew: Crew | None = None) -> Run:
    """Do what is planned, in threads of this process or by a crew elsewhere.

    Ctrl-C raises `Interrupted` with the run of the paths that are complete.
    """
    begin = time.perf_counter()
    program = _compiled(plan, progress)
    ready = time.perf_counter()
    recorder = Recorder(plan, program.block)
    workers, total = program.workers, plan.paths * plan.steps
    size = chunk_size(program, plan, crew.chunks(plan) if crew else workers)
    chunks = cut(plan.paths, size, program.least if program.tapered and not plan.observe else None)
    program = program.beside(min(workers, -(-plan.paths // size)))
    work = partial(_run_chunk, Stepper(plan, program), recorder)
    try:
        if crew:
            crew.run(plan, program, ToRecorder(recorder), chunks, recorder.add, progress=progress, remedy=_REMEDY)
        else:
            told = partial(_failures_so_far, recorder)
            run_chunks(work, chunks, recorder.add, workers=workers, total=total, progress=progress, told=told)
    except KeyboardInterrupt:
        remedy = "" if recorder.paths else '; a run with store="run.zarr" goes on where it was'
        message = f"interrupted: {recorder.paths} of {plan.paths} paths are done{remedy}"
        raise Interrupted(message, _result(plan, program, recorder, begin, ready)) from None
    run = _result(plan, program, recorder, begin, ready)
    _judge(plan, run, recorder.failures)
    return run


_REMEDY = 'nothing is left of this run; a run with store="run.zarr" can go on'


def _failures_so_far(recorder: Recorder) -> str:
    """For the progress bar."""
    return f"{recorder.failures} failed" if recorder.failures else ""


_log = logging.getLogger(__name__)
_told: set[str] = set()  # reasons for another engine: once each is enough


def _compiled(plan: Plan, progress: bool) -> Runner:
    """The program that runs a plan: of the engine that was asked for, or of the best that can run it, with a warning.

    No warning if that is the best anyway, as for large systems, whose sparse equations are solved entry by entry, and
    for neighbour lists.
    """
    begin = time.perf_counter()
    with notes(progress):
        program = in_background(runner, plan.engine, plan.form, plan.method, plan.n, plan.dtype)
    spent = time.perf_counter() - begin
    _log.info("engine %s (%s); ready after %.2g s", program.name, why(plan.engine, program), spent)
    if program.fallback is not None and plan.engine != "auto":
        best = automatic()
        tries = "runs it on" if best == plan.engine else f"tries {best!r}, then"
        raise InputError(f"the {program.fallback}; engine='auto' {tries} the plain XLA engine")
    if program.fallback is not None and not program.sparse and program.fallback not in _told:
        _told.add(program.fallback)
        warn(f"the {program.fallback}; these paths run on the plain XLA engine instead: the same results, more slowly")
    return program


def chunk_size(program: Runner, plan: Plan, chunks: int) -> int:
    """Paths per chunk: few enough that there are so many chunks, if that is worth their while.

    With observables, a power of two of blocks, as `Tally` wants it.
    """
    share = max(-(-plan.paths // chunks), program.least)
    if not plan.observe:
        return min(program.chunk, -(-share // program.grain) * program.grain)
    return min(program.chunk, program.block * 2 ** (-(-share // program.block) - 1).bit_length())


def _run_chunk(stepper: Stepper, recorder: Recorder, chunk: range, notify: Notify) -> Complete:
    return recorder.record(chunk, stepper.segments(chunk), notify)


def _result(plan: Plan, program: Runner, recorder: Recorder, begin: float, ready: float) -> Run:
    """The run of the paths that are complete; compiling lasted from `begin` until the program was `ready`."""
    fate = recorder.fate
    told = fate._asdict() | {"counts": dict(zip(plan.method.outcomes, fate.counts.T, strict=True))}
    observed = recorder.observed
    seconds = {"compiling": ready - begin, "running": time.perf_counter() - ready}
    return Run(
        plan.times, recorder.q, recorder.p, **told, observed=observed, ends=recorder.ends,
        system=in_words(plan.form, plan.n), method=plan.method,
        parameters=plan.values.shared | plan.values.own, h=plan.h, t1=plan.t1, steps=plan.steps, seed=plan.seed,
        first_step=plan.first_step, engine=program.name, reason=why(plan.engine, program), seconds=seconds,
        t0=plan.t0, over={name: seen.over for name, seen in plan.observe.items()},
        model=plan.system, origin=plan.system.origin,
    )  # fmt: skip


def why(asked: str, program: Runner) -> str:
    """Why it is this engine."""
    if program.fallback is not None:
        return f"the {program.fallback}"
    why = "the fastest that this machine has" if asked == "auto" else "asked for"
    return why if program.how is None else f"{why}, {program.how}"


def _judge(plan: Plan, run: Run, failures: int) -> None:
    """Warn of a run that is right but slow, and refuse one that has failed."""
    if (concern := plan.method.concern(run.counts)) is not None:
        warn(concern, StepSizeWarning)
    if plan.on_failure == "raise" and failures:
        raise SimulationError(describe_failures(plan, run), run)
