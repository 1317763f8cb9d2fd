"""What is kept of a running ensemble: saved states, how the paths fared and where they ended, and summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from holonax.methods.path import Fate
from holonax.simulation.accumulating import Accumulator
from holonax.simulation.chunks import Notify
from holonax.simulation.plan import Plan
from holonax.simulation.run import Ends
from holonax.simulation.segments import Segment


class ChunkEnd(NamedTuple):
    """How the paths of a complete chunk fared, and where they are."""

    fate: Fate
    q: np.ndarray | None  # None if the end is among the saved states
    p: np.ndarray | None
    velocities: Callable[[], np.ndarray] | None  # fetches them; None if the engine has none


class Complete(NamedTuple):
    """What a complete chunk adds to the saved states, which the recorder has already."""

    end: ChunkEnd
    summaries: Mapping[str, Any]  # of the observables


class _Joined(NamedTuple):
    """What is known of the first so many chunks together."""

    chunks: int
    paths: int
    summaries: Mapping[str, Any]


@final
class Recorder:
    """Gathers a run from its chunks.

    Every chunk is recorded by the thread that runs it, side by side with others.  Complete ones are added by one
    thread, in the order of the paths; the results are of those that were added.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.grid = plan, plan.grid
        self._q = np.empty((plan.paths, self.grid.times, plan.n), plan.dtype)
        self._p = np.empty_like(self._q)
        self._ends: list[ChunkEnd] = []
        self._joined = _Joined(0, 0, {})

    def record(self, chunk: range, segments: Iterable[Segment], notify: Notify) -> Complete:
        """Record a chunk to its end, and tell how far it is after every segment."""
        observe, views = self.plan.observe, self.plan.views
        accumulators = {name: Accumulator(observable, views[name], chunk) for name, observable in observe.items()}
        for segment in segments:
            self._save(chunk, segment)
            for accumulator in accumulators.values():
                accumulator.add(segment)
            notify(len(chunk) * segment.done)
        fate = Fate(*(x[: len(chunk)] for x in segment.fate))
        q, p = (None, None) if self._end_is_saved else segment.places()
        end = ChunkEnd(fate, q, p, segment.velocities())
        return Complete(end, {name: accumulator.summary() for name, accumulator in accumulators.items()})

    def _save(self, chunk: range, segment: Segment) -> None:
        """Store what is on the grid."""
        rows = self.grid.rows(segment.numbers)
        if not len(rows):
            return
        column = (segment.numbers[rows[0]] - self.grid.first) // self.grid.stride
        for saved, states in ((self._q, segment.q), (self._p, segment.p)):
            found = np.asarray(states)[rows, : len(chunk)]
            saved[chunk.start : chunk.stop, column : column + len(rows)] = found.swapaxes(0, 1)

    def add(self, chunk: Complete) -> None:
        """Join a complete chunk to those before it.

        It counts from the last assignment on, so that Ctrl-C cannot leave half of it.
        """
        before = self._joined
        summaries = chunk.summaries
        if before.chunks:
            merging = self.plan.observe.items()
            summaries = {
                name: observable.merge(before.summaries[name], summaries[name]) for name, observable in merging
            }
        self._ends.append(chunk.end)
        self._joined = _Joined(before.chunks + 1, before.paths + len(chunk.end.fate.status), summaries)

    # Of the chunks that were added.

    @property
    def paths(self) -> int:
        """How many paths are complete."""
        return self._joined.paths

    @property
    def q(self) -> np.ndarray:
        """Saved positions (paths, times, n)."""
        return self._q[: self.paths]

    @property
    def p(self) -> np.ndarray:
        """Saved momenta (paths, times, n)."""
        return self._p[: self.paths]

    @property
    def fate(self) -> Fate:
        """How the paths fared."""
        fates = [end.fate for end in self._complete]
        return Fate(*(np.concatenate(x) for x in zip(*fates, strict=True)))

    @property
    def ends(self) -> Ends:
        """Where the paths are at the end."""
        ends = self._complete
        sizes = [len(end.fate.status) for end in ends]
        if self._end_is_saved:
            q, p = self.q[:, -1], self.p[:, -1]
        else:
            q, p = _unpadded([end.q for end in ends], sizes), _unpadded([end.p for end in ends], sizes)
        return Ends(q, p, partial(_fetch, [end.velocities for end in ends], sizes))

    @property
    def observed(self) -> dict[str, Any]:
        """Results of the observables."""
        views, summaries = self.plan.views, self._joined.summaries
        return {name: observable.result(views[name], summaries[name]) for name, observable in self.plan.observe.items()}

    @property
    def _complete(self) -> list[ChunkEnd]:
        return self._ends[: self._joined.chunks]

    @property
    def _end_is_saved(self) -> bool:
        return self.grid.last == self.plan.steps


def _unpadded(parts: Iterable[Any], sizes: list[int]) -> np.ndarray:
    return np.concatenate([x[:size] for x, size in zip(parts, sizes, strict=True)])


def _fetch(velocities: list[Callable[[], np.ndarray] | None], sizes: list[int]) -> np.ndarray | None:
    """Of all chunks; None if the engine has none."""
    return _unpadded([fetch() for fetch in velocities if fetch], sizes) if velocities[0] else None
