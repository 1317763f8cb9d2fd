"""One path, as a pure JAX function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.errors import InputError
from holonax.inputs.blame import TRACED
from holonax.inputs.checks import instance, not_forked
from holonax.inputs.parameters import Values
from holonax.mechanics.closures import keep_up, remembered
from holonax.mechanics.noise import Increment, draw
from holonax.mechanics.redundancy import distance_from_implied, without_redundant
from holonax.mechanics.start import A_SYSTEM, as_state
from holonax.mechanics.system import State, System
from holonax.methods.base import Method, Report
from holonax.numerics.newton import Status


class Path(NamedTuple):
    """A discrete path: `q`, `p` of shape (steps + 1, n) from the start on, and the report of every step."""

    q: Array
    p: Array
    report: Report


class Fate(NamedTuple):
    """How a path fared, or, with a leading axis, several paths."""

    status: Any  # 0, or the `Status` of the first failure
    failed_step: Any  # the step that failed, or -1
    residual: Any  # the largest of the solved steps, or that of the failure
    iterations: Any  # the largest number of Newton iterations in a step
    counts: Any  # how often each of the method's outcomes came about


def attempt(system: System, method: Method, state: State, increment: Increment) -> tuple[State, Report]:
    """One step, in whose report a state that is not finite, or off a constraint, counts as a failure."""
    new, report = method.step(system, state, increment)
    finite = jnp.isfinite(jnp.sum(new.q) + jnp.sum(new.p))  # one entry that is not spoils the sum
    status = jnp.where((report.status == Status.CONVERGED) & ~finite, Status.NON_FINITE, report.status)
    if system.made:  # where a list does not reach, L is not a number: now, in the next step, or to those who observe
        told = (status == Status.CONVERGED) | (status == Status.NON_FINITE)
        status = jnp.where(told & ~system.covers(new.q), Status.STALE_LIST, status)
    if system.implied and method.keeps_manifold:
        follow = jnp.all(distance_from_implied(system, new.q) <= _allowed(method, new.q.dtype))
        status = jnp.where((status == Status.CONVERGED) & ~follow, Status.NOT_IMPLIED, status)
    return new, report._replace(status=status.astype(jnp.int32))


IMPLIED = 1e-9
"""What may be left of a constraint that follows from the others, compared with its magnitude; those are at round-off,
and what follows from them may be ten thousand times that."""


def _allowed(method: Method, dtype: Any) -> float:
    """The same for this method and type: where less is asked of the others, less follows."""
    solvers = (getattr(x, "newton", None) for x in (method, getattr(method, "core", None)))
    asked = [newton.bound(dtype) for newton in solvers if newton is not None]
    return max(IMPLIED, 100 * max(asked, default=0.0))


def guarded_step(
    system: System, method: Method, state: State, status: Array, increment: Increment
) -> tuple[State, Report]:
    """One step of a path that may have failed before: then, or if this step fails, the state stays where it was.

    The status in the report is that of the first failure.
    """
    new, report = attempt(system, method, state, increment)
    status = jnp.where(status == Status.CONVERGED, report.status, status)
    state = lax.cond(status != Status.CONVERGED, lambda: state, lambda: new)
    return state, report._replace(status=status)


class Track(NamedTuple):
    """Where a path is and how it fared, or, with a leading axis, several paths."""

    state: State
    fate: Fate


def begin(state: State, outcomes: int, fate: Fate | None = None) -> Track:
    """Paths at their start, with a method that has so many outcomes; or on their way, having fared like that."""
    if fate is not None:
        return Track(state, fate)
    paths = state.q.shape[0]
    none = np.zeros(paths, np.int32)
    return Track(
        state, Fate(none, none - 1, np.zeros(paths, state.q.dtype), none, np.zeros((paths, outcomes), np.int32))
    )


IN_DOUBT = -1
"""Status of a path whose last step was a trial that did not come off, and is to be taken again."""


class Failure(NamedTuple):
    """What is to be remembered of a step if it fails."""

    status: Array
    residual: Array
    iterations: Array  # the largest number so far


def try_step(
    system: System, method: Method, track: Track, key: Array, path: Array, step: Array, h: Array
) -> tuple[Array, Track, Failure]:
    """One step of one path of an ensemble, with the noise that belongs to it.

    Returns whether the path stays where it was, because this step fails or one before did; where the step leads
    otherwise; and what `go_back` needs.  Engines compute that in a branch of its own, which is seldom taken.
    """
    state, fate = track
    noise = draw(key, path, step, h, method.noises(system, state.q.shape[0]))
    new, report = attempt(system, method, state, noise)
    larger = report.residual > fate.residual  # a residual that is NaN is that of a failure
    residual = jnp.where(larger, report.residual, fate.residual)
    iterations = jnp.maximum(fate.iterations, report.iterations)
    counts = fate.counts + (report.outcome == np.arange(len(method.outcomes)))
    stays = (fate.status != Status.CONVERGED) | (report.status != Status.CONVERGED)
    ahead = Track(new, Fate(fate.status, fate.failed_step, residual, iterations, counts))
    return stays, ahead, Failure(report.status, report.residual, iterations)


def go_back(track: Track, failure: Failure, step: Array, trial: bool = False) -> Track:
    """The path as it was before a step that failed, and remembers that, unless it had failed before.

    In a `trial`, equations that are not solved mean no failure: the path is `IN_DOUBT`, and otherwise as it was.
    """
    state, fate = track
    now = Fate(failure.status, step, failure.residual, failure.iterations, fate.counts)
    if trial:
        now = fate._replace(status=jnp.full((), IN_DOUBT, jnp.int32))
    before = fate.status != Status.CONVERGED
    return Track(state, jax.tree.map(lambda old, new: jnp.where(before, old, new), fate, now))


def advance(system: System, method: Method, track: Track, key: Array, path: Array, step: Array, h: Array) -> Track:
    """One step of one path of an ensemble: what every engine repeats."""
    stays, ahead, failure = try_step(system, method, track, key, path, step, h)
    return lax.cond(stays, lambda: go_back(track, failure, step), lambda: ahead)


def integrate(system: System, method: Method, start: State, increments: Increment) -> Path:
    """Integrate one path over `increments` (leading axis of steps): pure, for `jit`, `vmap` and `grad`.

    A step that cannot be solved freezes the path there; `.report.status` (shape (steps,)) is nonzero from then on.
    Neighbour lists (`hx.pairs`) stay those of the start, or of `system.around(q)`: under `jit` and `vmap` these must be
    given.  A path that leaves what they reach is frozen there with `Status.STALE_LIST`.

    >>> import holonax as hx
    >>> entry = hx.systems.pendulum()
    >>> noise = hx.increments(entry.system, h=2.0**-6, steps=64, seed=0, path=17)
    >>> path = hx.integrate(entry.system, hx.Rattle(), entry.start, noise)
    >>> path.q.shape, int(path.report.status.max())
    ((65, 3), 0)
    """
    not_forked()
    instance("system", system, System, A_SYSTEM)
    instance("method", method, Method, "pass an instance such as hx.Kicked()")
    instance("increments", increments, Increment, "draw them with hx.increments(system, h=..., steps=..., seed=...)")
    start = as_state(start)
    system = without_redundant(system, start.q, Values.of(system.parameters, None))
    if start.q.ndim != 1:
        raise InputError(f"start.q has shape {start.q.shape}; integrate takes one path (use jax.vmap for several)")
    n = start.q.shape[0]
    m = method.noises(system, n)
    if increments.dW.ndim != 2 or increments.dW.shape[1] != m:
        raise InputError(
            f"increments.dW has shape {increments.dW.shape}; (steps, {m}) is needed for the {m} Wiener processes of "
            f"this method on this system at n = {n} (hx.increments matches with hx.System(..., n={n}) and method=)"
        )
    increments = increments._replace(h=jnp.broadcast_to(increments.h, increments.dW.shape[:1]))
    begin = State(start.q, start.p, start.guess)
    system = system if system.made else system.around(start.q)
    try:
        keep_up(system, n)
    except TRACED:  # functions that close over traced values are not to be remembered
        return _integrate(system.form, method, dict(system.parameters), begin, increments)
    return _compiled(system.form, method)(dict(system.parameters), begin, increments)


def _integrate(form: System, method: Method, values: dict[str, Array], begin: State, increments: Increment) -> Path:
    system = form.given(values)

    def advance(carry: tuple[State, Array], increment: Increment) -> tuple[tuple[State, Array], tuple]:
        state, report = guarded_step(system, method, *carry, increment)
        return (state, report.status), (state.q, state.p, report)

    _, (q, p, report) = lax.scan(advance, (begin, jnp.zeros((), jnp.int32)), increments)
    return Path(jnp.concatenate([begin.q[None], q]), jnp.concatenate([begin.p[None], p]), report)


@remembered
def _compiled(form: System, method: Method) -> Callable[..., Path]:
    return jax.jit(partial(_integrate, form, method))
