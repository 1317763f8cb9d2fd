"""Rigid water in a periodic box: three sites per molecule, all pairs."""

import math
from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array

from holonax.errors import InputError
from holonax.inputs.checks import at_least, positive, real_number
from holonax.mechanics.start import start
from holonax.mechanics.system import System
from holonax.systems.entry import Entry
from holonax.systems.ring import AXES, total_momentum
from holonax.viewer.drawing import Drawing

MASSES = np.array([15.9994, 1.008, 1.008])  # u
CHARGES = np.array([-0.8476, 0.4238, 0.4238])  # e
EPSILON, SIGMA = 0.650, 0.3166  # kJ/mol, nm
COULOMB = 138.935458  # kJ nm/(mol e^2)
GAS_CONSTANT = 0.00831446261815324  # kJ/(mol K)
DALTON = 1.66053906660  # 1e-27 kg, and a cubic nanometre is 1e-27 m^3

_HALF = np.arccos(-1 / 3) / 2  # of the angle between the bonds
_PLACES = 0.1 * np.array([[0.0, 0.0, 0.0], [np.sin(_HALF), np.cos(_HALF), 0.0], [-np.sin(_HALF), np.cos(_HALF), 0.0]])
MOLECULE = _PLACES - MASSES @ _PLACES / MASSES.sum()
"""Oxygen and two hydrogens about their centre of mass, nm; the axes are the principal ones."""


def water(molecules: int = 8, density: float = 997.0, temperature: float = 300.0) -> Entry:
    r"""SPC/E water in a periodic cube, without noise: $n = 9 \cdot$ molecules, $k = 3 \cdot$ molecules.

    Units: nm, ps, u, hence kJ/mol; charges in e; `density` in kg/m^3, `temperature` in K.  The three distances of each
    molecule are fixed.  With $U$ the sum over pairs of sites of different molecules, at the distance $r$ of their
    nearest images,

    $$ L = \tfrac12 \sum_i m_i |v_i|^2 - \sum_{\text{sites}} [u](r) - \sum_{\text{oxygens}} [w](r), \qquad
       u = \frac{f q_i q_j}{r}, \quad w = 4\epsilon\Big(\frac{\sigma^{12}}{r^{12}} - \frac{\sigma^6}{r^6}\Big). $$

    Both are *shifted in force* at $r_c$, half the box: $[u](r) = u(r) - u(r_c) - (r - r_c) u'(r_c)$ below $r_c$ and 0
    beyond, so that energies and forces go to zero together, and no energy is lost where a pair changes its image.
    For charges this replaces lattice sums (damped shifted force without damping; Fennell and Gezelter, J. Chem. Phys.
    124, 234104, 2006).  Smaller boxes have a shorter range: 8 molecules are a test, some hundred are water.

    All pairs are computed, so the cost grows as the square of the number of molecules.  The momentum is conserved;
    the angular momentum is not, because a box has corners.  Starts on a lattice with random orientations and thermal
    velocities without a common drift, the same ones at every call.  That lattice is not in equilibrium: a run without
    friction warms up.
    """
    molecules = at_least(1, "molecules", molecules, "a box has at least 1 molecule")
    density = positive("density", density)
    if (temperature := real_number("temperature", temperature)) < 0:
        raise InputError(f"temperature = {temperature}: it is in kelvin and at least 0")
    box = float((molecules * MASSES.sum() * DALTON / density) ** (1 / 3))
    masses = np.repeat(np.tile(MASSES, molecules), 3)
    first, second = (3 * np.arange(molecules)[:, None] + one for one in ([0, 0, 1], [1, 2, 2]))  # of each rod
    lengths = np.sum((MOLECULE[first[0]] - MOLECULE[second[0]]) ** 2, axis=1)

    def rods(q: Array) -> Array:
        x = q.reshape(-1, 3)
        return (jnp.sum((x[first] - x[second]) ** 2, axis=2) - lengths).ravel()

    potential = _potential(molecules, box)
    system = System(
        lagrangian=lambda q, v: 0.5 * jnp.sum(masses * v**2) - potential(q.reshape(-1, 3)),
        constraint=rods,
        n=9 * molecules,
        drawing=Drawing(sizes=(1.6, 1.0, 1.0) * molecules, trails=0),
        units={"q": "nm", "p": "u nm/ps", "time": "ps"},
    )
    begin = start(system, *_crystal(molecules, box, temperature))
    facts = {"box": box, "cutoff": box / 2, "degrees_of_freedom": 6 * molecules - 3}
    return Entry("water", system, begin, {f"P_{axis}": partial(total_momentum, number) for number, axis in AXES}, facts)


