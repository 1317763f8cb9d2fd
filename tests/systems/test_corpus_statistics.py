"""Foreign systems in equilibrium: temperatures of a rigid molecule, posteriors against quadrature (`make corpus`)."""

import jax.numpy as jnp
import numpy as np
import pytest

import corpus
import holonax as hx

pytestmark = pytest.mark.corpus
KT = 2.494339  # of 300 K in u nm^2 / ps^2
UNITS = {"nm": (1.0, 1.0, 1.0), "Angstrom": (10.0, 1.0, 1.0), "SI": (1e-9, 1e-12, 1.66053907e-27)}


@pytest.mark.parametrize("h", [0.002, 0.001, 0.0005, 0.00025])
@pytest.mark.parametrize("units", UNITS)
def test_the_temperature_of_a_rigid_water(units, h):
    length, time, mass = UNITS[units]
    case = corpus.water(length, time, mass)
    system = hx.System(case.system.lagrangian, case.system.constraint, n=9)
    temperature = KT * mass * (length / time) ** 2
    method = hx.Langevin(friction=5.0 / time, temperature=temperature)
    run = hx.simulate(
        system, method, case.start, t1=4.0 * time, h=h * time, paths=1024, seed=1, save_every=None, on_failure="mark"
    )
    assert not run.status.any()
    masses = np.repeat([15.9994, 1.008, 1.008], 3) * mass
    energies = np.sum(run.p[:, -1] ** 2 / masses, axis=-1) / 6  # six directions are free
    error = np.std(energies) / np.sqrt(len(energies))
    bias = 0.02 * (h / 0.002) ** 2 * temperature  # of the splitting, below 2 % at the largest step
    assert abs(np.mean(energies) - temperature) < 5 * error + bias


@pytest.mark.filterwarnings("ignore:the 'llvm' engine cannot translate")  # the determinant of 20 x 20 runs on XLA
@pytest.mark.parametrize(("data", "chains", "draws"), [(5, 64, 500), (20, 32, 60)])
def test_a_lifted_regression_agrees_with_quadrature(data, chains, draws):
    case = corpus.lifted_regression(data)
    x, y = corpus.decay(data)

    def log_density(q):
        return -0.5 * q[2:] @ q[2:] - 0.02 * q[:2] @ q[:2]

    samples = hx.sample(
        log_density, case.system.constraint, case.start.q, chains=chains, draws=draws, thin=8, measure="delta", seed=2
    )
    assert samples.acceptance.min() > 0.6
    a, b = np.meshgrid(np.linspace(1.5, 2.5, 801), np.linspace(0.2, 1.3, 801), indexing="ij")
    residuals = (y - a[..., None] * np.exp(-b[..., None] * x)) / 0.05
    weights = np.exp(-0.5 * np.sum(residuals**2, axis=-1) - 0.02 * (a**2 + b**2))
    weights /= weights.sum()
    for exact, values in ((np.sum(weights * a), samples.q[..., 0]), (np.sum(weights * b), samples.q[..., 1])):
        means = values.mean(axis=1)
        assert abs(means.mean() - exact) < 5 * means.std(ddof=1) / np.sqrt(len(means))
    spread = np.sum(weights * (a - np.sum(weights * a)) ** 2)
    variances = samples.q[..., 0].var(axis=1)
    assert abs(variances.mean() - spread) < 5 * variances.std(ddof=1) / np.sqrt(len(variances)) + 0.02 * spread
    assert jnp.abs(jnp.asarray(case.system.constraint(samples.q[0, -1]))).max() < 1e-14
