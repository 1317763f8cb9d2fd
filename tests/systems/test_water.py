"""Water against its formulas: energies and forces pair by pair in NumPy, and what its start should be."""

import itertools

import jax
import numpy as np
import pytest

import holonax as hx
from support import entry, heavy

CHARGES, MASSES = (-0.8476, 0.4238, 0.4238), (15.9994, 1.008, 1.008)
FACTOR = 1.602176634e-19**2 / (4 * np.pi * 8.8541878128e-12) * 6.02214076e23 * 1e9 / 1e3  # e^2/(4 pi eps0), kJ nm/mol


def coulomb(a, b):
    """An energy of two sites and its derivative by their distance."""
    return lambda r: (FACTOR * a * b / r, -FACTOR * a * b / r**2)


def lennard_jones(r):
    repulsion, attraction = 4 * 0.65 * (0.3166 / r) ** 12, 4 * 0.65 * (0.3166 / r) ** 6
    return repulsion - attraction, (-12 * repulsion + 6 * attraction) / r


def nearest(d, box):
    """The shortest of a difference and its images, by trying them."""
    images = [d + box * np.array(shift) for shift in itertools.product((-2, -1, 0, 1, 2), repeat=3)]
    return min(images, key=np.linalg.norm)


def energy_and_forces(x, box):
    """Pair by pair; shifted in force at half the box."""
    total, forces, cutoff = 0.0, np.zeros_like(x), box / 2
    for i, j in itertools.combinations(range(len(x)), 2):
        if i // 3 == j // 3:
            continue
        d = nearest(x[i] - x[j], box)
        r = np.sqrt(d @ d)
        if r >= cutoff:
            continue
        kinds = [coulomb(CHARGES[i % 3], CHARGES[j % 3])] + [lennard_jones] * (i % 3 == j % 3 == 0)
        for kind in kinds:
            (u, slope), (u_edge, slope_edge) = kind(r), kind(cutoff)
            total += u - u_edge - (r - cutoff) * slope_edge
            force = -(slope - slope_edge) * d / r
            forces[i] += force
            forces[j] -= force
    return total, forces


@pytest.mark.parametrize("molecules", [5, heavy(8)])
def test_energy_and_forces_of_all_pairs(molecules):
    e = hx.systems.water(molecules)
    q = np.asarray(e.start.q) + 0.02 * np.random.default_rng(1).normal(size=e.n)
    q[:9] += 1.3 * e.facts["box"]  # a molecule that has left the box
    rest = np.zeros(e.n)
    energy, forces = energy_and_forces(q.reshape(-1, 3), e.facts["box"])
    assert abs(energy) > 10
    np.testing.assert_allclose(-e.system.L(q, rest), energy, rtol=1e-9)
    found = jax.jit(jax.grad(e.system.L))(q, rest)
    np.testing.assert_allclose(found, forces.ravel(), rtol=0, atol=1e-9 * np.abs(forces).max())


def test_no_force_beyond_the_cutoff():
    """Two molecules as far from each other as a box allows, and closer, until they touch."""
    e = hx.systems.water(2, density=30.0)
    box, x = e.facts["box"], np.asarray(e.start.q).reshape(2, 3, 3)
    x = x - x[:, :1]
    force = jax.jit(lambda q: jax.grad(e.system.L)(q, 0 * q))
    apart = {d: np.abs(force((x + np.array([[[0.0] * 3], [[d] * 3]])).ravel())).max() for d in (box / 2, 0.2)}
    assert apart[box / 2] == 0.0
    assert apart[0.2] > 10


def test_the_start_of_a_box_of_water():
    e = hx.systems.water(64)
    x, p = np.asarray(e.start.q).reshape(64, 3, 3), np.asarray(e.start.p).reshape(64, 3, 3)
    masses = np.array(MASSES)
    density = 64 * masses.sum() * 1.66053906660e-27 / (e.facts["box"] * 1e-9) ** 3
    assert abs(density - 997) < 1e-6
    bonds = np.linalg.norm(x[:, 1:] - x[:, :1], axis=2)
    np.testing.assert_allclose(bonds, 0.1, atol=1e-12)
    angles = np.rad2deg(2 * np.arcsin(np.linalg.norm(x[:, 1] - x[:, 2], axis=1) / 2 / 0.1))
    np.testing.assert_allclose(angles, 109.47, atol=2e-3)
    assert np.abs(p.sum(axis=(0, 1))).max() < 1e-12
    kinetic = np.sum(p**2 / masses[:, None]) / 2
    freedom = e.facts["degrees_of_freedom"]
    assert freedom == e.n - e.k - 3
    temperature = 2 * kinetic / (freedom * 0.00831446261815324)
    assert abs(temperature / 300 - 1) < 5 * np.sqrt(2 / freedom)
    centres = np.einsum("nsd,s->nd", x, masses) / masses.sum()
    distances = [np.linalg.norm(nearest(a - b, e.facts["box"])) for a, b in itertools.combinations(centres[:9], 2)]
    assert min(distances) > 0.3


@pytest.mark.parametrize("molecules", [2, heavy(4), 5, heavy(11)])
def test_molecules_start_apart(molecules):
    e = hx.systems.water(molecules)
    oxygens = np.asarray(e.start.q).reshape(-1, 3)[::3]
    pairs = itertools.combinations(oxygens, 2)
    assert all(np.linalg.norm(nearest(a - b, e.facts["box"])) > 0.22 for a, b in pairs)


@pytest.mark.study
def test_the_energy_of_water_is_kept():
    e = entry("water")
    seen = {"H": hx.Moments(e.system.energy, over="time")}
    run = hx.simulate(e.system, hx.Rattle(), e.start, t1=0.5, h=0.001, save_every=None, observe=seen)
    assert run.observed["H"].variance[0] ** 0.5 < 0.02
    moved = np.abs(run.state.q - e.start.q).max()
    assert moved > 0.05
