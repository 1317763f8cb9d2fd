"""The step of one path of an ensemble, as a lane program."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from holonax.compiler.frontend import factors, indexing, newton, primitives, tables  # noqa: F401 - they register translations
from holonax.compiler.frontend.estimate import HOPELESS, MOST_UNKNOWNS, SECONDS, most_unknowns, operations
from holonax.compiler.frontend.translate import Untranslatable, array_of, look, run_closed
from holonax.compiler.ir.graph import Build, Loop, Node, Rolling
from holonax.compiler.passes.carry import Carried, carry_over, carry_the_same
from holonax.compiler.passes.schedule import Expansions, Schedule
from holonax.compiler.passes.scheduled import Program
from holonax.inputs.parameters import kinds
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import Fate, Track, advance
from holonax.numerics.newton import Status
from holonax.progress import note


class Target(NamedTuple):
    """What an engine wishes for: `expansions` of functions it does not have, no program of more than `most` operations,
    noise in tables where `rolling` says so; with `trials`, steps that are tried quickly first.
    """

    expansions: Expansions
    most: int
    rolling: Rolling | None = None
    trials: bool = False


def program(system: System, method: Method, n: int, dtype: str, target: Target) -> Program:
    """Trace, translate and schedule; `Untranslatable` says why not."""
    step = _Step(system, method, n, dtype, target, trial=target.trials)
    functions = carry_over(step.build, step.loop, step.results, n)

    def again() -> Program:
        larger = target._replace(most=HOPELESS * target.most)
        carefully = _Step(system, method, n, dtype, larger, trial=False)
        carry_the_same(carefully.build, carefully.loop, carefully.results, n, functions)
        return carefully.scheduled([])

    return step.scheduled(functions, again if target.trials else None)


class _Step:
    """A step as a graph: the end of a `loop` that is not closed yet."""

    def __init__(self, system: System, method: Method, n: int, dtype: str, target: Target, trial: bool) -> None:
        one, word = jax.ShapeDtypeStruct((), dtype), jax.ShapeDtypeStruct((2,), np.uint32)
        vector, whole = jax.ShapeDtypeStruct((n,), dtype), jax.ShapeDtypeStruct((), np.int32)
        counts = jax.ShapeDtypeStruct((len(method.outcomes),), np.int32)
        track = Track(State(vector, vector, vector), Fate(whole, whole, one, whole, counts))

        values = kinds(system.parameters, dtype)

        def step(track: Track, number, h, key, path, values):  # type: ignore[no-untyped-def]
            return advance(system.given(values), method, track, key, path, number, h, trial)

        traced = jax.make_jaxpr(step)(track, whole, one, word, word, values)
        if (unknowns := most_unknowns(traced.jaxpr)) > MOST_UNKNOWNS:
            raise Untranslatable(f"equations of {unknowns} unknowns (the limit is {MOST_UNKNOWNS})")
        if (expected := operations(traced.jaxpr)) > HOPELESS * target.most:
            raise Untranslatable(f"a program of about {expected} operations (its limit is {target.most})")
        note(f"compiling about {expected} operations, about {expected * SECONDS:.0f} s", seconds=expected * SECONDS)
        self.n, self.outcomes, self.dtype, self.expansions = n, len(method.outcomes), dtype, target.expansions
        self.build = build = Build(target.rolling, target.most, trial)
        fixed = [build.fresh("input", x, value=name) for x, name in _FIXED(dtype)]
        self.h, *self.words = fixed
        leaves = jax.tree.leaves(track)
        begin = [build.fresh("input", leaf.dtype.name) for leaf in leaves for _ in range(int(np.prod(leaf.shape)))]
        self.loop = Loop(build, begin, build.alive)
        entries, places = iter(self.loop.parameters), []
        for leaf in leaves:
            places.append(array_of([next(entries) for _ in range(int(np.prod(leaf.shape)))], leaf.shape))
        self.number = build.fresh("input", "int32", loops=frozenset({self.loop}))
        status = places[3].item()
        build.alive = build("equal", status, build.number(Status.CONVERGED, "int32"))
        pairs = [array_of(self.words[i : i + 2], (2,)) for i in (0, 2)]
        inputs = [*places, array_of([self.number], ()), array_of([self.h], ()), *pairs]
        self.parameters: list[Node] = []
        for value in jax.tree.leaves(values):
            entries_of = [build.fresh("input", dtype, value="parameter") for _ in range(int(np.prod(value.shape)))]
            inputs.append(array_of(entries_of, value.shape))
            self.parameters += entries_of
        self.results = [x for array in look(run_closed(build, traced, inputs)) for x in array.flat]

    def _velocities(self) -> dict[Node, Node]:
        """What stands for velocities at the beginning of a step: momenta over masses, where these are constants."""
        n, stand_ins = self.n, {}
        for i in range(n):
            p, v = (x.value[0].begin[x.value[1]] if x.name == "result" else x for x in self.results[n + i : 3 * n : n])
            mass = self.build.number(1, p.dtype) if p is v else p.args[0] if p.name == "multiply" else p
            if p is not v and not (mass.is_constant and p.args[1] is v):
                return {}
            momentum, velocity = self.loop.parameters[n + i], self.loop.parameters[2 * n + i]
            stand_ins[velocity] = momentum / mass
        return stand_ins

    def scheduled(self, functions: list[Carried], again: Callable[[], Program] | None = None) -> Program:
        """With numbers that stand for `functions` of q."""
        build, loop, n = self.build, self.loop, self.n
        build.most = None  # the step is translated; what it takes to begin a run does not count
        entries = len(self.results) - len(functions)
        loop.close(build, build.number(True, "bool"), self.results)
        wanted = [*range(n, 2 * n), *range(n), *range(3 * n, entries)]  # positions as momenta need them
        velocities = self._velocities()
        if again is not None and not velocities:
            wanted += range(2 * n, 3 * n)  # where Newton's method will begin
        schedule = Schedule(build, loop, wanted, self.expansions, dict(functions) | velocities)
        key, path = tuple(self.words[:2]), tuple(self.words[2:])
        parameters = tuple(self.parameters)
        return Program(
            n, self.outcomes, self.dtype, loop, schedule, self.number, key, path, self.h, parameters, functions, again
        )


def _FIXED(dtype: str) -> list[tuple[str, str]]:
    return [(dtype, "h"), *(("uint32", name) for name in ("key0", "key1", "path0", "path1"))]
