"""`python -m benchmarks.sampling [--quick]`: effective samples per second beside mici, on all cores.

The target is the one of mici's README (version 0.4.1, "Example: sampling on a torus"): the torus with radii 1 and 1/2
in three dimensions and, with respect to its area, the density (1 + 0.9 sin 4 theta cos phi)/(1 + cos(phi)/2), theta
around the axis and phi around the tube.  In the two angles it is proportional to 1 + 0.9 sin 4 theta cos phi, so that
rho = sqrt(x^2 + y^2) has mean 1 and sin 4 theta cos phi has mean 0.9/4.  The numbers of chains, of warm-up iterations
and of iterations, the system, the integrator, the sampler and the adaptation of its step size are those of the README
too; derivatives are written by hand, in plain Python floats, the fastest that mici can be given for three coordinates.

Every contestant has processes of its own, and they take turns.  Effective samples: ArviZ's bulk estimate, the smallest
over x, y, z, z^2, rho and sin 4 theta cos phi; of many chains, that of an even selection times their number over its.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.measure import REPETITIONS, schedulable_cores

BIG, SMALL, WAVES = 1.0, 0.5, 0.9  # radii, amplitude of the density
EXACT = {"rho": BIG, "sin 4 theta cos phi": WAVES / 4}
CHAINS, WARM_UP, DRAWS = 4, 500, 2000  # in mici's README
STEP = 0.05  # of the integrators alone: no path is too fast for it
QUICK = 8  # how many times shorter quick runs are
COUNTED = 64  # chains of which ArviZ estimates effective samples
CORES = len(schedulable_cores())
HEADER = (
    "| | effective samples/s | ratio | with warm-up | steps/s | ratio | largest \\|g\\| | compiled in | |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
)


@dataclass(frozen=True)
class Row:
    """One line of a table; ratios are to the first line of its case, and integrators alone have no samples."""

    case: str
    who: str
    effective_per_second: float | None
    ratio: float | None
    effective_with_warm_up: float | None  # per second of warm-up and sampling together
    steps_per_second: float
    steps_ratio: float
    violation: float  # largest |g(q)| of all draws
    compile_seconds: float  # of a first, short run
    note: str = ""


@dataclass(frozen=True)
class Done:
    """One run of a contestant.

    Attributes:
        q: draws, shape (chains, draws, 3), or where an integrator ended, shape (paths, 3).
        steps: of the integrator, of all chains together.
        seconds: what they took.
        warm_up_seconds: what came before, adaptation of the step size.
        note: what a reader should know.
    """

    q: np.ndarray
    steps: int
    seconds: float
    warm_up_seconds: float = 0.0
    note: str = ""


# The torus.


def starts(count: int, seed: int) -> np.ndarray:
    """Points with uniform angles, shape (count, 3)."""
    theta, phi = np.random.default_rng(seed).uniform(0.0, 2 * np.pi, (2, count))
    rho = BIG + SMALL * np.cos(phi)
    return np.stack([rho * np.cos(theta), rho * np.sin(theta), SMALL * np.sin(phi)], axis=-1)


def features(q: np.ndarray) -> dict[str, np.ndarray]:
    """What samples are judged by."""
    x, y, z = np.moveaxis(q, -1, 0)
    rho = np.hypot(x, y)
    waves = 4 * x * y * (x**2 - y**2) / rho**4 * (rho - BIG) / SMALL
    return {"x": x, "y": y, "z": z, "z^2": z**2, "rho": rho, "sin 4 theta cos phi": waves}


def violation(q: np.ndarray) -> float:
    """Largest |g|."""
    return float(np.max(np.abs((np.hypot(q[..., 0], q[..., 1]) - BIG) ** 2 + q[..., 2] ** 2 - SMALL**2)))


# mici.  On the torus cos phi = (rho - 1)/(1/2): the arctangents of the README are not needed.


def constraint(q: np.ndarray) -> np.ndarray:
    """g(q)."""
    x, y, z = q.tolist()
    return np.array([(math.hypot(x, y) - BIG) ** 2 + z * z - SMALL**2])


def constraint_and_slope(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """g'(q) and g(q)."""
    x, y, z = q.tolist()
    rho = math.hypot(x, y)
    off = rho - BIG
    outwards = 2 * off / rho
    return np.array([[outwards * x, outwards * y, 2 * z]]), np.array([off * off + z * z - SMALL**2])