def _potential(molecules: int, box: float) -> Callable[[Array], Array]:
    """The energy of all pairs, as a function of the places of the sites."""
    first, second = np.triu_indices(3 * molecules, 1)
    different = first // 3 != second // 3
    first, second = first[different], second[different]
    oxygens = np.flatnonzero((first % 3 == 0) & (second % 3 == 0))
    strength = COULOMB * CHARGES[first % 3] * CHARGES[second % 3]
    cutoff = box / 2
    edge = (SIGMA / cutoff) ** 6
    at_cutoff, slope = 4 * EPSILON * (edge**2 - edge), -24 * EPSILON * (2 * edge**2 - edge) / cutoff

    def potential(x: Array) -> Array:
        d = x[first] - x[second]
        d = d - box * jnp.round(d / box)
        r = jnp.minimum(jnp.sqrt(jnp.sum(d**2, axis=1)), cutoff)  # where both energies and their slopes are 0
        near = r[oxygens]
        power = (SIGMA / near) ** 6
        shifted = 4 * EPSILON * (power**2 - power) - at_cutoff - slope * (near - cutoff)
        return jnp.sum(strength * (1 / r - 2 / cutoff + r / cutoff**2)) + jnp.sum(shifted)

    return potential


def _crystal(molecules: int, box: float, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Places and velocities of all sites: random orientations on a lattice, and the motions of rigid molecules."""
    random = np.random.default_rng(0)
    turns = np.linalg.qr(random.normal(size=(molecules, 3, 3)))[0]
    turns *= np.linalg.det(turns)[:, None, None]  # not mirrored
    drifts = np.sqrt(temperature * GAS_CONSTANT / MASSES.sum()) * random.normal(size=(molecules, 3))
    inertia = MASSES @ (np.sum(MOLECULE**2, axis=1)[:, None] - MOLECULE**2)
    spins = np.sqrt(temperature * GAS_CONSTANT / inertia) * random.normal(size=(molecules, 3))
    motions = np.cross(spins[:, None], MOLECULE) @ turns.transpose(0, 2, 1)
    q = _lattice(molecules, box)[:, None] + MOLECULE @ turns.transpose(0, 2, 1)
    return q.ravel(), (motions + (drifts - drifts.mean(axis=0))[:, None]).ravel()


def _lattice(points: int, box: float) -> np.ndarray:
    """Points in a cube, far from each other: simple, body-centred or face-centred cubic, some places left empty."""
    halves = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) / 2
    lattices = [(halves[:1], 1.0), (halves[:2], np.sqrt(3 / 4)), (halves[[0, 2, 3, 4]], np.sqrt(1 / 2))]

    def spacing(cell: np.ndarray, nearest: float) -> float:
        return nearest / math.ceil((points / len(cell)) ** (1 / 3) - 1e-9)

    cell, _ = max(lattices, key=lambda lattice: spacing(*lattice))
    cells = math.ceil((points / len(cell)) ** (1 / 3) - 1e-9)
    corners = np.stack(np.meshgrid(*3 * [np.arange(cells)], indexing="ij"), axis=-1).reshape(-1, 1, 3)
    places = (corners + cell).reshape(-1, 3)
    return box / cells * places[np.arange(points) * len(places) // points]
