"""What `simulate` returns, and how it tells of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, final

import numpy as np

from holonax.mechanics.closures import remembered
from holonax.mechanics.rank import is_near_singular, most_dependent
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.numerics.newton import Status
from holonax.simulation.plan import Plan


class Ends(NamedTuple):
    """Where the paths are at the end, with what it takes to fetch their velocities, if the engine has any."""

    q: np.ndarray
    p: np.ndarray
    velocities: Callable[[], np.ndarray | None]


def _itself(v: np.ndarray | None) -> np.ndarray | None:
    return v


@final
@dataclass(frozen=True, repr=False)
class Run:
    """A simulated ensemble; `state` is where its paths are at the end.

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
        ends: what `state` is made of.
        system: the system, in words.
        method: the integrator.
        parameters: values of the system's parameters, by name; with a leading axis where each path has its own.
        h: step size.
        t1: end time.
        steps: number of steps.
        seed: seed of the noise.
        first_step: number that the first step has in the noise; 0 unless the run continues another.
        engine: what ran the paths: "llvm", "cuda", "xla", or "plain", which takes what the others cannot translate.
        reason: why that one.
        seconds: how long compiling and running took.
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
    ends: Ends
    system: str
    method: Method
    parameters: dict[str, np.ndarray]
    h: float
    t1: float
    steps: int
    seed: int
    first_step: int
    engine: str
    reason: str
    seconds: dict[str, float]

    @cached_property
    def state(self) -> State:
        """Where the paths are at the end, to go on from: `simulate(system, method, run.state, t0=run.t1, ...)`."""
        return State(self.ends.q, self.ends.p, self.ends.velocities())

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: velocities that may still be on a device are fetched."""
        q, p, v = self.state
        return self.__dict__ | {"ends": Ends(q, p, partial(_itself, v))}

    def __repr__(self) -> str:
        paths, times, _ = self.q.shape
        failed = int(np.count_nonzero(self.status))
        worst = Status(int(np.bincount(self.status[self.status != 0]).argmax())).name if failed else ""
        compiling, running = (self.seconds[part] for part in ("compiling", "running"))
        lines = [
            f"Run of {paths} paths, {self.steps} steps of h = {self.h:g} to t = {self.t1:g}; {times} times kept",
            f"  system   {self.system}",
            f"  method   {self.method}",
            f"  noise    seed {self.seed}, steps from number {self.first_step} on",
            f"  engine   {self.engine}: {self.reason}; {compiling:.2g} s to compile, {running:.2g} s to run",
            f"  failed   {failed} paths" + (f", mostly {worst}" if failed else ""),
            f"  Newton   residual up to {self.residual.max(initial=0.0):.1e}, "
            f"up to {self.iterations.max(initial=0)} iterations in a step",
        ]
        if self.parameters:
            told = (
                f"{name} = {np.array2string(x, threshold=4) if isinstance(x, np.ndarray) else x}"
                for name, x in self.parameters.items()
            )
            lines.insert(2, f"  with     {', '.join(told)}")
        if self.counts:
            lines.append("  counts   " + ", ".join(f"{name} {int(x.sum())}" for name, x in self.counts.items()))
        if self.observed:
            lines.append(f"  observed {', '.join(self.observed)}")
        return "\n".join(lines)


@remembered
def in_words(system: System, n: int) -> str:
    """Sizes of a system, and where its Lagrangian was written."""
    k, m = system.sizes(n)
    code = getattr(system.lagrangian, "__code__", None)
    name = getattr(system.lagrangian, "__qualname__", type(system.lagrangian).__name__)
    where = f", line {code.co_firstlineno} of {code.co_filename.rsplit('/', 1)[-1]}" if code else ""
    return f"{n} coordinates, {k} constraints, {m} stochastic potentials (L is {name}{where})"


def describe_failures(plan: Plan, run: Run) -> str:
    """How many paths failed, the first of them, why, and what to do about it."""
    failed = np.flatnonzero(run.status)
    path = failed[np.argmin(run.failed_step[failed])]
    step = run.failed_step[path]
    values = {name: x[0] for name, x in plan.values.of_paths(np.array([path]), 1).items()}
    own = plan.system.given({**plan.system.parameters, **values}).around(run.ends.q[path])
    where = ""
    if run.status[path] == Status.SINGULAR:
        where = f" ({most_dependent(own, run.ends.q[path])})"
    elif run.status[path] != Status.NON_FINITE and is_near_singular(own, run.ends.q[path]):
        where = f" ({most_dependent(own, run.ends.q[path])}; near a singular point a smaller h does not help)"
    return (
        f"{len(failed)} of {len(run.status)} paths failed; first path {path} at step {step} "
        f"(t = {plan.t0 + step * run.h:.6g}), residual {run.residual[path]:.2e}, h = {run.h:g}: "
        f"{Status(run.status[path]).advice}{where}. "
        'on_failure="mark" returns the run with run.status instead of raising; it is also in .run of this error.'
    )
