"""What `benchmarks.large` measures, case by case: generators of numbers with notes, by their keys there.

Speeds are differences of a long run and a short one, medians of several in turn: what a call costs beside its steps is
in neither.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import holonax as hx
from benchmarks.contestants import H
from benchmarks.large_systems import dimers, regression, stiefel
from benchmarks.molecular import FRICTION, openmm_steps
from holonax.engines import runner
from holonax.sampling.target import langevin_system

Numbers = Iterator[tuple[str, float, str]]
Advance = Callable[[int], Any]  # by so many steps

MOST, ENOUGH = 256, 0.3
"""Steps of a run that is timed, and seconds after which fewer will do."""

SIGMA = 0.3
TEMPERATURE = SIGMA**2 / (2 * FRICTION)
WATER_STEP = 0.001  # ps


def seconds(run: Callable[[], Any]) -> float:
    """Of one call."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def per_step(contestants: Sequence[Advance], most: int = MOST, repetitions: int = 3) -> list[float]:
    """Seconds per step of each; as many steps as take `ENOUGH`, or the `most` that are allowed, and all in turn."""
    numbers = []
    for advance in contestants:
        advance(1)
        steps = 2
        while steps < most and seconds(partial(advance, steps)) < ENOUGH:
            steps = min(4 * steps, most)
        numbers.append(steps)
    long: list[list[float]] = [[] for _ in contestants]
    short: list[list[float]] = [[] for _ in contestants]
    for _ in range(repetitions):
        for i, advance in enumerate(contestants):
            short[i].append(seconds(partial(advance, 1)))
            long[i].append(seconds(partial(advance, numbers[i])))
    return [
        (statistics.median(one) - statistics.median(other)) / (steps - 1)
        for one, other, steps in zip(long, short, numbers, strict=True)
    ]


def holonax(system: hx.System, method: hx.Method, start: hx.State, h: float, paths: int) -> Callable[[int], hx.Run]:
    """`hx.simulate`, end states only."""

    def advance(steps: int) -> hx.Run:
        return hx.simulate(system, method, start, t1=steps * h, h=h, paths=paths, save_every=None, progress=False)

    return advance


def plain_jax(system: hx.System, method: hx.Method, start: hx.State, h: float, paths: int) -> Advance:
    """A loop over `method.step` under `vmap` and `jit`, with holonax's noise, drawn beforehand."""
    each = [hx.increments(system, h=h, steps=MOST, seed=0, path=number, method=method) for number in range(paths)]
    noise = jax.tree.map(lambda *x: jnp.stack(x), *each)

    @jax.jit
    def ends(noise: hx.Increment, steps: jax.Array) -> jax.Array:
        def path(noise: hx.Increment) -> jax.Array:
            def step(number: jax.Array, state: hx.State) -> hx.State:
                return method.step(system, state, jax.tree.map(lambda x: x[number], noise))[0]

            return lax.fori_loop(0, steps, step, hx.State(start.q, start.p, start.guess)).q

        return jax.vmap(path)(noise)

    return lambda steps: ends(noise, steps).block_until_ready()


def beside_plain_jax(*arguments: Any) -> Numbers:
    """The speed of the two above."""
    paths = arguments[-1]
    advance = holonax(*arguments)
    (ours,) = per_step([advance])
    yield "speed", 1e6 * ours / paths, f"{paths} paths, engine {advance(1).engine}"
    ours, theirs = per_step([advance, plain_jax(*arguments)])
    yield "ratio", theirs / ours, f"plain JAX: {1e6 * theirs / paths:.3g} us"


def chain(beads: int, paths: int) -> Numbers:
    """A batch of paths on one core."""
    built = seconds(lambda: hx.systems.chain(beads, SIGMA))
    entry = hx.systems.chain(beads, SIGMA)
    advance = holonax(entry.system, hx.EulerA(), entry.start, H, paths)
    yield "first", seconds(partial(advance, 1)), f"and {built:.2g} s for the entry with its start"
    yield "speed", 1e9 * per_step([advance])[0] / (paths * beads), f"{paths} paths"
    end = advance(32)
    q = end.state.q
    off = max(float(np.abs(entry.system.g(x)).max()) for x in q)
    yield "violation", off / (2 * 2**0.5 * float(np.abs(q).max())), f"engine {end.engine}; itself {off:.1e}"
    yield "memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "the largest so far"


def alone(method: hx.Method, thermal: bool, noisy: bool = False) -> Numbers:
    """One path of 1000 beads on two cores, beside OpenMM's, both from the same thermal velocities.

    In a step a bead moves by about 1 % of a rod, as atoms do in a step of molecular dynamics.
    """
    beads, h = 1000, 2.0**-6
    entry = hx.systems.chain(beads, SIGMA)
    system = entry.system if noisy else hx.System(entry.system.lagrangian, entry.system.constraint, n=entry.n)
    speeds = TEMPERATURE**0.5 * np.random.default_rng(0).normal(size=entry.n)
    start = hx.start(system, entry.start.q, speeds, project=True)
    advance = holonax(system, method, start, h, 1)
    (ours,) = per_step([advance])
    end = advance(MOST)
    yield "speed", 1e9 * ours / beads, f"engine {end.engine}"
    yield "bonds", bond_error(end.state.q), f"after {MOST} steps"
    begin = np.asarray(start.q), np.asarray(start.v), SIGMA
    options: dict[str, Any] = {"h": h, "paths": 1, "thermal": thermal}
    rival = openmm_steps(*begin, platform="CPU", tolerance=1e-5, threads=2, **options)
    ours, theirs = per_step([advance, rival])
    yield "ratio", theirs / ours, "in turn"
    yield "rival", 1e9 * theirs / beads, "2 threads"
    yield "rival bonds", bond_error(rival(MOST)), f"after {MOST} steps; default tolerance, 1e-5"
    exact = openmm_steps(*begin, platform="Reference", tolerance=1e-12, **options)
    yield "exact", 1e9 * per_step([exact])[0] / beads, f"1 thread; bonds off by {bond_error(exact(MOST)):.1e}"


