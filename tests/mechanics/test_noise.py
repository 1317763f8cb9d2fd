"""Noise: the generator, the law of (dW, H), joining, and independence of everything that must not matter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.mechanics.noise import philox, words

PENDULUM = hx.System(lambda q, v: 0.5 * v @ v - q[2], constraint=lambda q: q @ q - 1.0, noise=jnp.sin)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [  # Random123's published known-answer vectors for philox4x32-10
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_known_answers(counter, key, answer):
    drawn = philox(tuple(map(np.uint32, counter)), tuple(map(np.uint32, key)))
    assert [int(x) for x in drawn] == answer


def reference_normals(seed, path, step, number):
    """The normal numbers of one step, written out in Python integers and NumPy floats."""

    def rounds(c, k):
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c

    z = []
    for block in range((number + 1) // 2):
        c = rounds([step, block, path & 0xFFFFFFFF, path >> 32], [seed & 0xFFFFFFFF, seed >> 32])
        u, w = ((hi << 32 | lo) >> 12 for hi, lo in (c[:2], c[2:]))
        radius, angle = np.sqrt(-2 * np.log1p(-u / 2**52)), np.pi * (w / 2**53 - 0.25)
        pair = [radius * np.cos(angle) * (-1 if c[3] & 2 else 1), radius * np.sin(angle)]
        z += pair[::-1] if c[3] & 1 else pair
    return np.array(z[:number])


@pytest.mark.parametrize(("seed", "path"), [(0, 0), (7, 17), (2**63 + 5, 2**40 + 3)])
def test_increments_against_a_reference_in_python_integers(seed, path):
    noise = hx.increments(PENDULUM, h=0.25, steps=5, seed=seed, path=path)
    for step in range(5):
        z = reference_normals(seed, path, step, 6)
        np.testing.assert_allclose(noise.dW[step], np.sqrt(0.25) * z[:3], rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(noise.H[step], np.sqrt(0.25 / 12) * z[3:], rtol=1e-14, atol=1e-15)


def many(h=1.0, paths=4000, steps=50):
    draw = jax.jit(jax.vmap(lambda path: hx.increments(PENDULUM, h=h, steps=steps, seed=3, path=path)))
    return draw(jnp.arange(paths))


def test_moments_tails_and_correlations():
    noise = many()
    z = np.stack([noise.dW, np.sqrt(12) * noise.H])  # (2, paths, steps, m), standard normal
    number = z.size
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs(np.mean(z**power) - moment) < 5 * np.sqrt(variance / number)
    for bound, tail in ((1.0, 0.31731), (3.0, 2.6998e-3), (4.0, 6.334e-5)):
        assert abs(np.mean(np.abs(z) > bound) - tail) < 5 * np.sqrt(tail / number)
    shifts = [z[0] * z[1]]  # dW and H
    shifts += [np.roll(z, 1, axis=axis) * z for axis in (1, 2, 3)]  # path, step, potential
    shifts += [np.roll(z[0], 1, axis=axis) * z[1] for axis in (0, 1, 2)]
    for product in shifts:
        assert abs(product.mean()) < 5 / np.sqrt(product.size)


@pytest.mark.parametrize("factor", [2, 3, 8])
def test_joined_increments_have_the_covariance_of_a_longer_step(factor):
    fine = many(h=0.5, paths=20_000, steps=24)
    coarse = jax.vmap(lambda noise: noise.joined(factor))(fine)
    h = 0.5 * factor
    np.testing.assert_allclose(coarse.h, h)
    dW, H = np.asarray(coarse.dW).ravel() / np.sqrt(h), np.asarray(coarse.H).ravel() / np.sqrt(h / 12)
    bound = 5 / np.sqrt(dW.size)
    assert abs(np.mean(dW**2) - 1) < bound * np.sqrt(2)
    assert abs(np.mean(H**2) - 1) < bound * np.sqrt(2)
    assert abs(np.mean(dW * H)) < bound


def test_joining_is_associative_and_keeps_the_path():
    noise = hx.increments(PENDULUM, h=0.125, steps=24, seed=0, path=5)
    for at_once, in_turn in ((4, (2, 2)), (6, (2, 3)), (24, (2, 3, 4))):
        joined = noise
        for factor in in_turn:
            joined = joined.joined(factor)
        for x, y in zip(noise.joined(at_once), joined, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-15)
    # a Riemann sum of the piecewise-linear part, plus the fine Levy areas, is the coarse integral
    W = np.concatenate([np.zeros((1, 3)), np.cumsum(noise.dW, axis=0)])
    integral = (0.125 * ((W[:-1] + W[1:]) / 2 + np.asarray(noise.H))).sum(axis=0)
    whole = noise.joined(24)
    np.testing.assert_allclose(3.0 * (whole.dW[0] / 2 + whole.H[0]), integral, atol=1e-14)


def test_reversing_is_walking_backwards():
    noise = hx.increments(PENDULUM, h=0.5, steps=2, seed=0, path=0)
    one, other = noise.joined(2).reverse(), noise.reverse().joined(2)
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-15)


def test_a_path_walked_backwards_returns_to_its_start():
    e = hx.systems.pendulum()
    noise = hx.increments(e.system, h=2.0**-5, steps=32, seed=0)
    there = hx.integrate(e.system, hx.Rattle(), e.start, noise)
    back = hx.integrate(e.system, hx.Rattle(), hx.State(there.q[-1], there.p[-1]), noise.reverse())
    np.testing.assert_allclose(back.q[-1], e.start.q, atol=1e-12)


def test_noise_is_bitwise_the_same_wherever_it_is_drawn():
    alone = hx.increments(PENDULUM, h=2.0**-6, steps=20, seed=9, path=17)
    among = jax.jit(jax.vmap(lambda path: hx.increments(PENDULUM, h=2.0**-6, steps=20, seed=9, path=path)))
    for paths in (18, 100):
        np.testing.assert_array_equal(among(jnp.arange(paths)).dW[17], alone.dW)
        np.testing.assert_array_equal(among(jnp.arange(paths)).H[17], alone.H)


def test_simulate_uses_exactly_these_increments():
    # L = v^2/2 and gamma = q: EulerA adds dW to p, so differences of p are the increments themselves
    free = hx.System(lambda q, v: 0.5 * v @ v, noise=lambda q: q, n=2)
    run = hx.simulate(free, hx.EulerA(), hx.start(free, q=[0.0, 0.0]), t1=1.0, h=2.0**-4, paths=40, seed=4)
    for path in (0, 17, 39):
        noise = hx.increments(free, h=2.0**-4, steps=16, seed=4, path=path)
        total = np.zeros(2)
        for step in range(16):
            total = total + np.asarray(noise.dW[step])
            # a kernel may fuse a multiplication with an addition, hence the last bit
            np.testing.assert_allclose(run.p[path, step + 1], total, rtol=0, atol=1e-15)


def test_words_of_large_numbers():
    np.testing.assert_array_equal(words(2**40 + 3), [3, 256])
    np.testing.assert_array_equal(words(jnp.asarray([2**40 + 3])), [[3], [256]])


def test_the_number_of_potentials_is_found_without_a_start():
    assert hx.increments(PENDULUM, h=0.1, steps=2, seed=0).dW.shape == (2, 3)
    for name in hx.systems.names():
        e = getattr(hx.systems, name)()
        assert hx.increments(e.system, h=0.1, steps=2, seed=0).dW.shape == (2, e.m)
    quiet = hx.System(lambda q, v: 0.5 * v @ v)
    assert hx.increments(quiet, h=0.1, steps=2, seed=0).dW.shape == (2, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, r"seed = -1: must be an integer from 0"),
        ({"seed": 2**64}, r"seed = 18446744073709551616"),
        ({"seed": 0.5}, r"seed = 0.5"),
        ({"path": -3}, r"path = -3"),
        ({"steps": 0}, r"steps = 0"),
        ({"h": -0.1}, r"h = -0.1: the step size must be positive"),
        ({"h": float("nan")}, r"h = nan"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(hx.InputError, match=message):
        hx.increments(PENDULUM, **({"h": 0.1, "steps": 4, "seed": 0, "path": 0} | arguments))


def test_steps_that_cannot_be_joined():
    with pytest.raises(hx.InputError, match="10 steps cannot be joined by 3"):
        hx.increments(PENDULUM, h=0.1, steps=10, seed=0).joined(3)
