"""Sweeps of a sparse elimination (`holonax.numerics.tape`): the threads of a block share the sums of a level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holonax.engines.cuda.array_loops import LoopWriter
from holonax.numerics.tape_runs import Tape


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
        """All runs of a tape; threads have met before, and do so at its end."""
        first, _, width, _, what, beside, opens, _ = tape.runs.T
        widths = np.repeat(width, np.diff(np.append(first, len(tape.out))))
        runs = np.column_stack([2 * (4 * first + what) + opens, beside])
        runs = np.append(runs, [[8 * len(tape.out), 0]], axis=0).astype(np.int32)
        tables = [self._pairs(tape.out, tape.start), self._pairs(tape.scale, widths)]
        tables.append(self.table((np.cumsum(widths) - widths).astype(np.int32), "int"))
        tables.append(self._pairs(tape.left, tape.right))
        arguments = [sweep.workspace, *tables, self.table(runs, "int2"), str(len(tape.runs)), str(sweep.inverse)]
        self.lines.append(f"sweep({', '.join([*arguments, sweep.signs, sweep.bounds, sweep.bad])}, thread);")

    def _pairs(self, x: np.ndarray, y: np.ndarray) -> str:
        """A table of pairs, in one number each where they are small."""
        x, y = (values.astype(np.uint32) for values in (x, y))
        if max(x.max(initial=0), y.max(initial=0)) < 2**16:
            return self.table(x | (y << np.uint32(16)), "unsigned")
        return self.table(np.stack([x, y], 1), "uint2")
