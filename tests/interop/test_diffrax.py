"""The eliminated equations in diffrax: the same noise, hence the same paths."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.interop.diffrax import Noise, sde_terms
from support import heavy

H = 2.0**-6


def solve(entry, noise, solver, dt0=H):
    y0 = (entry.start.q, entry.start.p)
    return diffrax.diffeqsolve(sde_terms(entry.system, noise), solver, noise.t0, noise.t1, dt0, y0).ys


def noise_of(entry, steps=64, h=H):
    return hx.increments(entry.system, h=h, steps=steps, seed=2, path=5)


@pytest.mark.parametrize("name", ["pendulum", heavy("ellipsoid")])
def test_euler_of_diffrax_is_euler_maruyama(name):
    entry = getattr(hx.systems, name)()
    q, p = solve(entry, Noise(noise_of(entry)), diffrax.Euler())
    path = hx.integrate(entry.system, hx.EulerMaruyama(), entry.start, noise_of(entry))
    np.testing.assert_allclose(q[-1], path.q[-1], atol=1e-12)
    np.testing.assert_allclose(p[-1], path.p[-1], atol=1e-12)


def test_a_solver_that_uses_the_levy_area_finds_the_path_of_simulate():
    """Strong order 3/2 on both sides: far closer than the methods of order 1 can be."""
    entry = hx.systems.pendulum()
    run = hx.simulate(entry.system, hx.Kicked(), entry.start, t1=1.0, h=2**-8, paths=6, seed=2, save_every=None)
    q, p = solve(entry, Noise(noise_of(entry, 256, 2.0**-8)), diffrax.SlowRK(), 2.0**-8)
    np.testing.assert_allclose(q[-1], run.q[5, -1], atol=2e-4)
    np.testing.assert_allclose(p[-1], run.p[5, -1], atol=4e-4)


def test_steps_of_several_h_have_joined_noise():
    entry = hx.systems.pendulum()
    fine = noise_of(entry)
    coarse = fine.joined(4)
    area = Noise(fine).evaluate(8 * H, 12 * H, use_levy=True)
    np.testing.assert_allclose(area.W, coarse.dW[2], atol=1e-14)
    np.testing.assert_allclose(area.H, coarse.H[2], atol=1e-13)
    assert area.dt == 4 * H
    np.testing.assert_allclose(Noise(fine, t0=1.0).evaluate(1.0 + 4 * H), coarse.dW[0], atol=1e-14)


def test_other_paths_of_diffrax_drive_the_equations():
    entry = hx.systems.torus()
    tree = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-3, shape=(2,), key=jax.random.key(0))
    y0 = (entry.start.q, entry.start.p)
    q, _ = diffrax.diffeqsolve(sde_terms(entry.system, tree), diffrax.Heun(), 0.0, 1.0, 2.0**-8, y0).ys
    assert jnp.abs(entry.system.g(q[-1])).max() < 1e-3


def test_steps_between_those_of_the_noise_are_refused():
    entry = hx.systems.pendulum()
    with pytest.raises(Exception, match="known at multiples of its h only"):
        solve(entry, Noise(noise_of(entry)), diffrax.Euler(), dt0=H / 2)
    with pytest.raises(Exception, match="known at multiples of its h only"):
        Noise(noise_of(entry)).evaluate(0.0, 2.0)


def test_bad_input():
    entry = hx.systems.pendulum()
    with pytest.raises(hx.InputError, match="one path is needed"):
        Noise(hx.Increment(jnp.ones(()), jnp.ones(2), jnp.ones(2)))
    with pytest.raises(hx.InputError, match="draw them with"):
        Noise(0.1)
    with pytest.raises(hx.InputError, match="is not a system"):
        sde_terms(entry, Noise(noise_of(entry)))
