"""What the compiler makes of a system and a method, in words and numbers."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import final

import numpy as np

from holonax.cache.files import without_cache
from holonax.compiler import Program, Untranslatable
from holonax.compiler.arrays.program import ArrayProgram
from holonax.compiler.frontend.estimate import estimated_operations
from holonax.compiler.frontend.step import trace
from holonax.compiler.ir.program import Block, Items
from holonax.compiler.passes.rerolling import Rolled
from holonax.engines import ENGINES, chosen
from holonax.errors import InputError
from holonax.inputs.checks import choice, instance
from holonax.mechanics.start import A_SYSTEM
from holonax.mechanics.system import System
from holonax.methods.base import Method
from holonax.report.numbers import how_many


@final
@dataclass(frozen=True, repr=False)
class Explanation:
    """A list of (what, how much); as text, a table."""

    title: str
    rows: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        width = max(len(what) for what, _ in self.rows)
        return "\n".join([self.title, *(f"  {what:<{width}}  {value}" for what, value in self.rows)])


def explain(
    system: System, method: Method, *, n: int | None = None, engine: str = "auto", dtype: str = "float64"
) -> Explanation:
    """What the compiler makes of a step of `method` on `system`: compiles it, and tells of it.

    Args:
        system: the system.
        method: the integrator.
        n: number of coordinates; left out, that of the system (`hx.System(..., n=)`) or the smallest that it accepts.
        engine: as for `hx.simulate`.
        dtype: "float64" or "float32".

    >>> import holonax as hx
    >>> print(hx.explain(hx.systems.pendulum().system, hx.EulerA()))  # doctest: +ELLIPSIS
    EulerA() on a system of 3 coordinates, 1 constraint, 3 noises
      engine ...
    """
    instance("system", system, System, A_SYSTEM)
    instance("method", method, Method, "pass an instance such as hx.Kicked()")
    choice("engine", engine, ("auto", *ENGINES))
    choice("dtype", dtype, ("float64", "float32"))
    if system.redundant == "allow":
        raise InputError('redundant="allow": what runs depends on the start; pass hx.independent(system, start)')
    name = chosen(engine)
    n = system.dimension() if n is None else n
    k, _ = system.sizes(n)
    noises = method.noises(system, n)
    title = (
        f"{method} on a system of {how_many(n, 'coordinate')}, {how_many(k, 'constraint')}, {how_many(noises, 'noise')}"
    )
    begin = time.perf_counter()
    try:
        with without_cache():  # which knows the kernel alone
            runner = ENGINES[name].prepare(system.form, method, n, dtype)
    except Untranslatable as reason:
        about = estimated_operations(trace(system.form, method, n, dtype, trial=False).ahead.jaxpr)
        rows = [("engine", f"plain, since {name!r} cannot translate {reason}"), ("operations", f"about {about}")]
        return Explanation(title, tuple(rows))
    seconds, program = time.perf_counter() - begin, runner.program
    if isinstance(program, ArrayProgram):
        rows = [("engine", f"{name}: {runner.lanes}, {runner.how}"), *_rows_of_arrays(program)]
    else:
        rows = [("engine", f"{name}: {ENGINES[name].lanes(program)}"), *_rows(program)]
    rows += [(f"seconds, {what}", f"{spent:.3f}") for what, spent in program.seconds.items()]
    rows.append(("seconds, code", f"{seconds - sum(program.seconds.values()):.3f}"))
    return Explanation(title, tuple(rows))


def _rows(program: Program) -> list[tuple[str, str]]:
    rows = []
    for solved in dict.fromkeys(program.build.solved):
        left = solved.unknowns - solved.eliminated
        rest = f", {left} left to {solved.solver}" if left else ", none left"
        rows.append((f"equations of {how_many(solved.unknowns, 'unknown')}", f"{solved.eliminated} eliminated{rest}"))
    loops = Counter("rare" if loop.rare else "common" for loop in _loops(program.body))
    rows += [
        (
            "operations",
            f"{program.size} in a program, of {program.build.count} that were built (estimated {program.expected})",
        ),
        ("before all steps", f"{len(program.before)} of them"),
        ("loops", f"{loops['common']}, and {loops['rare']} that are seldom entered"),
        ("carried by a path", f"{len(program.changing)} of {len(program.carried)} numbers"),
        ("functions of q carried over", str(sum(i >= program.track.size for i in program.changing))),
    ]
    if program.layout is not None:
        rolled = [part for parts in program.layout.parts.values() for part in parts if isinstance(part, Rolled)]
        rounds = sum(len(part.body) * part.times for part in rolled)
        frame = sum(program.layout.places.sizes) * np.dtype(program.dtype).itemsize
        rows.append(("loops over links", f"{len(rolled)}, instead of {rounds} operations"))
        rows.append(("frame", f"{frame} bytes for each path of a vector"))
    return rows


def _rows_of_arrays(program: ArrayProgram) -> list[tuple[str, str]]:
    rows = []
    for solve in program.solves:
        unknowns, left = solve.unknowns.size, solve.tape.size
        rest = f", {left} left to Newton's method" if left else ", none left"
        rows.append((f"equations of {how_many(unknowns, 'unknown')}", f"{unknowns - left} eliminated{rest}"))
        if left:
            places = len(solve.entries.all.table) - 1
            rows.append(("their matrix", f"{places} entries, eliminated by {solve.tape.operations} products"))
    rows.append(("loops over arrays", str(program.loops)))
    frame = program.frame_size * np.dtype(program.dtype).itemsize
    rows.append(("frame", f"{frame} bytes for each path, and what elimination needs"))
    return rows


def _loops(items: Items) -> list:
    """All loops, also those inside others."""
    blocks = [item for item in items if isinstance(item, Block)]
    return [loop for block in blocks for loop in (block.loop, *_loops(block.body))]
