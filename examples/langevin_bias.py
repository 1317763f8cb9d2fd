"""What the step size does to averages of Langevin dynamics: the spherical pendulum at a temperature, four methods.

The invariant measure of a splitting differs from the Gibbs measure by a bias of order h^2, which depends on the order
of the parts; the Metropolis test removes it.  Here the bias of the height z and of the kinetic energy is measured
against their exact means.  Run by `python -m examples.langevin_bias`; writes out/langevin_bias.png.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import holonax as hx

OUT = Path("out/langevin_bias.png")
GRAVITY, TEMPERATURE, FRICTION = 5.0, 1.0, 1.0
QUANTITIES = ("height z", "kinetic energy")

# Step sizes at which the bias is well above its standard error, and small enough that no path fails.
METHODS: dict[str, tuple[hx.Langevin, tuple[float, ...]]] = {
    "OBABO": (hx.Langevin(FRICTION, TEMPERATURE, "OBABO"), (0.05, 0.07, 0.10)),
    "BAOAB": (hx.Langevin(FRICTION, TEMPERATURE, "BAOAB"), (0.14, 0.20, 0.28)),
    "g-BAOAB, inner=4": (hx.Langevin(FRICTION, TEMPERATURE, "BAOAB", inner=4), (0.20, 0.28, 0.40)),
    "BAOAB, metropolis": (hx.Langevin(FRICTION, TEMPERATURE, metropolis=True), (0.14, 0.20, 0.28, 0.40, 0.56)),
}

PATHS = 8192
TIME = 4000.0  # of each path
FORGET = 50.0  # of it, not seen
SEEN_EVERY = 0.2  # a third of the correlation time of z


class Level(NamedTuple):
    """Bias of the mean of each quantity at one step size, and its standard error."""

    h: float
    bias: np.ndarray
    stderr: np.ndarray
    acceptance: float
    seconds: float


@dataclass(frozen=True)
class Curve:
    """One method at several step sizes."""

    levels: tuple[Level, ...]

    def of(self, quantity: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Step sizes, biases and standard errors."""
        h, bias, stderr, *_ = (np.array(x) for x in zip(*self.levels, strict=True))
        return h, bias[:, quantity], stderr[:, quantity]

    def deviation(self, quantity: int) -> float:
        """Root mean square of the bias in units of its standard error: about 1 where there is none."""
        _, bias, stderr = self.of(quantity)
        return float(np.sqrt(np.mean((bias / stderr) ** 2)))

    def seen(self, quantity: int) -> bool:
        """Whether the bias stands out from its error, three to one, at every step size."""
        _, bias, stderr = self.of(quantity)
        return bool(np.all(np.abs(bias) > 3 * stderr))

    def order(self, quantity: int) -> tuple[float, float]:
        """Slope of log |bias| against log h by weighted least squares, and its standard error."""
        h, bias, stderr = self.of(quantity)
        x, y, weight = np.log(h), np.log(np.abs(bias)), (bias / stderr) ** 2
        x = x - np.average(x, weights=weight)
        information = np.sum(weight * x**2)
        return float(np.sum(weight * x * y) / information), float(information**-0.5)


def exact() -> np.ndarray:
    """Means of z and of the kinetic energy under the Gibbs measure."""
    x = GRAVITY / TEMPERATURE
    return np.array([1 / x - 1 / math.tanh(x), TEMPERATURE])  # the sphere has two dimensions, each with T/2


def quantities(q: Any, p: Any) -> Any:
    """Height and kinetic energy."""
    return jnp.stack([q[2], 0.5 * p @ p])


def measure(method: hx.Langevin, h: float, seed: int, paths: int = PATHS, t1: float = TIME) -> Level:
    """Bias of one method at one step size."""
    entry = hx.systems.pendulum(noise=None, gravity=GRAVITY)
    begin, steps = time.perf_counter(), round(t1 / h)
    mean = hx.Mean(quantities, every=max(1, round(SEEN_EVERY / h)), over="all", after=round(FORGET / h))
    options = {"t1": steps * h, "h": h, "paths": paths, "seed": seed, "save_every": None}
    run = hx.simulate(entry.system, method, entry.start, **options, observe={"mean": mean})
    seen = run.observed["mean"]
    acceptance = float(run.counts["accepted"].mean()) / steps if method.metropolis else 1.0
    return Level(h, seen.mean - exact(), seen.stderr, acceptance, time.perf_counter() - begin)


