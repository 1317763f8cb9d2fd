"""What the client of a cluster asks its workers for, and where it keeps their answers: in memory, or in a store."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from typing import Any, final

from holonax.simulation.keeping import Keeper, Kept
from holonax.simulation.recording import Complete, Recorder
from holonax.simulation.tasks import TOKEN, Done, Errand, Keeping, Parcel, Recorded, Recording, Sending, sees
from holonax.store.files import read_whole, write_whole


class Exchange(ABC):
    """What the client asks workers for, and what it does with their answers; called in one thread."""

    lasting: bool
    """Whether what is done of a chunk is worth waiting for, though it is not complete."""

    @abstractmethod
    def ask(self, chunk: range) -> Errand | Complete:
        """What a worker has to do with a chunk; or its results, if there is nothing left to do."""

    @abstractmethod
    def receive(self, chunk: range, answer: Any) -> Complete | None:
        """Keep an answer; the results of the chunk, or None if it is not complete yet."""


@final
class ToRecorder(Exchange):
    """Chunks are sent back whole."""

    lasting = False

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def ask(self, chunk: range) -> Errand:
        """To record it."""
        return Recording()

    def receive(self, chunk: range, answer: Recorded) -> Complete:
        """Put it where it belongs."""
        self.recorder.put(chunk, answer.arrays)
        velocities = answer.velocities
        return answer.complete._replace(velocities=None if velocities is None else lambda: velocities)


@final
class ThroughStore(Exchange):
    """Workers write their chunks into the store, which they see."""

    lasting = True

    def __init__(self, keeper: Keeper, run: str) -> None:
        self.keeper, self.run = keeper, run

    def ask(self, chunk: range) -> Errand:
        """To take it to its end, from wherever it is in the store."""
        return Keeping(self.keeper.store.resolve(), self.keeper.shapes, self.run)

    def receive(self, chunk: range, answer: Done) -> Complete:
        """It is in the store already."""
        self.keeper.repaired.extend(answer.repaired)
        return answer.complete


@final
class ToStore(Exchange):
    """Workers send the files of their chunks, a part of the way at a time, and the client writes them."""

    lasting = True

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper

    def ask(self, chunk: range) -> Errand | Complete:
        """To go on from where it is, with the files that this takes."""
        kept, after = self.keeper.look(chunk)
        if after is None:
            return Sending(self.keeper.shapes, {}, 0)
        if after.step == self.keeper.plan.steps:
            return kept.complete(after)
        files = {name: read_whole(self.keeper.store / name) or b"" for name in self._needed(kept)}
        return Sending(self.keeper.shapes, files, after.step * len(chunk))

    def _needed(self, kept: Kept) -> list[str]:
        """The record, and files that are not full."""
        place, rest = divmod(kept.column, self.keeper.shapes.span)
        started = [str(x.file(kept.index, place, 0)) for x in kept.variables] if rest else []
        record = self.keeper.records.folder / f"chunk-{kept.index}"
        return [*started, str(record.relative_to(self.keeper.store))]

    def receive(self, chunk: range, answer: Parcel) -> Complete | None:
        """Write the files, the record last."""
        for name, data in answer.files.items():
            write_whole(self.keeper.store / name, data)
        return answer.complete


def exchange_for(keeper: Keeper, client: Any) -> Exchange:
    """Workers write themselves if all of them see the store."""
    run = uuid.uuid4().hex
    keeper.records.write(TOKEN, {"run": run}, {})
    seen = client.run(sees, keeper.store.resolve(), run, on_error="ignore")  # of one that is lost just now
    return ThroughStore(keeper, run) if all(seen.values()) else ToStore(keeper)
