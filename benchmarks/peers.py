"""Other libraries, and careful NumPy, on the same systems.

diffrax and torchsde know nothing of constraints: they integrate the equations with the multiplier eliminated, whose
solutions stay on the manifold while their numerical solutions do not; the table says by how much they leave it.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import holonax as hx
from benchmarks.contestants import H, compiled
from benchmarks.measure import Contestant

TOLERANCE = 0.1 * np.finfo(float).eps ** 0.5
FLOOR = 16 * np.finfo(float).eps


def absent(package: str) -> bool:
    """Whether a peer is not installed."""
    return find_spec(package) is None


# NumPy: EulerA for the pendulum, reduced by hand to the multiplier.


def numpy_pendulum(*, paths: int, steps: int) -> Contestant:
    """Arrays of shape (3, paths), updated in place; at most a few thousand paths stay in the cache."""
    start = hx.systems.pendulum().start

    def run(steps: int) -> np.ndarray:
        random = np.random.default_rng(0)
        q, p = (np.repeat(np.asarray(x)[:, None], paths, axis=1) for x in (start.q, start.p))
        dW = np.empty_like(q)
        for _ in range(steps):
            random.standard_normal(out=dW)
            dW *= H**0.5
            dW *= np.cos(q)
            p += dW
            p[2] -= H
            _euler_step(q, p)
        return q.T

    return Contestant("NumPy, by hand", paths * steps, partial(run, steps), partial(run, 1))


def _euler_step(q: np.ndarray, p: np.ndarray) -> None:
    u = q + H * p  # with x = 2 h lambda the end of the step is u + x q: a quadratic in x
    a, b, c = _dot(q, q), _dot(u, q), 0.5 * _dot(u, u) - 0.5
    x = -c / b
    active = np.ones(x.shape, bool)
    while active.any():
        update = (c + x * (b + 0.5 * a * x)) / (b + a * x)
        update *= active
        x -= update
        update = np.abs(update)
        active = (update > TOLERANCE * np.abs(x)) & (update > FLOOR)
    p += (x / H) * q
    q *= x
    q += u
    p -= (_dot(q, p) / _dot(q, q)) * q


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", a, b)


# diffrax: Euler-Maruyama, and Heun for the equations in Stratonovich's form (here both forms are the same).


def _drift(t: Any, y: Array, args: Any) -> Array:
    q, p = y[:3], y[3:]
    push = (q[2] - p @ p) / (q @ q)  # the force is (0, 0, -1)
    return jnp.concatenate([p, push * q - jnp.array([0.0, 0.0, 1.0])])


def _diffusion(t: Any, y: Array, args: Any) -> Array:
    q = y[:3]
    onto_tangent = jnp.eye(3) - jnp.outer(q, q) / (q @ q)
    return jnp.concatenate([jnp.zeros((3, 3)), onto_tangent * jnp.cos(q)])


def diffrax_pendulum(solver: str, *, paths: int, steps: int) -> Contestant:
    """`diffrax.Euler` or `diffrax.Heun` with a fixed step."""
    who = f"diffrax, {solver}"
    if absent("diffrax"):
        return Contestant(who, missing="not installed")
    import diffrax

    start = hx.systems.pendulum().start
    begin = jnp.concatenate([start.q, start.p])

    def path(key: Array) -> Array:
        noise = diffrax.UnsafeBrownianPath((3,), key)
        terms = diffrax.MultiTerm(diffrax.ODETerm(_drift), diffrax.ControlTerm(_diffusion, noise))
        options = {"saveat": diffrax.SaveAt(t1=True), "adjoint": diffrax.DirectAdjoint(), "max_steps": steps}
        done = diffrax.diffeqsolve(terms, getattr(diffrax, solver)(), 0.0, steps * H, H, begin, **options)
        return done.ys[0, :3]

    program = jax.jit(lambda key: (jax.vmap(path)(jax.random.split(key, paths)),))
    return compiled(who, paths * steps, program, note="leaves the sphere")


# torchsde: Euler-Maruyama.


def torchsde_pendulum(*, paths: int, steps: int) -> Contestant:
    """`torchsde.sdeint` with method "euler" on one thread."""
    who = "torchsde, euler"
    if absent("torchsde"):
        return Contestant(who, missing="not installed")
    import torch
    import torchsde

    torch.set_num_threads(1)
    start = hx.systems.pendulum().start
    begin = torch.tensor(np.tile(np.concatenate([start.q, start.p]), (paths, 1)))
    down = torch.tensor([0.0, 0.0, -1.0], dtype=torch.float64)

    class Pendulum:
        noise_type, sde_type = "general", "ito"

        def f(self, t: Any, y: Any) -> Any:
            q, p = y[:, :3], y[:, 3:]
            push = (q[:, 2] - (p * p).sum(1)) / (q * q).sum(1)
            return torch.cat([p, push[:, None] * q + down], dim=1)

        def g(self, t: Any, y: Any) -> Any:
            q = y[:, :3]
            along = q[:, :, None] * q[:, None, :] / (q * q).sum(1)[:, None, None]
            kick = (torch.eye(3, dtype=torch.float64) - along) * torch.cos(q)[:, None, :]
            return torch.cat([torch.zeros_like(kick), kick], dim=1)

    def run(steps: int) -> np.ndarray:
        times = torch.tensor([0.0, steps * H], dtype=torch.float64)
        with torch.no_grad():
            end = torchsde.sdeint(Pendulum(), begin, times, method="euler", dt=H)
        return end[-1, :, :3].numpy()

    return Contestant(who, paths * steps, partial(run, steps), partial(run, 1), note="leaves the sphere")