def study(paths: int = PATHS, t1: float = TIME, show: bool = False) -> dict[str, Curve]:
    """Every method at its step sizes, each with noise of its own, so that errors are independent."""
    curves = {}
    for number, (name, (method, sizes)) in enumerate(METHODS.items()):
        levels = []
        for h in sizes:
            levels.append(level := measure(method, h, 100 * number + len(levels), paths, t1))
            if show:
                columns = "  ".join(f"{x:+.5f} +- {e:.5f}" for x, e in zip(level.bias, level.stderr, strict=True))
                print(f"{name:<18} {h:4.2f}  {columns}  {level.acceptance:8.4f} {level.seconds:5.0f} s", flush=True)
        curves[name] = Curve(tuple(levels))
    return curves


def verdict(curve: Curve, quantity: int) -> str:
    """The fitted order with its standard error; or, where no bias is seen, that."""
    if not curve.seen(quantity):
        return f"no bias seen (rms {curve.deviation(quantity):.1f} standard errors)"
    order, error = curve.order(quantity)
    return f"order {order:.3f} ± {error:.3f}"


def figure(curves: Mapping[str, Curve]) -> Figure:
    """Bias against step size, one panel per quantity; where none is seen, its upper limit."""
    drawing = Figure(figsize=(10.4, 4.6), layout="constrained")
    axes = drawing.subplots(1, 2)
    styles = list(zip(("#d55e00", "#0072b2", "#009e73", "#555555"), "osD^", strict=True))
    ticks = sorted({h for _, sizes in METHODS.values() for h in sizes})
    for number, (axis, quantity, guide) in enumerate(zip(axes, QUANTITIES, (0.1, 1.6), strict=True)):
        handles = []
        for (name, curve), (colour, marker) in zip(curves.items(), styles, strict=True):
            h, bias, stderr = curve.of(number)
            if curve.seen(number):
                options = {"color": colour, "marker": marker, "capsize": 3}
                handles.append(axis.errorbar(h, np.abs(bias), 2 * stderr, **options))
                handles[-1].set_label(f"{name}: {verdict(curve, number)}")
            else:
                limit = np.abs(bias) + 2 * stderr
                axis.errorbar(h, limit, 0.35 * limit, fmt="none", color=colour, uplims=True, linewidth=1)
                handles += axis.plot(h, limit, marker, color=colour, fillstyle="none")
                handles[-1].set_label(f"{name}: not seen, 95 % limit")
        ends = np.array([ticks[0], ticks[-1]])
        handles += axis.plot(ends, guide * ends**2, "k--", linewidth=1, label="slope 2")
        axis.set(xscale="log", yscale="log", xlabel="step size h", ylabel=f"|bias| of the mean {quantity}")
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.set_xticks([], minor=True)
        axis.grid(visible=True, which="both", alpha=0.25)
        axis.legend(handles=handles, fontsize=8, loc="upper left")
    return drawing


def main() -> None:
    """The table, the orders and the figure, in a few minutes on two cores."""
    begin = time.perf_counter()
    z, kinetic = exact()
    print(
        f"pendulum, gravity {GRAVITY:g}, T = {TEMPERATURE:g}, friction {FRICTION:g}: E z = {z:.6f}, E K = {kinetic:g}"
    )
    print(f"bias ± standard error, {PATHS} paths to t = {TIME:g}")
    print(f"{'method':<18} {'h':>4}  " + "  ".join(f"{x:^19}" for x in QUANTITIES) + f"  {'accepted':>8} {'time':>7}")
    curves = study(show=True)
    for name, curve in curves.items():
        print(f"{name:<18} " + "; ".join(f"{x}: {verdict(curve, number)}" for number, x in enumerate(QUANTITIES)))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figure(curves).savefig(OUT, dpi=120)
    print(f"{OUT} written in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
