"""Rematerialization: what is cheap to compute from other values is not carried from step to step.

A state holds q, p and, as a guess for Newton's method, the velocity that belongs to them.  Where the masses are
constants, velocities are momenta over masses: carried, they would occupy n registers more.
"""

from __future__ import annotations

from holonax.compiler.ir.graph import Node
from holonax.compiler.ir.program import Program


def recompute_velocities(program: Program) -> Program:
    """Let momenta over masses stand for velocities, if they are that, and say what is wanted of a step."""
    state = program.track.state
    stand_ins = _velocities(program)
    program.stands_for |= stand_ins
    program.wanted = [*state.p, *state.q, *(i for field in program.track.fate for i in field)]  # q as p needs it
    if program.agrees_with is not None:
        # Functions of q, for the steps that follow, which are of another program.
        program.wanted += range(program.track.size, len(program.carried))
    elif program.target.trials and not stand_ins:
        program.wanted += state.v  # where Newton's method will begin, if the step is taken again
    return program


def _velocities(program: Program) -> dict[Node, Node]:
    """What stands for the velocities at the beginning of a step; nothing unless the masses are constants."""
    carried, ends = program.loop.parameters, program.failure.begin
    stand_ins = {}
    for i, j in zip(program.track.state.p, program.track.state.v, strict=True):
        p, v = ends[i], ends[j]
        mass = program.build.number(1, p.dtype) if p is v else p.args[0] if p.name == "multiply" else p
        if p is not v and not (mass.is_constant and p.args[1] is v):
            return {}
        stand_ins[carried[j]] = carried[i] / mass
    return stand_ins
