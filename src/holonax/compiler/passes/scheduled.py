"""A program as engines get it: one step, its operations in order, and what is carried from step to step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

from holonax.compiler.ir.graph import Loop, Node
from holonax.compiler.passes.carry import Carried
from holonax.compiler.passes.schedule import Block, Items, Schedule


class Trial(NamedTuple):
    """A step whose `ends` hold unless a path is in `doubt`."""

    items: Items
    doubt: Node
    ends: dict[int, Node]


@final
@dataclass(frozen=True)
class Program:
    """A loop over steps: `carried` are the entries of a `Track`, leaf by leaf, of which the first `2n` are q and p, and
    then some `functions` of q.  Engines keep with them, for each path, its numbers for `parameters`.

    `step` is the number of the step, `path` and `key` two words each, `h` the step size.  Where `again` can make a
    program for taking a step carefully, with the same numbers carried, this one is a trial: at the end of a step paths
    may be `IN_DOUBT`, at the state that the step began with.  Most systems never need the other one.
    """

    n: int
    outcomes: int
    dtype: str
    loop: Loop
    schedule: Schedule
    step: Node
    key: tuple[Node, ...]
    path: tuple[Node, ...]
    h: Node
    parameters: tuple[Node, ...]
    functions: list[Carried]
    again: Callable[[], Program] | None = None

    @property
    def carried(self) -> list[Node]:
        """The values at the beginning of a step."""
        return self.loop.parameters

    @property
    def changing(self) -> list[int]:
        """Which of them a step needs or is asked for; the others, such as a guess that nobody uses, stay."""
        return sorted(self.schedule.needed[self.loop])

    @property
    def results(self) -> list[Node]:
        """And at its end."""
        return [self.schedule.final(x) for x in self.loop.body]

    @property
    def status(self) -> Node:
        """Of a path at the beginning of a step."""
        return self.carried[3 * self.n]

    @property
    def beginnings(self) -> list[tuple[Node, list[Node]]]:
        """Numbers that stand for functions of q, and the operations by which a run begins them, in order."""
        return [(carried.number, carried.operations(self.schedule.expansions)) for carried in self.functions]

    @property
    def trial(self) -> Trial:
        """A step without its end, which is a branch for paths that fail there (`holonax.methods.path.advance`)."""
        items = self.schedule.body
        place = max(place for place, item in enumerate(items) if isinstance(item, Block))
        branch = items[place]
        assert isinstance(branch, Block)
        loop = branch.loop
        ends = {i: self.schedule.final(loop.begin[self.results[i].value[1]]) for i in self.changing}
        return Trial(items[:place], loop.begin[loop.parameters.index(loop.going)], ends)
