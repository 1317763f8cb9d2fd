"""The entries of a `Track`, numbered: what a path carries from step to step, and in which order."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple, final

import numpy as np

from holonax.mechanics.system import State
from holonax.methods.path import Fate, begin


@final
class TrackLayout(NamedTuple):
    """For each field of a path's state and of its fate, the numbers of its entries; all of them in the order of JAX."""

    state: State
    fate: Fate

    @staticmethod
    def of(n: int, outcomes: int) -> TrackLayout:
        """For n coordinates and a method with so many outcomes."""
        track = begin(State(*np.zeros((3, 1, n))), outcomes)
        sizes = [field[0].size for part in track for field in part]
        ends = list(accumulate(sizes))
        ranges = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        return TrackLayout(State(*ranges[: len(State._fields)]), Fate(*ranges[len(State._fields) :]))

    @property
    def size(self) -> int:
        """Number of entries."""
        return sum(len(field) for part in self for field in part)

    @property
    def status(self) -> int:
        """The one entry of a path's status."""
        (place,) = self.fate.status
        return int(place)
