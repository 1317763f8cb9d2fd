"""The kernel in the manner of blackjax: the steps of `hx.sample`, with the random numbers of JAX's keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.interop.blackjax import langevin_kernel
from holonax.sampling.sample import PATIENCE
from holonax.sampling.target import langevin_system

STEP = 0.8
HEIGHT = -0.446389965896


def tilted(q):
    return -q[1]


def circle(q):
    return q @ q - 1.0


@pytest.fixture(scope="module")
def chains():
    """256 chains of 100 steps, begun at one place."""
    kernel = langevin_kernel(tilted, circle, step_size=STEP)
    begin = kernel.init([1.0, 0.0])

    def chain(key):
        def step(state, key):
            state, transition = kernel.step(key, state)
            return state, (state.position, transition)

        return jax.lax.scan(step, begin, jax.random.split(key, 100))[1]

    return jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1), 256))


@pytest.mark.study
def test_a_chain_is_a_path_of_langevin_with_that_noise(chains):
    """The random numbers of a key are Wiener increments and space-time Lévy areas, in this order."""
    system = langevin_system(tilted, circle, 2, None, "surface")
    method = hx.Langevin(1.0, 1.0, metropolis=True, newton=PATIENCE)
    keys = jax.random.split(jax.random.split(jax.random.key(1), 256)[7], 100)
    z = jax.vmap(lambda key: jax.random.normal(key, (2, 3)))(keys)
    noise = hx.Increment(jnp.full(100, STEP), np.sqrt(STEP) * z[:, 0], np.sqrt(STEP / 12) * z[:, 1])
    path = hx.integrate(system, method, hx.start(system, [1.0, 0.0]), noise)
    positions, transitions = chains
    np.testing.assert_allclose(positions[7], path.q[1:], atol=1e-9)
    np.testing.assert_array_equal(transitions.outcome[7], path.report.outcome)


@pytest.mark.study
def test_what_is_sampled(chains):
    """The mean height on the circle is that of von Mises, -I_1(1)/I_0(1)."""
    positions, _ = chains
    means = np.asarray(positions[:, 20:, 1]).mean(axis=1)
    assert abs(means.mean() - HEIGHT) < 5 * means.std() / 16
    assert means.std() / 16 < 0.02
    assert abs(jnp.sum(positions**2, axis=-1) - 1).max() < 1e-13


@pytest.mark.study
def test_the_acceptance_is_that_of_sample(chains):
    _, transitions = chains
    samples = hx.sample(tilted, circle, [1.0, 0.0], chains=256, draws=100, step_size=STEP, warmup=20)
    share = np.asarray(transitions.is_accepted).mean(axis=1)
    error = np.hypot(share.std(), samples.acceptance.std()) / 16  # of the difference of two means of 256
    assert abs(share.mean() - samples.acceptance.mean()) < 5 * error
    assert error < 0.01


def test_without_metropolis_a_step_that_cannot_be_solved_stays():
    kernel = langevin_kernel(tilted, circle, step_size=20.0, metropolis=False)
    begin = kernel.init([1.0, 0.0])
    state, transition = jax.jit(kernel.step)(jax.random.key(0), begin)
    assert transition.status != 0
    assert not transition.is_accepted
    np.testing.assert_array_equal(state.position, begin.position)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "step_size = 0.0"),
        ({"measure": "volume"}, "measure = 'volume'"),
        ({"friction": -1.0}, "friction = -1.0"),
        ({"splitting": "BAB"}, "splitting = 'BAB'"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(hx.InputError, match=message):
        langevin_kernel(tilted, circle, **{"step_size": 0.1} | options)


def test_a_start_off_the_manifold():
    with pytest.raises(hx.StartError, match="off the manifold"):
        langevin_kernel(tilted, circle, step_size=0.1).init([1.0, 1.0])
