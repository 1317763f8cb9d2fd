"""Sweeps of a sparse elimination (`holonax.numerics.tape`): the threads of a block share the sums of a level."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from holonax.engines.cuda.array_loops import LoopWriter
from holonax.engines.cuda.elimination import QUOTIENTS
from holonax.numerics.tape_runs import PIVOTS, SUMS, Tape


class Sweep(NamedTuple):
    """What a sweep works on: the workspace, where inverse pivots are in it, and what pivots should be like.

    It sets the variable `bad` if a pivot is below its bound of what was subtracted from it, or has not its sign.
    """

    workspace: str
    inverse: int
    signs: str
    bounds: str
    bad: str


class SweepWriter(LoopWriter):
    """Writes sweeps."""

    def write_sweep(self, tape: Tape, sweep: Sweep) -> None:
        """All levels of a tape; threads have met before, and do so at its end."""
        first, end, width, _, what, beside, opens, _ = tape.runs.T
        lengths = end - first
        widths, kinds = np.repeat(width, lengths), np.repeat(what, lengths)
        scale, kinds, opens = _with_quotients(tape, kinds, opens.astype(bool))
        displaced = np.maximum.reduceat(beside, np.flatnonzero(opens)) if len(opens) else beside
        levels = np.column_stack([np.append(first[opens], len(tape.out)), np.append(displaced, 0)]).astype(np.int32)
        tables = [self._pairs(tape.out, tape.start), self._pairs(scale, 4 * widths + kinds)]
        tables.append(self.table((np.cumsum(widths) - widths).astype(np.int32), "int"))
        tables.append(self._pairs(tape.left, tape.right))
        arguments = [sweep.workspace, *tables, self.table(levels, "int2"), str(len(levels) - 1), str(sweep.inverse)]
        self.lines.append(f"sweep({', '.join([*arguments, sweep.signs, sweep.bounds, sweep.bad])}, thread);")

    def _pairs(self, x: np.ndarray, y: np.ndarray) -> str:
        """A table of pairs, in one number each where they are small."""
        x, y = (values.astype(np.uint32) for values in (x, y))
        if max(x.max(initial=0), y.max(initial=0)) < 2**16:
            return self.table(x | (y << np.uint32(16)), "unsigned")
        return self.table(np.stack([x, y], 1), "uint2")


def _with_quotients(tape: Tape, kinds: np.ndarray, opens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of factors, the kinds of sums, and which runs open levels, where nobody waits for inverse pivots.

    What is multiplied by an inverse pivot in the level after it is divided by the pivot in the same level instead: each
    thread computes the inverse that it needs, which takes less time than to meet.
    """
    scale, kinds, opens = tape.scale.copy(), kinds.copy(), opens.copy()
    pivot_of: dict[int, int] = {}
    for i in np.flatnonzero(tape.runs[:, 4] == PIVOTS).tolist():
        own = slice(*tape.runs[i, :2])
        pivot_of.update(zip(tape.out[own].tolist(), tape.start[own].tolist(), strict=True))
    bounds = [*np.flatnonzero(opens).tolist(), len(opens)]
    for level, after in pairwise(bounds):
        if level and tape.runs[level, 4] == SUMS and tape.runs[level - 1, 4] == PIVOTS:
            own = slice(tape.runs[level, 0], tape.runs[after - 1, 1])
            opens[level], kinds[own] = False, QUOTIENTS
            scale[own] = [pivot_of[place] for place in tape.scale[own].tolist()]
    return scale, kinds, opens
