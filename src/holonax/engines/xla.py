"""Chunks of paths as one XLA program on any JAX device: `vmap` over the paths, a loop over the steps."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from holonax.methods.base import Method
from holonax.noise import draw
from holonax.path import Fate, guarded_step
from holonax.solve import Status
from holonax.system import State, System


class Track(NamedTuple):
    """Where the paths of a chunk are, and how they fared; every entry has a leading axis of paths."""

    state: State
    fate: Fate


def begin(state: State) -> Track:
    """Paths at their start."""
    paths = state.q.shape[0]
    none = jnp.zeros(paths, jnp.int32)
    return Track(state, Fate(none, none - 1, jnp.zeros(paths, state.q.dtype), none))


@partial(jax.jit, static_argnames=("system", "method", "points"))
def advance(
    system: System,
    method: Method,
    points: int,
    track: Track,
    key: Array,
    path: Array,
    h: Array,
    first: Array,
    stop: Array,
    stride: Array,
) -> tuple[Track, Array, Array]:
    """Take the steps `first`..`stop - 1` and record (q, p) at every multiple of `stride`.

    Rows of the two buffers (points, paths, n): row 0 is the first multiple of `stride` after `first`, and so on; rows
    that were not reached hold no meaning.  Step numbers, seed, h and stride are run-time values, so one compiled
    program serves every ensemble of this system and method.
    """
    _, m = system.sizes(track.state.q.shape[1])

    def one(track: Track, path: Array, step: Array) -> Track:
        state, fate = track
        state, report = guarded_step(system, method, state, fate.status, draw(key, path, step, h, m))
        failed = report.status != Status.CONVERGED
        now = Fate(
            report.status,
            jnp.where(failed, step, fate.failed_step),
            jnp.where(failed, report.residual, jnp.maximum(fate.residual, report.residual)),
            jnp.maximum(fate.iterations, report.iterations),
        )
        return Track(
            state, jax.tree.map(lambda new, old: jnp.where(fate.status == Status.CONVERGED, new, old), now, fate)
        )

    def body(step: Array, carry: tuple[Track, Array, Array]) -> tuple[Track, Array, Array]:
        track, q, p = carry
        track = jax.vmap(one, in_axes=(0, 0, None))(track, path, step)
        row = step // stride - first // stride  # overwritten until the multiple of the stride is reached
        return track, q.at[row].set(track.state.q), p.at[row].set(track.state.p)

    buffer = jnp.zeros((points, *track.state.q.shape), track.state.q.dtype)
    return lax.fori_loop(first, stop, body, (track, buffer, buffer))
