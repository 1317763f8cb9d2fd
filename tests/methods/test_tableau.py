"""Tableaux: exact numbers, their algebra, and which of them are refused."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import holonax as hx
from holonax.methods.tableaux import KICKS

LOBATTO = [hx.tableaux.lobatto(s) for s in range(2, 7)]


def test_known_nodes_and_coefficients():
    np.testing.assert_array_equal(hx.tableaux.RATTLE.a, [[0, 0], [0.5, 0.5]])
    three = hx.tableaux.lobatto(3)
    np.testing.assert_allclose(three.a, [[0, 0, 0], [5 / 24, 1 / 3, -1 / 24], [1 / 6, 2 / 3, 1 / 6]], atol=1e-16)
    np.testing.assert_allclose(hx.tableaux.lobatto(4).c, [0, (1 - 5**-0.5) / 2, (1 + 5**-0.5) / 2, 1], atol=1e-16)
    np.testing.assert_allclose(hx.tableaux.lobatto(5).c[1], (1 - (3 / 7) ** 0.5) / 2, atol=1e-16)
    np.testing.assert_allclose(hx.tableaux.lobatto(6).b, hx.tableaux.lobatto(6).b[::-1], atol=1e-16)


@pytest.mark.parametrize("tableau", LOBATTO, ids=lambda t: f"s={t.stages}")
def test_lobatto_is_collocation_of_order_2s_minus_2(tableau):
    s, c = tableau.stages, tableau.c
    for k in range(1, s + 1):
        np.testing.assert_allclose(tableau.a @ c ** (k - 1), c**k / k, atol=1e-15)
    assert abs(tableau.b @ c ** (2 * s - 2) - 1 / (2 * s - 1)) > 1e-8  # one order more is not to be had
    assert tableau.order == 2 * s - 2
    assert tableau.is_symmetric()
    assert tableau.is_stiffly_closed()
    assert tableau.strong_order == 1.0
    assert tableau.weak_order == 1


@pytest.mark.parametrize("tableau", [*LOBATTO, hx.tableaux.LOBATTO_32], ids=lambda t: f"s={t.stages}")
def test_the_conjugate_is_symplectic_and_an_involution(tableau):
    b = tableau.b
    symplecticity = b[:, None] * tableau.ahat + (b[:, None] * tableau.a).T - np.outer(b, b)
    np.testing.assert_allclose(symplecticity, 0, atol=1e-16)
    np.testing.assert_allclose(tableau.conjugate().conjugate().a, tableau.a, atol=1e-15)


@pytest.mark.parametrize("tableau", LOBATTO, ids=lambda t: f"s={t.stages}")
def test_erratum_1_the_printed_block_is_singular_and_jays_is_not(tableau):
    product = tableau.a @ tableau.ahat
    np.testing.assert_allclose(product[1:, -1], 0, atol=1e-16)  # the printed last column
    assert np.linalg.matrix_rank(product[1:, 1:], tol=1e-12) < tableau.stages - 1
    assert np.linalg.svd(product[1:, :-1], compute_uv=False)[-1] > 1e-3


def test_erratum_3_two_stages_cannot_have_strong_order_three_halves():
    # (i) and (ii) leave no choice with two stages: nu = (1/2, 1/2), kappa = (1, -1); (iii) then fails.
    forced = hx.Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], nu=[0.5, 0.5], kappa=[1, -1])
    conditions = forced.noise_conditions()
    assert [abs(x) < 1e-15 for x in conditions.values()] == [True, True, True, True, False]
    assert forced.strong_order == 1.0
    assert forced.weak_order == 1


def test_erratum_3_three_stages_can():
    assert max(map(abs, hx.tableaux.LOBATTO_32.noise_conditions().values())) < 1e-15
    assert hx.tableaux.LOBATTO_32.strong_order == 1.5
    assert hx.tableaux.LOBATTO_32.weak_order == 2
    b_weights = hx.Tableau(hx.tableaux.lobatto(3).a, hx.tableaux.lobatto(3).b, kappa=[1, 0, -1])
    assert b_weights.strong_order == 1.0  # the obvious weights do not


def test_condition_three_is_the_mean_of_the_double_noise_term():
    """The same as asking that sum b_i E[(noise in P^i)^2] = h/2, for these conjugate tableaux."""
    t = hx.tableaux.LOBATTO_32
    share = t.transfer
    curvature = t.b @ ((share @ t.nu) ** 2 + (share @ t.kappa) ** 2 / 12)
    assert abs(curvature - 0.5) < 1e-15


def test_orders_of_the_kick_schemes():
    orders = {name: (k.strong_order, k.weak_order, k.is_symmetric()) for name, k in KICKS.items()}
    assert orders == {
        "symmetric": (1.5, 2, True),
        "milstein-tretyakov": (1.5, 2, False),
        "midpoint": (1.0, 2, True),
    }


def test_inconsistent_noise_weights_have_order_zero():
    t = hx.Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], nu=[1, 1])
    assert (t.strong_order, t.weak_order) == (0.0, 0)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([[0, 0], [1, 0]], [1, 0], r"b_2 = 0"),
        ([[0.5, 0], [0.5, 0.5]], [0.5, 0.5], r"first row \[0.5, 0.0\] is not zero"),
        ([[0, 0], [1, 0]], [0.5, 0.5], r"last row \[1.0, 0.0\] is not b"),
        ([[1]], [1], r"1 stage"),
        ([[0, 0, 0], [0, 0, 0], [0.25, 0.5, 0.25]], [0.25, 0.5, 0.25], r"smallest singular value 0.0e\+00"),
    ],
)
def test_a_tableau_that_cannot_work_is_refused_with_the_reason(a, b, reason):
    tableau = hx.Tableau(a, b)
    assert not tableau.is_stiffly_closed()
    with pytest.raises(hx.TableauError, match=reason):
        hx.VPRK(tableau)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 0], [0.5, 0.5]], [1.0]), r"a has shape \(2, 2\); \(1, 1\) is needed"),
        (([[0, 0], [0.5, 0.5]], [0.5, 0.5], [1.0]), r"nu has shape \(1,\)"),
        (([[0, 0], [0.5, float("nan")]], [0.5, 0.5]), r"not finite"),
        (([], []), r"at least 1 stage"),
    ],
)
def test_malformed_tableaux(arguments, message):
    with pytest.raises(hx.TableauError, match=message):
        hx.Tableau(*arguments)


def test_stages_that_are_not_provided():
    for stages in (1, 7, 2.5):
        with pytest.raises(hx.TableauError, match="provided for 2, 3, 4, 5 and 6"):
            hx.Lobatto(stages)


def test_exact_numbers_are_rounded_once_and_tableaux_compare_by_value():
    exact = hx.Tableau([[0, 0], [Fraction(1, 2), Decimal("0.5")]], [Fraction(1, 2)] * 2)
    assert exact == hx.tableaux.RATTLE
    assert hash(exact) == hash(hx.tableaux.RATTLE)
    assert hx.VPRK(exact) == hx.VPRK(hx.tableaux.RATTLE)
    with pytest.raises(ValueError, match="read-only"):
        exact.a[0, 0] = 1.0
