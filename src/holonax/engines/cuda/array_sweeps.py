"""Sweeps of a sparse elimination (`holonax.numerics.tape`): the threads of a block share the sums of a level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holonax.engines.cuda.array_loops import LoopWriter
from holonax.numerics.tape import PIVOTS, Tape


class Sweep(NamedTuple):
    """Pointers to what a tape calls out, start, left, right and scale.

    With `signs`, which pivots should have, the sweep sets the variable `bad` if one is round-off or has the other sign.
    """

    out: str
    start: str
    left: str
    right: str
    scale: str
    signs: str = "(const real *)0"
    bad: str = "none"


class SweepWriter(LoopWriter):
    """Writes sweeps."""

    def write_sweep(self, tape: Tape, sweep: Sweep) -> None:
        """All levels of a tape; threads have met before, and do so at its end."""
        begins = tape.runs[tape.opens, 0] * 2 + (tape.runs[tape.opens, 4] == PIVOTS)
        widths = np.repeat(tape.runs[:, 2], tape.runs[:, 1] - tape.runs[:, 0])
        sums = self._pairs(tape.out, tape.start)
        own = self._pairs(tape.scale, widths)
        terms = self._pairs(tape.left, tape.right)
        first = self.table((np.cumsum(widths) - widths).astype(np.int32), "int")
        levels = self.table(np.append(begins, 2 * len(tape.out)).astype(np.int32), "int")
        arrays = [sweep.out, sweep.start, sweep.left, sweep.right, sweep.scale]
        arguments = ", ".join([*arrays, sums, own, first, terms, levels, str(len(begins)), sweep.signs, sweep.bad])
        self.lines.append(f"{{ bool none = false; sweep({arguments}, thread); }}")

    def _pairs(self, x: np.ndarray, y: np.ndarray) -> str:
        """A table of pairs, in one number each where they are small."""
        x, y = (values.astype(np.uint32) for values in (x, y))
        if max(x.max(initial=0), y.max(initial=0)) < 2**16:
            return self.table(x | (y << np.uint32(16)), "unsigned")
        return self.table(np.stack([x, y], 1), "uint2")
