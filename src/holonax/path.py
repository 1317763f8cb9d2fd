"""One path, as a pure JAX function."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from holonax.errors import InputError
from holonax.methods.base import Method, Report
from holonax.noise import Increment
from holonax.solve import Status
from holonax.system import State, System


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


def guarded_step(
    system: System, method: Method, state: State, status: Array, increment: Increment
) -> tuple[State, Report]:
    """One step of a path that may have failed before: then, or if this step fails, the state stays where it was.

    The status in the report is that of the first failure.
    """
    new, report = method.step(system, state, increment)
    finite = jnp.all(jnp.isfinite(new.q)) & jnp.all(jnp.isfinite(new.p))
    here = jnp.where((report.status == Status.CONVERGED) & ~finite, Status.NON_FINITE, report.status)
    status = jnp.where(status == Status.CONVERGED, here, status).astype(jnp.int32)
    state = jax.tree.map(lambda x, old: jnp.where(status == Status.CONVERGED, x, old), new, state)
    return state, report._replace(status=status)


def integrate(system: System, method: Method, start: State, increments: Increment) -> Path:
    """Integrate one path over `increments` (leading axis of steps): pure, for `jit`, `vmap` and `grad`.

    A step that cannot be solved freezes the path there; `.report.status` (shape (steps,)) is nonzero from then on.

    >>> import holonax as hx
    >>> entry = hx.systems.pendulum()
    >>> noise = hx.increments(entry.system, h=2.0**-6, steps=64, seed=0, path=17)
    >>> path = hx.integrate(entry.system, hx.Rattle(), entry.start, noise)
    >>> path.q.shape, int(path.report.status.max())
    ((65, 3), 0)
    """
    if start.q.ndim != 1:
        raise InputError(f"start.q has shape {start.q.shape}; integrate takes one path (use jax.vmap for several)")
    _, m = system.sizes(start.q.shape[0])
    if increments.dW.ndim != 2 or increments.dW.shape[1] != m:
        raise InputError(
            f"increments.dW has shape {increments.dW.shape}; (steps, {m}) is needed for the {m} stochastic potentials "
            f"of this system at n = {start.q.shape[0]} (hx.System(..., n={start.q.shape[0]}) makes hx.increments match)"
        )
    increments = increments._replace(h=jnp.broadcast_to(increments.h, increments.dW.shape[:1]))

    def advance(carry: tuple[State, Array], increment: Increment) -> tuple[tuple[State, Array], tuple]:
        state, report = guarded_step(system, method, *carry, increment)
        return (state, report.status), (state.q, state.p, report)

    begin = (State(start.q, start.p, start.guess), jnp.zeros((), jnp.int32))
    _, (q, p, report) = lax.scan(advance, begin, increments)
    return Path(jnp.concatenate([start.q[None], q]), jnp.concatenate([start.p[None], p]), report)
