r"""All step sizes, all methods and a reference advance together on one noise.

Fine increments are drawn once per path and step of the reference.  Each level keeps the Wiener increment and the
integral $J = \int W\,ds$ of the step it is about to take; when its time has come it takes the step with
$H = J/h - \Delta W/2$.  Nothing is stored along the way, so memory does not depend on the number of steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.background import in_order
from holonax.engines.base import cores
from holonax.errors import InputError, Interrupted, shown
from holonax.inputs.checks import at_least, count_of_steps, real_number, real_numbers
from holonax.mechanics.closures import remembered
from holonax.mechanics.noise import Increment, draw, words
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import guarded_step
from holonax.numerics.batching import over_paths
from holonax.progress import Bar

CHUNK = 256
_STEPS_PER_CALL = 512


@final
@dataclass(frozen=True)
class Levels:
    """Step sizes, finest last as a multiple of the reference's."""

    h: np.ndarray  # decreasing
    factors: np.ndarray  # h / h_ref
    h_ref: float
    steps: int  # of the reference

    @staticmethod
    def of(h: Sequence[float], t1: float, refine: int) -> Levels:
        """Check that all step sizes fit each other and the interval, and refine the smallest for the reference."""
        sizes = real_numbers("h", h, "pass step sizes such as [2**-4, 2**-5]")
        if sizes.ndim != 1 or len(sizes) < 2:
            raise InputError(f"h = {shown(h)}: an order needs at least 2 step sizes, such as [2**-4, 2**-5]")
        sizes = np.sort(sizes)[::-1]
        t1 = real_number("t1", t1)
        if not (np.isfinite(sizes).all() and sizes[-1] > 0 and t1 > 0):
            raise InputError(f"h = {sizes.tolist()}, t1 = {t1}: step sizes and end time must be positive and finite")
        if len(set(sizes)) < len(sizes):
            raise InputError(f"h = {sizes.tolist()} repeats a step size")
        refine = at_least(2, "refine", refine, "the reference must be at least 2 times finer than the finest level")
        steps = t1 / sizes[-1] * refine
        what = f"h = {sizes[-1]:g}, {refine} times finer for the reference, is {steps:.6g} steps to t1 = {t1:g}"
        count_of_steps(steps, what, "use larger step sizes or a smaller refine")
        multiples = sizes / sizes[-1]
        for size, multiple in zip(sizes, multiples, strict=True):
            if abs(multiple - round(multiple)) > 1e-9 * multiple:
                raise InputError(
                    f"h = {size} is {multiple:.6g} times the finest, {sizes[-1]}; it must be a multiple of it"
                )
            if abs(t1 / size - round(t1 / size)) > 1e-9 * t1 / size:
                raise InputError(f"t1 = {t1} is {t1 / size:.6g} steps of h = {size}; it must be a whole number")
        factors = refine * np.round(multiples).astype(int)
        steps = round(t1 / sizes[-1]) * refine
        return Levels(sizes, factors, t1 / steps, steps)


class Ends(NamedTuple):
    """Where the paths of a chunk stand: per method (levels, paths, n), and the reference (paths, n)."""

    states: tuple[State, ...]
    status: Array  # (methods, levels, paths)
    reference: State
    reference_status: Array  # (paths,)
    sup: Array  # (methods, levels, 2, paths): largest squared error of q and p on the common grid so far


class _Carry(NamedTuple):
    ends: Ends
    W: Array  # (levels, paths, m): Wiener increment since the last step of each level
    J: Array  # and the integral of W over that time


@remembered
def _program(system: System, methods: tuple[Method, ...], reference: Method) -> Callable[..., _Carry]:
    return jax.jit(partial(_advance, system, methods, reference))


