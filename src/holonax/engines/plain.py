"""Chunks of paths as `vmap` of the step under XLA: takes whatever JAX can trace, and serves as a fallback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import Jaxpr

from holonax.engines.base import ROWS, Runner, cores, path_numbers
from holonax.inputs.parameters import kinds
from holonax.mechanics.noise import words
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import Fate, Track, advance, begin
from holonax.numerics.batching import is_sparse, largest_batch, over_paths


def _advance(
    form: System,
    method: Method,
    values: dict[str, Array],
    track: Track,
    key: Array,
    path: Array,
    h: Array,
    first: Array,
    stop: Array,
    stride: Array,
    offset: Array,
) -> tuple[Track, Array, Array]:
    def body(step: Array, carry: tuple[Track, Array, Array]) -> tuple[Track, Array, Array]:
        def of_one(track: Track, path: Array, values: dict[str, Array]) -> Track:
            return advance(form.given(values), method, track, key, path, step + offset, h)

        track, q, p = carry
        track = over_paths(of_one, track, path, values)
        row = step // stride - first // stride  # overwritten until the multiple of the stride is reached
        return track, q.at[row].set(track.state.q), p.at[row].set(track.state.p)

    buffer = jnp.zeros((ROWS, *track.state.q.shape), track.state.q.dtype)
    return lax.fori_loop(first, stop, body, (track, buffer, buffer))


_RECORDED = 2**22
"""Coordinates of all paths of a call on an accelerator, of which ROWS states are recorded."""

Carried = tuple[dict[str, Any], Track]
"""Parameters of the paths, and where the paths are."""


@final
class PlainRunner(Runner):
    """Chunks are padded to one size, so that the program, and with it every bit of a path, is always the same.

    On a CPU 32 paths reach most of the throughput and cost a single path little (CHANGELOG.md has the measurement),
    unless their matrices are so large that they are factorised one after another: then a chunk is as many as are
    factorised at a time.  Paths of large systems with sparse equations run one by one, for the arrays of a single path
    fill the processor; eight at a time would be 1.6 times as fast, and one alone five times as slow.  So do paths with
    neighbour lists.  An accelerator wants to be filled.
    """

    name = "plain"

    def __init__(self, system: System, method: Method, n: int, dtype: str) -> None:
        self.system, self.method, self.dtype = system, method, dtype
        self.compiled = jax.jit(partial(_advance, system, method))
        self.outcomes = len(method.outcomes)
        on_cpu = jax.default_backend() == "cpu"
        step = self._traced(n)
        self.sparse = is_sparse(step)
        few = 1 if self.sparse or system.recipes else min(32, largest_batch(step))
        self.chunk = self.grain = few if on_cpu else max(1, min(2**14, _RECORDED // n))
        self.workers = cores() if on_cpu else 1

    def _traced(self, n: int) -> Jaxpr:
        """A step of one path."""
        state = State(*(np.zeros((1, n), self.dtype) for _ in range(3)))
        one = jax.tree.map(lambda x: x[0], begin(state, self.outcomes))
        word = jnp.zeros(2, jnp.uint32)

        def step(track: Track, values: dict[str, Array], h: Array) -> Track:
            return advance(self.system.given(values), self.method, track, word, word, jnp.int32(0), h)

        values = kinds(self.system.parameters, n, self.dtype)
        return jax.make_jaxpr(step)(one, values, jnp.zeros((), self.dtype)).jaxpr  # known to be 0, h would fold away

    def begin(self, states: State, parameters: Mapping[str, Any], fate: Fate | None = None) -> Carried:
        """Paths at their start, or on their way."""
        track = begin(State(*(np.asarray(x, self.dtype) for x in states)), self.outcomes, fate)
        return jax.tree.map(jnp.asarray, (dict(parameters), track))

    def renewed(self, carried: Carried, parameters: Mapping[str, Any]) -> Carried:
        """Other values of some parameters."""
        values, track = carried
        return values | jax.tree.map(jnp.asarray, dict(parameters)), track

    def advance(
        self,
        carried: Carried,
        paths: range,
        seed: int,
        h: float,
        first: int,
        stop: int,
        stride: int,
        offset: int = 0,
    ) -> tuple[Any, Any, Any]:
        """One call of the compiled program."""
        values, track = carried
        path, size = words(path_numbers(paths, len(track.state.q))).T, jnp.asarray(h, self.dtype)
        steps = (np.int32(x) for x in (first, stop, stride, offset))
        track, q, p = jax.block_until_ready(self.compiled(values, track, words(seed), path, size, *steps))
        return (values, track), q, p

    def fate(self, carried: Carried) -> Fate:
        """How the paths fared so far, as NumPy arrays."""
        return Fate(*map(np.asarray, carried[1].fate))

    def places(self, carried: Carried) -> tuple[np.ndarray, np.ndarray]:
        """Positions and momenta, as NumPy arrays (paths, n)."""
        return np.asarray(carried[1].state.q), np.asarray(carried[1].state.p)

    def velocities(self, carried: Carried) -> Callable[[], np.ndarray] | None:
        """Where Newton's method would begin, to be fetched later."""
        return partial(np.asarray, carried[1].state.v)


def prepare(system: System, method: Method, n: int, dtype: str) -> PlainRunner:
    """Nothing to do until the first call."""
    return PlainRunner(system, method, n, dtype)