def potential(q: np.ndarray) -> float:
    """-log of the density."""
    return potential_and_slope(q)[1]


def potential_and_slope(q: np.ndarray) -> tuple[np.ndarray, float]:
    """Gradient of -log of the density, and that itself."""
    x, y, _ = q.tolist()
    square = x * x + y * y
    rho = math.sqrt(square)
    cosine, sine = (rho - BIG) / SMALL, 4 * x * y * (x * x - y * y) / (square * square)
    density = 1.0 + WAVES * sine * cosine
    outwards = 1.0 / square - WAVES * sine / (density * SMALL * rho)
    around = -4 * WAVES * cosine * (1.0 - 8 * x * x * y * y / (square * square)) / (density * square)
    return np.array([outwards * x - around * y, outwards * y + around * x, 0.0]), math.log(rho / density)


def check_slopes() -> None:
    """Compare the derivatives by hand with difference quotients: wrong ones would only make mici slow."""
    for q in starts(8, 0):
        ends = [(q + 1e-6 * way, q - 1e-6 * way) for way in np.eye(3)]
        for value, slope in ((potential, potential_and_slope), (constraint, constraint_and_slope)):
            quotients = [np.squeeze(value(a) - value(b)) / 2e-6 for a, b in ends]
            np.testing.assert_allclose(np.squeeze(slope(q)[0]), quotients, rtol=0, atol=1e-6)


def position(state: Any) -> dict[str, np.ndarray]:
    """What mici keeps of a state."""
    return {"q": state.pos}


def _mici_system() -> Any:
    import mici

    slopes = {"grad_neg_log_dens": potential_and_slope, "jacob_constr": constraint_and_slope}
    return mici.systems.DenseConstrainedEuclideanMetricSystem(potential, constraint, **slopes)


def mici_samples(seed: int, warm_up: int, draws: int, sampler: str = "DynamicMultinomialHMC", **options: Any) -> Done:
    """Warm up and sample, in processes of mici's own, one per core."""
    import mici

    system = _mici_system()
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(system)
    chain = getattr(mici.samplers, sampler)(system, integrator, np.random.default_rng(seed), **options)
    how = {"n_worker": CORES, "trace_funcs": [position], "display_progress": False}
    begin = time.perf_counter()
    states, _, _ = chain.sample_chains(warm_up, 0, list(starts(CHAINS, seed)), **how)
    middle = time.perf_counter()
    _, traces, about = chain.sample_chains(0, draws, states, **how)
    end = time.perf_counter()
    steps = int(np.sum(about["n_step"]))
    acceptance = np.mean(about["accept_stat"])
    note = f"{CHAINS} chains of {draws}, step {integrator.step_size:.2f}, acceptance {acceptance:.2f}"
    return Done(np.stack(traces["q"]), steps, end - middle, middle - begin, note)


def mici_steps(seed: int, steps: int) -> Done:
    """The integrator in a loop of Python, a path per core."""
    with multiprocessing.Pool(CORES) as pool:
        loops = pool.starmap(_mici_loop, [(CORES * seed + number, steps) for number in range(CORES)])
    seconds = max(loop.seconds for loop in loops)
    note = f"{CORES} paths of {steps} steps; checks that every step can be reversed"
    return Done(np.concatenate([loop.q for loop in loops]), CORES * steps, seconds, note=note)


def _mici_loop(seed: int, steps: int) -> Done:
    import mici

    system = _mici_system()
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(system, STEP)
    state = mici.states.ChainState(pos=starts(1, seed)[0], mom=None, dir=1)
    state.mom = system.sample_momentum(state, np.random.default_rng(seed))
    begin = time.perf_counter()
    for _ in range(steps):
        state = integrator.step(state)
    return Done(state.pos[None], steps, time.perf_counter() - begin)


