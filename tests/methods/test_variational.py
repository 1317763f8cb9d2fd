"""The discrete variational principle itself: computed paths are critical points of the action sum."""

import functools

import jax
import jax.numpy as jnp
import pytest

import holonax as hx
from support import entry, heavy

STEPS = 4


def stages_of(method, system, start, noise):
    """The discrete curve c_d of a computed path, with the path's own multipliers."""
    path = jax.jit(functools.partial(hx.integrate, system, method))(start, noise)
    assert int(path.report.status.max()) == 0
    tableau, h, V, lam = method.tableau, noise.h, path.report.V, path.report.lam
    w = tableau.nu[:, None] * noise.dW[:, None] + tableau.kappa[:, None] * noise.H[:, None]  # (steps, s, m)
    Q = path.q[:-1, None] + h[:, None, None] * jnp.einsum("ij,kjn->kin", tableau.a, V)
    over = lambda f, *x: jax.vmap(jax.vmap(f))(*x)  # noqa: E731
    impulse = (h[:, None] * tableau.b)[..., None] * over(system.force, Q, V)
    impulse += over(system.reaction, Q, lam) + over(system.kick, Q, w)
    return {"q": path.q, "p": path.p, "Q": Q, "V": V, "lam": lam, "P": -impulse}, w


def action(system, tableau, curve, h, w, copies_of_p):
    """Discrete constrained stochastic action sum; `lam` is h b Lambda, `P` the multiplier p_k^i of the stage equation.

    The term of p_{k+1} belongs outside the sum over the stages (erratum E6); the paper prints one copy per stage.
    """
    q, p, Q, V, lam, P = (curve[name] for name in ("q", "p", "Q", "V", "lam", "P"))
    over = lambda f, *x: jax.vmap(jax.vmap(f))(*x)  # noqa: E731
    total = jnp.sum(h[:, None] * tableau.b * over(system.lagrangian, Q, V))
    total += jnp.sum(w * over(system.gamma, Q)) + jnp.sum(lam * over(system.g, Q))
    displacement = h[:, None, None] * jnp.einsum("ij,kjn->kin", tableau.a, V)
    total += jnp.sum(P * (Q - q[:-1, None] - displacement))
    return total + copies_of_p * jnp.sum(p[1:] * (q[1:] - q[:-1] - jnp.einsum("k,j,kjn->kn", h, tableau.b, V)))


def gradient(name, method, copies_of_p=1):
    e = entry(name)
    noise = hx.increments(e.system, h=0.1, steps=STEPS, seed=3)
    curve, w = stages_of(method, e.system, e.start, noise)
    slope = jax.jit(jax.grad(lambda c: action(e.system, method.tableau, c, noise.h, w, copies_of_p)))(curve)
    slope["q"] = slope["q"][1:-1]  # the end points are not varied
    slope["p"] = slope["p"][1:]  # p_0 does not occur
    return {key: float(jnp.abs(value).max()) for key, value in slope.items()}


METHODS = [hx.Rattle(), hx.Lobatto(3), hx.Lobatto(4), hx.Lobatto32(), hx.VPRK(hx.tableaux.LOBATTO_32)]
SOME = [("pendulum", hx.Rattle())]
SOME += [
    heavy(name, method)
    for name in ("pendulum", "double_pendulum", "ellipsoid")
    for method in METHODS
    if (name, method) not in SOME
]


@pytest.mark.parametrize(("name", "method"), SOME, ids=str)
def test_computed_paths_are_critical_points_of_the_action_sum(name, method):
    for variable, slope in gradient(name, method).items():
        assert slope < 1e-10, variable


def test_erratum_6_the_printed_sum_is_not_stationary():
    slopes = gradient("pendulum", hx.Rattle(), copies_of_p=hx.Rattle().tableau.stages)
    assert slopes["V"] > 1e-2
