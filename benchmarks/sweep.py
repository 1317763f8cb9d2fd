"""`python -m benchmarks.sweep`: ten thousand gravities as one ensemble, beside one gravity for as many paths.

And what parameters cost beside the same system with its numbers written into the functions.  Medians of five runs, in
turn, on all cores; nothing is compiled in them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

import holonax as hx

PATHS, STEPS, ROUNDS = 10_000, 4096, 5


def main() -> None:
    """Print the seconds and their ratios."""
    swing = hx.System(
        lambda q, v, *, gravity: 0.5 * v @ v - gravity * q[2],
        lambda q: q @ q - 1.0,
        noise=jnp.sin,
        parameters={"gravity": 9.81},
    )
    written = hx.System(lambda q, v: 0.5 * v @ v - 9.81 * q[2], lambda q: q @ q - 1.0, noise=jnp.sin)
    start = hx.start(swing, q=[1.0, 0.0, 0.0])
    numbers: dict[str, Any] = {"t1": STEPS * 2.0**-10, "h": 2.0**-10, "save_every": None, "progress": False}
    run = partial(hx.simulate, method=hx.EulerA(), start=start, paths=PATHS, **numbers)
    contestants: dict[str, Callable[[], hx.Run]] = {
        "one gravity": partial(run, swing),
        "10000 gravities": partial(run, swing, parameters={"gravity": np.linspace(1.0, 25.0, PATHS)}),
        "another gravity": partial(run, swing.replace(gravity=1.62)),
        "gravity written into the function": partial(run, written),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for round_ in range(ROUNDS + 1):
        for name, contestant in contestants.items():
            begin = time.perf_counter()
            contestant()
            if round_:  # the first compiles
                seconds[name].append(time.perf_counter() - begin)
    base = statistics.median(seconds["one gravity"])
    for name, taken in seconds.items():
        print(f"{name:<35} {statistics.median(taken):.3f} s, {statistics.median(taken) / base:.2f} of one gravity")


if __name__ == "__main__":
    main()
