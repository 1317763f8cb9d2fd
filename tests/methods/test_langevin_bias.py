"""The bias of Langevin splittings: second order in h, and none with Metropolis (`python -m examples.langevin_bias`)."""

import pytest
from examples.langevin_bias import QUANTITIES, study


@pytest.mark.study
def test_the_bias_of_splittings_is_of_second_order_and_metropolis_has_none():
    curves = study()
    z, kinetic = range(len(QUANTITIES))
    for name in ("OBABO", "BAOAB", "g-BAOAB, inner=4"):
        assert curves[name].seen(z)
        assert curves[name].order(z)[0] == pytest.approx(2.0, abs=0.2), name  # standard error 0.06, and a term h^4
    for name in ("BAOAB", "g-BAOAB, inner=4"):
        assert curves[name].order(kinetic)[0] == pytest.approx(2.0, abs=0.05), name
        for level in curves[name].levels:  # -E |grad U|^2 h^2 / 8, as for an oscillator: grad along the sphere
            assert level.bias[kinetic] / level.h**2 == pytest.approx(-1.0, abs=0.04), name
    for level in curves["BAOAB, metropolis"].levels:
        assert (abs(level.bias) < 4.5 * level.stderr).all(), level
    # At h = 0.2 the inner steps buy a factor of nearly 3, and OBABO would be 7 times worse than BAOAB.
    at = {name: {level.h: level.bias[z] for level in curves[name].levels} for name in curves}
    assert at["BAOAB"][0.2] / at["g-BAOAB, inner=4"][0.2] > 2
    assert at["OBABO"][0.1] > 3 * at["BAOAB"][0.14] * (0.1 / 0.14) ** 2
