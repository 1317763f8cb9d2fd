"""Chunks of paths, several at a time: each runs through all steps in calls of bounded length."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, final

import numpy as np

from holonax.engines import ROWS, Runner
from holonax.mechanics.system import State
from holonax.methods.path import Fate
from holonax.simulation.recording import Block, End

_CALL_SECONDS = 0.3  # how long one call should last: progress is shown, and a halt obeyed, that often


@final
class Walk:
    """One ensemble's way through the steps; every chunk of it goes the same way."""

    def __init__(self, runner: Runner, h: float, seed: int, steps: int, stride: int, offset: int) -> None:
        self.runner, self.h, self.seed, self.steps, self.stride = runner, h, seed, steps, stride
        self.offset = offset  # number of the first step, as far as noise is concerned
        self.most = ROWS  # steps in one call, as far as it is known to be quick
        self.halt = threading.Event()

    def blocks(self, states: State, parameters: Mapping[str, np.ndarray], index: np.ndarray) -> Iterator[Block]:
        """Run the paths `index`, a block of states at a time; the first block is the start itself.

        `states` and `parameters` may hold more paths than `index`: the others are padding.
        """
        runner, stride, steps = self.runner, self.stride, self.steps
        carried = runner.begin(states, parameters)
        paths = np.resize(index, len(states.q)).astype(np.uint64)

        def block(done: int, numbers: np.ndarray, q: Any, p: Any) -> Block:
            now = partial(self._fate, carried), partial(self._end, carried)
            return Block(done, numbers, q, p, *now, parameters, len(index))

        yield block(0, np.array([0]), states.q[None], states.p[None])
        first = 0
        while first < steps and not self.halt.is_set():
            stop = min(steps, first + self.most, (first // stride + ROWS) * stride)
            begin = time.monotonic()
            carried, q, p = runner.advance(carried, paths, self.seed, self.h, first, stop, stride, self.offset)
            seconds = time.monotonic() - begin
            if seconds < _CALL_SECONDS / 2 and stop - first == self.most:
                self.most *= 2 if seconds > _CALL_SECONDS / 32 else 16
            yield block(stop, np.arange(first // stride + 1, stop // stride + 1) * stride, q, p)
            first = stop

    def _fate(self, carried: Any) -> Fate:
        fate = self.runner.fate(carried)
        return fate._replace(failed_step=np.where(fate.failed_step < 0, -1, fate.failed_step - self.offset))

    def _end(self, carried: Any, known: bool) -> End:
        q, p = (None, None) if known else self.runner.places(carried)
        return End(q, p, self.runner.velocities(carried))
