"""Systems that users bring: molecules, mechanisms, manifolds, in units and sizes of their own."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import holonax as hx


@dataclass(frozen=True)
class Foreign:
    """A system with a start on T*S and the step sizes at which it is tried, the usual one first."""

    system: hx.System
    start: hx.State
    h: tuple[float, ...]


def started(system, q, v, h, seed=0):
    """Positions and velocities moved onto T*S; v may be a size, in random directions."""
    q = np.asarray(q, float)
    v = v * np.random.default_rng(seed).normal(size=q.shape) if np.ndim(v) == 0 else np.asarray(v, float)
    return Foreign(system, hx.start(system, q, v, project=True), h if isinstance(h, tuple) else (h,))


def squared(r, pairs):
    a, b = np.array(pairs).T
    return jnp.sum((r[a] - r[b]) ** 2, axis=1)


def molecule(positions, bonds, masses, *, speed, h, noise=0.0, length=1.0, time=1.0, mass=1.0):
    """Point masses with fixed distances and, with `noise`, a random field on each; the units are scaled last."""
    positions, masses = np.asarray(positions, float) * length, np.repeat(masses, np.shape(positions)[1]) * mass
    shape = positions.shape
    lengths = np.asarray(squared(positions, bonds))
    strength = noise * mass * length / time**1.5
    system = hx.System(
        lambda q, v: 0.5 * jnp.sum(masses * v**2),
        lambda q: squared(q.reshape(shape), bonds) - lengths,
        (lambda q: strength * q) if noise else None,
        n=positions.size,
    )
    return started(system, positions.ravel(), speed * length / time, tuple(x * time for x in h))


def water(length=1.0, time=1.0, mass=1.0):
    """SPC water in nm, ps and u."""
    angle = np.deg2rad(109.47) / 2
    hydrogen = 0.1 * np.array([np.sin(angle), np.cos(angle), 0.0])
    positions = [np.zeros(3), hydrogen, hydrogen * [-1, 1, 1]]
    return molecule(
        positions, [(0, 1), (0, 2), (1, 2)], [15.9994, 1.008, 1.008],
        speed=1.0, h=(0.002, 0.02, 1e-5), noise=3.0, length=length, time=time, mass=mass,
    )  # fmt: skip


def light_hydrogens():
    positions = [[0.0, 0.0, 0.0], [0.9, 0.4, 0.0], [-0.9, 0.4, 0.1]]
    return molecule(positions, [(0, 1), (0, 2), (1, 2)], [1.0, 1e-3, 1e-3], speed=0.5, h=(0.01, 1e-5), noise=0.02)


def diamond():
    positions = [[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.4, 0.9, 0.2], [1.3, 1.0, 0.6]]
    bonds = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
    return molecule(positions, bonds, [1.0, 12.0, 1.0, 12.0], speed=0.4, h=(0.05, 1e-4), noise=0.5)


def ring():
    angles = np.arange(6) * np.pi / 3
    positions = np.stack([np.cos(angles), np.sin(angles), 0.2 * (-1.0) ** np.arange(6)], axis=1)
    return molecule(positions, [(i, (i + 1) % 6) for i in range(6)], np.ones(6), speed=0.5, h=(0.05, 1e-4), noise=0.5)


def worm_like_chain(beads=30, stiffness=5.0):
    def links(q):
        return jnp.diff(q.reshape(beads, 3), axis=0)

    def lagrangian(q, v):
        d = links(q)
        return 0.5 * v @ v + stiffness * jnp.sum(d[1:] * d[:-1])

    system = hx.System(lagrangian, lambda q: jnp.sum(links(q) ** 2, axis=1) - 1.0, n=3 * beads)
    x = np.arange(beads)
    return started(system, np.stack([x, 0.3 * np.sin(x), 0.0 * x], axis=1).ravel(), 0.3, 0.02)


def pendulums(masses):
    """Planar, hung one below the other."""
    masses, k = np.asarray(masses, float), len(masses)

    def rods(q):
        return jnp.diff(jnp.concatenate([jnp.zeros((1, 2)), q.reshape(k, 2)]), axis=0)

    system = hx.System(
        lambda q, v: 0.5 * jnp.sum(np.repeat(masses, 2) * v**2) - 9.81 * masses @ q[1::2],
        lambda q: jnp.sum(rods(q) ** 2, axis=1) - 1.0,
        lambda q: 0.1 * jnp.sin(q),
        n=2 * k,
    )
    q = np.cumsum([[np.sin(1 + i), -np.cos(1 + i)] for i in range(k)], axis=0)
    return started(system, q.ravel(), 0.5, (0.01, 1e-5))


def bars(lengths, masses, joints, q, h):
    """Rigid bars in maximal coordinates (x, y, angle); a joint holds ends of bars, or a fixed point, together."""
    lengths, masses = np.asarray(lengths, float), np.asarray(masses, float)
    inertia = np.stack([masses, masses, masses * lengths**2 / 12], axis=1).ravel()

    def point(q, where):
        if len(where) == 2 and isinstance(where[0], int):
            bar, side = where
            x, y, angle = q[3 * bar : 3 * bar + 3]
            half = side * lengths[bar] / 2
            return jnp.array([x + half * jnp.cos(angle), y + half * jnp.sin(angle)])
        return jnp.array(where)

    def constraint(q):
        return jnp.concatenate([point(q, a) - point(q, b) for a, b in joints])

    system = hx.System(
        lambda q, v: 0.5 * jnp.sum(inertia * v**2) - 9.81 * masses @ q[1::3],
        constraint,
        lambda q: 0.3 * jnp.sin(q[2::3]),
        n=3 * len(lengths),
    )
    return started(system, q, 0.0, h)


def four_bar():
    joints = [((0, -1), (0.0, 0.0)), ((1, -1), (0, 1)), ((2, 1), (1, 1)), ((2, -1), (2.5, 0.0))]
    q = [0.27, 0.42, 1.0, 1.72, 1.16, 0.26, 2.7, 0.75, 1.3]
    return bars([1.0, 2.5, 1.5], [1.0, 2.5, 1.5], joints, q, (0.01, 1e-4))


def slider_crank():
    """Crank, connecting rod, and a slider (a bar of its own) on the line y = 0."""
    lengths, masses = np.array([0.3, 1.0]), np.array([1.0, 2.0])
    inertia = np.array([1.0, 1.0, 0.3**2 / 12, 2.0, 2.0, 2.0 / 12, 3.0])

    def constraint(q):
        crank, rod, slider = q[:3], q[3:6], q[6]

        def end(bar, side, length):
            return bar[:2] + side * length / 2 * jnp.array([jnp.cos(bar[2]), jnp.sin(bar[2])])

        first, second = lengths
        return jnp.concatenate([
            end(crank, -1, first), end(rod, -1, second) - end(crank, 1, first),
            end(rod, 1, second) - jnp.array([slider, 0.0]),
        ])  # fmt: skip

    system = hx.System(
        lambda q, v: 0.5 * jnp.sum(inertia * v**2) - 9.81 * (masses[0] * q[1] + masses[1] * q[4]),
        constraint, lambda q: 0.5 * jnp.sin(q[2]), n=7,
    )  # fmt: skip
    tilt = np.arcsin(-0.3 * np.sin(0.7))
    joint = 0.3 * np.array([np.cos(0.7), np.sin(0.7)])
    rod = np.array([np.cos(tilt), np.sin(tilt)])
    return started(system, [*(joint / 2), 0.7, *(joint + rod / 2), tilt, (joint + rod)[0]], 1.0, (0.005, 1e-5))


def stiefel(n, k):
    rows, columns = np.triu_indices(k)

    def constraint(q):
        x = q.reshape(n, k)
        return (x.T @ x - jnp.eye(k))[rows, columns]

    weights = np.arange(1.0, n + 1)
    system = hx.System(
        lambda q, v: 0.5 * v @ v - 0.5 * jnp.sum(weights[:, None] * q.reshape(n, k) ** 2),
        constraint, lambda q: 0.3 * q[:2], n=n * k,
    )  # fmt: skip
    return started(system, np.linalg.qr(np.random.default_rng(1).normal(size=(n, k)))[0].ravel(), 0.5, 0.05)


def rotation():
    """SO(3) by nine entries of a matrix with three different moments."""
    moments = np.tile([0.3, 1.0, 2.5], 3)
    rows, columns = np.triu_indices(3)
    system = hx.System(
        lambda q, v: 0.5 * jnp.sum(moments * v**2) - q[8],
        lambda q: (q.reshape(3, 3).T @ q.reshape(3, 3) - jnp.eye(3))[rows, columns],
        lambda q: 0.3 * jnp.sin(q[6:]), n=9,
    )  # fmt: skip
    return started(system, np.eye(3).ravel(), 0.6, (0.05, 1e-5))


def quaternion():
    """SO(3) by unit quaternions: a mass matrix that depends on q, made regular along the normal."""
    moments = jnp.array([0.5, 1.0, 1.7])

    def body(q):
        w, x, y, z = q
        return jnp.array([[-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]])

    def lagrangian(q, v):
        omega = 2.0 * body(q) @ v
        return 0.5 * jnp.sum(moments * omega**2) + 0.5 * (q @ v) ** 2 - (q[0] * q[1] + q[2] * q[3])

    system = hx.System(lagrangian, lambda q: q @ q - 1.0, lambda q: 0.3 * q[1:], n=4)
    return started(system, [0.5, 0.5, -0.5, 0.5], [0.3, -0.2, 0.1, 0.0], (0.05, 1e-4))


def decay(data):
    """Times and noisy values of 2 exp(-0.7 x)."""
    x = np.linspace(0.0, 2.0, data)
    return x, 2.0 * np.exp(-0.7 * x) + 0.05 * np.random.default_rng(3).normal(size=data)


def lifted_regression(data):
    """y = a exp(-b x) + sigma e as a manifold in (a, b, e)."""
    x, y = decay(data)
    system = hx.System(
        lambda q, v: 0.5 * v @ v - 0.5 * q[2:] @ q[2:] - 0.02 * q[:2] @ q[:2],
        lambda q: y - q[0] * jnp.exp(-q[1] * x) - 0.05 * q[2:],
        n=data + 2,
    )
    return started(system, [2.0, 0.7, *((y - 2.0 * np.exp(-0.7 * x)) / 0.05)], 0.5, (0.2, 0.01))


def hyperboloid():
    """Two sheets, moving towards the other one."""
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: q[0] ** 2 - q[1] ** 2 - 1.0, n=2)
    return Foreign(system, hx.start(system, [5**0.5, 2.0], [-6 / 5**0.5, -3.0]), (0.5, 0.05))


def torus():
    system = hx.System(
        lambda q, v: 0.5 * v @ v - q[2],
        lambda q: (jnp.hypot(q[0], q[1]) - 1.0) ** 2 + q[2] ** 2 - 0.25,
        lambda q: 0.3 * jnp.sin(q), n=3,
    )  # fmt: skip
    return started(system, [1.5, 0.0, 0.0], [0.0, 1.0, 1.0], (0.2, 0.4, 0.01))


def saddle(height):
    system = hx.System(
        lambda q, v: 0.5 * v @ v - q[2], lambda q: q[2] - height(q[0], q[1]), lambda q: 0.3 * jnp.cos(q), n=3
    )
    return Foreign(system, hx.start(system, [0.0, 0.0, 0.0], [0.6, -0.4, 0.0]), (0.1, 1e-3))


def exponentials():
    """Constants that cancel inside g, at a place where all coordinates vanish."""
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: jnp.exp(q[0]) + jnp.exp(q[1]) - 2.0, lambda q: 0.3 * q, n=3)
    return Foreign(system, hx.start(system, [0.0, 0.0, 0.0], [0.5, -0.5, 0.2]), (0.1, 1e-4))


def relativistic():
    system = hx.System(
        lambda q, v: -jnp.sqrt(1.0 - v @ v) - 0.5 * q[2], lambda q: q @ q - 1.0, lambda q: 0.1 * jnp.sin(q), n=3
    )
    return started(system, [1.0, 0.0, 0.0], [0.0, 0.6, 0.3], (0.05, 1e-4))


def gyroscopic():
    system = hx.System(
        lambda q, v: 0.5 * v @ v + 2.0 * (q[0] * v[1] - q[1] * v[0]) * (1.0 + q[2]) - q[2],
        lambda q: q[0] ** 2 + 2 * q[1] ** 2 + 3 * q[2] ** 2 - 1.0, lambda q: 0.2 * q, n=3,
    )  # fmt: skip
    return started(system, [1.0, 0.0, 0.0], [0.0, 0.5, 0.3], (0.05, 1e-4))


def normal_force(strength):
    """A force along the normal alone: the motion is that of a free particle, with some noise along the circle."""
    system = hx.System(lambda q, v: 0.5 * v @ v - 0.5 * strength * q @ q, lambda q: q @ q - 1.0, lambda q: 0.1 * q, n=2)
    return Foreign(system, hx.start(system, [1.0, 0.0], [0.0, 1.0]), (0.1, 0.01))


def normal_noise(strength):
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: q @ q - 1.0, lambda q: strength * q @ q, n=2)
    return Foreign(system, hx.start(system, [1.0, 0.0], [0.0, 1.0]), (0.0625,))


def scaled(c):
    """A constraint in other units."""
    system = hx.System(lambda q, v: 0.5 * v @ v - q[2], lambda q: c * (q @ q - 1.0), lambda q: 0.3 * jnp.sin(q), n=3)
    return started(system, [1.0, 0.0, 0.0], [0.0, 1.0, 0.5], (0.1, 1e-6))


def nearly_parallel(e):
    """Three constraints whose gradients differ by e."""
    system = hx.System(
        lambda q, v: 0.5 * v @ v,
        lambda q: q[0] + e * q[1:] - 1.0 + 0.1 * jnp.array([1.0, 2.0, 3.0]) * q[0] ** 2,
        lambda q: 0.3 * q, n=4,
    )  # fmt: skip
    return started(system, [1.0, 0.0, 0.0, 0.0], 0.01 * e, 0.01)


CORPUS: dict[str, Callable[[], Foreign]] = {
    "water in nm": water,
    "water in Angstrom": lambda: water(length=10.0),
    "water in SI": lambda: water(1e-9, 1e-12, 1.66053907e-27),
    "bent triatomic, light hydrogens": light_hydrogens,
    "diamond of 4 atoms": diamond,
    "ring of 6": ring,
    "worm-like chain of 30": worm_like_chain,
    "double pendulum": lambda: pendulums([1.0, 1e-3]),
    "triple pendulum": lambda: pendulums([1.0, 1e-3, 0.1]),
    "four-bar linkage": four_bar,
    "slider-crank": slider_crank,
    "Stiefel(5, 2)": lambda: stiefel(5, 2),
    "Stiefel(6, 3)": lambda: stiefel(6, 3),
    "SO(3) by matrices": rotation,
    "SO(3) by quaternions": quaternion,
    "lifted regression, 5 data": lambda: lifted_regression(5),
    "lifted regression, 20 data": lambda: lifted_regression(20),
    "hyperboloid of two sheets": hyperboloid,
    "torus": torus,
    "saddle": lambda: saddle(lambda x, y: x**2 - y**2),
    "monkey saddle": lambda: saddle(lambda x, y: x**3 - 3 * x * y**2),
    "exponentials": exponentials,
    "relativistic": relativistic,
    "gyroscopic": gyroscopic,
    "normal force 1e3": lambda: normal_force(1e3),
    "normal force 1e6": lambda: normal_force(1e6),
    "normal noise 10": lambda: normal_noise(10.0),
    "normal noise 1e6": lambda: normal_noise(1e6),
    "g times 1e-8": lambda: scaled(1e-8),
    "g times 1e8": lambda: scaled(1e8),
    "nearly parallel, 0.1": lambda: nearly_parallel(0.1),
    "nearly parallel, 1e-4": lambda: nearly_parallel(1e-4),
}
