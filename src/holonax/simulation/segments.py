"""A chunk's way through all steps: one segment after another, each a call to the engine of bounded length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from jax import Array

from holonax.engines import ROWS, Runner
from holonax.engines.base import repeated
from holonax.mechanics.system import State
from holonax.methods.path import Fate
from holonax.simulation.neighbours import Followed
from holonax.simulation.plan import Plan

_CALL_SECONDS = 0.3  # how long one call should last: progress is shown, and Ctrl-C obeyed, that often


class Checkpoint(NamedTuple):
    """All of a chunk that its further steps depend on; the noise is a function of seed, path and step."""

    step: int  # how many are done
    state: State  # (paths, n), without padding; v is None where the engine knows it by itself
    fate: Fate
    room: Mapping[str, int]  # of parameters that are made for states


@final
@dataclass(frozen=True)
class Segment:
    """A chunk after `done` steps, with its states (rows, paths, n) at the last few step `numbers`.

    Rows beyond the step numbers are padding, and so are paths beyond the first `paths`.  `fate`, `places` and
    `velocities` are fetched from the engine when they are asked for, which must be before the next segment is.
    """

    runner: Runner
    parameters: Mapping[str, Any]  # of the paths
    paths: int
    first_step: int  # number of the first step of the run, as far as noise is concerned
    done: int
    numbers: np.ndarray
    q: Array
    p: Array
    carried: Any  # the paths in the form that the engine gives them

    @cached_property
    def fate(self) -> Fate:
        """How the paths fared so far; with padding."""
        fate = self.runner.fate(self.carried)
        if not self.first_step:
            return fate
        return fate._replace(failed_step=np.where(fate.failed_step < 0, -1, fate.failed_step - self.first_step))

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the paths are after `done` steps: q and p; with padding."""
        return self.runner.places(self.carried)

    def velocities(self) -> Callable[[], np.ndarray] | None:
        """What fetches their velocities, with padding, at any later time; None if the engine has none."""
        return self.runner.velocities(self.carried)

    def checkpoint(self, room: Mapping[str, int]) -> Checkpoint:
        """What it takes to go on from here."""
        fetch = self.velocities()
        state = [None if x is None else x[: self.paths] for x in (*self.places(), None if fetch is None else fetch())]
        return Checkpoint(self.done, State(*state), Fate(*(x[: self.paths] for x in self.fate)), dict(room))


@final
class Stepper:
    """Takes the chunks of one run through their steps.

    Nobody knows beforehand how long a step takes, so a program's first call is short; what its calls teach serves all
    threads, and later runs (`Runner.quick`).
    """

    def __init__(self, plan: Plan, runner: Runner, origin: int = 0) -> None:
        """A plan that was sent elsewhere holds starts and parameters of some paths alone, from number `origin` on."""
        self.plan, self.runner, self.origin = plan, runner, origin
        self.start = State(*(np.asarray(x, plan.dtype) for x in (plan.start.q, plan.start.p, plan.start.guess)))
        self.room: dict[str, int] = {}  # of parameters that are made for states

    def segments(self, chunk: range, after: Checkpoint | None = None) -> Iterator[Segment]:
        """Run these paths to their end; the first segment is the start itself, unless they go on from a checkpoint."""
        plan, runner, stride = self.plan, self.runner, self.plan.stride
        size = self._padded(len(chunk))
        states, parameters, fate = self._begin(chunk, size, after)
        first = after.step if after else 0
        lists = Followed(plan.values.recipes, states.q, self.room, first)
        carried = runner.begin(states, parameters | lists.made, fate)

        def segment(done: int, numbers: np.ndarray, q: Any, p: Any) -> Segment:
            own = parameters | lists.made
            return Segment(runner, own, len(chunk), plan.first_step, done, numbers, q, p, carried)

        def advance(first: int, stop: int) -> tuple[Any, Any, Any]:
            return runner.advance(carried, chunk, plan.seed, plan.h, first, stop, stride, plan.first_step)

        if not after:
            yield segment(0, np.array([0]), states.q[None], states.p[None])
        while first < plan.steps:
            most = min(runner.quick.get(size, ROWS), lists.reach)
            stop = min(plan.steps, first + most, (first // stride + ROWS) * stride)
            begin = time.monotonic()
            after, q, p = advance(first, stop)
            self._learn(size, stop - first, time.monotonic() - begin)
            failing = lists.failing(runner, after, plan.first_step)
            if failing == first:
                carried = lists.renew(runner, carried, first)
                continue
            if failing is not None:
                stop = failing
                after, q, p = advance(first, stop)
            carried = after
            yield segment(stop, np.arange(first // stride + 1, stop // stride + 1) * stride, q, p)
            if (first := stop) < plan.steps:
                carried = lists.follow(runner, carried, first)

    def _learn(self, size: int, steps: int, seconds: float) -> None:
        """Make calls longer if the longest are quick, and shorter if this one was not."""
        most = self.runner.quick.get(size, ROWS)
        if seconds < _CALL_SECONDS / 2 and steps == most:
            self.runner.quick[size] = most * (2 if seconds > _CALL_SECONDS / 32 else 16)
        elif seconds > 2 * _CALL_SECONDS:
            self.runner.quick[size] = max(ROWS, steps // 2)

    def _padded(self, paths: int) -> int:
        """Paths to run for a chunk of `paths`; observables, compiled for every size, see only powers of two."""
        groups = -(-paths // self.runner.grain)
        return self.runner.grain * (2 ** (groups - 1).bit_length() if self.plan.observe else groups)

    def _begin(
        self, chunk: range, size: int, after: Checkpoint | None
    ) -> tuple[State, dict[str, np.ndarray], Fate | None]:
        """States and parameters of these paths; what they share is not copied, and nothing is if none is padding."""
        paths = slice(chunk.start - self.origin, chunk.stop - self.origin)
        index = paths if size == len(chunk) else repeated(np.arange(paths.start, paths.stop), size)
        parameters = self.plan.values.of_paths(index, size, self.plan.dtype)
        if after is None:
            states = (np.broadcast_to(x, (size, *x.shape)) if x.ndim == 1 else x[index] for x in self.start)
            return State(*states), parameters, None
        self.room.update({name: max(room, self.room.get(name, 0)) for name, room in after.room.items()})
        padded = repeated(np.arange(len(chunk)), size)
        first, failed = self.plan.first_step, after.fate.failed_step
        fate = after.fate._replace(failed_step=np.where(failed < 0, -1, failed + first).astype(np.int32))
        q, p, v = after.state
        state = State(*(x[padded] for x in (q, p, np.zeros_like(q) if v is None else v)))
        return state, parameters, Fate(*(x[padded] for x in fate))
