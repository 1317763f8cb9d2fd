"""`python -m benchmarks.agreement [engine ...]`: the same paths on every engine of this machine, for all there is.

Every method with every system of the catalogue, and Langevin in several forms with those that fit: eight paths, 100
steps of 2^-8, and the largest difference in q and p to the `vmap` of the plain step.
"""

from __future__ import annotations

import dataclasses
import sys
import time
import warnings
from collections.abc import Iterator

import jax
import numpy as np

import holonax as hx
from holonax.engines import ENGINES

H, STEPS, PATHS, SEED = 2.0**-8, 100, 8, 1
LANGEVIN = [
    hx.Langevin(1.0, 1.0),
    hx.Langevin(1.0, 1.0, "OBABO", inner=2),
    hx.Langevin(1.0, 1.0, core=hx.Rattle()),
    hx.Langevin(1.0, 1.0, metropolis=True),
]


def pairs() -> Iterator[tuple[hx.Entry, hx.Method]]:
    """What is compared."""
    for name in hx.systems.names():
        entry = getattr(hx.systems, name)()
        yield from ((entry, method) for method in hx.Method.examples())
        quiet = dataclasses.replace(entry, system=dataclasses.replace(entry.system, noise=None))
        gyroscopic = np.abs(entry.system.momentum(entry.start.q, 0 * entry.start.q)).max() > 0
        yield from ((quiet, method) for method in LANGEVIN if not (method.metropolis and gyroscopic))


def plain(entry: hx.Entry, method: hx.Method) -> tuple[np.ndarray, np.ndarray]:
    """The end of the paths, by `hx.integrate`."""

    def one(path: jax.Array) -> tuple[jax.Array, jax.Array]:
        noise = hx.increments(entry.system, h=H, steps=STEPS, seed=SEED, path=path, method=method)
        done = hx.integrate(entry.system, method, entry.start, noise)
        return done.q[-1], done.p[-1]

    return jax.device_get(jax.jit(jax.vmap(one))(np.arange(PATHS)))


def main() -> None:
    """Compare, pair by pair."""
    available = [name for name, engine in ENGINES.items() if engine.missing() is None]
    chosen = sys.argv[1:] or available
    worst = dict.fromkeys(chosen, 0.0)
    print("engines:", ", ".join(chosen), flush=True)
    for entry, method in pairs():
        reference, line = plain(entry, method), []
        for engine in chosen:
            begin = time.monotonic()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run = hx.simulate(
                    entry.system,
                    method,
                    entry.start,
                    t1=STEPS * H,
                    h=H,
                    paths=PATHS,
                    seed=SEED,
                    save_every=None,
                    engine=engine,
                )
            off = max(float(np.abs(x[:, 0] - y).max()) for x, y in zip((run.q, run.p), reference, strict=True))
            worst[engine] = max(worst[engine], off)
            line.append(f"{engine} {off:.1e}{' (plain)' if caught else ''} in {time.monotonic() - begin:.1f} s")
        print(f"{entry.name}, {method}: {'; '.join(line)}", flush=True)
    print("largest difference:", ", ".join(f"{engine} {off:.1e}" for engine, off in worst.items()))


if __name__ == "__main__":
    main()
