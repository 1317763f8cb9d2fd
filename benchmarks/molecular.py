"""OpenMM on the bead-rod chain: many copies in one context are the paths.

OpenMM has no variational Euler method; its Langevin integrator with constraints is what a user of it would take.  The
noise is as strong as in the other programs, the friction small; a heavy particle stands in for the fixed point.  Its
iteration for the constraints slows down, and in the end fails to reach its tolerance, the faster the chain whirls: the
table says until when it ran.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import holonax as hx
from benchmarks.contestants import H
from benchmarks.measure import Contestant
from benchmarks.peers import absent

FRICTION = 0.1
GAS_CONSTANT = 0.00831446261815324  # kJ/mol/K, that is amu nm^2/ps^2/K
ANCHOR_MASS = 1e9


def openmm_chain(
    beads: int, sigma: float, *, paths: int, steps: int, platform: str = "CPU", tolerance: float = 1e-6
) -> Contestant:
    """`LangevinMiddleIntegrator` with constraints, on one thread."""
    who = f"OpenMM, {platform} platform"
    if absent("openmm"):
        return Contestant(who, missing="not installed")
    start = np.asarray(hx.systems.chain(beads, sigma).start.q)
    run = openmm_steps(start, 0 * start, sigma, h=H, paths=paths, platform=platform, tolerance=tolerance)
    note = f"constraint tolerance {tolerance:.0e}; until t = {steps * H:g}"
    return Contestant(who, paths * steps, partial(run, steps), partial(run, 1), note=note)


def openmm_steps(
    q: np.ndarray,
    v: np.ndarray,
    sigma: float,
    *,
    h: float,
    paths: int,
    platform: str,
    tolerance: float,
    thermal: bool = True,
    threads: int = 1,
) -> Callable[[int], np.ndarray]:
    """A function that takes so many steps of a chain from (q, v) on, and returns positions, shape (paths, n).

    `thermal`: by `LangevinMiddleIntegrator`, otherwise by `VerletIntegrator`.
    """
    import openmm

    beads = len(q) // 3
    system = openmm.System()
    gravity = openmm.CustomExternalForce("z")
    system.addForce(gravity)
    for copy in range(paths):
        anchor = copy * (beads + 1)
        system.addParticle(ANCHOR_MASS)
        for bead in range(1, beads + 1):
            system.addParticle(1.0)
            gravity.addParticle(anchor + bead)
            system.addConstraint(anchor + bead - 1, anchor + bead, 1.0)
    temperature = sigma**2 / (2 * FRICTION * GAS_CONSTANT)
    integrator = openmm.LangevinMiddleIntegrator(temperature, FRICTION, h) if thermal else openmm.VerletIntegrator(h)
    integrator.setConstraintTolerance(tolerance)
    properties = {"Threads": str(threads)} if platform == "CPU" else {}
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform(platform), properties)
    apart = np.arange(paths)[:, None, None] * np.array([4.0 * beads, 0.0, 0.0])  # copies do not interact
    places, speeds = (np.concatenate([np.zeros((1, 3)), x.reshape(beads, 3)]) for x in (q, v))

    def run(steps: int) -> np.ndarray:
        context.setPositions((places + apart).reshape(-1, 3))
        context.setVelocities(np.tile(speeds, (paths, 1)))
        integrator.step(steps)
        end = context.getState(getPositions=True).getPositions(asNumpy=True)._value.reshape(paths, beads + 1, 3)
        return (end[:, 1:] - end[:, :1]).reshape(paths, -1)

    return run