# holonax.


@cache
def _holonax_target() -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    import jax.numpy as jnp

    def log_density(q: Any) -> Any:
        x, y, _ = q
        square = x**2 + y**2
        rho = jnp.sqrt(square)
        sine, cosine = 4 * x * y * (x**2 - y**2) / square**2, (rho - BIG) / SMALL
        return jnp.log((1.0 + WAVES * sine * cosine) / rho)

    def torus(q: Any) -> Any:
        return (jnp.sqrt(q[0] ** 2 + q[1] ** 2) - BIG) ** 2 + q[2] ** 2 - SMALL**2

    return log_density, torus


def holonax_samples(seed: int, warm_up: int, draws: int, chains: int, thin: int) -> Done:
    """`hx.sample` for the warm-up, and again from where it ended, with the step size it found."""
    import holonax as hx

    how = {"thin": thin, "seed": 2 * seed, "progress": False}
    begin = time.perf_counter()
    warm = hx.sample(*_holonax_target(), starts(chains, seed), draws=1, warmup=warm_up, **how)
    middle = time.perf_counter()
    how |= {"seed": 2 * seed + 1, "step_size": warm.step_size, "warmup": 0}
    done = hx.sample(*_holonax_target(), warm.q[:, -1], draws=draws, **how)
    end = time.perf_counter()
    note = f"{chains} chains of {draws}, every {thin} steps, step {float(done.step_size):.2f}"
    note += f", acceptance {float(np.mean(done.acceptance)):.2f}"
    return Done(np.asarray(done.q), chains * draws * thin, end - middle, middle - begin, note)


@cache
def _holonax_system() -> Any:
    import holonax as hx

    log_density, torus = _holonax_target()
    return hx.System(lambda q, v: 0.5 * v @ v + log_density(q), constraint=torus, n=3)


def holonax_steps(seed: int, paths: int, steps: int) -> Done:
    """RATTLE in `hx.simulate`, without noise."""
    import holonax as hx

    system, q = _holonax_system(), starts(paths, seed)
    normal = np.stack([constraint_and_slope(point)[0][0] for point in q]) / (2 * SMALL)
    v = np.random.default_rng(seed).standard_normal(q.shape)
    v -= np.sum(normal * v, axis=1, keepdims=True) * normal
    start = hx.start(system, q=q, v=v)
    begin = time.perf_counter()
    done = hx.simulate(system, hx.Rattle(), start, t1=steps * STEP, h=STEP, save_every=None, progress=False)
    seconds = time.perf_counter() - begin
    return Done(done.q[:, -1], paths * steps, seconds, note=f"{paths} paths of {steps} steps")


# Judging and telling.


