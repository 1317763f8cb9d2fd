"""A program of lanes: one step of a path, as a graph, and later the order of its operations.

It is what the passes of the compiler take and return, each adding what it finds out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple, final

from holonax.compiler.ir.graph import Build, Loop, Node, Table, evaluated
from holonax.compiler.ir.target import Expansions, Target
from holonax.compiler.ir.track import TrackLayout


@final
@dataclass
class Block:
    """A loop in its place, with the values it changes: `test` computes whether a lane goes on, `body` what it does."""

    loop: Loop
    carried: list[int]
    test: Items = field(default_factory=list)
    body: Items = field(default_factory=list)


@final
@dataclass
class Rounds:
    """A table in its place: as many `rounds` of the `body` as there are entries that somebody needs."""

    table: Table
    rounds: int
    body: Items = field(default_factory=list)


Items = list[Node | Block | Rounds]


def pieces(items: Items) -> Iterator[list[Node] | Block | Rounds]:
    """The operations between two loops as one list, and the loops."""
    for is_operation, piece in groupby(items, key=lambda item: isinstance(item, Node)):
        if is_operation:
            yield list(piece)  # type: ignore[arg-type]
        else:
            yield from piece  # type: ignore[misc]


def visit(
    items: Items,
    straight: Callable[[list[Node]], None],
    loop: Callable[[Block], None],
    rounds: Callable[[Rounds], None],
) -> None:
    """Each piece in its turn, by what it is."""
    for piece in pieces(items):
        if isinstance(piece, Rounds):
            rounds(piece)
        elif isinstance(piece, Block):
            loop(piece)
        else:
            straight(piece)


def operations(items: Items) -> Iterator[Node]:
    """All of them, also those in loops and tables."""
    for item in items:
        if isinstance(item, Node):
            yield item
        else:
            yield from operations(item.test if isinstance(item, Block) else [])
            yield from operations(item.body)


class Carried(NamedTuple):
    """A function of q, and the number carried by the loop over steps that stands for it.

    A run begins with NaN instead of the number, and kernels compute it themselves: so a run that goes on from the end
    of another one has the same bits as one that was never interrupted.
    """

    function: Node
    number: Node

    def operations(self, expansions: Expansions) -> list[Node]:
        """What computes the function, in order."""
        build, order = self.function.build, []

        @cache
        def expanded(node: Node) -> Node:
            if not node.args:
                return node
            arguments = [expanded(x) for x in node.args]
            if node.name in expansions:
                return expansions[node.name](build, *arguments)
            return build(node.name, *arguments, dtype=node.dtype)

        evaluated([expanded(self.function)], {}, lambda node: node.args, lambda node: order.append(node))
        return [node for node in order if node.args]


class Inputs(NamedTuple):
    """What a step gets from outside: the number of the step, two words each of key and path, h, and parameters."""

    step: Node
    key: tuple[Node, ...]
    path: tuple[Node, ...]
    h: Node
    parameters: tuple[Node, ...]


class Trial(NamedTuple):
    """A step whose `ends` hold unless a path is in `doubt`."""

    items: Items
    doubt: Node
    ends: dict[int, Node]


@final
@dataclass
class Program:
    """A loop over steps; of the values that it carries, `track` numbers the first ones, then come `functions` of q.

    Attributes:
        target: whom the program is for.
        dtype: of its floating-point numbers.
        track: how the entries of a path are numbered.
        build: the nodes.
        loop: over steps.
        failure: the loop of one round at the end of a step in which paths that fail go back to where they were.
        inputs: what a step gets from outside.
        functions: of q that are carried to the next step (`passes.commoning`).
        agrees_with: functions that another program of the same step carries, which this one has to carry as well.
        stands_for: what is computed instead of a node (`final`).
        wanted: numbers of the carried values that somebody asks for, in the order in which they should be computed.
        needed: of each loop, the numbers of the carried values that somebody needs (`passes.liveness`).
        entries: of each table, the entries that somebody needs.
        used_by: which nodes and loops use a node.
        before: operations that come before all steps (`passes.placement`).
        body: operations of a step.
        again: where steps are tried first, makes the program for taking one carefully, with the same numbers carried:
            at the end of a trial paths may be `IN_DOUBT`, at the state that the step began with.  Most systems never
            need it.
        layout: of a long program, its loops over links and where their values lie (`passes.rerolling`).
        expected: the estimate of its size from which it was decided to translate the step.
        seconds: that each pass took.
    """

    target: Target
    dtype: str
    track: TrackLayout
    build: Build
    loop: Loop
    failure: Loop
    inputs: Inputs
    functions: list[Carried] = field(default_factory=list)
    agrees_with: list[Carried] | None = None
    stands_for: dict[Node, Node] = field(default_factory=dict)
    wanted: list[int] = field(default_factory=list)
    needed: dict[Loop, set[int]] = field(default_factory=dict)
    entries: dict[Table, set[Node]] = field(default_factory=dict)
    used_by: dict[Node, set[object]] = field(default_factory=lambda: defaultdict(set))
    before: Items = field(default_factory=list)
    body: Items = field(default_factory=list)
    again: Callable[[], Program] | None = None
    layout: Any = None
    expected: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return len(self.track.state.q)

    @property
    def carried(self) -> list[Node]:
        """The values at the beginning of a step."""
        return self.loop.parameters

    @property
    def changing(self) -> list[int]:
        """Numbers of those that a step needs or is asked for; the others, such as a guess that nobody uses, stay."""
        return sorted(self.needed[self.loop])

    @property
    def results(self) -> list[Node]:
        """The values at the end of a step."""
        return [self.final(x) for x in self.loop.body]

    @property
    def recorded(self) -> list[int]:
        """Numbers of the values that engines record: those of q and p."""
        return [*self.track.state.q, *self.track.state.p]

    @property
    def beginnings(self) -> list[tuple[Node, list[Node]]]:
        """Numbers that stand for functions of q, and the operations by which a run begins them, in order."""
        return [(carried.number, carried.operations(self.target.expansions)) for carried in self.functions]

    @property
    def trial(self) -> Trial:
        """A step without the branch of the paths that fail."""
        place = next(i for i, item in enumerate(self.body) if isinstance(item, Block) and item.loop is self.failure)
        results = self.results
        ends = {i: self.final(self.failure.begin[results[i].value[1]]) for i in self.changing}
        doubt = self.failure.begin[self.failure.parameters.index(self.failure.going)]
        return Trial(self.body[:place], doubt, ends)

    @property
    def size(self) -> int:
        """Number of operations, those in loops counted once."""
        return sum(1 for _ in operations([*self.before, *self.body]))

    def final(self, node: Node) -> Node:
        """What is computed for a node: what stands for it, after expansion of what the target leaves to us."""
        expansions = self.target.expansions
        if node.name in expansions and node not in self.stands_for:
            self.stands_for[node] = expansions[node.name](self.build, self.final(node.args[0]))
        if node.name in ("parameter", "result") and node.value is not None and node not in self.stands_for:
            loop, i = node.value
            if loop is not self.loop and loop.body[i] is loop.parameters[i]:  # what a loop never changes
                self.stands_for[node] = self.final(loop.begin[i])
        return self.stands_for.get(node, node)

    def exchange(self, old: Node, new: Node) -> None:
        """Let one node stand for another, and for all that the other one stood for."""
        self.stands_for.update({node: new for node, x in self.stands_for.items() if x is old} | {old: new})
        self.used_by[new] |= self.used_by.pop(old, set())
