"""Factors of sparse matrices by NumPy, from lists of places: nothing has to be compiled.

What runs once or a few times, such as the checks of a start, would wait for XLA most of the time.  An order of
elimination is a list here (`holonax.numerics.tape`), which NumPy works through at half the speed of compiled array
operations or less.  The numbers are those of `holonax.numerics.sparse.Factors`, to round-off, in the same order.
"""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np

from holonax.numerics.tape import EliminationTape
from holonax.numerics.tape_runs import GIVEN, ONE, PIVOTS, work_through


@final
class TapeFactors:
    """Of one matrix, or of one for each path: arrays may have paths as a last axis."""

    def __init__(self, tape: EliminationTape, entries: np.ndarray) -> None:
        self.tape = tape
        w = self.workspace = np.zeros((tape.places, *entries.shape[1:]), entries.dtype)
        w[ONE] = 1.0
        w[GIVEN : GIVEN + len(entries)] = entries
        work_through(tape.factor, w)
        full, sums = tape.tail, _sums_of_pivots(tape)
        self.dense = w[tape.dense : tape.dense + full * full].reshape(full, full, *w.shape[1:])
        subtracted = w[tape.subtracted]
        _factorise(self.dense, subtracted)
        self.pivots = np.concatenate([w[tape.factor.start[sums]], _diagonal(self.dense)])
        self.subtracted = np.concatenate([w[tape.factor.scale[sums]], subtracted])

    @cached_property
    def singular(self) -> np.ndarray:
        """Whether a pivot is round-off, or not finite."""
        size, tail = self.tape.size, self.tape.size - self.tape.tail
        counts = self.tape.terms + np.maximum(np.arange(size) - tail, 0)
        bound = ((counts + 1.0) * np.finfo(self.pivots.dtype).eps).reshape(-1, *(1,) * (self.pivots.ndim - 1))
        magnitude = np.abs(self.pivots)
        with np.errstate(all="ignore"):
            lost = ~(magnitude > bound * (magnitude + self.subtracted)) | np.isinf(self.pivots)
        return lost.any(axis=0)

    @cached_property
    def margins(self) -> np.ndarray:
        """Pivots over the sum of the magnitudes that they are the difference of, in the order of the unknowns."""
        magnitude = np.abs(self.pivots)
        with np.errstate(all="ignore"):
            return self._by_unknown(magnitude / (magnitude + self.subtracted))

    @cached_property
    def signs(self) -> np.ndarray:
        """Of the pivots, in the order of the unknowns."""
        return self._by_unknown(np.sign(self.pivots))

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The solution for a right side."""
        tape, w = self.tape, self.workspace
        w[tape.right : tape.right + tape.size] = b
        work_through(tape.forward, w)
        _substitute(self.dense, w[tape.rest : tape.rest + tape.tail])
        work_through(tape.backward, w)
        return w[tape.solution : tape.solution + tape.size].copy()

    def _by_unknown(self, values: np.ndarray) -> np.ndarray:
        result = np.empty_like(values)
        result[self.tape.order] = values
        return result


def _sums_of_pivots(tape: EliminationTape) -> np.ndarray:
    """Numbers of the sums that are pivots, in the order of elimination."""
    runs = tape.factor.runs
    own = [np.arange(begin, end) for begin, end in runs[runs[:, 4] == PIVOTS, :2].tolist()]
    return np.concatenate([np.zeros(0, np.int64), *own])


def _diagonal(matrix: np.ndarray) -> np.ndarray:
    index = np.arange(len(matrix))
    return matrix[index, index]


def _factorise(matrix: np.ndarray, subtracted: np.ndarray) -> None:
    """In place, both factors in one, the diagonal of the lower one being 1; sizes are added to those before."""
    with np.errstate(all="ignore"):
        for j in range(len(matrix) - 1):
            matrix[j + 1 :, j] /= matrix[j, j]
            change = matrix[j + 1 :, j, None] * matrix[j, None, j + 1 :]
            matrix[j + 1 :, j + 1 :] -= change
            subtracted[j + 1 :] += np.abs(_diagonal(change))


def _substitute(factors: np.ndarray, x: np.ndarray) -> None:
    """In place, a right side to its solution."""
    with np.errstate(all="ignore"):
        for j in range(len(x)):
            x[j + 1 :] -= factors[j + 1 :, j] * x[j]
        for j in reversed(range(len(x))):
            x[j] /= factors[j, j]
            x[:j] -= factors[:j, j] * x[j]
