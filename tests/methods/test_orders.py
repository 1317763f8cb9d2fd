"""Orders, measured: deterministic, strong and weak, for every method."""

import pytest

import holonax as hx
from holonax.studies import strong_orders, weak_orders
from support import METHODS, deterministic_slopes, entry, heavy, pairs, within

LEVELS = {
    "pendulum": {1: (64, 128, 256), 2: (16, 32, 64), 4: (8, 16, 32), 6: (8, 12, 16), 8: (6, 8, 10), 10: (5, 6, 8)},
    "ellipsoid": {1: (64, 128, 256), 2: (16, 32, 64), 4: (8, 16, 32), 6: (8, 12, 16), 8: (8, 10, 12), 10: (6, 8, 10)},
}
LENGTH = {"pendulum": 2.0, "ellipsoid": 1.0}
TOLERANCE = {1: 0.05, 2: 0.05, 4: 0.1, 6: 0.2, 8: 0.2, 10: 0.7}  # at 10, round-off leaves few levels


@pytest.mark.parametrize(
    ("name", "method"), [*pairs(["pendulum"], METHODS), *(heavy("ellipsoid", m) for m in METHODS)], ids=str
)
def test_deterministic_order(name, method):
    slopes, errors = deterministic_slopes(name, method, LENGTH[name], LEVELS[name][method.order])
    assert errors.min() > 1e-14  # above round-off, or the slope means nothing
    for slope in slopes:
        assert within(slope, method.order, TOLERANCE[method.order]), (slopes, errors)


@pytest.mark.study
def test_the_order_of_a_tableau_is_that_of_the_worse_of_the_pair():
    """Simpson's weights, but a stage of order 1 only: the conjugate limits the order to 2."""
    tableau = hx.Tableau([[0, 0, 0], [0.25, 0.25, 0], [1 / 6, 2 / 3, 1 / 6]], [1 / 6, 2 / 3, 1 / 6])
    assert tableau.order == 2
    slopes, errors = deterministic_slopes("pendulum", hx.VPRK(tableau), 2.0, (16, 32, 64))
    assert within(slopes[0], 2, 0.1), errors


def test_deterministic_orders_are_those_of_the_literature():
    orders = {str(method): method.order for method in METHODS}
    assert orders["EulerA()"] == orders["EulerB()"] == orders["EulerPrinted()"] == 1
    assert orders["Rattle()"] == 2
    assert [hx.Lobatto(s).order for s in range(2, 7)] == [2, 4, 6, 8, 10]


WITH_NOISE = [method for method in METHODS if method.order < 6]
WEIGHTED_RATTLE = hx.VPRK(hx.Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], nu=[0.5, 0.5], kappa=[1, -1]))


OF_EACH_ORDER = (hx.EulerA(), hx.Kicked(), hx.Lobatto32())


def strong(e, methods, exponents, paths=256):
    """Strong studies of several methods against one reference, eight times finer than the finest level."""
    h = [2.0**-k for k in exponents]
    studies = strong_orders(e.system, methods, e.start, t1=1.0, h=h, paths=paths, refine=8, progress=False)
    return zip(methods, studies, strict=True)


def assert_orders(study, expected, tolerance, names=("q", "p")):
    for name in names:
        assert within(study[name].order, expected, tolerance), study.table()


def test_strong_order_on_the_paper_s_pendulum():
    for method, study in strong(entry("pendulum"), OF_EACH_ORDER, (6, 7, 8), paths=128):
        assert_orders(study, method.strong_order, 0.1)


@pytest.mark.study
def test_strong_order_of_the_other_methods():
    others = [method for method in WITH_NOISE if method not in OF_EACH_ORDER]
    for method, study in strong(entry("pendulum"), (*others, WEIGHTED_RATTLE), (7, 8, 9)):  # E3: the last has 1
        assert_orders(study, method.strong_order, 0.1)


