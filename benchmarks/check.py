"""Whether both references in C compute what holonax computes: the same end states from the same noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import holonax as hx
from benchmarks import native

AGREEMENT = 1e-9
STEPS = 100
H = 2.0**-8
SEED = 2**35 + 7  # both words of the key
PATHS = (0, 5, 44)  # the last group of lanes is not full

METHODS = {"euler_a": hx.EulerA(), "rattle": hx.Rattle(), "kicked": hx.Kicked("symmetric")}


def deviations() -> dict[str, float] | None:
    """Largest difference of an end state between C and `hx.integrate` after 100 steps; None without a compiler."""
    if native.compiler() is None:
        return None
    entry = hx.systems.pendulum()
    start = np.asarray(entry.start.q), np.asarray(entry.start.p)
    count = {"paths": max(PATHS) + 1, "steps": STEPS, "h": H, "seed": SEED}
    found = {}
    for name, method in METHODS.items():
        found |= _deviations(f"pendulum {name}", entry, method, partial(native.pendulum, name, *start, **count))
    for beads in (8, 64):
        entry = hx.systems.chain(beads, sigma=0.3)
        start = np.asarray(entry.start.q), np.asarray(entry.start.p)
        program = partial(native.chain, *start, sigma=0.3, **count)
        found |= _deviations(f"chain {beads} euler_a", entry, hx.EulerA(), program)
    return found


def _deviations(case: str, entry: hx.Entry, method: hx.Method, program: Callable[..., Any]) -> dict[str, float]:
    integrate = jax.jit(lambda noise: hx.integrate(entry.system, method, entry.start, noise))
    ends = {who: program(tuned=tuned) for who, tuned in native.VARIANTS.items()}
    found = dict.fromkeys(ends, 0.0)
    for path in PATHS:
        exact = integrate(hx.increments(entry.system, h=H, steps=STEPS, seed=SEED, path=path))
        for who, states in ends.items():
            for mine, theirs in zip(states, (exact.q, exact.p), strict=True):
                found[who] = max(found[who], float(np.max(np.abs(mine[:, path] - np.asarray(theirs[-1])))))
    return {f"{case}, {who}": deviation for who, deviation in found.items()}


def check() -> None:
    """Print the deviations; raise if one is too large."""
    found = deviations()
    if found is None:
        print("no C compiler: the references in C are left out")
        return
    for name, deviation in found.items():
        print(f"{name}: end states agree with hx.integrate to {deviation:.1e} after {STEPS} steps")
        if not deviation <= AGREEMENT:
            raise RuntimeError(f"{name}: reference.c and hx.integrate differ by {deviation:.1e}")


if __name__ == "__main__":
    check()
