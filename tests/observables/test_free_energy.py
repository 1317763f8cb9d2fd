"""`MeanForce` against free energies that are known: by symmetry, or by quadrature along the level set."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.mechanics.eliminated import multiplier
from support import heavy

T = 0.7
BEND = 0.8
Y = jnp.linspace(-8.0, 8.0, 4001)


def measured(system, q, which=-1, over=("all",)):
    """The mean force of 256 paths that have forgotten their common start; one result for each word of `over`."""
    method = hx.Langevin(1.0, T, metropolis=system.n == 2)
    forces = {word: hx.MeanForce(system, T, which, after=100, every=4, over=word) for word in over}
    start = hx.start(system, q=q)
    run = hx.simulate(system, method, start, t1=100.0, h=0.1, paths=256, seed=0, save_every=None, observe=forces)
    return run.observed.values()


def compare(found, force, rigid):
    """Both mean forces are as they should be, and are told apart."""
    assert abs(found.force - force) < 5 * found.stderr
    assert abs(found.rigid - rigid) < 5 * found.rigid_stderr
    assert abs(found.rigid - force) > 5 * np.hypot(found.stderr, found.rigid_stderr)


@pytest.mark.parametrize("beads", [heavy(5), 40])
def test_terms_are_those_of_the_formula_with_matrices(beads):
    """A chain and the distance of its ends, with masses that depend on q; that of 40 beads is solved sparsely."""

    def constraint(q):
        x = q.reshape(-1, 3)
        return jnp.append(jnp.sum(jnp.diff(x, axis=0) ** 2, axis=1) - 1.0, jnp.sum((x[-1] - x[0]) ** 2) - apart)

    def lagrangian(q, v):
        return 0.5 * jnp.sum((1.0 + 0.3 * jnp.sin(q)) * v * v) - jnp.sum(jnp.cos(q))

    random = np.random.default_rng(0)
    rods = random.normal(size=(beads, 3))
    rods /= np.linalg.norm(rods, axis=1, keepdims=True)
    x = np.cumsum(rods, axis=0)
    apart = np.sum((x[-1] - x[0]) ** 2)
    system = hx.System(lagrangian, constraint, n=3 * beads)
    start = hx.start(system, x.ravel(), random.normal(size=3 * beads), project=True)
    q, p = jnp.asarray(start.q), jnp.asarray(start.p)

    def log_weight(q):
        G, masses = jax.jacfwd(constraint)(q), 1.0 + 0.3 * jnp.sin(q)
        inverse = jnp.linalg.inv(G / masses @ G.T)
        return 0.5 * jnp.log(inverse[-1, -1]), G.T @ inverse[:, -1] / masses

    logarithm, direction = log_weight(q)
    slope = jax.grad(lambda q: log_weight(q)[0])(q) @ direction
    rigid = multiplier(system, q, p)[0][-1]
    w = jnp.exp(logarithm)
    force = w * (rigid - T * slope)
    assert abs(slope) > 1e-4
    found = hx.MeanForce(system, T).fn(q, p)
    np.testing.assert_allclose(found, [force, w, force + w, rigid], rtol=1e-9)


# A rigid trimer, held at the distance r of its ends.


def trimer(r, first):
    """The coordinate as the first constraint, or as the last one."""

    def constraint(q):
        a, b, c = q.reshape(3, 3)
        bonds = [(b - a) @ (b - a) - 1.0, (c - b) @ (c - b) - 1.0]
        coordinate = [jnp.sqrt((c - a) @ (c - a)) - r]
        return jnp.array(coordinate + bonds if first else bonds + coordinate)

    return hx.System(lambda q, v: 0.5 * v @ v, constraint, n=9)


@pytest.mark.parametrize(("r", "which"), [heavy(1.2, -1), heavy(1.8, 0)])
def test_a_rigid_trimer(r, which):
    """With c the cosine between its bonds, c is distributed as sqrt(4 - c^2), and Z = 3 (1 - c) / (2 - c)."""

    def force(r):
        c = (r**2 - 2) / 2
        return -T * jnp.log(r * jnp.sqrt(4 - c**2))

    def rigid(r):
        c = (r**2 - 2) / 2
        return force(r) - 0.5 * T * jnp.log((1 - c) / (2 - c))

    height = np.sqrt(1 - r**2 / 4)
    (found,) = measured(trimer(r, which == 0), [-r / 2, 0.0, 0.0, 0.0, height, 0.0, r / 2, 0.0, 0.0], which)
    compare(found, jax.grad(force)(r), jax.grad(rigid)(r))


# The plane with U = |q|^2/2, and the coordinate x + BEND y^2, or a function of it.


def exact(z, x=lambda z, y: z - BEND * y**2, mass=lambda q: jnp.eye(2)):
    r"""A' and A_rigid' by quadrature over y; `x` says where on the level set y is.

    The density of the coordinate is the integral of $e^{-U/T} \sqrt{\det M}\,\partial x/\partial z$, and that of the
    rigid one has the factor $\sqrt Z$ in it.
    """

    def free_energy(z, rigid):
        def density(y):
            q = jnp.array([x(z, y), y])
            along_z, along_y = jax.grad(x, (0, 1))(z, y)
            gradient = jnp.array([1.0, -along_y]) / along_z
            Z = gradient @ jnp.linalg.solve(mass(q), gradient)
            weight = jnp.sqrt(jnp.linalg.det(mass(q))) * along_z * jnp.where(rigid, jnp.sqrt(Z), 1.0)
            return jnp.exp(-0.5 * q @ q / T) * weight

        return -T * jnp.log(jnp.sum(jax.vmap(density)(Y)))

    slope = jax.jit(jax.grad(free_energy))
    return slope(z, False), slope(z, True)


def plane(constraint, mass=lambda q: jnp.eye(2)):
    return hx.System(lambda q, v: 0.5 * v @ mass(q) @ v - 0.5 * q @ q, constraint, n=2)


@pytest.mark.parametrize("z", [heavy(-1.0), 0.5])
def test_a_curved_coordinate(z):
    (found,) = measured(plane(lambda q: q[0] + BEND * q[1] ** 2 - z), [z, 0.0])
    compare(found, *exact(z))


@pytest.mark.study
def test_the_standard_error_is_that_of_the_quotient():
    """It is what the forces on single paths, which are independent, say by their scatter."""
    found, single = measured(plane(lambda q: q[0] + BEND * q[1] ** 2 - 2.0), [2.0, 0.0], over=("all", "time"))
    compare(found, *exact(2.0))
    assert found.count == 226 * 256
    assert single.force.shape == (256,)
    assert found.stderr == pytest.approx(single.force.std() / 16, rel=0.05)


@pytest.mark.study
def test_a_function_of_the_coordinate():
    """The same level set, but the space between it and the next ones is another: A' = (A' + T) / exp(z)."""
    z = 0.5
    (found,) = measured(plane(lambda q: jnp.exp(q[0] + BEND * q[1] ** 2) - jnp.exp(z)), [z, 0.0])
    force, rigid = exact(jnp.exp(z), x=lambda w, y: jnp.log(w) - BEND * y**2)
    assert force == pytest.approx((exact(z)[0] + T) / jnp.exp(z))
    compare(found, force, rigid)


@pytest.mark.study
def test_a_mass_matrix_that_depends_on_the_position():
    def mass(q):
        return jnp.array([[1.0, -0.5], [-0.5, 0.5 + q[0] ** 2]])

    (found,) = measured(plane(lambda q: q[0] + BEND * q[1] ** 2 - 2.0, mass), [2.0, 0.0])
    compare(found, *exact(2.0, mass=mass))


# What is refused.


def test_a_constraint_that_is_not_there():
    system = plane(lambda q: q[0] - 1.0)
    for which in (1, -2):
        with pytest.raises(hx.InputError, match=f"which = {which}: the system has 1 constraints"):
            measured(system, [1.0, 0.0], which)


@pytest.mark.parametrize("temperature", [-1.0, float("nan")])
def test_a_temperature_that_cannot_be(temperature):
    with pytest.raises(hx.InputError, match="temperature"):
        hx.MeanForce(plane(lambda q: q[0] - 1.0), temperature)
