"""Orders, measured: deterministic, strong and weak, for every method."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from support import METHODS, deterministic_slopes, entry, fitted_slope, within

LEVELS = {1: (64, 128, 256), 2: (16, 32, 64), 4: (8, 16, 32), 6: (6, 8, 12, 16), 8: (4, 5, 6, 8), 10: (3, 4, 5)}
TOLERANCE = {1: 0.05, 2: 0.05, 4: 0.1, 6: 0.2, 8: 0.5, 10: 1.0}  # at 8 and 10 round-off leaves few levels


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", ["pendulum", "ellipsoid"])
def test_deterministic_order(name, method):
    slopes, errors = deterministic_slopes(name, method, 1.0, LEVELS[method.order])
    assert errors.min() > 1e-13  # above round-off, or the slope means nothing
    for slope in slopes:
        assert within(slope, method.order, TOLERANCE[method.order]), (slopes, errors)


def test_deterministic_orders_are_those_of_the_literature():
    orders = {str(method): method.order for method in METHODS}
    assert orders["EulerA()"] == orders["EulerB()"] == orders["EulerPrinted()"] == 1
    assert orders["Rattle()"] == 2
    assert [hx.Lobatto(s).order for s in range(2, 7)] == [2, 4, 6, 8, 10]


KICKED = hx.Kicked()


@functools.partial(jax.jit, static_argnums=(0, 1, 4, 5))
def ends(system, method, start, paths, factor, steps_and_h):
    """End points at a coarser level of the noise of the given paths."""
    steps, h = steps_and_h

    def end(path):
        noise = hx.increments(system, h=h, steps=steps, seed=5, path=path).joined(factor)
        last = hx.integrate(system, method, start, noise)
        return last.q[-1], last.p[-1], last.report.status[-1]

    return jax.vmap(end)(paths)


def strong_errors(e, method, factors, fine, t1=1.0, paths=400, reference=KICKED):
    """Root-mean-square end-point errors in q and p, against a reference on the finest grid of the same noise."""
    index, grid = jnp.arange(paths), (fine, t1 / fine)
    q_ref, p_ref, _ = ends(e.system, reference, e.start, index, 1, grid)
    errors = []
    for factor in factors:
        q, p, status = ends(e.system, method, e.start, index, factor, grid)
        assert int(status.max()) == 0
        errors.append([float(jnp.sqrt(jnp.mean(jnp.sum((x - y) ** 2, axis=1)))) for x, y in ((q, q_ref), (p, p_ref))])
    return np.array([factor * t1 / fine for factor in factors]), np.array(errors)


@pytest.mark.parametrize("method", [m for m in METHODS if m.order < 6], ids=str)
def test_strong_order_on_the_paper_s_pendulum(method):
    h, errors = strong_errors(entry("pendulum"), method, (64, 32, 16), 4096)
    for slope in (fitted_slope(h, column) for column in errors.T):
        assert within(slope, method.strong_order, 0.15), (slope, errors)


@pytest.mark.parametrize("method", [hx.EulerA(), hx.EulerB(), hx.Rattle(), hx.Kicked(), hx.Lobatto32()], ids=str)
def test_strong_order_where_the_lagrangian_is_not_separable(method):
    h, errors = strong_errors(entry("ellipsoid"), method, (64, 32, 16), 4096, paths=300)
    for slope in (fitted_slope(h, column) for column in errors.T):
        assert within(slope, method.strong_order, 0.2), (slope, errors)


WEIGHTED_RATTLE = hx.VPRK(hx.Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], nu=[0.5, 0.5], kappa=[1, -1]))


def test_erratum_3_the_obvious_weights_have_strong_order_one_on_a_constraint():
    h, errors = strong_errors(entry("pendulum"), WEIGHTED_RATTLE, (32, 16, 8), 4096)
    for slope in (fitted_slope(h, column) for column in errors.T):
        assert within(slope, 1.0, 0.15), (slope, errors)


def test_erratum_5_strong_order_two_for_additive_noise_without_a_constraint():
    h, errors = strong_errors(entry("oscillator"), WEIGHTED_RATTLE, (128, 64, 32), 4096, reference=hx.Lobatto32())
    for slope in (fitted_slope(h, column) for column in errors.T):
        assert within(slope, 2.0, 0.1), (slope, errors)


def weak_errors(method, steps, paths, fine=128, reference=KICKED):
    """Coupled weak errors of several observables at t = 1 on the pendulum, with their standard errors."""
    e = entry("pendulum")
    index, grid = jnp.arange(paths), (fine, 1.0 / fine)

    def observables(q, p):
        return jnp.stack([q[:, 2], p[:, 2], q[:, 2] ** 2, 0.5 * jnp.sum(p**2, axis=1) + q[:, 2]], axis=1)

    exact = observables(*ends(e.system, reference, e.start, index, 1, grid)[:2])
    errors = []
    for number in steps:
        q, p, status = ends(e.system, method, e.start, index, fine // number, grid)
        assert int(status.max()) == 0
        difference = observables(q, p) - exact
        errors.append((difference.mean(axis=0), difference.std(axis=0) / np.sqrt(paths)))
    mean, error = (np.array(x) for x in zip(*errors, strict=True))
    return mean, error


@pytest.mark.parametrize(
    ("method", "steps", "paths"),
    [
        (hx.EulerA(), (8, 16), 20_000),
        (hx.EulerB(), (8, 16), 20_000),
        (hx.EulerPrinted(), (8, 16), 20_000),
        (hx.EulerMaruyama(), (16, 32), 20_000),
        (hx.Rattle(), (4, 8), 20_000),
        (hx.Lobatto(3), (4, 8), 20_000),
        (hx.Kicked(), (2, 4), 20_000),
        (hx.Kicked("milstein-tretyakov"), (2, 4), 20_000),
        (hx.Kicked("midpoint"), (2, 4), 20_000),
        (hx.Lobatto32(), (2, 4), 20_000),
    ],
    ids=str,
)
def test_weak_order_on_the_paper_s_pendulum(method, steps, paths):
    mean, error = weak_errors(method, steps, paths)
    print(method, mean, error)
    resolved = np.abs(mean[1]) > 10 * error[1]
    assert resolved.any()
    slopes = np.log2(np.abs(mean[0] / mean[1]))[resolved]
    assert within(float(np.median(slopes)), method.weak_order, 0.3), (slopes, mean, error)
