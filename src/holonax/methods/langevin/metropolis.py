r"""Accept or reject: what turns a reversible, volume-preserving proposal on $T^*S$ into an exactly unbiased step.

A proposal $\Phi$ that is symplectic on $T^*S$ and undone by itself after $v \mapsto -v$ leaves $e^{-H/T}$ invariant if
it is accepted with probability $\min(1, e^{-\Delta H/T})$ and otherwise $v$ turns round (generalised hybrid Monte
Carlo).  On a manifold $\Phi$ is defined by equations that may have no solution, or several: Newton finds one of them,
and the way back must find the place where the way out began.  Proposals for which it does not are rejected, for they
would be taken in one direction only (Zappa, Holmes-Cerfon and Goodman 2018; Lelièvre, Rousset and Stoltz 2019).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.mechanics.system import State
from holonax.methods.langevin.flow import Passage
from holonax.numerics.newton import Solved, Status

OUTCOMES = ("accepted", "rejected", "irreversible", "unsolved")
ACCEPTED, REJECTED, IRREVERSIBLE, UNSOLVED = range(4)

CLOSE = 1e-6
"""How near the way back must come, as a part of the length of the way out: another root lies about one length away."""

WORRYING = 0.25
"""Rate of proposals without a solution, or without a way back, from which on a run warns."""

STANDSTILL = 0.05
"""Acceptance below which a run warns."""


def accept_or_reject(
    passage: Passage, propose: Callable[[Passage], None], h: Array, temperature: float, patience: Array
) -> Array:
    """Move a settled passage to the proposal, or turn it round; the outcome.

    `patience` is an exponentially distributed number of mean 1, that is, minus the logarithm of a uniform one.
    """
    here = passage.state
    there = Passage(passage.system, passage.newton, here, settled=True)
    propose(there)
    back = Passage(passage.system, passage.newton, reversed_motion(there.state), settled=True)
    propose(back)
    rise = there.energy() - passage.energy()

    solved = (there.solved.status == Status.CONVERGED) & jnp.isfinite(rise)
    undone = (back.solved.status == Status.CONVERGED) & comes_back(here, there.state, back.state, h)
    if passage.system.made:  # a proposal that a list does not reach is not rejected: it cannot be judged
        lost = ~jnp.isfinite(rise) | ~passage.system.covers(there.state.q)
        lost |= (there.solved.status == Status.NON_FINITE) | (back.solved.status == Status.NON_FINITE)
        stale = jnp.where(lost, Status.STALE_LIST, Status.CONVERGED).astype(jnp.int32)
        passage.solved = passage.solved.then(Solved(stale, jnp.zeros_like(rise), jnp.zeros_like(stale)))
    accepted = rise <= temperature * patience
    outcome = jnp.where(solved, jnp.where(undone, jnp.where(accepted, ACCEPTED, REJECTED), IRREVERSIBLE), UNSOLVED)
    passage.state = jax.tree.map(  # settled either way
        lambda new, old: jnp.where(outcome == ACCEPTED, new, old), there.state, reversed_motion(here)
    )
    return outcome.astype(jnp.int32)


def reversed_motion(state: State) -> State:
    """The same place, the other way; L is even in v."""
    return State(state.q, -state.p, -state.v)


def comes_back(here: State, there: State, back: State, h: Array) -> Array:
    """Whether the way back from `there` ended where the way to it began, as far as round-off lets one see."""

    def size(x: Array) -> Array:
        return jnp.max(jnp.abs(x))

    round_off = 1e3 * jnp.finfo(here.q.dtype).eps * jnp.maximum(size(here.q), size(there.q))
    near = CLOSE * size(there.q - here.q) + round_off
    return (size(back.q - here.q) <= near) & (h * size(back.v + here.v) <= near)


def concern(counts: dict[str, np.ndarray]) -> str | None:
    """What to warn of where too many proposals could not be solved or undone; `counts` per chain, by outcome."""
    proposals = np.maximum(sum(counts.values()), 1)
    accepted = counts["accepted"].sum() / proposals.sum()
    if accepted < STANDSTILL and not any(counts[name].sum() > WORRYING * proposals.sum() for name in OUTCOMES[2:]):
        return (
            f"only {accepted:.1%} of {proposals.sum()} proposals were accepted, so that the chains hardly moved; use a "
            "smaller h (in hx.sample: step_size, or a longer warmup)"
        )
    failures = counts["unsolved"] + counts["irreversible"]
    for failed, tried in ((failures, proposals), (failures.sum(), proposals.sum())):
        if np.any(failed - 5 * np.sqrt(failed) > WORRYING * tried):  # not by chance
            break
    else:
        return None
    rate = failures / proposals
    many, worst = np.count_nonzero(rate > WORRYING), int(np.argmax(rate))
    return (
        f"{many} of {len(rate)} chains could not solve, or not undo, more than {WORRYING:.0%} of their proposals; "
        f"chain {worst} {rate[worst]:.0%} ({counts['unsolved'][worst]} unsolved, {counts['irreversible'][worst]} "
        f"irreversible of {proposals[worst]}). They kept their state each time, which is right but slow: the step is "
        "too large for the curvature of the constraint; use a smaller h (in hx.sample: step_size, or a higher "
        "target_acceptance)"
    )