def _advance(
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
        ends, W, J = carry
        size = h * factors[level]
        increment = Increment(size, W[level], J[level] / size - W[level] / 2)
        states, status = list(ends.states), ends.status
        for i, method in enumerate(methods):
            before = jax.tree.map(lambda x: x[level], states[i])
            after, fate = step_all(method, before, status[i, level], increment)
            states[i] = jax.tree.map(lambda x, y: x.at[level].set(y), states[i], after)
            status = status.at[i, level].set(fate)
        ends = ends._replace(states=tuple(states), status=status)
        return _Carry(ends, W.at[level].set(0.0), J.at[level].set(0.0))

    def body(step: Array, carry: _Carry) -> _Carry:
        fine = Increment(h, *jax.vmap(noise, in_axes=(0, 0, None))(path, sign, step))
        reference_state, fate = step_all(reference, carry.ends.reference, carry.ends.reference_status, fine)
        ends = carry.ends._replace(reference=reference_state, reference_status=fate)
        carry = _Carry(ends, carry.W + fine.dW, carry.J + h * (carry.W + fine.dW / 2 + fine.H))

        def level_body(level: Array, carry: _Carry) -> _Carry:
            due = (step + 1) % factors[level] == 0
            return lax.cond(due, partial(step_level, level), lambda carry: carry, carry)

        carry = lax.fori_loop(0, len(factors), level_body, carry)
        common = (step + 1) % common_factor == 0
        return lax.cond(common, _update_sup, lambda carry: carry, carry)

    return lax.fori_loop(first, stop, body, carry)


def _update_sup(carry: _Carry) -> _Carry:
    ends = carry.ends
    now = [jnp.stack(squared_errors(state, ends.reference), axis=1) for state in ends.states]
    return carry._replace(ends=ends._replace(sup=jnp.maximum(ends.sup, jnp.stack(now))))


def squared_errors(state: State, reference: State) -> tuple[Array, Array]:
    """Squared Euclidean errors of q and of p, per level and path."""
    return jnp.sum((state.q - reference.q) ** 2, axis=-1), jnp.sum((state.p - reference.p) ** 2, axis=-1)


def run(
    system: System,
    methods: tuple[Method, ...],
    reference: Method,
    start: State,
    levels: Levels,
    paths: int,
    seed: int,
    measure: Callable[[Ends], Any],
    *,
    antithetic: bool,
    progress: bool,
) -> Any:
    """Run all chunks and join what `measure` makes of their ends (arrays whose last axis is that of the paths).

    With `antithetic`, paths come in pairs, one on W and the next on -W.
    """
    m = reference.noises(system, start.q.shape[0])
    carry = _begin(start, len(methods), len(levels.h), m)
    factors, key, h = jnp.asarray(levels.factors), words(seed), jnp.asarray(levels.h_ref, start.q.dtype)
    common = int(np.lcm.reduce(levels.factors))  # where all levels meet
    chunks = range(0, paths, CHUNK)
    done = dict.fromkeys(chunks, 0)
    stopping = threading.Event()

    def one(first_path: int) -> Any:
        index = np.arange(first_path, first_path + CHUNK)
        path, now = words(index // 2 if antithetic else index).T, carry
        sign = jnp.asarray(1.0 - 2.0 * (index % 2) if antithetic else np.ones(CHUNK), start.q.dtype)
        for first in range(0, levels.steps, _STEPS_PER_CALL):
            if stopping.is_set():
                raise KeyboardInterrupt
            stop = min(first + _STEPS_PER_CALL, levels.steps)
            now = _program(system, methods, reference)(now, factors, common, key, path, sign, h, first, stop)
            jax.block_until_ready(now.W)
            done[first_path] = stop
        here = min(CHUNK, paths - first_path)
        return jax.tree.map(lambda x: np.asarray(x)[..., :here], measure(now.ends))

    workers = cores() if jax.default_backend() == "cpu" else 1
    pieces: list[Any] = []
    with Bar(len(chunks) * CHUNK * levels.steps, "path-steps", show=progress) as bar:
        try:
            for piece in in_order(one, chunks, workers, lambda: bar.update(sum(done.values()) * CHUNK)):
                pieces.append(piece)
        except KeyboardInterrupt:
            stopping.set()
            if not pieces:
                raise
            message = f"interrupted: {len(pieces)} of {len(chunks)} chunks of {CHUNK} paths are done"
            raise Interrupted(message, _join(pieces)) from None
    return _join(pieces)


def _join(pieces: list[Any]) -> Any:
    return jax.tree.map(lambda *x: np.concatenate(x, axis=-1), *pieces)


def _begin(start: State, methods: int, levels: int, m: int) -> _Carry:
    state = State(start.q, start.p, start.guess)
    reference = jax.tree.map(lambda x: jnp.tile(x, (CHUNK, 1)), state)
    at_levels = jax.tree.map(lambda x: jnp.tile(x, (levels, CHUNK, 1)), state)
    ends = Ends(
        (at_levels,) * methods,
        jnp.zeros((methods, levels, CHUNK), jnp.int32),
        reference,
        jnp.zeros(CHUNK, jnp.int32),
        jnp.zeros((methods, levels, 2, CHUNK), start.q.dtype),
    )
    none = jnp.zeros((levels, CHUNK, m), start.q.dtype)
    return _Carry(ends, none, none)
