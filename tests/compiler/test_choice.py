"""Which systems become programs of single numbers: short ones, and none that is longer than one that does not."""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler.frontend.estimate import estimated_operations, expected_seconds, most_unknowns
from holonax.compiler.frontend.step import refuse_hopeless, trace
from holonax.compiler.ir.graph import TooLong
from holonax.engines.llvm.runner import TARGET
from holonax.mechanics.inertia import diagonal_mass
from support import heavy


def traced(beads, method):
    e = hx.systems.chain(beads)
    system = hx.System(e.system.lagrangian, e.system.constraint, n=e.n)
    return trace(system.form, method, e.n, "float64", trial=True)


@pytest.mark.parametrize("method", [heavy(hx.EulerA()), heavy(hx.Langevin(1.0, 1.0))], ids=str)
def test_longer_chains_take_longer(method):
    """Also where the mass of 33 beads is no longer looked up entry by entry."""
    programs = [traced(beads, method).ahead.jaxpr for beads in (16, 32, 36)]
    seconds = [expected_seconds(estimated_operations(x), most_unknowns(x)) for x in programs]
    assert 1.5 < seconds[1] / seconds[0] < 4.5
    assert 1.0 < seconds[2] / seconds[1] < 1.5


def test_a_chain_of_64_beads_is_written_out_and_one_of_120_is_not():
    refuse_hopeless(traced(64, hx.EulerA()), TARGET, times=1)
    with pytest.raises(TooLong, match="480 unknowns"):
        refuse_hopeless(traced(120, hx.EulerA()), TARGET, times=1)


def test_a_constant_diagonal_of_a_small_mass_is_seen():
    q, masses = jnp.ones(6), np.arange(1.0, 7.0)
    apart = hx.System(lambda q, v: 0.5 * jnp.sum(masses * v**2) - jnp.sum(q**4), n=6)
    np.testing.assert_array_equal(diagonal_mass(apart, q, 0 * q), masses)
    coupled = hx.System(lambda q, v: 0.5 * jnp.sum(masses * v**2) + 0.1 * v[0] * v[1], n=6)
    assert diagonal_mass(coupled, q, 0 * q) is None
