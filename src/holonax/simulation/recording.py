"""What is kept of a running ensemble: saved states, how the paths fared and where they ended, and summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from holonax.methods.path import Fate
from holonax.simulation.accumulating import Accumulator
from holonax.simulation.chunks import Notify
from holonax.simulation.pages import ask_for_pages
from holonax.simulation.plan import Plan
from holonax.simulation.run import Ends
from holonax.simulation.segments import Segment
from holonax.simulation.tally import Tally


class Complete(NamedTuple):
    """What a complete chunk adds to what the recorder has already: states, and how the paths fared."""

    paths: int
    failures: int
    velocities: Callable[[], np.ndarray] | None  # fetches them; None if the engine has none
    summaries: Mapping[str, list[tuple[int, Any]]]  # of the observables: of blocks of paths, see `Tally`


class _Joined(NamedTuple):
    """What is known of the first so many chunks together."""

    chunks: int
    paths: int
    failures: int
    summaries: Mapping[str, list[tuple[int, Any]]]


@final
class Recorder:
    """Gathers a run from its chunks.

    Every chunk is recorded by the thread that runs it, side by side with others: at once where it belongs, so that
    nothing is left to be put together when the last one is complete.  Complete ones are added by one thread, in the
    order of the paths; the results are of those that were added.
    """

    def __init__(self, plan: Plan, block: int, only: range | None = None) -> None:
        """With room for all paths, or for consecutive ones `only`, which another recorder is then given."""
        self.plan, self.grid, self.block = plan, plan.grid, block
        held = range(plan.paths) if only is None else only
        paths, self._first = len(held), held.start
        self._q = np.empty((paths, self.grid.times, plan.n), plan.dtype)
        self._p = np.empty_like(self._q)
        self._end_is_saved = self.grid.last == plan.steps
        end = (0 if self._end_is_saved else paths, plan.n)
        self._end = np.empty(end, plan.dtype), np.empty(end, plan.dtype)
        words = [np.empty(paths, np.int32) for _ in ("status", "failed_step", "iterations")]
        counts = np.empty((paths, len(plan.method.outcomes)), np.int32)
        self._fate = Fate(words[0], words[1], np.empty(paths, plan.dtype), words[2], counts)
        self._velocities: list[tuple[Callable[[], np.ndarray] | None, int]] = []  # of the chunks, and their sizes
        self._joined = _Joined(0, 0, 0, {})
        ask_for_pages(self.arrays)

    def record(self, chunk: range, segments: Iterable[Segment], notify: Notify) -> Complete:
        """Record a chunk to its end, and tell how far it is after every segment."""
        accumulators = accumulators_of(self.plan, chunk, self.block)
        for segment in segments:
            self._save(chunk, segment)
            for accumulator in accumulators.values():
                accumulator.add(segment)
            notify(len(chunk) * segment.done)
        self._keep(chunk, self._fate, segment.fate)
        if not self._end_is_saved:
            self._keep(chunk, self._end, segment.places())
        summaries = summaries_of(self.plan, accumulators, segment.fate.failed_step)
        failures = int(np.count_nonzero(self._fate.status[self._rows(chunk)]))
        return Complete(len(chunk), failures, segment.velocities(), summaries)

    def _keep(self, chunk: range, kept: Iterable[np.ndarray], found: Iterable[np.ndarray]) -> None:
        """Store what there is once for each path."""
        for all_paths, of_chunk in zip(kept, found, strict=True):
            all_paths[self._rows(chunk)] = of_chunk[: len(chunk)]

    def _rows(self, chunk: range) -> slice:
        return slice(chunk.start - self._first, chunk.stop - self._first)

    def _save(self, chunk: range, segment: Segment) -> None:
        """Store what is on the grid, row by row: transposing a whole segment misses the cache at every number."""
        rows = self.grid.rows(segment.numbers)
        if not len(rows):
            return
        column = (segment.numbers[rows[0]] - self.grid.first) // self.grid.stride
        for saved, states in ((self._q, np.asarray(segment.q)), (self._p, np.asarray(segment.p))):
            for place, row in enumerate(rows, column):
                saved[self._rows(chunk), place] = states[row, : len(chunk)]

    @property
    def arrays(self) -> list[np.ndarray]:
        """Whatever is stored for each path."""
        return [self._q, self._p, *([] if self._end_is_saved else self._end), *self._fate]

    def put(self, chunk: range, arrays: Iterable[np.ndarray]) -> None:
        """Store what another recorder has for this chunk only."""
        self._keep(chunk, self.arrays, arrays)

    def add(self, chunk: Complete) -> None:
        """Join a complete chunk to those before it.

        It counts from the last assignment on, so that Ctrl-C cannot leave half of it.
        """
        before, summaries = self._joined, {}
        for name, observable in self.plan.observe.items():
            tally = Tally(observable, before.summaries.get(name, ()))
            tally.extend(chunk.summaries[name])
            summaries[name] = tally.nodes
        self._velocities.append((chunk.velocities, chunk.paths))
        paths, failures = before.paths + chunk.paths, before.failures + chunk.failures
        self._joined = _Joined(before.chunks + 1, paths, failures, summaries)

    # Of the chunks that were added.

    @property
    def paths(self) -> int:
        """How many paths are complete."""
        return self._joined.paths

    @property
    def failures(self) -> int:
        """How many of these failed."""
        return self._joined.failures

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
        return Fate(*(x[: self.paths] for x in self._fate))

    @property
    def ends(self) -> Ends:
        """Where the paths are at the end."""
        saved = self._q[:, -1], self._p[:, -1]
        q, p = saved if self._end_is_saved else self._end
        return Ends(q[: self.paths], p[: self.paths], partial(_fetch, self._velocities[: self._joined.chunks]))

    @property
    def observed(self) -> dict[str, Any]:
        """Results of the observables."""
        return results_of(self.plan, self._joined.summaries) if self.paths else {}


def accumulators_of(plan: Plan, chunk: range, block: int) -> dict[str, Accumulator]:
    """Of a chunk, by the names of the observables."""
    return {name: Accumulator(seen, plan.views[name], chunk, block) for name, seen in plan.observe.items()}


def summaries_of(
    plan: Plan, accumulators: Mapping[str, Accumulator], failed_step: np.ndarray
) -> dict[str, list[tuple[int, Any]]]:
    """What they have gathered from a chunk whose paths failed at these steps, joined as far as it can be."""
    found = {name: accumulator.summaries(failed_step) for name, accumulator in accumulators.items()}
    return {name: Tally(plan.observe[name], ((1, x) for x in blocks)).nodes for name, blocks in found.items()}


def results_of(plan: Plan, summaries: Mapping[str, list[tuple[int, Any]]]) -> dict[str, Any]:
    """What the user sees of the observables."""
    return {
        name: seen.result(plan.views[name], Tally(seen, summaries[name]).total) for name, seen in plan.observe.items()
    }


def _fetch(velocities: list[tuple[Callable[[], np.ndarray] | None, int]]) -> np.ndarray | None:
    """Of all chunks, without padding; None if the engine has none."""
    parts = [fetch()[:size] for fetch, size in velocities if fetch]
    return np.concatenate(parts) if parts else None
