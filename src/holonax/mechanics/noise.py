r"""Noise as a pure function of (seed, path, step, potential): the only module that makes random numbers.

A counter-based generator needs no state and no storage, so a path meets the same noise wherever and in whatever order
it is computed.  A Philox block of 128 bits gives two normal numbers; a step of a system with m stochastic potentials
takes m blocks, for the Wiener increments $\Delta W \sim N(0, h)$ and then for the *space-time Lévy areas*

$$ H = \frac1h \int_0^h W\,ds - \frac{\Delta W}{2} \sim N(0, h/12), \qquad \text{independent of } \Delta W. $$
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from holonax.errors import InputError, shown, whole_number
from holonax.inputs.checks import at_least, instance, is_traced, memory, positive
from holonax.mechanics.system import System
from holonax.numerics.elementary import log, sine_and_cosine
from holonax.numerics.whole import whole

STEPS_OF_A_PATH = 2**32
"""Steps that have noise of their own: the counter has 32 bits for them."""

_ROUNDS = 10
_MULTIPLIERS = (np.uint32(0xD2511F53), np.uint32(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))


class Increment(NamedTuple):
    r"""One step of noise: step size `h`, Wiener increments `dW` and space-time Lévy areas `H`, both of shape (m,).

    With a leading axis on all three it is a sequence of steps: `hx.increments` returns one, `hx.integrate` takes one.
    """

    h: Array
    dW: Array
    H: Array

    def reverse(self) -> Increment:
        r"""The same path walked backwards, last step first: $h \to -h$, $\Delta W \to -\Delta W$, $H \to H$."""
        back = slice(None, None, -1) if jnp.ndim(self.dW) > 1 else ...
        return Increment(-self.h[back], -self.dW[back], self.H[back])

    def joined(self, factor: int) -> Increment:
        r"""Every `factor` successive steps joined into one: the same Wiener path on a coarser grid.

        With $J = \int W\,ds = h(\Delta W/2 + H)$ over a step, lengths and increments add, and a step that begins at
        $W_i$ contributes $J_i + h_i W_i$ to the joined integral.
        """
        if jnp.ndim(self.dW) != 2:
            raise InputError(f"dW has shape {jnp.shape(self.dW)}: only a sequence of steps, (steps, m), can be joined")
        steps = self.dW.shape[0]
        if whole_number("factor", factor) < 1 or steps % factor:
            raise InputError(f"{steps} steps cannot be joined by {factor}: the number of steps must be a multiple")
        h, dW, H = (x.reshape(steps // factor, factor, *x.shape[1:]) for x in self)
        begin = jnp.cumsum(dW, axis=1) - dW
        integral = jnp.sum(h[..., None] * (begin + dW / 2 + H), axis=1)
        h, dW = h.sum(axis=1), dW.sum(axis=1)
        return Increment(h, dW, integral / h[..., None] - dW / 2)


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> tuple[Array, Array, Array, Array]:
    """Philox4x32-10 of Salmon, Moraes, Dror and Shaw (2011), on uint32 arrays of one shape."""
    (c0, c1, c2, c3), (k0, k1) = _before_the_last_round(counter, key)
    (high0, low0), (high1, low1) = _wide_product(_MULTIPLIERS[0], c0), _wide_product(_MULTIPLIERS[1], c2)
    return high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0


def _philox_pairs(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> tuple[Array, Array]:
    """The same as two 64-bit numbers, which the last products are already but for what their high words are mixed with.

    Where JAX has no such numbers: the high word of each, with the lowest bits of the low word.
    """
    if not has_float64():
        c0, c1, c2, c3 = philox(counter, key)
        return c0, (c2 & ~np.uint32(3)) | (c3 & np.uint32(3))
    (c0, c1, c2, c3), (k0, k1) = _before_the_last_round(counter, key)
    products = (np.uint64(factor) * c.astype(jnp.uint64) for factor, c in zip(_MULTIPLIERS, (c0, c2), strict=True))
    second, first = (
        x ^ ((c ^ k).astype(jnp.uint64) << 32) for x, c, k in zip(products, (c3, c1), (k1, k0), strict=True)
    )
    return first, second


def _before_the_last_round(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> tuple[tuple, tuple]:
    c0, c1, c2, c3 = (jnp.asarray(c, jnp.uint32) for c in counter)
    k0, k1 = (jnp.asarray(k, jnp.uint32) for k in key)
    for _ in range(_ROUNDS - 1):
        high0, low0 = _wide_product(_MULTIPLIERS[0], c0)
        high1, low1 = _wide_product(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return (c0, c1, c2, c3), (k0, k1)


def _wide_product(a: np.uint32, b: Array) -> tuple[Array, Array]:
    """High and low word of a 32 x 32 bit product."""
    if has_float64():
        product = np.uint64(a) * b.astype(jnp.uint64)
        return (product >> 32).astype(jnp.uint32), product.astype(jnp.uint32)
    half, mask = np.uint32(16), np.uint32(0xFFFF)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    return a1 * b1 + (middle >> half) + (a0 * b1 + (middle & mask) >> half), a * b


def has_float64() -> bool:
    """Whether JAX has numbers of 64 bits."""
    return bool(jnp.result_type(float) == jnp.float64)


def normals(key: Array, path: Array, step: Array, number: int, variance: Array) -> Array:
    """Independent normal numbers, two per Philox block: block 0, 1, ... of the step."""
    block = jnp.arange((number + 1) // 2, dtype=jnp.uint32)
    return normal_pairs_p.bind(key, path, step, block, variance).reshape(-1)[:number]


def normal_pairs(key: Array, path: Array, step: Array, block: Array, variance: Array) -> Array:
    r"""The two normal numbers of each `block`, as rows, by Box and Muller's transform.

    Half of the block's 128 bits give the radius, the other half the direction: sine and cosine of an angle in
    $[-\pi/4, \pi/4)$, the cosine with a random sign; both then change places, or not.  That covers the circle evenly
    without any reduction of angles.
    """
    distance, direction = random_words_p.bind(key, path, step, block).T
    radius = jnp.sqrt((-2.0 * variance) * log(2.0 - _mantissa(distance)))
    sine, cosine = sine_and_cosine(_mantissa(direction) - 1.5)
    cosine = jnp.where((direction & 2) != 0, -cosine, cosine)  # the low bits are not in the mantissa
    swap = (direction & 1) != 0
    return jnp.stack([radius * jnp.where(swap, sine, cosine), radius * jnp.where(swap, cosine, sine)], axis=1)


def random_words(key: Array, path: Array, step: Array, block: Array) -> Array:
    """Two words of random bits of each `block`, as rows, of 64 bits where JAX has them.

    The counter is (step, block, path low, path high), the key the seed; nothing else enters.
    """
    same = jnp.zeros_like(block)
    counter = (same + step.astype(jnp.uint32), block, same + path[0], same + path[1])
    return jnp.stack(_philox_pairs(counter, (key[0], key[1])), axis=1)


normal_pairs_p = whole(normal_pairs)
random_words_p = whole(random_words)
"""As single equations of a traced program: compilers may compute them in a loop."""


def _mantissa(bits: Array) -> Array:
    """A uniform number in [1, 2): random bits, the highest of them, as its mantissa."""
    if bits.dtype == jnp.uint64:
        return lax.bitcast_convert_type(bits >> 12 | np.uint64(0x3FF << 52), jnp.float64)
    return lax.bitcast_convert_type(bits >> 9 | np.uint32(0x7F << 23), jnp.float32)


def words(number: Any) -> Array:
    """A 64-bit seed or path index as two 32-bit words, low word first; traced integers are welcome."""
    if isinstance(number, (int, np.integer)):
        return jnp.asarray([int(number) & 0xFFFFFFFF, int(number) >> 32], jnp.uint32)
    number = jnp.asarray(number)
    high = (number >> 32).astype(jnp.uint32) if number.dtype.itemsize == 8 else jnp.zeros_like(number, jnp.uint32)
    return jnp.stack([number.astype(jnp.uint32), high])


def draw(key: Array, path: Array, step: Array, h: Array, processes: int) -> Increment:
    """The increment of one step of one path; `key` and `path` as two words each.

    The barrier keeps the compiler from fusing the noise into its consumer, so that every program that draws a number
    draws the same bits.
    """
    h = jnp.asarray(h)
    variance = jnp.abs(h).astype(jnp.result_type(float))
    z = normals(key, path, step, 2 * processes, variance)  # Wiener increments first: without H, half the blocks
    dW, H = z[:processes], np.sqrt(1 / 12) * z[processes:]
    return Increment(h, *lax.optimization_barrier((dW.astype(h.dtype), H.astype(h.dtype))))


def several_seeds(seed: int, number: int) -> list[int]:
    """Seeds for several runs in a row, from one."""
    return [int(x) for x in np.random.SeedSequence(int(seed)).generate_state(number, np.uint64)]


def check_counter(name: str, value: Any) -> None:
    """Raise unless `value` can be a seed or a path index (traced values cannot be looked at)."""
    if is_traced(value):
        return
    try:
        number = whole_number(name, value)
    except InputError:
        number = -1
    if not 0 <= number < 2**64:
        raise InputError(f"{name} = {shown(value)}: must be an integer from 0 to 2**64 - 1")


class Driven(Protocol):
    """What is driven by a number of Wiener processes: a method."""

    def noises(self, system: System, n: int) -> int:
        """How many there are."""


def increments(
    system: System,
    *,
    h: Any,
    steps: int,
    seed: Any,
    path: Any = 0,
    method: Driven | None = None,
    first_step: int = 0,
) -> Increment:
    """The noise of one path, exactly as `simulate` uses it: an `Increment` with a leading axis of `steps`.

    A path that goes on from a step other than 0 has the noise from its `first_step` on, as in `simulate`.

    There is one Wiener process per stochastic potential, unless the `method` has noise of its own (`hx.Langevin`).

    >>> import holonax as hx, jax.numpy as jnp
    >>> oscillator = hx.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, noise=lambda q: 0.5 * q)
    >>> fine = hx.increments(oscillator, h=2.0**-4, steps=16, seed=0, path=17)
    >>> fine.dW.shape
    (16, 1)
    >>> coarse = fine.joined(4)          # the same Wiener path, four times coarser
    >>> bool(jnp.allclose(coarse.dW.sum(), fine.dW.sum()))
    True
    """
    check_counter("seed", seed)
    check_counter("path", path)
    steps = at_least(1, "steps", steps, "must be a positive integer")
    first = at_least(0, "first_step", first_step, "steps are numbered from 0 on")
    if first + steps > STEPS_OF_A_PATH:
        what = f"steps = {steps}" + (f" from first_step = {first} on" if first else "")
        raise InputError(f"{what}: the noise of a path has 2**32 steps; use fewer and larger ones")
    if not is_traced(h):
        h = positive("h", h, "the step size must be positive")
    instance("system", system, System, "build one with hx.System(lagrangian, constraint, noise)")
    n = system.dimension()
    if method is not None and (isinstance(method, type) or not hasattr(method, "noises")):
        raise InputError(f"method = {shown(method)} is not a method; pass an instance such as hx.Langevin(1.0, 1.0)")
    m = system.sizes(n)[1] if method is None else method.noises(system, n)
    remedy = "use fewer steps, or hx.simulate, which stores none of them"
    memory(f"{steps} steps of {m} Wiener processes", 8 * steps * (2 * m + 1), remedy)
    return _sequence(words(seed), words(path), jnp.asarray(h, jnp.result_type(float)), np.uint32(first), steps, m)


def _sequence_of_steps(key: Array, path: Array, h: Array, first: Array, steps: int, processes: int) -> Increment:
    numbers = first + jnp.arange(steps, dtype=jnp.uint32)
    return jax.vmap(lambda step: draw(key, path, step, h, processes))(numbers)


_sequence = jax.jit(_sequence_of_steps, static_argnames=("steps", "processes"))
