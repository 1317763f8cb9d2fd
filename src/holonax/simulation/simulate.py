"""`simulate`: a checked plan, an engine's program for it, chunks of paths that run it, what is recorded: the run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from holonax.background import in_background
from holonax.engines import Runner, runner
from holonax.errors import InputError, Interrupted, SimulationError, StepSizeWarning
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.observables import Observable
from holonax.progress import notes
from holonax.simulation.chunks import Notify, cut, run_chunks
from holonax.simulation.plan import Plan
from holonax.simulation.recording import Complete, Recorder
from holonax.simulation.run import Run, describe_failures, in_words
from holonax.simulation.segments import Stepper
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
    plan = Plan.of(
        system, method, start, parameters=parameters, t0=t0, t1=t1, h=h, first_step=first_step, paths=paths, seed=seed,
        save_every=save_every, observe=observe, engine=engine, dtype=dtype, on_failure=on_failure,
    )  # fmt: skip
    return execute(plan, progress)


def execute(plan: Plan, progress: bool) -> Run:
    """Do what is planned.

    Ctrl-C raises `Interrupted` with the run of the paths that are complete, unless there are none.
    """
    begin = time.perf_counter()
    program = _compiled(plan, progress)
    ready = time.perf_counter()
    recorder = Recorder(plan)
    work = partial(_run_chunk, Stepper(plan, program), recorder)
    chunks, total = cut(plan.paths, _chunk_size(program, plan.paths)), plan.paths * plan.steps
    try:
        run_chunks(work, chunks, recorder.add, workers=program.workers, total=total, progress=progress)
    except KeyboardInterrupt:
        if not recorder.paths:
            raise
        message = f"interrupted: {recorder.paths} of {plan.paths} paths are done"
        raise Interrupted(message, _result(plan, program, recorder, begin, ready)) from None
    run = _result(plan, program, recorder, begin, ready)
    _judge(plan, run, recorder.failures)
    return run


_told: set[str] = set()  # reasons for another engine: once each is enough


def _compiled(plan: Plan, progress: bool) -> Runner:
    """The program that runs a plan: of the engine that was asked for, or of the best that can run it, with a warning.

    No warning if that is the best anyway, as for large systems, whose sparse equations are solved entry by entry, and
    for neighbour lists.
    """
    with notes(progress):
        program = in_background(runner, plan.engine, plan.form, plan.method, plan.n, plan.dtype)
    if program.fallback is not None and plan.engine != "auto":
        raise InputError(f"the {program.fallback}; engine='auto' runs it on the plain XLA engine")
    expected = program.sparse or plan.form.recipes
    if program.fallback is not None and not expected and program.fallback not in _told:
        _told.add(program.fallback)
        warn(f"the {program.fallback}; these paths run on the plain XLA engine instead: the same results, more slowly")
    return program


def _chunk_size(program: Runner, paths: int) -> int:
    """Paths per chunk: few enough that every worker has something to do, if that is worth its while."""
    share = max(-(-paths // program.workers), program.least)
    return min(program.chunk, -(-share // program.grain) * program.grain)


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
        first_step=plan.first_step, engine=program.name, reason=_why(plan.engine, program), seconds=seconds,
    )  # fmt: skip


def _why(asked: str, program: Runner) -> str:
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
