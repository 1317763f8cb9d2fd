"""Step sizes of a study that fit each other, the interval and the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from holonax.errors import InputError, shown
from holonax.inputs.checks import at_least, count_of_steps, real_number, real_numbers


@final
@dataclass(frozen=True)
class Levels:
    """Step sizes, finest last as a multiple of the reference's."""

    h: np.ndarray  # decreasing
    factors: np.ndarray  # h / h_ref
    h_ref: float
    steps: int  # of the reference

    @staticmethod
    def of(h: Sequence[float], t1: float, refine: int) -> Levels:
        """Check that all step sizes fit each other and the interval, and refine the smallest for the reference."""
        sizes = real_numbers("h", h, "pass step sizes such as [2**-4, 2**-5]")
        if sizes.ndim != 1 or len(sizes) < 2:
            raise InputError(f"h = {shown(h)}: an order needs at least 2 step sizes, such as [2**-4, 2**-5]")
        sizes = np.sort(sizes)[::-1]
        t1 = real_number("t1", t1)
        if not (np.isfinite(sizes).all() and sizes[-1] > 0 and t1 > 0):
            raise InputError(f"h = {sizes.tolist()}, t1 = {t1}: step sizes and end time must be positive and finite")
        if len(set(sizes)) < len(sizes):
            raise InputError(f"h = {sizes.tolist()} repeats a step size")
        refine = at_least(2, "refine", refine, "the reference must be at least 2 times finer than the finest level")
        steps = t1 / sizes[-1] * refine
        what = f"h = {sizes[-1]:g}, {refine} times finer for the reference, is {steps:.6g} steps to t1 = {t1:g}"
        count_of_steps(steps, what, "use larger step sizes or a smaller refine")
        multiples = sizes / sizes[-1]
        for size, multiple in zip(sizes, multiples, strict=True):
            if abs(multiple - round(multiple)) > 1e-9 * multiple:
                raise InputError(
                    f"h = {size} is {multiple:.6g} times the finest, {sizes[-1]}; it must be a multiple of it"
                )
            if abs(t1 / size - round(t1 / size)) > 1e-9 * t1 / size:
                raise InputError(f"t1 = {t1} is {t1 / size:.6g} steps of h = {size}; it must be a whole number")
        factors = refine * np.round(multiples).astype(int)
        steps = round(t1 / sizes[-1]) * refine
        return Levels(sizes, factors, t1 / steps, steps)
