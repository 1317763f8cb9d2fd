"""One chunk of paths on its way to the disk.

Its saved states go into files of so many times each.  Every few seconds, and at the end, what was computed is
committed: files first, then the record, which says how many steps are done and holds all that the next ones depend on.
The record is written at once and last, so that whatever it speaks of is on the disk.  A chunk without a record, or with
one that is damaged or speaks of files that are, begins at the start; otherwise it goes on from its record.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from holonax.mechanics.system import State
from holonax.methods.path import Fate
from holonax.simulation.accumulating import Accumulator
from holonax.simulation.chunks import Notify, Stopped
from holonax.simulation.plan import Plan
from holonax.simulation.recording import Complete, accumulators_of, summaries_of
from holonax.simulation.segments import Checkpoint, Segment, Stepper
from holonax.simulation.shapes import Shapes
from holonax.store.ledger import records_of
from holonax.store.records import DamageError, Record

COMMIT_SECONDS = 10.0
"""How much work may be lost."""


class Repaired(NamedTuple):
    """A chunk that was computed again, and why."""

    paths: range
    what: str


@final
class Keeper:
    """Runs the chunks of a plan, in any thread or process, and keeps them in a store.

    From the store of a worker, files that are full have been `sent` elsewhere, and are not looked at again.
    """

    def __init__(
        self, plan: Plan, shapes: Shapes, store: Path, stepper: Stepper, block: int, *, sent: bool = False
    ) -> None:
        self.plan, self.shapes, self.store, self.stepper, self.block = plan, shapes, store, stepper, block
        self.sent = sent
        self.records = records_of(store)
        self.repaired: list[Repaired] = []

    def run(self, chunk: range, notify: Notify) -> Complete:
        """Take a chunk to its end, from wherever it is."""
        kept, after = self.look(chunk)
        if after is None or after.step < self.plan.steps:
            after = kept.advance(after, notify)
        notify(len(chunk) * self.plan.steps)
        return kept.complete(after)

    def look(self, chunk: range) -> tuple[Kept, Checkpoint | None]:
        """A chunk as it is in the store, and where it goes on; one that is damaged begins again."""
        index = chunk.start // self.shapes.chunk
        kept = Kept(self, index, chunk)
        try:
            return kept, kept.restore(self.records.read(f"chunk-{index}"))
        except DamageError as damage:
            self.repaired.append(Repaired(chunk, str(damage) or "its record"))
            return Kept(self, index, chunk), None


@final
class Kept:
    """A chunk: states that wait for their file to be full, and what observables have gathered."""

    def __init__(self, keeper: Keeper, index: int, chunk: range) -> None:
        self.keeper, self.plan, self.shapes = keeper, keeper.plan, keeper.shapes
        self.index, self.chunk, self.grid = index, chunk, keeper.plan.grid
        self.variables = [self.shapes.variables[name] for name in ("q", "p")]
        self.waiting = [variable.empty() for variable in self.variables]
        self.column = 0  # the next one to be saved
        self.written = 0  # columns that are in files
        self.accumulators: dict[str, Accumulator] = accumulators_of(self.plan, chunk, keeper.block)

    # From a record.

    def restore(self, record: Record | None) -> Checkpoint | None:
        """Be as one that was committed; `DamageError` if files are not as they were then."""
        if record is None:
            return None
        words, arrays = record
        step = int(words["step"])
        fate = Fate(*(arrays[name] for name in Fate._fields))
        if len(fate.status) != len(self.chunk):
            raise DamageError("its record, which is of another number of paths")
        self.column = self.written = max(0, (step - self.grid.first) // self.grid.stride + 1)
        self._verify()
        for name, accumulator in self.accumulators.items():
            if accumulator.view.grid.every is None and step < self.plan.steps:
                continue  # it sees the end alone, which was earlier before the run was extended
            own = f"{name}:"
            accumulator.restore({key.removeprefix(own): x for key, x in arrays.items() if key.startswith(own)})
        state = State(arrays["at.q"], arrays["at.p"], arrays.get("at.v"))
        self.shapes.write_fate(self.keeper.store, self.index, fate, step)  # may have been lost
        return Checkpoint(step, state, fate, words["room"])

    def _verify(self) -> None:
        """Look at all files of saved states; one that is not full is read, to go on with."""
        store, span = self.keeper.store, self.shapes.span
        for j in range(-(-self.column // span)):
            for k, variable in enumerate(self.variables):
                at = self.index, j, 0
                full = (j + 1) * span <= self.column
                if full and self.keeper.sent:
                    continue
                found = variable.verified(store, at) if full else variable.read(store, at)
                if found is None:
                    raise DamageError(f"{variable.file(*at)}, which is missing")
                if not full:
                    self.waiting[k] = found  # type: ignore[assignment]

    def complete(self, after: Checkpoint) -> Complete:
        """What is known of it at its end."""
        summaries = summaries_of(self.plan, self.accumulators, after.fate.failed_step)
        return Complete(len(self.chunk), int(np.count_nonzero(after.fate.status)), None, summaries)

    # On the way.

    def advance(self, after: Checkpoint | None, notify: Notify) -> Checkpoint:
        """Run to the end, committing now and then; also when it is asked to stop."""
        last = time.monotonic()
        for segment in self.keeper.stepper.segments(self.chunk, after):
            self._save(segment)
            for accumulator in self.accumulators.values():
                accumulator.add(segment)
            try:
                notify(len(self.chunk) * segment.done)
            except Stopped:
                self.commit(segment)
                raise
            if segment.done == self.plan.steps or time.monotonic() - last > COMMIT_SECONDS:
                after = self.commit(segment)
                last = time.monotonic()
        assert after is not None  # there is at least one segment
        return after

    def commit(self, segment: Segment) -> Checkpoint:
        """Make sure that nothing up to here will have to be computed again."""
        if self.column > self.written:
            self._write()
        point = segment.checkpoint(self.keeper.stepper.room)
        arrays: dict[str, Any] = point.fate._asdict()
        arrays |= {f"at.{name}": x for name, x in point.state._asdict().items() if x is not None}
        for name, accumulator in self.accumulators.items():
            arrays |= {f"{name}:{key}": x for key, x in accumulator.state().items()}
        self.keeper.records.write(f"chunk-{self.index}", {"step": point.step, "room": dict(point.room)}, arrays)
        self.shapes.write_fate(self.keeper.store, self.index, point.fate, point.step)
        return point

    def _save(self, segment: Segment) -> None:
        """Put what is on the grid where it waits; a file that is full is written."""
        rows = self.grid.rows(segment.numbers)
        if not len(rows):
            return
        states = [np.asarray(x) for x in (segment.q, segment.p)]
        for row in rows:
            place = self.column % self.shapes.span
            for waiting, of_segment in zip(self.waiting, states, strict=True):
                waiting[: len(self.chunk), place] = of_segment[row, : len(self.chunk)]
            self.column += 1
            if place == self.shapes.span - 1:
                self._write()

    def _write(self) -> None:
        """Write the file of the last column that was saved, full or not."""
        at = self.index, (self.column - 1) // self.shapes.span, 0
        for k, variable in enumerate(self.variables):
            variable.write(self.keeper.store, at, self.waiting[k])
            if self.column % self.shapes.span == 0:
                self.waiting[k].fill(variable.fill)
        self.written = self.column