def effective(q: np.ndarray) -> float:
    """Effective samples of the feature that has the fewest."""
    import arviz_stats

    counted = q[:: max(len(q) // COUNTED, 1)]
    return min(float(arviz_stats.ess(feature)) for feature in features(counted).values()) * len(q) / len(counted)


def means(runs: Sequence[Done]) -> str:
    """The means that are known, with standard errors from the means of the chains."""
    parts = []
    for name, exact in EXACT.items():
        chains = np.concatenate([features(run.q)[name].mean(axis=1) for run in runs])
        error = chains.std(ddof=1) / len(chains) ** 0.5
        parts.append(f"mean of {name} {chains.mean():.5f} ± {error:.5f} (exact {exact:g})")
    return ", ".join(parts)


def summary(case: str, who: str, runs: Sequence[Done], compiling: float, first: Row | None) -> Row:
    """Medians over the repetitions."""
    steps = statistics.median(run.steps / run.seconds for run in runs)
    common = {
        "steps_per_second": steps,
        "steps_ratio": steps / first.steps_per_second if first else 1.0,
        "violation": max(violation(run.q) for run in runs),
        "compile_seconds": compiling,
    }
    if runs[0].q.ndim == 2:
        return Row(case, who, None, None, None, **common, note=runs[-1].note)
    counts = [(effective(run.q), run.seconds, run.seconds + run.warm_up_seconds) for run in runs]
    alone, whole = (statistics.median(count[0] / count[i] for count in counts) for i in (1, 2))
    ratio = alone / first.effective_per_second if first else 1.0
    return Row(case, who, alone, ratio, whole, **common, note=f"{runs[-1].note}; {means(runs)}")


def line(row: Row) -> str:
    """A row in markdown."""
    samples = " | | "
    if row.effective_per_second is not None:
        samples = f"{row.effective_per_second:.3g} | {row.ratio:.3g} | {row.effective_with_warm_up:.3g}"
    steps = f"{row.steps_per_second:.2e} | {row.steps_ratio:.3g} | {row.violation:.0e} | {row.compile_seconds:.2f} s"
    return f"| {row.who} | {samples} | {steps} | {row.note} |"


def contestants(quick: bool) -> dict[str, dict[str, Callable[[int], Done]]]:
    """By case and name: functions that run once, with a seed."""
    part = QUICK if quick else 1
    readme = {"warm_up": WARM_UP // part, "draws": DRAWS // part}
    by_hand = {"warm_up": WARM_UP // part, "draws": 500 // part, "sampler": "RandomMetropolisHMC"}
    ours = {"warm_up": 1000 // part, "draws": 256 // part, "chains": 4096, "thin": 32}
    return {
        f"torus, samplers, {CORES} cores": {
            "mici, DynamicMultinomialHMC, as in its README": partial(mici_samples, **readme),
            "mici, RandomMetropolisHMC, 5 to 15 steps": partial(mici_samples, **by_hand, n_step_range=(5, 15)),
            "holonax, hx.sample": partial(holonax_samples, **ours),
        },
        f"torus, integrators alone, h = {STEP}, {CORES} cores": {
            "mici, ConstrainedLeapfrogIntegrator": partial(mici_steps, steps=4000 // part),
            "holonax, Rattle": partial(holonax_steps, paths=2**14, steps=1024 // part),
        },
    }


def main() -> None:
    """Run everybody in turn, print and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description="holonax beside mici.")
    parser.add_argument("--quick", action="store_true", help="shorter runs, for a look; writes nothing")
    parser.add_argument("--only", default="", help="those whose name contains this")
    arguments = parser.parse_args()
    if not (find_spec("mici") and find_spec("arviz_stats")):
        parser.error("needs the extra [bench]")

    check_slopes()
    cases, short = contestants(arguments.quick), contestants(quick=True)
    everybody = [(case, who) for case in cases for who in cases[case] if arguments.only in who]
    runs: dict[tuple[str, str], list[Done]] = {key: [] for key in everybody}
    compiling = dict.fromkeys(everybody, 0.0)
    spawn = multiprocessing.get_context("spawn")  # mici forks, which JAX cannot bear: to each a process of its own
    with ProcessPoolExecutor(1, spawn) as mici, ProcessPoolExecutor(1, spawn) as holonax:
        for case, who in everybody:
            if who.startswith("holonax"):
                done = holonax.submit(short[case][who], 0).result()
                compiling[case, who] = done.seconds + done.warm_up_seconds
        for seed in range(1 if arguments.quick else REPETITIONS):
            for case, who in everybody:
                home = holonax if who.startswith("holonax") else mici
                runs[case, who].append(home.submit(cases[case][who], seed).result())

    rows: list[Row] = []
    for (case, who), done in runs.items():
        first = next((other for other in rows if other.case == case), None)
        rows.append(summary(case, who, done, compiling[case, who], first))
    table = partial(report.markdown, header=HEADER, line=line)
    print(table(rows))
    if not (arguments.quick or arguments.only):
        print("written:", report.write("sampling", rows, "Effective samples per second beside mici", table))


if __name__ == "__main__":
    main()