def shared(entry: hx.Entry, method: hx.Method, h: float, unit: float) -> Numbers:
    """One path on all cores, and beside that by one thread of its engine; the speed in such units of a second."""
    advance = holonax(entry.system, method, entry.start, h, 1)
    yield "first", seconds(partial(advance, 1)), ""
    made = runner("auto", entry.system.form, method, entry.n, "float64")
    begin = hx.State(*(np.asarray(x)[None] for x in (entry.start.q, entry.start.p, entry.start.guess)))

    def by(chunks: int) -> Advance:
        own = made.beside(chunks)
        return lambda steps: own.advance(own.begin(begin, {}), range(1), 0, h, 0, steps, steps)

    one, several = per_step([by(made.workers), by(1)], repetitions=9)
    yield "speed", several / unit, advance(2).reason
    yield "ratio", one / several, "in turn"


def bond_error(q: Any) -> float:
    """The largest difference of a bond from 1, of positions (paths, n) of chains."""
    places = np.asarray(q).reshape(len(q), -1, 3)
    links = np.diff(places, axis=1, prepend=np.zeros((len(q), 1, 3)))
    return float(np.abs(np.linalg.norm(links, axis=2) - 1.0).max())


def water() -> Numbers:
    """64 molecules, all pairs; a path of 1 ps for the energy."""
    entry, method, paths = hx.systems.water(64), hx.Rattle(), 8
    system, start = entry.system, entry.start
    arguments = system, method, start, WATER_STEP, paths
    yield "first", seconds(partial(holonax(*arguments), 1)), ""
    yield from beside_plain_jax(*arguments)
    run = hx.simulate(system, method, start, t1=1.0, h=WATER_STEP, save_every=20, progress=False)
    energies, masses = jax.vmap(system.energy)(run.q[0], run.p[0]), np.asarray(start.p) / np.asarray(start.v)
    kinetic = float(np.mean(np.sum(run.p[0] ** 2 / masses, axis=1)) / 2)
    yield "violation", float(np.abs(jax.vmap(system.g)(run.q[0])).max()), ""
    spread = f"kinetic energy {kinetic:.0f} kJ/mol; deviations up to {np.ptp(np.asarray(energies)):.2g}"
    yield "drift", abs(np.polyfit(run.t, energies, 1)[0]) / kinetic, spread


def first_call(entry: hx.Entry, method: hx.Method) -> Numbers:
    """Of one path, one step."""
    advance = holonax(entry.system, method, entry.start, H, 1)
    yield "first", seconds(partial(advance, 1)), f"engine {advance(1).engine}"


def sampled(data: int, chains: int = 32) -> Numbers:
    """`hx.sample` with a short warm-up; then its steps alone, at the size that it found."""
    log_density, constraint, q0 = regression(data)
    options: dict[str, Any] = {"measure": "delta", "chains": chains, "progress": False}
    begin = time.perf_counter()
    samples = hx.sample(log_density, constraint, q0, draws=1, warmup=100, **options)
    yield (
        "first",
        time.perf_counter() - begin,
        f"{chains} chains, 100 steps of warm-up, step size {samples.step_size:.2g}",
    )
    system = langevin_system(log_density, constraint, len(q0), None, "delta")
    method = hx.Langevin(1.0, 1.0, metropolis=True)
    yield from beside_plain_jax(system, method, hx.start(system, q0), samples.step_size, chains)


def dense(entry: hx.Entry, method: hx.Method) -> Numbers:
    """A batch of paths on one core."""
    arguments = entry.system, method, entry.start, H, 256
    yield "first", seconds(partial(holonax(*arguments), 1)), ""
    yield from beside_plain_jax(*arguments)


MEASURED: dict[str, Callable[[], Numbers]] = {
    "chain-64": partial(chain, 64, 1024),
    "chain-1000": partial(chain, 1000, 8),
    "chain-10000": partial(chain, 10_000, 8),
    "alone-euler": partial(alone, hx.EulerA(), thermal=False, noisy=True),
    "alone-rattle": partial(alone, hx.Rattle(), thermal=False),
    "alone-langevin": partial(alone, hx.Langevin(FRICTION, TEMPERATURE), thermal=True),
    "alone-10000": lambda: shared(hx.systems.chain(10_000, SIGMA), hx.EulerA(), H, 1e-9 * 10_000),
    "alone-water": lambda: shared(hx.systems.water(125), hx.Rattle(), WATER_STEP, 1e-6),
    "water": water,
    "dimers": lambda: first_call(dimers(), hx.EulerA()),
    "regression-20": partial(sampled, 20),
    "regression-60": partial(sampled, 60),
    "stiefel": lambda: dense(stiefel(20, 5), hx.EulerA()),
}
