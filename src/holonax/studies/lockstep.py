r"""All step sizes, all methods and a reference advance together on one noise.

Fine increments are drawn once per path and step of the reference.  Each level keeps the Wiener increment and the
integral $J = \int W\,ds$ of the step it is about to take; when its time has come it takes the step with
$H = J/h - \Delta W/2$.  Nothing is stored along the way, so memory does not depend on the number of steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, jit, lax

from holonax.engines.base import cores
from holonax.errors import Interrupted
from holonax.mechanics.closures import remembered
from holonax.mechanics.noise import Increment, draw, words
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import guarded_step
from holonax.numerics.batching import over_paths
from holonax.simulation.chunks import Notify, cut, run_chunks
from holonax.store.ledger import Ledger
from holonax.studies.arguments import StudyPlan

_log = logging.getLogger(__name__)

CHUNK, _FEWEST = 256, 8
"""The most and the fewest paths that advance together."""
_COORDINATES = 2**15
"""That they have together if they are not the fewest: an array of them fits in a cache."""
COMMIT_SECONDS = 10.0
"""How much work of a chunk may be lost, with a store."""
_STEPS_PER_CALL = 512


class LevelStates(NamedTuple):
    """Where the paths of a chunk stand: per method (levels, paths, n), and the reference (paths, n)."""

    states: tuple[State, ...]
    status: Array  # (methods, levels, paths)
    reference: State
    reference_status: Array  # (paths,)
    sup: Array  # (methods, levels, 2, paths): largest squared error of q and p on the common grid so far


class _Carry(NamedTuple):
    reached: LevelStates
    W: Array  # (levels, paths, m): Wiener increment since the last step of each level
    J: Array  # and the integral of W over that time


@remembered
def _program(system: System, methods: tuple[Method, ...], reference: Method) -> Callable[..., _Carry]:
    return jit(partial(_take_steps, system, methods, reference))


def _take_steps(
    system: System,
    methods: tuple[Method, ...],
    reference: Method,
    carry: _Carry,
    factors: Array,
    common_factor: Array,
    key: Array,
    path: Array,
    sign: Array,
    h: Array,
    first: Array,
    stop: Array,
) -> _Carry:
    m = carry.W.shape[-1]

    def noise(path: Array, sign: Array, step: Array) -> tuple[Array, Array]:
        fine = draw(key, path, step, h, m)
        return sign * fine.dW, sign * fine.H

    def step_all(method: Method, state: State, status: Array, increment: Increment) -> tuple[State, Array]:
        def one(state: State, status: Array, dW: Array, H: Array) -> tuple[State, Array]:
            state, report = guarded_step(system, method, state, status, Increment(increment.h, dW, H))
            return state, report.status

        return over_paths(one, state, status, increment.dW, increment.H)

    def step_level(level: Array, carry: _Carry) -> _Carry:
        reached, W, J = carry
        size = h * factors[level]
        increment = Increment(size, W[level], J[level] / size - W[level] / 2)
        states, status = list(reached.states), reached.status
        for i, method in enumerate(methods):
            before = jax.tree.map(lambda x: x[level], states[i])
            after, fate = step_all(method, before, status[i, level], increment)
            states[i] = jax.tree.map(lambda x, y: x.at[level].set(y), states[i], after)
            status = status.at[i, level].set(fate)
        reached = reached._replace(states=tuple(states), status=status)
        return _Carry(reached, W.at[level].set(0.0), J.at[level].set(0.0))

    def body(step: Array, carry: _Carry) -> _Carry:
        fine = Increment(h, *jax.vmap(noise, in_axes=(0, 0, None))(path, sign, step))
        before = carry.reached
        reference_state, fate = step_all(reference, before.reference, before.reference_status, fine)
        reached = before._replace(reference=reference_state, reference_status=fate)
        carry = _Carry(reached, carry.W + fine.dW, carry.J + h * (carry.W + fine.dW / 2 + fine.H))

        def level_body(level: Array, carry: _Carry) -> _Carry:
            due = (step + 1) % factors[level] == 0
            return lax.cond(due, partial(step_level, level), lambda carry: carry, carry)

        carry = lax.fori_loop(0, len(factors), level_body, carry)
        common = (step + 1) % common_factor == 0
        return lax.cond(common, _update_sup, lambda carry: carry, carry)

    return lax.fori_loop(first, stop, body, carry)


def _update_sup(carry: _Carry) -> _Carry:
    reached = carry.reached
    now = [jnp.stack(squared_errors(state, reached.reference), axis=1) for state in reached.states]
    return carry._replace(reached=reached._replace(sup=jnp.maximum(reached.sup, jnp.stack(now))))


def squared_errors(state: State, reference: State) -> tuple[Array, Array]:
    """Squared Euclidean errors of q and of p, per level and path."""
    return jnp.sum((state.q - reference.q) ** 2, axis=-1), jnp.sum((state.p - reference.p) ** 2, axis=-1)


def chunk_of(n: int) -> int:
    """How many paths of n coordinates advance together: a power of two, fewer of large systems."""
    return max(_FEWEST, min(CHUNK, 2 ** int(np.log2(_COORDINATES / n))))


class _Common(NamedTuple):
    """What all chunks of a study have in common, as its program takes it."""

    program: Callable[..., _Carry]
    start: _Carry
    factors: Array
    common_factor: int  # steps of the reference from one time that all levels share to the next
    key: Array
    h: Array
    size: int  # of a chunk

    @staticmethod
    def of(plan: StudyPlan) -> _Common:
        start, levels, n = plan.start, plan.levels, plan.start.q.shape[0]
        m, size = plan.reference.noises(plan.system, n), chunk_of(n)
        return _Common(
            _program(plan.system, plan.methods, plan.reference),
            _at_start(start, len(plan.methods), len(levels.h), m, size),
            jnp.asarray(levels.factors),
            int(np.lcm.reduce(levels.factors)),
            words(plan.seed),
            jnp.asarray(levels.h_ref, start.q.dtype),
            size,
        )


def run_levels(
    plan: StudyPlan, measure: Callable[[LevelStates], Any], ledger: Ledger, *, antithetic: bool, progress: bool
) -> Any:
    """Run all chunks and join what `measure` makes of their ends (arrays whose last axis is that of the paths).

    With `antithetic`, paths come in pairs, one on W and the next on -W.  Chunks that the ledger holds are not run
    again, and one that was interrupted goes on.  Ctrl-C raises `Interrupted` with the joined chunks that are complete.
    """
    paths = plan.paths + plan.paths % 2 if antithetic else plan.paths
    common = _Common.of(plan)
    number = -(-paths // common.size)
    failures: list[int] = []  # of the chunks that are done

    def note(reached: LevelStates) -> None:
        fates = np.asarray(reached.status).any(axis=(0, 1)) | (np.asarray(reached.reference_status) != 0)
        failures.append(int(np.count_nonzero(fates)))

    work = partial(_run_chunk, common, plan.levels.steps, measure, note, antithetic, ledger)
    _log.info("study of %d methods on engine xla: several step sizes advance together on one noise", len(plan.methods))
    workers = cores() if jax.default_backend() == "cpu" else 1
    total = number * common.size * plan.levels.steps
    pieces: list[Any] = []
    try:
        run_chunks(
            work, cut(paths, common.size), pieces.append, workers=workers, total=total, progress=progress,
            told=lambda: f"{sum(failures)} failed" if any(failures) else "",
        )  # fmt: skip
    except KeyboardInterrupt:
        if not pieces:
            raise
        message = f"interrupted: {len(pieces)} of {number} chunks of {common.size} paths are done"
        message += "" if ledger.store is None else f"; the same call with store={str(ledger.store)!r} goes on"
        raise Interrupted(message, _join(pieces)) from None
    return _join(pieces)


def _run_chunk(
    common: _Common,
    steps: int,
    measure: Callable[[LevelStates], Any],
    note: Callable[[LevelStates], None],
    antithetic: bool,
    ledger: Ledger,
    chunk: range,
    notify: Notify,
) -> Any:
    """Run a chunk, padded to the size that the program is compiled for, and measure it."""
    program, carry, factors, common_factor, key, h, size = common
    number = chunk.start // size
    if (done := ledger.read(f"chunk-{number}")) is not None and done.words["paths"] == len(chunk):
        notify(size * steps)
        return _like(jax.eval_shape(measure, carry.reached), done.arrays)
    index = np.arange(chunk.start, chunk.start + size)
    path = words(index // 2 if antithetic else index).T
    sign = jnp.asarray(1.0 - 2.0 * (index % 2) if antithetic else np.ones(size), h.dtype)
    begin, kept = 0, time.monotonic()
    if (partly := ledger.read(f"carry-{number}")) is not None:
        begin = partly.words["step"]
        carry = _like(carry, partly.arrays)
    for first in range(begin, steps, _STEPS_PER_CALL):
        stop = min(first + _STEPS_PER_CALL, steps)
        carry = program(carry, factors, common_factor, key, path, sign, h, first, stop)
        jax.block_until_ready(carry.W)
        if time.monotonic() - kept > COMMIT_SECONDS:
            ledger.write(f"carry-{number}", {"step": stop}, _leaves(carry))
            kept = time.monotonic()
        notify(size * stop)
    note(carry.reached)
    found = jax.tree.map(lambda x: np.asarray(x)[..., : len(chunk)], measure(carry.reached))
    ledger.write(f"chunk-{number}", {"paths": len(chunk)}, _leaves(found))
    ledger.remove(f"carry-{number}")
    return found


def _like(tree: Any, leaves: Mapping[str, np.ndarray]) -> Any:
    return jax.tree.unflatten(jax.tree.structure(tree), [leaves[str(i)] for i in range(len(leaves))])


def _leaves(tree: Any) -> dict[str, np.ndarray]:
    return {str(i): np.asarray(x) for i, x in enumerate(jax.tree.leaves(tree))}


def _join(pieces: list[Any]) -> Any:
    return jax.tree.map(lambda *x: np.concatenate(x, axis=-1), *pieces)


def _at_start(start: State, methods: int, levels: int, m: int, size: int) -> _Carry:
    state = State(start.q, start.p, start.guess)
    reference = jax.tree.map(lambda x: jnp.tile(x, (size, 1)), state)
    at_levels = jax.tree.map(lambda x: jnp.tile(x, (levels, size, 1)), state)
    reached = LevelStates(
        (at_levels,) * methods,
        jnp.zeros((methods, levels, size), jnp.int32),
        reference,
        jnp.zeros(size, jnp.int32),
        jnp.zeros((methods, levels, 2, size), start.q.dtype),
    )
    none = jnp.zeros((levels, size, m), start.q.dtype)
    return _Carry(reached, none, none)
