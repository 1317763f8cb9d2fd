"""Closed-form statistics: the energy that noise injects is a matter of physics, not of the step size."""

import numpy as np
import pytest

import holonax as hx
from support import METHODS, heavy


def drift_of_the_energy_balance(method, h, paths=1000, t1=10.0):
    """D(t) = E H(t) - H(0) - sigma^2 t on the sphere with gamma_i = sigma q_i, with its standard error."""
    e = hx.systems.pendulum(noise="linear", sigma=0.5)
    seen = hx.Mean(lambda q, p: 0.5 * p @ p + q[2], every=round(1.0 / h))
    run = hx.simulate(
        e.system, method, e.start, t1=t1, h=h, paths=paths, seed=11, save_every=None, observe={"H": seen}
    ).observed["H"]
    expected = np.array([e.facts["mean_energy"](t) for t in run.t])
    return run.t[1:], (run.mean - expected)[1:], run.stderr[1:]


@pytest.mark.parametrize(
    "method",
    [
        heavy(hx.Rattle()),
        hx.Kicked(),
        heavy(hx.Lobatto(3)),
        heavy(hx.Lobatto32()),
        heavy(hx.Kicked("midpoint")),
        heavy(hx.Kicked("milstein-tretyakov")),
    ],
    ids=str,
)
def test_energy_balance(method):
    for h in (0.1, 0.02):
        t, D, error = drift_of_the_energy_balance(method, h)
        assert t[-1] == 10.0
        assert (np.abs(D) < 5 * error).all(), (h, D, error)


@pytest.mark.parametrize(
    "method",
    [hx.EulerA(), heavy(hx.EulerB()), heavy(hx.EulerPrinted())],
    ids=str,
)
def test_energy_balance_of_the_euler_methods_stays_in_a_band(method):
    for h in (0.1, 0.02):
        _, D, error = drift_of_the_energy_balance(method, h)
        lower, upper = D - 5 * error, D + 5 * error
        assert lower.max() - upper.min() < 0.7 * h, (h, D, error)  # one band of width 0.7 h holds D(t) up to t = 10
        assert lower.max() < 0.7 * h, (h, D, error)
        assert upper.min() > -0.7 * h, (h, D, error)


def test_the_baseline_injects_energy_by_the_step():
    """What structure preservation buys: Euler-Maruyama gains energy without bound, more with a larger step."""
    _, D, error = drift_of_the_energy_balance(hx.EulerMaruyama(), 0.02, paths=500)
    assert D[-1] > 0.7 * 0.02 + 5 * error[-1]


@pytest.mark.parametrize("method", [m for m in METHODS if m.order < 6], ids=str)
def test_moments_of_the_oscillator(method):
    e = hx.systems.oscillator()
    h, t1 = 2.0**-7, 2.0
    run = hx.simulate(e.system, method, e.start, t1=t1, h=h, paths=2000, seed=7, save_every=None)
    q, p = run.q[:, 0, 0], run.p[:, 0, 0]
    root = np.sqrt(len(q))
    bias = 2 * h if method.order == 1 else 2 * h**2  # of a first-order method: the scheme's own error
    f = e.facts
    assert abs(q.mean() - f["mean_q"](t1)) < 5 * q.std() / root + bias
    assert abs(p.mean() - f["mean_p"](t1)) < 5 * p.std() / root + bias
    dq, dp = q - q.mean(), p - p.mean()
    for sample, exact in ((dq**2, f["var_q"](t1)), (dp**2, f["var_p"](t1)), (dq * dp, f["cov"](t1))):
        assert abs(sample.mean() - exact) < 5 * sample.std() / root + bias
    energy = 0.5 * (q**2 + p**2)
    assert abs(energy.mean() - f["mean_energy"](t1)) < 5 * energy.std() / root + bias
