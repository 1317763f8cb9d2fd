"""Runs to look at, small enough for every test."""

from dataclasses import replace
from functools import cache

import jax.numpy as jnp
import numpy as np

import holonax as hx

LENGTHS = np.array([1.0, 2.0, 1.5])  # of crank, coupler and rocker
ENDS = np.array([[0.0, 0.0], [2.2, 0.0]])  # where crank and rocker are fixed


def simulated(entry, paths, t1=2.0, h=2**-5, **options):
    return hx.simulate(entry.system, hx.Rattle(), entry.start, t1=t1, h=h, paths=paths, seed=1, **options)


@cache
def pendulum():
    return simulated(hx.systems.pendulum(sigma=0.3), 60)


@cache
def torus():
    return simulated(hx.systems.torus(), 60)


@cache
def rigid_body():
    return simulated(hx.systems.rigid_body(), 20)


@cache
def linkage():
    """Four bars in a plane: a crank, a rocker, what couples them, and the ground."""

    def bars(q):
        a, b = q[:2], q[2:]
        links = jnp.stack([a - ENDS[0], b - a, b - ENDS[1]])
        return jnp.sum(links**2, axis=1) - LENGTHS**2

    system = hx.System(
        lambda q, v: 0.5 * v @ v - q[1] - q[3],
        bars,
        noise=lambda q: 0.3 * q[:1],
        n=4,
        drawing=hx.Drawing(dimension=2),
    )
    start = hx.start(system, q=[0.0, 1.0, 1.8, 1.45], project=True)
    return hx.simulate(system, hx.Rattle(), start, t1=2.0, h=2**-5, paths=20, seed=1)


@cache
def chain():
    """64 beads that turn as one straight line: states of the chain without the time to compile its steps."""
    run, times, paths = pendulum(), 33, 4
    entry = hx.systems.chain(64)
    angles = np.linspace(0, 2, times) + 0.3 * np.arange(paths)[:, None]
    along = np.stack([np.sin(angles), 0 * angles, -np.cos(angles)], axis=-1)
    q = (np.arange(1, 65)[:, None] * along[:, :, None, :]).reshape(paths, times, -1)
    counted = {name: getattr(run, name)[:paths] for name in ("status", "failed_step", "residual", "iterations")}
    return replace(run, t=run.t[:times], q=q, p=0 * q, **counted, model=entry.system)


ALL = {"pendulum": pendulum, "torus": torus, "rigid_body": rigid_body, "chain": chain, "linkage": linkage}
