"""Bead-rod molecules: the figures and tables of docs/tutorials.

A rigid trimer beside one with springs, a polymer chain, and the free energy of the trimer's length.  Run as
`python -m examples.polymers`; takes about three minutes on two cores, nearly all of it compilation, and writes its
figures into out/polymers/.
"""

import time
from itertools import product
from math import comb, factorial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import holonax as hx

OUT = Path("out/polymers")
STIFFNESS = 300.0
BEADS = 6
LENGTHS = np.linspace(0.4, 1.9, 11)


def bonds(q: Any) -> Any:
    """Vectors from bead to bead."""
    return jnp.diff(q.reshape(-1, 3), axis=0)


def rods(q: Any) -> Any:
    """All bonds have length 1."""
    return jnp.sum(bonds(q) ** 2, axis=1) - 1.0


def cosines(q: Any) -> Any:
    """Between neighbouring bonds."""
    u = bonds(q)
    u = u / jnp.sqrt(jnp.sum(u**2, axis=1, keepdims=True))
    return jnp.sum(u[1:] * u[:-1], axis=1)


def histogram(values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middles of the bins, density and its standard error from a histogram over time, the paths being independent."""
    density = values.density
    return (values.edges[1:] + values.edges[:-1]) / 2, density.mean(axis=0), density.std(axis=0) / len(density) ** 0.5


# A trimer: rigid bonds, stiff bonds, and the potential that makes up the difference.


def trimer() -> Figure:
    """The angle between two bonds that are rigid or only stiff."""
    T = 0.7
    q = [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    edges = np.linspace(-1, 1, 17)

    def fixman(q: Any) -> Any:
        G = jax.jacfwd(rods)(q)
        (a, b), (_, d) = G @ G.T
        return 0.5 * T * jnp.log(a * d - b**2)

    def springs(q: Any) -> Any:
        return 0.5 * STIFFNESS * jnp.sum((jnp.sqrt(jnp.sum(bonds(q) ** 2, axis=1)) - 1.0) ** 2)

    systems = {
        "rigid": (hx.System(lambda q, v: 0.5 * v @ v, rods, n=9), 0.1),
        "rigid, with Fixman's potential": (hx.System(lambda q, v: 0.5 * v @ v - fixman(q), rods, n=9), 0.1),
        f"springs of stiffness {STIFFNESS:g}": (hx.System(lambda q, v: 0.5 * v @ v - springs(q), n=9), 0.01),
    }
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axis = figure.subplots()
    print(
        f"Trimer: mean of cos^2 (exactly: rigid {(4 * np.pi - 3 * 3**0.5) / (4 * np.pi + 6 * 3**0.5):.6f}, stiff 1/3)"
    )
    for (name, (system, h)), marker in zip(systems.items(), "os^", strict=True):
        every = round(0.1 / h)
        options = {"every": every, "after": 100 * every}
        observe = {
            "square": hx.Mean(lambda q, p: cosines(q)[0] ** 2, over="all", **options),
            "cosine": hx.Histogram(lambda q, p: cosines(q)[0], edges, over="time", **options),
        }
        start = hx.start(system, q=q)
        run = hx.simulate(
            system, hx.Langevin(1.0, T), start, t1=500.0, h=h, paths=4000, save_every=None, observe=observe
        )
        square = run.observed["square"]
        print(f"  {name:<32} {square.mean:.5f} +- {square.stderr:.5f}", flush=True)
        middle, density, error = histogram(run.observed["cosine"])
        shift = {"o": 0.0, "s": -0.012, "^": 0.012}[marker]
        axis.errorbar(middle + shift, density, error, fmt=marker, markersize=4, capsize=2, label=name)
    samples = hx.sample(lambda q: 0.0, rods, q, measure="delta", chains=4000, draws=50, thin=20, warmup=400)
    squares = np.asarray(jax.jit(jax.vmap(jax.vmap(cosines)))(samples.q))[..., 0].T ** 2
    means = squares.mean(axis=0)
    print(f"  {'hx.sample(measure=delta)':<32} {means.mean():.5f} +- {means.std() / len(means) ** 0.5:.5f}")
    c = np.linspace(-1, 1, 201)
    axis.plot(c, np.sqrt(4 - c**2) / (3**0.5 + 2 * np.pi / 3), "k-", linewidth=1, label=r"$\propto\sqrt{4 - c^2}$")
    axis.plot(c, np.full_like(c, 0.5), "k--", linewidth=1, label="uniform")
    axis.set(xlabel="c, cosine of the angle between the bonds", ylabel="probability density", ylim=(0.44, 0.54))
    axis.grid(visible=True, alpha=0.25)
    axis.legend(fontsize=8, loc="lower center")
    return figure


# A chain.


def rigid_moments(count: int, nodes: int = 8) -> tuple[np.ndarray, float]:
    """Of a chain of `count` rods: the means of cos^2 at the joints and of R^4, by quadrature over the cosines."""
    c, weight = np.polynomial.legendre.leggauss(nodes)
    squares = np.array(list(product(((c + 1) / 2) ** 2, repeat=count - 1)))  # all is even in every cosine
    w = np.array(list(product(weight, repeat=count - 1))).prod(axis=1)
    before, determinant = np.ones(len(w)), np.full(len(w), 2.0)
    for square in squares.T:
        before, determinant = determinant, 2 * determinant - square * before
    w *= np.sqrt(determinant)
    w /= w.sum()
    legendre = 1.5 * squares - 0.5  # of order 2; multiplied along the chain, since the dihedral angles are free
    pairs = [w @ legendre[:, i:j].prod(axis=1) for i in range(count) for j in range(i + 1, count)]
    return w @ squares, count**2 + 4 * sum((1 + 2 * pair) / 3 for pair in pairs)


def freely_jointed(R: np.ndarray, count: int) -> np.ndarray:
    """Density of the distance of the ends of `count` independent bonds of length 1 (Treloar)."""
    terms = [
        (-1) ** k * comb(count, k) * np.maximum(count - 2 * k - R, 0) ** (count - 2) for k in range((count + 1) // 2)
    ]
    return R * sum(terms) / (2 ** (count - 1) * factorial(count - 2))


def chain() -> Figure:
    """Equipartition, the distance of the ends, the angles, and how long the chain remembers."""
    n, rods_in_it = 3 * BEADS, BEADS - 1
    degrees = n - rods_in_it
    system = hx.System(lambda q, v: 0.5 * v @ v, rods, n=n)
    zigzag = np.cumsum(np.tile([[0.8, 0.6, 0.0], [0.8, -0.6, 0.0]], (BEADS, 1))[:BEADS], axis=0)
    start = hx.start(system, q=zigzag.ravel())

    def ends(q: Any) -> Any:
        return q[-3:] - q[:3]

    def run(friction: float, h: float, t1: float, observe: Any, **options: Any) -> hx.Run:
        return hx.simulate(
            system, hx.Langevin(friction, 1.0), start, t1=t1, h=h, save_every=None, observe=observe, **options
        )

    squares, fourth = rigid_moments(rods_in_it)
    independent = rods_in_it**2 + 2 * rods_in_it * (rods_in_it - 1) / 3
    print(f"\nChain of {BEADS} beads: mean R^4 exactly {fourth:.3f}, {independent:.3f} if the bonds were independent")
    seen = {"after": 400, "every": 10}
    result = run(
        1.0,
        0.05,
        1020.0,
        {
            "kinetic": hx.Histogram(lambda q, p: p @ p, np.linspace(0, 36, 25), over="time", **seen),
            "distance": hx.Histogram(
                lambda q, p: jnp.sqrt(ends(q) @ ends(q)), np.linspace(0, rods_in_it, 26), over="time", **seen
            ),
            "powers": hx.Mean(lambda q, p: (ends(q) @ ends(q)) ** jnp.array([1, 2]), over="all", **seen),
            "squares": hx.Mean(lambda q, p: cosines(q) ** 2, over="all", **seen),
        },
        paths=2048,
    ).observed
    powers, found = result["powers"], result["squares"]
    print(f"  R^2 {powers.mean[0]:.4f} +- {powers.stderr[0]:.4f}, R^4 {powers.mean[1]:.3f} +- {powers.stderr[1]:.3f}")
    print("  cos^2 " + ", ".join(f"{x:.5f} +- {e:.5f}" for x, e in zip(found.mean, found.stderr, strict=True)))
    print("  exact " + ", ".join(f"{x:.5f}" for x in squares))

    print("  step size: share of paths that failed by t = 220, means of 2K/T, cos^2 and R^2 of those that did not")
    for h in (0.05, 0.1, 0.2, 0.25, 0.4):
        seen = {"over": "time", "every": 2, "after": round(20 / h)}
        observe = {
            "kinetic": hx.Mean(lambda q, p: p @ p, **seen),
            "squares": hx.Mean(lambda q, p: jnp.mean(cosines(q) ** 2), **seen),
            "length": hx.Mean(lambda q, p: ends(q) @ ends(q), **seen),
        }
        tried = run(1.0, h, 220.0, observe, paths=4096, on_failure="mark")
        fine = tried.status == 0
        text = f"    {h:<5g} {1 - fine.mean():7.2%}"
        if fine.sum() > 100:
            for name in observe:
                means = tried.observed[name].mean[fine]
                text += f"   {means.mean():.4f} +- {means.std() / len(means) ** 0.5:.4f}"
        print(text, flush=True)
    print(f"    exact           {degrees}                 {squares.mean():.4f}             {rods_in_it}")

    print("  friction: integrated time of R and of R^2")
    memories = {}
    for friction in (0.1, 0.3, 1.0, 3.0, 10.0):
        observe = {
            "vector": hx.Autocorrelation(lambda q, p: ends(q), 240, every=5, after=200),
            "square": hx.Autocorrelation(lambda q, p: ends(q) @ ends(q), 120, every=5, after=200),
        }
        memories[friction] = run(friction, 0.1, 520.0, observe, paths=256).observed
        vector, square = (memories[friction][name].integrated_time.mean() for name in observe)
        print(f"    {friction:<5g} {vector:6.2f} {square:6.2f}", flush=True)

    speed = []
    for observe in (None, {"squares": hx.Mean(lambda q, p: cosines(q) ** 2, over="all", every=10)}):
        for _ in range(2):  # the first call compiles
            begin = time.perf_counter()
            run(1.0, 0.1, 200.0, observe, paths=4096)
            seconds = time.perf_counter() - begin
        speed.append(4096 * 2000 / seconds)
    print(f"  path-steps per second: {speed[0]:.2g}, with an observable at every tenth step {speed[1]:.2g}")

    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    style = {"fmt": "o", "markersize": 4, "capsize": 2}
    middle, density, error = histogram(result["kinetic"])
    x = np.linspace(0, 36, 300)
    axes[0].errorbar(middle, density, error, **style, label="simulation")
    axes[0].plot(x, stats.chi2.pdf(x, degrees), "k-", linewidth=1, label=rf"$\chi^2$ with {n} - {rods_in_it} degrees")
    axes[0].set(xlabel="2 K / T", ylabel="probability density")
    middle, density, error = histogram(result["distance"])
    x = np.linspace(0, rods_in_it, 300)
    axes[1].errorbar(middle, density, error, **style, label="simulation")
    axes[1].plot(x, freely_jointed(x, rods_in_it), "k-", linewidth=1, label="independent bonds")
    axes[1].set(xlabel="distance R of the ends", ylabel="probability density")
    joints = np.arange(1, rods_in_it)
    axes[2].errorbar(joints, found.mean, found.stderr, **style, label="simulation")
    axes[2].plot(joints, squares, "k_", markersize=18, label="rigid, exact")
    axes[2].axhline(1 / 3, color="k", linestyle="--", linewidth=1, label="independent bonds")
    axes[2].set(xlabel="joint", ylabel=r"$\langle c^2 \rangle$", xticks=joints)
    for friction in (0.1, 1.0, 10.0):
        memory = memories[friction]["vector"]
        axes[3].plot(memory.t, memory.autocorrelation.mean(axis=1), ".-", markersize=3, label=f"friction {friction:g}")
    axes[3].set(xlabel="time", ylabel="autocorrelation of the end-to-end vector", xlim=(0, 60))
    for axis in axes:
        axis.grid(visible=True, alpha=0.25)
        axis.legend(fontsize=8)
    return figure


# The free energy of the length of the trimer.


def simpson(values: np.ndarray, errors: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Integral up to every second point, and its standard error."""
    weights = np.zeros((len(values) // 2 + 1, len(values)))
    for row in range(1, len(weights)):
        weights[row] = weights[row - 1]
        weights[row, 2 * row - 2 : 2 * row + 1] += step / 3 * np.array([1, 4, 1])
    return weights @ values, np.sqrt(weights**2 @ errors**2)


def free_energy() -> Figure:
    """Mean force at some lengths, and its integral."""
    T = 0.7

    def held(r: float, seed: int) -> Any:
        def constraint(q: Any) -> Any:
            a, b, c = q.reshape(3, 3)
            return jnp.array([(b - a) @ (b - a) - 1.0, (c - b) @ (c - b) - 1.0, jnp.sqrt((c - a) @ (c - a)) - r])

        system = hx.System(lambda q, v: 0.5 * v @ v, constraint, n=9)
        height = (1 - r**2 / 4) ** 0.5
        start = hx.start(system, q=[-r / 2, 0.0, 0.0, 0.0, height, 0.0, r / 2, 0.0, 0.0])
        observe = {"force": hx.MeanForce(system, temperature=T, after=200, every=5)}
        run = hx.simulate(
            system,
            hx.Langevin(1.0, T),
            start,
            t1=210.0,
            h=0.05,
            paths=2048,
            seed=seed,
            save_every=None,
            observe=observe,
        )
        return run.observed["force"]

    def exact(r: np.ndarray) -> np.ndarray:
        return -T * np.log(r * np.sqrt(4 - (r**2 - 2) ** 2 / 4))

    def rigid(r: np.ndarray) -> np.ndarray:
        c = (r**2 - 2) / 2
        return -T * np.log(r * np.sqrt((1 - c) * (2 + c)))

    def slope(A: Any, r: np.ndarray) -> np.ndarray:
        return (A(r + 1e-5) - A(r - 1e-5)) / 2e-5

    print(f"\nMean force on the length r of the trimer at T = {T:g}: found, exact; without the metric term, exact")
    results = []
    for seed, r in enumerate(LENGTHS):  # independent runs
        results.append(held(r, seed))
        text = f"  {r:.2f}  {results[-1].force:.4f} +- {results[-1].stderr:.4f}  {slope(exact, r):.4f}"
        print(f"{text}   {results[-1].rigid:.4f} +- {results[-1].rigid_stderr:.4f}  {slope(rigid, r):.4f}", flush=True)
    found, error, wrong, wrong_error = (
        np.array([getattr(result, name) for result in results]) for name in ("force", "stderr", "rigid", "rigid_stderr")
    )
    step = LENGTHS[1] - LENGTHS[0]
    (A, A_error), (B, B_error) = simpson(found, error, step), simpson(wrong, wrong_error, step)
    print("  A(r) - A(0.4): found, exact")
    for r, a, e in zip(LENGTHS[::2], A, A_error, strict=True):
        print(f"  {r:.2f}  {a:.4f} +- {e:.4f}  {exact(r) - exact(LENGTHS[0]):.4f}")

    figure = Figure(figsize=(10.4, 4.2), layout="constrained")
    forces, energies = figure.subplots(1, 2)
    r = np.linspace(LENGTHS[0], LENGTHS[-1], 301)
    style = {"markersize": 4, "capsize": 2}
    forces.errorbar(LENGTHS, found, error, fmt="o", **style, label="hx.MeanForce, .force")
    forces.errorbar(LENGTHS, wrong, wrong_error, fmt="s", **style, label=".rigid: without the metric term")
    forces.plot(r, slope(exact, r), "k-", linewidth=1, label="A', exact")
    forces.plot(r, slope(rigid, r), "k--", linewidth=1, label="A' of the held coordinate, exact")
    forces.set(xlabel="distance r of the ends", ylabel="A'(r)", ylim=(-2.2, 3.2))
    energies.errorbar(LENGTHS[::2], A, A_error, fmt="o", **style, label="integral of .force")
    energies.errorbar(LENGTHS[::2], B, B_error, fmt="s", **style, label="integral of .rigid")
    energies.plot(r, exact(r) - exact(r[0]), "k-", linewidth=1, label=r"$-T\,\log(r\,\sqrt{4 - c^2})$")
    energies.plot(r, rigid(r) - rigid(r[0]), "k--", linewidth=1, label=r"$-T\,\log(r\,\sqrt{(1 - c)(2 + c)})$")
    energies.set(xlabel="distance r of the ends", ylabel="A(r) - A(0.4)")
    for axis in (forces, energies):
        axis.grid(visible=True, alpha=0.25)
        axis.legend(fontsize=8)
    return figure


def main() -> None:
    """Everything."""
    begin = time.perf_counter()
    OUT.mkdir(parents=True, exist_ok=True)
    for name, draw in {"trimer": trimer, "polymer": chain, "free_energy": free_energy}.items():
        draw().savefig(OUT / f"{name}.png", dpi=150)
    print(f"\nfigures written into {OUT}/ in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
