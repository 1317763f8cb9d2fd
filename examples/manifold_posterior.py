"""Two posteriors on manifolds: an oscillator whose energy is known, and data with little noise, lifted to a manifold.

The first shows what the measure means: histograms of the phase on the ellipse of constant energy, for "delta"
(conditioning) and "surface", beside their closed forms.  The second how the step size and the effective sample size
depend on the noise, with and without lifting.  Run by `python -m examples.manifold_posterior`; writes
out/manifold_posterior.png.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any

import arviz_stats
import numpy as np
from matplotlib.figure import Figure

import holonax as hx

OUT = Path("out/manifold_posterior.png")
OMEGA, ENERGY = 1 / 3, 0.5
OBSERVED, SIGMAS = 1.0, (0.1, 0.03, 0.01)
COLOURS = {"delta": "#0072b2", "surface": "#d55e00"}


def energy_known(x: Any) -> Any:
    """Zero where the oscillator with the state x = (position, momentum) has the energy ENERGY."""
    return 0.5 * x[1] ** 2 + 0.5 * (OMEGA * x[0]) ** 2 - ENERGY


def log_prior(x: Any) -> Any:
    """Independent normal numbers: position 1 +- 2, momentum 0 +- 1."""
    return -0.5 * ((x[0] - 1.0) / 2.0) ** 2 - 0.5 * x[1] ** 2


def phase(x: np.ndarray) -> np.ndarray:
    """Where on the ellipse."""
    return np.arctan2(x[..., 1], OMEGA * x[..., 0])


def phase_density(measure: str, theta: np.ndarray) -> np.ndarray:
    """Closed form, normalised by the trapezoidal rule on all of the circle."""

    def unnormalised(theta: np.ndarray) -> np.ndarray:
        speed = np.hypot(np.sin(theta) / OMEGA, np.cos(theta)) if measure == "surface" else 1.0
        return np.exp(log_prior(np.array([np.cos(theta) / OMEGA, np.sin(theta)]))) * speed

    circle = np.linspace(-np.pi, np.pi, 1000, endpoint=False)
    return unnormalised(theta) / (2 * np.pi * unnormalised(circle).mean())


def model(theta: Any) -> Any:
    """What would be measured without noise, given two parameters."""
    return theta[1] ** 2 + 3 * theta[0] ** 2 * (theta[0] ** 2 - 1)


def lifted(sigma: float, x: Any) -> Any:
    """Zero where the parameters x[:2] and the noise x[2] explain the observation."""
    return model(x[:2]) + sigma * x[2] - OBSERVED


def log_standard_normal(x: Any) -> Any:
    """Prior of parameters and noise."""
    return -0.5 * x @ x


def log_posterior(sigma: float, theta: Any) -> Any:
    """The same posterior of the parameters alone, on the plane."""
    return log_standard_normal(theta) - 0.5 * ((model(theta) - OBSERVED) / sigma) ** 2


def mean_square(sigma: float) -> float:
    """Posterior mean of theta_0^2, by quadrature."""
    theta = np.stack(np.meshgrid(*[np.linspace(-1.5, 1.5, 3001)] * 2, indexing="ij"))
    misfit = (model(theta) - OBSERVED) / sigma
    return float(np.average(theta[0] ** 2, weights=np.exp(-0.5 * (theta**2).sum(axis=0) - 0.5 * misfit**2)))


def report(name: str, samples: hx.Samples) -> None:
    """One row: step size, acceptance, effective sample size and R-hat of the worst coordinate."""
    table = arviz_stats.summary(samples.to_arviz(), kind="diagnostics")
    chains, draws, _ = samples.q.shape
    numbers = f"{samples.step_size:8.4f} {samples.acceptance.mean():8.3f} {table['ess_bulk'].min():6.0f}"
    print(f"{name:<34} {numbers} of {chains * draws} {table['r_hat'].max():6.2f}", flush=True)


def figure(samples: dict[str, hx.Samples]) -> Figure:
    """Histograms of the phase beside the closed forms."""
    drawing = Figure(figsize=(6.4, 3.8), layout="constrained")
    axis = drawing.subplots()
    theta = np.linspace(-np.pi, np.pi, 400)
    for measure, found in samples.items():
        options = {"density": True, "histtype": "stepfilled", "alpha": 0.3, "color": COLOURS[measure]}
        axis.hist(phase(found.q).ravel(), 60, range=(-np.pi, np.pi), label=f'measure="{measure}"', **options)
        axis.plot(theta, phase_density(measure, theta), color=COLOURS[measure], label="closed form")
    ticks = {-1.0: "−π", -0.5: "−π/2", 0.0: "0", 0.5: "π/2", 1.0: "π"}
    axis.set_xticks([np.pi * x for x in ticks], list(ticks.values()))
    axis.set(xlabel="phase θ on the ellipse of constant energy", ylabel="probability density", xlim=(-np.pi, np.pi))
    axis.set_ylim(0.0, 0.37)
    axis.legend(fontsize=8, ncols=2, loc="upper center")
    return drawing


def main() -> None:
    """The table, the comparison and the figure, in about a minute on two cores."""
    begin = time.perf_counter()
    print(f"{'':<34} {'step':>8} {'accepted':>8} {'least ESS':>14} {'R-hat':>6}")
    options = {"chains": 8, "draws": 1000, "thin": 4, "seed": 0}
    known = partial(hx.sample, log_prior, energy_known, [3.0, 0.0], **options)
    report("oscillator, surface", known(measure="surface"))
    report("oscillator, delta", known(measure="delta"))
    report("oscillator, delta, mass=[1/9, 1]", known(measure="delta", mass=[OMEGA**2, 1.0]))
    report("oscillator, delta, inner=3", known(measure="delta", inner=3))
    for sigma in SIGMAS:
        constraint, density = partial(lifted, sigma), partial(log_posterior, sigma)
        on = hx.sample(log_standard_normal, constraint, [0.0, 1.0, 0.0], measure="delta", **options)
        report(f"data with noise {sigma}, lifted", on)
        report(f"data with noise {sigma}, on the plane", hx.sample(density, None, [0.0, 1.0], **options))
    more = options | {"chains": 64, "thin": 20}
    on = hx.sample(log_standard_normal, constraint, [0.0, 1.0, 0.0], measure="delta", **more)  # the last one, longer
    means = (on.q[..., 0] ** 2).mean(axis=1)
    error = means.std() / len(means) ** 0.5
    print(f"E theta_0^2 at {sigma}: lifted {means.mean():.4f} +- {error:.4f}, quadrature {mean_square(sigma):.4f}")
    many = options | {"chains": 512, "thin": 16}
    drawn = {measure: hx.sample(log_prior, energy_known, [3.0, 0.0], measure=measure, **many) for measure in COLOURS}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figure(drawn).savefig(OUT, dpi=120)
    print(f"{OUT} written in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