@pytest.mark.study
def test_erratum_3_the_obvious_weights_have_strong_order_one_on_a_constraint():
    """Order 1 at small h, although at large h, where the noise counts for less, the same method looks like order 2."""
    [(_, study)] = strong(hx.systems.pendulum(sigma=0.5), (WEIGHTED_RATTLE,), (2, 3, 4, 8, 9))
    for name in ("q", "p"):
        large, _, _, small = study[name].slopes
        assert within(large, 2.0, 0.2), study.table()
        assert within(small, 1.0, 0.1), study.table()


@pytest.mark.study
def test_erratum_5_strong_order_two_for_additive_noise_without_a_constraint():
    [(_, study)] = strong(entry("oscillator"), (WEIGHTED_RATTLE,), (4, 5, 6))
    assert_orders(study, 2.0, 0.1)


ALL_KINDS = (hx.EulerA(), hx.EulerB(), hx.EulerPrinted(), hx.Rattle(), hx.Kicked(), hx.Lobatto32())


@pytest.mark.study
def test_strong_order_with_two_constraints_and_state_dependent_noise():
    for method, study in strong(entry("double_pendulum"), ALL_KINDS, (6, 7, 8)):
        assert_orders(study, method.strong_order, 0.1)


@pytest.mark.study
def test_strong_order_where_the_lagrangian_is_not_separable():
    for method, study in strong(hx.systems.ellipsoid(sigma=1.5), ALL_KINDS, (7, 8, 9)):
        assert_orders(study, method.strong_order, 0.1)


OBSERVABLES = {
    "z": lambda q, p: q[2],
    "xx": lambda q, p: q[0] ** 2,
    "py": lambda q, p: p[1],
    "energy": lambda q, p: 0.5 * p @ p + q[2],
}


def weak(methods, exponents, paths, refine=8):
    e = entry("pendulum")
    h = [2.0**-k for k in exponents]
    studies = weak_orders(
        e.system, methods, e.start, t1=1.0, h=h, paths=paths, refine=refine, observables=OBSERVABLES, progress=False
    )
    return zip(methods, studies, strict=True)


def test_weak_order_one_on_the_paper_s_pendulum():
    """Erratum E4: the Euler methods have weak order 1, not 3/2."""
    for method, study in weak((hx.EulerA(),), (4, 5, 6), 1024, refine=4):
        assert method.weak_order == 1
        assert_orders(study, 1.0, 0.15, ("z", "py"))


@pytest.mark.study
def test_weak_order_one_of_the_others():
    for method, study in weak((hx.EulerB(), hx.EulerPrinted(), hx.EulerMaruyama()), (5, 6, 7), 4096):
        assert method.weak_order == 1
        assert_orders(study, 1.0, 0.15, ("z", "py"))


@pytest.mark.study
def test_weak_order_one_of_rattle():
    """The term of order 1 is small, and at large steps hidden behind that of order 2."""
    for method, study in weak((hx.Rattle(), hx.Lobatto(3)), (5, 6, 7), 262_144, refine=4):
        assert method.weak_order == 1
        assert_orders(study, 1.0, 0.15, ("z", "xx"))


@pytest.mark.parametrize(
    ("method", "paths", "resolved"),
    [
        (hx.Kicked(), 2048, ("py",)),
        heavy(hx.Kicked(), 8192, ("xx",)),
        heavy(hx.Kicked("milstein-tretyakov"), 8192, ("py",)),
        heavy(hx.Lobatto32(), 8192, ("energy",)),
    ],
    ids=str,
)
def test_weak_order_two_of_the_methods_that_meet_condition_three(method, paths, resolved):
    [(_, study)] = weak((method,), (3, 4, 5), paths)
    assert method.weak_order == 2
    assert_orders(study, 2.0, 0.15, resolved)


@pytest.mark.study
def test_weak_order_two_of_the_midpoint_scheme():
    for method, study in weak((hx.Kicked("midpoint"),), (2, 3, 4), 524_288, refine=4):
        assert method.weak_order == 2
        assert_orders(study, 2.0, 0.15, ("py",))
