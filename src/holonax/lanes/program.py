"""The step of one path of an ensemble, as a lane program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import jax
import numpy as np

from holonax.lanes import factors, indexing, newton, primitives, tables  # noqa: F401 - they register translations
from holonax.lanes.carry import Carried, carry_over
from holonax.lanes.estimate import HOPELESS, MOST_UNKNOWNS, SECONDS, most_unknowns, operations
from holonax.lanes.graph import Build, Loop, Node, Rolling
from holonax.lanes.schedule import Block, Expansions, Items, Schedule
from holonax.lanes.translate import Untranslatable, array_of, look, run_closed
from holonax.methods.base import Method
from holonax.path import Fate, Track, advance
from holonax.progress import note
from holonax.solve import Status
from holonax.system import State, System


class Failure(NamedTuple):
    """A path that meets the `condition` ends a step, after the `body`, with values `then` instead of `otherwise`."""

    condition: Node
    body: Items
    then: dict[int, Node]
    otherwise: dict[int, Node]


@final
@dataclass(frozen=True)
class Program:
    """A loop over steps: `carried` are the entries of a `Track`, leaf by leaf, of which the first `2n` are q and p, and
    then some `functions` of q.

    `step` is the number of the step, `path` and `key` two words each, `h` the step size.
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
    functions: list[Carried]

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
    def step_and_failure(self) -> tuple[Items, Failure]:
        """A step without its end, which is a branch for paths that fail there (`holonax.path.advance`)."""
        final, items = self.schedule.final, self.schedule.body
        place = max(place for place, item in enumerate(items) if isinstance(item, Block))
        branch = items[place]
        assert isinstance(branch, Block)
        loop = branch.loop
        entries = {i: self.results[i].value[1] for i in self.changing}
        then, otherwise = ({i: final(nodes[k]) for i, k in entries.items()} for nodes in (loop.body, loop.begin))
        condition = loop.begin[loop.parameters.index(loop.going)]
        return items[:place], Failure(condition, branch.body, then, otherwise)


class Target(NamedTuple):
    """What an engine wishes for: `expansions` of functions it does not have, no program of more than `most` operations,
    noise in tables where `rolling` says so.
    """

    expansions: Expansions
    most: int
    rolling: Rolling | None = None


def program(system: System, method: Method, n: int, dtype: str, target: Target) -> Program:
    """Trace, translate and schedule; `Untranslatable` says why not."""
    one, word = jax.ShapeDtypeStruct((), dtype), jax.ShapeDtypeStruct((2,), np.uint32)
    vector, whole = jax.ShapeDtypeStruct((n,), dtype), jax.ShapeDtypeStruct((), np.int32)
    counts = jax.ShapeDtypeStruct((len(method.outcomes),), np.int32)
    track = Track(State(vector, vector, vector), Fate(whole, whole, one, whole, counts))

    def step(track: Track, number, h, key, path):  # type: ignore[no-untyped-def]
        return advance(system, method, track, key, path, number, h)

    traced = jax.make_jaxpr(step)(track, whole, one, word, word)
    if (unknowns := most_unknowns(traced.jaxpr)) > MOST_UNKNOWNS:
        raise Untranslatable(f"equations of {unknowns} unknowns (the limit is {MOST_UNKNOWNS})")
    if (expected := operations(traced.jaxpr)) > HOPELESS * target.most:
        raise Untranslatable(f"a program of about {expected} operations (its limit is {target.most})")
    note(f"compiling about {expected} operations, about {expected * SECONDS:.0f} s", seconds=expected * SECONDS)
    build = Build(target.rolling, target.most)
    fixed = [build.fresh("input", x, value=name) for x, name in _FIXED(dtype)]
    h, *words = fixed
    leaves = jax.tree.leaves(track)
    begin = [build.fresh("input", leaf.dtype.name) for leaf in leaves for _ in range(int(np.prod(leaf.shape)))]
    loop = Loop(build, begin, build.alive)
    entries, places = iter(loop.parameters), []
    for leaf in leaves:
        places.append(array_of([next(entries) for _ in range(int(np.prod(leaf.shape)))], leaf.shape))
    number = build.fresh("input", "int32", loops=frozenset({loop}))
    status = places[3].item()
    build.alive = build("equal", status, build.number(Status.CONVERGED, "int32"))
    pairs = [array_of(words[i : i + 2], (2,)) for i in (0, 2)]
    ends = look(run_closed(build, traced, [*places, array_of([number], ()), array_of([h], ()), *pairs]))
    results = [x for array in ends for x in array.flat]
    wanted = [*range(n, 2 * n), *range(n), *range(3 * n, len(begin))]  # positions as momenta need them
    carried = carry_over(build, loop, results, n)
    loop.close(build, build.number(True, "bool"), results)
    schedule = Schedule(build, loop, wanted, target.expansions, dict(carried))
    return Program(
        n, len(method.outcomes), dtype, loop, schedule, number, tuple(words[:2]), tuple(words[2:]), h, carried
    )


def _FIXED(dtype: str) -> list[tuple[str, str]]:
    return [(dtype, "h"), *(("uint32", name) for name in ("key0", "key1", "path0", "path1"))]
