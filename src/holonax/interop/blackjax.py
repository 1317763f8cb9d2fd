r"""The sampler of `hx.sample` as a pair of pure functions, `init` and `step`, in the manner of blackjax.

It needs no blackjax, and goes wherever a kernel of blackjax goes: into `jax.lax.scan`, under `jit` and `vmap`, into
`blackjax.util.run_inference_algorithm`.  Random numbers come from JAX's keys, so that chains differ from those of
`hx.sample`; what they sample is the same.

>>> import jax, holonax as hx
>>> from holonax.interop.blackjax import langevin_kernel
>>> kernel = langevin_kernel(lambda q: -q[2], lambda q: q @ q - 1.0, step_size=0.5)
>>> state = kernel.init([1.0, 0.0, 0.0])
>>> state, transition = jax.jit(kernel.step)(jax.random.key(0), state)
>>> state.position.shape, bool(transition.is_accepted)
((3,), True)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.inputs.checks import choice, positive
from holonax.mechanics.noise import Increment
from holonax.mechanics.start import start
from holonax.mechanics.system import State, System
from holonax.methods.langevin.method import Langevin
from holonax.methods.path import guarded_step
from holonax.sampling.sample import PATIENCE
from holonax.sampling.target import MEASURES, langevin_system


class ChainState(NamedTuple):
    """Where a chain is: a position on the manifold, the momentum there and the velocity that belongs to it."""

    position: Array
    momentum: Array
    velocity: Array


class Transition(NamedTuple):
    """What became of a step: the number of its outcome among accepted, rejected, irreversible, unsolved; its status."""

    is_accepted: Array
    outcome: Array
    status: Array


class SamplingKernel(NamedTuple):
    """Two pure functions: `init(position)` and `step(rng_key, state) -> (state, transition)`."""

    init: Callable[..., ChainState]
    step: Callable[[Array, ChainState], tuple[ChainState, Transition]]


def langevin_kernel(
    log_density: Callable[[Array], Array],
    constraint: Callable[[Array], Array] | None,
    *,
    step_size: float,
    measure: str = "surface",
    mass: Any = None,
    friction: float = 1.0,
    splitting: str = "BAOAB",
    inner: int = 1,
    metropolis: bool = True,
) -> SamplingKernel:
    """One step of the chains of `hx.sample`, whose arguments these are; `step_size` is not looked for, but given.

    Without Metropolis a step that cannot be solved leaves the chain where it is, and says so in `status`.
    """
    h = positive("step_size", step_size)
    choice("measure", measure, MEASURES)
    method = Langevin(friction, 1.0, splitting, None, inner, metropolis, PATIENCE)

    @cache
    def system_of(n: int) -> System:
        return langevin_system(log_density, constraint, n, mass, measure)

    def init(position: Any, rng_key: Any = None) -> ChainState:
        """At rest; the key is not needed."""
        position = jnp.asarray(position, float)
        return ChainState(*start(system_of(position.shape[-1]), position))

    def step(rng_key: Array, state: ChainState) -> tuple[ChainState, Transition]:
        """One proposal and its fate, between two halves of a heat bath."""
        system = system_of(state.position.shape[-1])
        noises = method.noises(system, state.position.shape[-1])
        dW, H = jnp.sqrt(h * np.array([[1.0], [1 / 12]])) * jax.random.normal(rng_key, (2, noises))
        new, report = guarded_step(system, method, State(*state), jnp.int32(0), Increment(jnp.asarray(h), dW, H))
        outcome = jnp.asarray(report.outcome)
        return ChainState(*new), Transition((outcome == 0) & (report.status == 0), outcome, report.status)

    return SamplingKernel(init, step)
