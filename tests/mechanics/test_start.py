"""`start` and `System`: what is accepted, what is projected, and what is refused with its number and remedy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx


def sphere(q):
    return q @ q - 1.0


FREE = hx.System(lambda q, v: 0.5 * v @ v, constraint=sphere)
PENDULUM = hx.System(lambda q, v: 0.5 * v @ v - q[2], constraint=sphere, noise=jnp.sin)


def test_velocity_momentum_and_rest():
    e = hx.systems.ellipsoid()
    v = jnp.array([0.6, 0.0, -0.6])
    by_velocity = hx.start(e.system, q=e.start.q, v=v)
    by_momentum = hx.start(e.system, q=e.start.q, p=by_velocity.p)
    np.testing.assert_allclose(by_momentum.v, v, atol=1e-15)
    at_rest = hx.start(e.system, q=e.start.q)
    np.testing.assert_allclose(at_rest.p, e.system.momentum(e.start.q, jnp.zeros(3)), atol=1e-15)


def test_one_state_per_path():
    angles = np.linspace(0, 1, 5)
    q = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    v = np.stack([-np.sin(angles), np.cos(angles), 0 * angles], axis=1)
    state = hx.start(PENDULUM, q=q, v=v)
    assert state.q.shape == state.p.shape == (5, 3)
    with pytest.raises(hx.StartError, match=r"g\(q\) = 1.25 is not zero.*path 3 of 5"):
        hx.start(PENDULUM, q=np.where(np.arange(5)[:, None] == 3, 1.5 * q, q), v=v)


def test_projection_lands_on_the_cotangent_bundle():
    e = hx.systems.ellipsoid()
    state = hx.start(e.system, q=[0.7, 0.8, 0.5], v=[1.0, 1.0, 1.0], project=True)
    assert float(jnp.abs(e.system.g(state.q)).max()) < 1e-15
    assert float(jnp.abs(e.system.hidden(state.q, e.system.velocity(state.q, state.p))).max()) < 1e-15
    assert float(jnp.linalg.norm(state.q - jnp.array([0.7, 0.8, 0.5]))) < 0.3
    again = hx.start(e.system, q=state.q, p=state.p, project=True)
    np.testing.assert_allclose(again.p, state.p, atol=1e-15)
    both = hx.start(FREE, q=[[2.0, 0.0, 0.0], [0.0, 0.3, 0.0]], v=[[1.0, 1.0, 0.0], [0.0, 5.0, 2.0]], project=True)
    np.testing.assert_allclose(both.q, [[1, 0, 0], [0, 1, 0]], atol=1e-15)
    np.testing.assert_allclose(both.p, [[0, 1, 0], [0, 0, 2]], atol=1e-15)


NAN = float("nan")
WRONG = {
    "off the manifold": (FREE, {"q": [1.0, 0.0, 0.5]}, r"g\(q\) = 0.25 is not zero.*project=True"),
    "not tangent": (FREE, {"q": [1.0, 0, 0], "v": [0.5, 1, 0]}, r"g'\(q\) v = 1 is not zero.*tangent.*project=True"),
    "momentum not tangent": (FREE, {"q": [1.0, 0, 0], "p": [0.5, 1, 0]}, r"g'\(q\) v = 1 is not zero"),
    "dependent constraints": (
        hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: jnp.array([q @ q - 1, 3 * (q @ q) - 3])),
        {"q": [1.0, 0.0, 0.0]},
        r"constraints are dependent.*0e\+00 of the largest.*remove the redundant",
    ),
    "singular point": (
        hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: q[0] * q[1]),
        {"q": [0.0, 0.0, 1.0]},
        r"constraints are dependent",
    ),
    "k = n": (
        hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: q),
        {"q": [0.0, 0.0]},
        r"k = 2 constraints leave nothing free of n = 2 coordinates",
    ),
    "k > n": (
        hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: jnp.concatenate([q, q])),
        {"q": [0.0, 0.0]},
        r"k = 4 constraints leave nothing free of n = 2",
    ),
    "singular mass": (
        hx.System(lambda q, v: 0.5 * v[0] ** 2 - q @ q),
        {"q": [0.0, 0.0], "v": [1.0, 0.0]},
        r"mass matrix L_vv is singular.*every velocity must enter L",
    ),
    "mass degenerate across the constraint": (
        hx.System(lambda q, v: v[0] * v[1] - q[2], constraint=lambda q: q[0], n=2),
        {"q": [0.0, 0.0]},
        r"does not accept 2 coordinates",
    ),
    "null mass across the constraint": (
        hx.System(lambda q, v: v[0] * v[1], constraint=lambda q: q[0]),
        {"q": [0.0, 0.0]},
        r"g' L_vv\^-1 g'\^T is singular",
    ),
    "a small sphere": (
        hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: q @ q - 1e-12, n=3),
        {"q": [9e-6, 0.0, 0.0]},
        r"g\(q\) = 8e-11 is not zero",
    ),
    "a slow velocity across": (FREE, {"q": [1.0, 0, 0], "v": [4e-11, 0, 1e-11]}, r"g'\(q\) v = 8e-11 is not zero"),
    "singular mass with a momentum": (
        hx.System(lambda q, v: 0.5 * v[0] ** 2 - q @ q),
        {"q": [0.0, 0.0], "p": [1.0, 0.0]},
        r"mass matrix L_vv is singular",
    ),
    "NaN in q": (FREE, {"q": [1.0, NAN, 0.0]}, r"q\[1\] = nan is not finite"),
    "NaN in v": (FREE, {"q": [1.0, 0.0, 0.0], "v": [0.0, 0.0, NAN]}, r"v\[2\] = nan is not finite"),
    "inf in p": (FREE, {"q": [1.0, 0.0, 0.0], "p": [0.0, float("inf"), 0.0]}, r"p\[1\] = inf is not finite"),
    "NaN from L": (
        hx.System(lambda q, v: 0.5 * v @ v - jnp.log(q[0] - 2.0), constraint=sphere),
        {"q": [1.0, 0.0, 0.0]},
        r"not finite at the start, where L = nan",
    ),
    "shape of q": (FREE, {"q": 1.0}, r"q has shape \(\); it must be \(n,\)"),
    "empty q": (FREE, {"q": []}, r"q has shape \(0,\)"),
    "shape of v": (FREE, {"q": [1.0, 0.0, 0.0], "v": [0.0, 1.0]}, r"v has shape \(2,\) but q has \(3,\)"),
    "too few coordinates": (PENDULUM, {"q": [1.0, 0.0]}, r"lagrangian does not accept 2 coordinates: index 2"),
    "n said otherwise": (
        hx.System(lambda q, v: 0.5 * v @ v, n=2),
        {"q": [1.0, 0.0, 0.0]},
        r"q has 3 coordinates but the system was built with n = 2",
    ),
    "v and p": (FREE, {"q": [1.0, 0, 0], "v": [0.0, 1, 0], "p": [0.0, 1, 0]}, r"both v and p are given"),
    "L is a vector": (hx.System(lambda q, v: v, n=3), {"q": [1.0, 0, 0]}, r"lagrangian returns shape \(3,\)"),
    "g is a matrix": (
        hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: jnp.outer(q, q)),
        {"q": [1.0, 0.0, 0.0]},
        r"constraint returns shape \(3, 3\)",
    ),
    "nowhere to project to": (
        hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: q @ q + 1.0),
        {"q": [1.0, 0.0, 0.0], "project": True},
        r"project=True found no point of T\*S near the given state: .*start nearer to the manifold",
    ),
    "projected from where the gradient vanishes": (
        hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: q @ q - 1.0),
        {"q": [0.0, 0.0, 0.0], "project": True},
        r"gradients of constraints are dependent there, one of them vanishes.*start elsewhere",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_start_says_what_the_number_and_the_remedy(case):
    system, arguments, message = WRONG[case]
    with pytest.raises(hx.HolonaxError, match=message):
        hx.start(system, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lagrangian": 3.0}, "lagrangian = 3.0 is not a function"),
        ({"lagrangian": sphere, "constraint": 1.0}, "constraint = 1.0 is not a function"),
        ({"lagrangian": sphere, "n": 0}, "n = 0: a system has at least 1"),
    ],
)
def test_what_is_no_system(arguments, message):
    with pytest.raises(hx.InputError, match=message):
        hx.System(**arguments)


def test_a_dimension_that_cannot_be_guessed():
    odd = hx.System(lambda q, v: v.reshape(10, 10).sum() ** 2)
    with pytest.raises(hx.InputError, match=r"no number of coordinates up to 64 fits.*n=\.\.\."):
        odd.dimension()


def test_start_under_transformations_checks_shapes_alone():
    def energy(gravity):
        system = hx.System(lambda q, v: 0.5 * v @ v - gravity * q[2], constraint=sphere)
        state = hx.start(system, q=[0.6, 0.0, 0.8], v=[0.0, 1.0, 0.0])
        return system.energy(state.q, state.p)

    assert abs(jax.grad(energy)(1.0) - 0.8) < 1e-14
    moved = jax.jit(lambda q: hx.start(FREE, q=q).q)(jnp.array([2.0, 0.0, 0.0]))
    assert moved.tolist() == [2.0, 0.0, 0.0]


def test_derived_quantities_against_hand_written_ones():
    e = hx.systems.pendulum()
    q, v, lam = jnp.array([0.6, 0.0, 0.8]), jnp.array([0.1, 0.2, 0.3]), jnp.array([0.7])
    np.testing.assert_allclose(e.system.momentum(q, v), v)
    np.testing.assert_allclose(e.system.force(q, v), [0, 0, -1])
    np.testing.assert_allclose(e.system.reaction(q, lam), 1.4 * q)
    np.testing.assert_allclose(e.system.hidden(q, v), 2 * q @ v)
    np.testing.assert_allclose(e.system.kick(q, v), jnp.cos(q) * v)
    np.testing.assert_allclose(e.system.mass(q, v), np.eye(3))
    np.testing.assert_allclose(e.system.energy(q, v), 0.5 * v @ v + 0.8)
    relativistic = hx.System(lambda q, v: -jnp.sqrt(1.0 - v @ v))
    np.testing.assert_allclose(relativistic.velocity(q, 3 * v), 3 * v / jnp.sqrt(1 + 9 * v @ v), atol=1e-15)


def test_a_velocity_that_does_not_exist_is_nan_and_a_simulation_says_so():
    bounded = hx.System(lambda q, v: jnp.sum(jnp.sqrt(1.0 + v**2)) - q @ q)  # |L_v| < 1 everywhere
    assert bool(jnp.isnan(bounded.velocity(jnp.zeros(1), jnp.array([2.0]))).all())


def test_round_off_in_a_velocity_is_no_objection():
    """The terms of g' v may all but vanish one by one, and one path of many may be all but at rest."""
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: q @ q - 1.0, n=3)
    hx.start(system, q=[1.0, 0.0, 0.0], v=[1e-17, 1.0, 0.0])
    hx.start(system, q=[[1.0, 0.0, 0.0]] * 2, v=[[0.0, 1.0, 0.0], [1e-17, 1e-9, 0.0]])
    with pytest.raises(hx.StartError, match="not tangent"):
        hx.start(system, q=[[1.0, 0.0, 0.0]] * 2, v=[[0.0, 1.0, 0.0], [1e-9, 1e-9, 0.0]])
