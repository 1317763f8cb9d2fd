"""The compiler: from the step of a method on a system, as Python functions, to a program of lanes for the engines.

A program is a graph whose nodes are single numbers, one per lane, that is per path (`ir.graph`).  `compile_step` traces
and translates a step; then every pass takes a program (`ir.program`) and returns it, with what it found out.  Engines
turn the result into code for their target.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from holonax.compiler.frontend.estimate import HOPELESS
from holonax.compiler.frontend.step import refuse_hopeless, trace, translate
from holonax.compiler.ir.check import check
from holonax.compiler.ir.graph import NoiseTables, Untranslatable
from holonax.compiler.ir.program import Program, operations
from holonax.compiler.ir.target import Target
from holonax.compiler.passes.asap import compute_as_soon_as_possible
from holonax.compiler.passes.commoning import carry_functions_over
from holonax.compiler.passes.liveness import eliminate_dead_code
from holonax.compiler.passes.placement import place_operations
from holonax.compiler.passes.reassociation import share_constant_factors
from holonax.compiler.passes.rematerialization import recompute_velocities
from holonax.compiler.passes.rerolling import roll_loops
from holonax.mechanics.system import System
from holonax.methods.base import Method

Pass = Callable[[Program], Program]

PASSES: dict[str, Pass] = {
    "predictive commoning": carry_functions_over,
    "rematerialization": recompute_velocities,
    "reassociation": share_constant_factors,
    "dead-code elimination": eliminate_dead_code,
    "loop-invariant code motion": place_operations,
}
"""What is done with every program, in this order."""

PASSES_OF_LONG_PROGRAMS: dict[str, Pass] = {
    "as-soon-as-possible scheduling": compute_as_soon_as_possible,
    "loop rerolling": roll_loops,
}
"""What is done with programs that the target calls long, afterwards."""

CHECKED = os.environ.get("HOLONAX_CHECK", "0") != "0"
"""Whether programs are checked after every pass: for those who write passes."""


def compile_step(
    system: System, method: Method, n: int, dtype: str, target: Target, times: float = HOPELESS
) -> Program:
    """The program of one step; `Untranslatable` says why there is none.

    Where the target tries steps quickly first, this is the program of a trial, and its `again` makes that of a step
    that is taken carefully, when the first path needs it.  Estimates above so many `times` the target's limit are
    believed, and nothing is translated.
    """
    if system.recipes:
        raise Untranslatable("neighbour lists, whose indices change on the way")
    begin = time.perf_counter()
    traced = trace(system, method, n, dtype, trial=target.trials)
    expected = refuse_hopeless(traced, target, times)
    traced_at = time.perf_counter()
    program = translate(traced, target, target.most)
    program.expected = expected
    program.seconds = {"tracing": traced_at - begin, "translation": time.perf_counter() - traced_at}
    program = run_passes(program)
    if target.trials:
        program.again = partial(_compile_carefully, system, method, n, program)
    return program


def _compile_carefully(system: System, method: Method, n: int, trial: Program) -> Program:
    """The program for steps that are taken again, which carries the same numbers as the trial."""
    traced = trace(system, method, n, trial.dtype, trial=False)
    program = translate(traced, trial.target, HOPELESS * trial.target.most)
    program.agrees_with = trial.functions
    return run_passes(program)


def run_passes(program: Program) -> Program:
    """All passes, top to bottom."""
    program = _run(program, PASSES)
    if program.target.long is not None and program.size > program.target.long:
        program = _run(program, PASSES_OF_LONG_PROGRAMS)
    for name in dict.fromkeys(node.name for node in operations([*program.before, *program.body]) if node.args):
        program.target.check(name)
    return program


def _run(program: Program, passes: dict[str, Pass]) -> Program:
    for name, run in passes.items():
        begin = time.perf_counter()
        program = run(program)
        program.seconds[name] = time.perf_counter() - begin
        if CHECKED:
            check(program, name)
    return program


__all__ = [
    "PASSES",
    "PASSES_OF_LONG_PROGRAMS",
    "NoiseTables",
    "Program",
    "Target",
    "Untranslatable",
    "compile_step",
    "run_passes",
]
