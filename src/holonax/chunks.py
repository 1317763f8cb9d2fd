"""Chunks of paths, several at a time: each runs through all steps in calls of bounded length."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, final

import numpy as np

from holonax.engines import ROWS, Runner
from holonax.recording import Block
from holonax.system import State

_CALL_SECONDS = 0.3  # how long one call should last: progress and Ctrl-C answer that fast
_GLANCE_SECONDS = 0.1

Item = TypeVar("Item")
Result = TypeVar("Result")


@final
class Walk:
    """One ensemble's way through the steps; every chunk of it goes the same way."""

    def __init__(self, runner: Runner, h: float, seed: int, steps: int, stride: int) -> None:
        self.runner, self.h, self.seed, self.steps, self.stride = runner, h, seed, steps, stride
        self.most = ROWS  # steps in one call, as far as it is known to be quick
        self.halt = threading.Event()

    def blocks(self, states: State, index: np.ndarray) -> Iterator[Block]:
        """Run the paths `index`, a block of states at a time; the first block is the start itself.

        `states` may hold more paths than `index`: the others are padding.
        """
        runner, stride, steps = self.runner, self.stride, self.steps
        carried = runner.begin(states)
        paths = np.resize(index, len(states.q)).astype(np.uint64)

        def block(done: int, numbers: np.ndarray, q: Any, p: Any) -> Block:
            return Block(done, numbers, q, p, partial(runner.fate, carried), len(index))

        yield block(0, np.array([0]), states.q[None], states.p[None])
        first = 0
        while first < steps and not self.halt.is_set():
            stop = min(steps, first + self.most, (first // stride + ROWS) * stride)
            begin = time.monotonic()
            carried, q, p = runner.advance(carried, paths, self.seed, self.h, first, stop, stride)
            seconds = time.monotonic() - begin
            if seconds < _CALL_SECONDS / 2 and stop - first == self.most:
                self.most *= 2 if seconds > _CALL_SECONDS / 32 else 16
            yield block(stop, np.arange(first // stride + 1, stop // stride + 1) * stride, q, p)
            first = stop


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int, meanwhile: Callable[[], None]
) -> Iterator[Result]:
    """The results of `function`, computed by several threads, in the order of the items; never many ahead."""

    def wait(future: Future[Result]) -> Result:
        while True:
            try:
                return future.result(timeout=_GLANCE_SECONDS)
            except TimeoutError:
                if future.done():  # the function itself raised it
                    raise
                meanwhile()

    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > 2 * workers:
                yield wait(pending.popleft())
        while pending:
            yield wait(pending.popleft())
