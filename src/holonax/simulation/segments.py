"""A chunk's way through all steps: one segment after another, each a call to the engine of bounded length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from jax import Array

from holonax.engines import ROWS, Runner
from holonax.engines.base import repeated
from holonax.mechanics.system import State
from holonax.methods.path import Fate
from holonax.simulation.neighbours import Followed
from holonax.simulation.plan import Plan

_CALL_SECONDS = 0.3  # how long one call should last: progress is shown, and Ctrl-C obeyed, that often


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


@final
class Stepper:
    """Takes the chunks of one run through their steps.

    Nobody knows beforehand how long a step takes, so a program's first call is short; what its calls teach serves all
    threads, and later runs (`Runner.quick`).
    """

    def __init__(self, plan: Plan, runner: Runner) -> None:
        self.plan, self.runner = plan, runner
        self.start = State(*(np.asarray(x, plan.dtype) for x in (plan.start.q, plan.start.p, plan.start.guess)))
        self.room: dict[str, int] = {}  # of parameters that are made for states

    def segments(self, chunk: range) -> Iterator[Segment]:
        """Run these paths to their end; the first segment is the start itself."""
        plan, runner, stride = self.plan, self.runner, self.plan.stride
        size = self._padded(len(chunk))
        states, parameters = self._begin(chunk, size)
        lists = Followed(plan.values.recipes, states.q, self.room)
        carried = runner.begin(states, parameters | lists.made)

        def segment(done: int, numbers: np.ndarray, q: Any, p: Any) -> Segment:
            own = parameters | lists.made
            return Segment(runner, own, len(chunk), plan.first_step, done, numbers, q, p, carried)

        def advance(first: int, stop: int) -> tuple[Any, Any, Any]:
            return runner.advance(carried, chunk, plan.seed, plan.h, first, stop, stride, plan.first_step)

        yield segment(0, np.array([0]), states.q[None], states.p[None])
        first = 0
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

    def _begin(self, chunk: range, size: int) -> tuple[State, dict[str, np.ndarray]]:
        """Starts and parameters of these paths; what they share is not copied, and nothing is if none is padding."""
        paths = slice(chunk.start, chunk.stop)
        index = paths if size == len(chunk) else repeated(np.arange(chunk.start, chunk.stop), size)
        states = (np.broadcast_to(x, (size, *x.shape)) if x.ndim == 1 else x[index] for x in self.start)
        return State(*states), self.plan.values.of_paths(index, size, self.plan.dtype)
