"""The paper's experiment: the stochastically perturbed spherical pendulum, with every method.

First what each method keeps and costs, then the strong and the weak error of five of them, as the paper's two figures
show them for one, then which method to use for a wanted error.  Run by `make demo`; writes into out/demo/.
"""

import time
from pathlib import Path

import numpy as np

import holonax as hx
from holonax.cli.results import write_studies
from holonax.studies import weak_orders
from holonax.studies.figures import convergence_figure, methods_figure

OUT = Path("out/demo")
METHODS = (hx.EulerA(), hx.EulerPrinted(), hx.Rattle(), hx.Kicked(), hx.Lobatto32())
STRONG = {"t1": 1.0, "h": [2.0**-k for k in range(5, 10)], "paths": 512, "seed": 0}
WEAK = {"t1": 1.0, "h": [2.0**-k for k in range(3, 7)], "paths": 8192, "seed": 0}
WANTED = 1e-4
OBSERVABLES = {
    "q_z": lambda q, p: q[2],
    "q_x^2": lambda q, p: q[0] ** 2,
    "p_y": lambda q, p: p[1],
    "H": lambda q, p: 0.5 * p @ p + q[2],
}


def structure(entry: hx.Entry) -> None:
    """Constraints, energy and time of every method."""
    steps, end, paths = 64, 5.0, 32
    energy = hx.Mean(lambda q, p: 0.5 * p @ p + q[2])
    print(f"What each method keeps: {paths} paths to t = {end:g} in steps of 1/{steps}, the same noise for all")
    print(f"{'method':<38} {'|g(q)|':>9} {'|g_q v|':>9} {'E H':>8} {'+-':>6} {'time':>8} {'compile':>8}")
    for method in hx.Method.examples():
        seconds = []
        for _ in range(2):  # the first call compiles
            begin = time.perf_counter()
            run = hx.simulate(
                entry.system, method, entry.start, t1=end, h=1 / steps, paths=paths, save_every=8, observe={"H": energy}
            )
            seconds.append(time.perf_counter() - begin)
        g = np.abs(np.sum(run.q**2, axis=-1) - 1.0).max()
        hidden = np.abs(2.0 * np.sum(run.q * run.p, axis=-1)).max()
        H = run.observed["H"]
        print(
            f"{method!s:<38} {g:9.1e} {hidden:9.1e} {H.mean[-1]:8.3f} {H.stderr[-1]:6.3f} "
            f"{seconds[1]:6.2f} s {seconds[0] - seconds[1]:6.1f} s",
            flush=True,
        )


def orders(studies: list[hx.Study], quantities: tuple[str, ...]) -> None:
    """Measured orders with intervals."""
    for study in studies:
        parts = []
        for name in quantities:
            low, high = study[name].interval
            text = f"{study[name].order:.2f} [{low:.2f}, {high:.2f}]" if np.isfinite(study[name].order) else "noise"
            parts.append(f"{name} {text}")
        print(f"{study.method:<30} declared {study.declared:<4g} " + "   ".join(parts))


def erratum_3() -> hx.Study:
    """RATTLE with the obvious weights, from step sizes where it looks like order 2 down to where it is of order 1."""
    weighted = hx.VPRK(hx.Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], kappa=[1, -1]))
    entry = hx.systems.pendulum(sigma=0.5)
    h = [2.0**-k for k in range(2, 10)]
    return hx.strong_order(entry.system, weighted, entry.start, t1=1.0, h=h, paths=256, refine=8)


def main() -> None:
    """Everything, in a few minutes on two cores."""
    begin = time.perf_counter()
    entry = hx.systems.pendulum()
    structure(entry)

    work = hx.work_precision(entry.system, METHODS, entry.start, **STRONG)
    strong = list(work.studies)
    print("\nStrong order at t = 1, h = 2^-5 .. 2^-9, 512 paths (95 % intervals)")
    orders(strong, ("q", "p"))

    weak = weak_orders(entry.system, METHODS, entry.start, observables=OBSERVABLES, **WEAK)
    print("\nWeak order at t = 1, h = 2^-3 .. 2^-6, 8192 paths (95 % intervals)")
    orders(weak, tuple(OBSERVABLES))

    print(f"\n{work.table()}")
    ratio = work.times_cheaper(hx.Kicked(), hx.EulerA(), WANTED)
    print(f"for a strong error of {WANTED:g} in q, Kicked needs {ratio:.0f} times less time than EulerA")

    erratum = erratum_3()
    print("\nErratum E3: RATTLE with kappa = (1, -1) looks like order 2 at large h, and is of order 1 (sigma = 0.5)")
    print("local slopes in p: " + ", ".join(f"{slope:.2f}" for slope in erratum["p"].slopes))

    figures = {
        "erratum_3": convergence_figure([erratum]),
        "strong_error": convergence_figure(strong[:1]),
        "weak_error": convergence_figure(weak[:1]),
        "strong_methods": methods_figure(strong, "q", (1.0, 1.5)),
        "weak_methods": methods_figure(weak, "H", (1.0, 2.0)),
        "work_precision": work.plot(),
    }
    specification = {"system": "pendulum", "strong": STRONG, "weak": WEAK, "times_cheaper_at_1e-4": ratio}
    page = write_studies(
        OUT, "The stochastically perturbed spherical pendulum", [*strong, *weak], figures, specification
    )
    print(f"\nfigures, numbers and {page} written in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
