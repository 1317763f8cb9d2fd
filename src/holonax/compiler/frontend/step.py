"""The step of one path of an ensemble, from Python functions to a graph.

JAX traces the step, an estimate refuses what would be too large, and translation (`frontend.translate`) makes a node of
every entry of every array: equal nodes are the same object (hash-consing), and constants fold as nodes are built.
Newton's method is translated as a whole (`frontend.newton`): forward-mode differentiation on the graph, sparse symbolic
elimination of what is linear, and a loop for what is left.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import or_
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from holonax.compiler.frontend import factors, indexing, newton, primitives, tables  # noqa: F401 - they register translations
from holonax.compiler.frontend.estimate import (
    MOST_UNKNOWNS,
    estimated_operations,
    expected_seconds,
    most_unknowns,
)
from holonax.compiler.frontend.translate import array_of, conditional, look, translate_closed
from holonax.compiler.ir.graph import Build, Loop, Node, Role, TooLong
from holonax.compiler.ir.program import Inputs, Program
from holonax.compiler.ir.target import Target
from holonax.compiler.ir.track import TrackLayout
from holonax.inputs.parameters import kinds
from holonax.mechanics.system import State, System
from holonax.methods.base import Method
from holonax.methods.path import Failure, Fate, Track, go_back, try_step
from holonax.numerics.newton import Status
from holonax.progress import note


class Traced(NamedTuple):
    """A step as JAX sees it: `ahead` is `try_step`, `back` is `go_back`; types of a track and of parameters."""

    ahead: ClosedJaxpr
    back: ClosedJaxpr
    track: Track
    parameters: dict[str, jax.ShapeDtypeStruct]
    trial: bool

    @property
    def is_doubtful(self) -> bool:
        """Whether a trial that did not solve its equations may look like a step: as a proposal that is rejected.

        A trial may fail though its equations have a solution: its pivots are fixed beforehand, and a row whose
        magnitude vanishes, such as a product of zeros, counts as unsolved.  If that meant a rejected proposal, the path
        could stand still for ever.
        """
        return self.trial and self.track.fate.counts.size > 0


def trace(
    system: System, method: Method, n: int, dtype: str, trial: bool, values: dict[str, Any] | None = None
) -> Traced:
    """Let JAX trace a step; a `trial` of it if asked; for parameters of these types, if not for the system's."""
    one, word = jax.ShapeDtypeStruct((), dtype), jax.ShapeDtypeStruct((2,), np.uint32)
    vector, whole = jax.ShapeDtypeStruct((n,), dtype), jax.ShapeDtypeStruct((), np.int32)
    counts = jax.ShapeDtypeStruct((len(method.outcomes),), np.int32)
    track = Track(State(vector, vector, vector), Fate(whole, whole, one, whole, counts))
    values = kinds(system.parameters, n, dtype) if values is None else values

    def ahead(track: Track, number: Any, h: Any, key: Any, path: Any, values: Any) -> tuple:
        return try_step(system.given(values), method, track, key, path, number, h)

    traced, (_, _, failure) = jax.make_jaxpr(ahead, return_shape=True)(track, whole, one, word, word, values)
    back = jax.make_jaxpr(partial(go_back, trial=trial))(track, Failure(*failure), whole)
    return Traced(traced, back, track, values, trial)


def refuse_hopeless(traced: Traced, target: Target, times: float) -> int:
    """Give up before the work is done where it would be in vain; say how long it will take otherwise.

    It is in vain where so many times the operations are expected that the target takes, or so many times the seconds
    that users wait.  The number that is expected.
    """
    jaxpr = traced.ahead.jaxpr
    if (unknowns := most_unknowns(jaxpr)) > MOST_UNKNOWNS:
        raise TooLong(f"equations of {unknowns} unknowns (the limit is {MOST_UNKNOWNS})")
    if (expected := estimated_operations(jaxpr)) > times * target.most:
        raise TooLong(f"a program of about {expected} operations (its limit is {target.most})")
    if (seconds := expected_seconds(expected, unknowns)) > times * target.patience:
        raise TooLong(f"a program of about {expected} operations and equations of {unknowns} unknowns")
    note(f"compiling about {expected} operations, about {seconds:.0f} s", seconds=seconds)
    return expected


def translate(traced: Traced, target: Target, most: int) -> Program:
    """The graph of a step of at most so many nodes."""
    dtype, leaves = traced.track.fate.residual.dtype.name, jax.tree.leaves(traced.track)
    build = Build(target.tables, most, traced.trial)
    h = build.fresh("input", dtype, value=Role.STEP_SIZE)
    words = tuple(build.fresh("input", "uint32") for _ in range(4))
    begin = [build.fresh("input", leaf.dtype.name) for leaf in leaves for _ in range(leaf.size)]
    loop = Loop(build, begin, build.alive)
    layout = TrackLayout.of(traced.track.state.q.size, traced.track.fate.counts.size)
    number = build.fresh("input", "int32", loops=frozenset({loop}))
    build.alive = build("equal", loop.parameters[layout.status], build.number(Status.CONVERGED, "int32"))

    track = _arrays(loop.parameters, leaves)
    given = jax.tree.leaves(traced.parameters)
    parameters = [build.fresh("input", dtype, value=Role.PARAMETER) for x in given for _ in range(x.size)]
    single = [array_of([number], ()), array_of([h], ()), *(array_of(list(words[i : i + 2]), (2,)) for i in (0, 2))]
    own = _arrays(parameters, given)
    stays, *others = look(translate_closed(build, traced.ahead, [*track, *single, *own]))
    ahead, failure = others[: len(leaves)], others[len(leaves) :]
    condition, ends = stays.item(), [x for array in ahead for x in array.flat]
    if traced.is_doubtful:
        condition = reduce(or_, build.doubts, condition)
    branch = conditional(build, condition, traced.back, [*track, *failure, single[0]], ends)
    loop.close(build, build.number(True, "bool"), branch.results[: len(ends)])
    build.most = None  # the step is translated; what it takes to begin a run does not count
    inputs = Inputs(number, words[:2], words[2:], h, tuple(parameters))
    return Program(target, dtype, layout, build, loop, branch, inputs)


def _arrays(nodes: list[Node], like: list[Any]) -> list[np.ndarray]:
    """Nodes as arrays of the shapes of some others."""
    entries = iter(nodes)
    return [array_of([next(entries) for _ in range(x.size)], x.shape) for x in like]
