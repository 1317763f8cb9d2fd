"""Systems of thousands of coordinates: no dense matrix, both constraints at round-off, every kind of method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.engines.llvm.array_runner import ArrayRunner
from holonax.mechanics.projection import project_momentum
from holonax.numerics import newton
from holonax.numerics.newton import Newton
from support import heavy

METHODS = [
    hx.EulerA(),
    *map(heavy, (hx.Rattle(), hx.Kicked(), hx.Lobatto(3), hx.Lobatto32(), hx.VPRK(hx.tableaux.lobatto(4)))),
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_chain_of_a_thousand_beads(method):
    chain = hx.systems.chain(1000)
    run = hx.simulate(chain.system, method, chain.start, t1=0.05, h=0.01, paths=2, save_every=None)
    assert run.engine == "llvm"
    assert "with loops over arrays" in run.reason
    q, p = run.state.q, run.state.p
    assert np.abs(jax.vmap(chain.system.g)(q)).max() < 1e-12
    assert np.abs(jax.vmap(chain.system.hidden)(q, p)).max() < 1e-11  # masses are 1
    assert np.abs(q - chain.start.q).max() > 1e-3


def test_dense_equations_that_are_too_large_are_refused(monkeypatch):
    """Every coordinate acts on every other one, and stages are coupled by the forces."""
    monkeypatch.setattr(newton, "MOST_DENSE", 100)
    system = hx.System(lambda q, v: 0.5 * v @ v - jnp.sum(q) ** 4, lambda q: q[:1] ** 2 + q[1:2] ** 2 - 1.0, n=40)
    start, noise = hx.start(system, np.eye(40)[0]), hx.increments(system, h=0.01, steps=1, seed=0)
    with pytest.raises(
        hx.InputError, match=r"a dense matrix of 120 rows \(at most 100\).* Rattle, Kicked and the Euler"
    ):
        hx.integrate(system, hx.Lobatto(3), start, noise)
    assert not hx.integrate(system, hx.Rattle(), start, noise).report.status.any()


@pytest.mark.study
@pytest.mark.parametrize("options", [{}, {"metropolis": True}, {"core": hx.Rattle()}], ids=str)
def test_a_long_chain_at_a_temperature(options):
    """Equipartition: of the kinetic energy, T/2 for each of the degrees of freedom that rods leave."""
    chain = hx.systems.chain(200)
    system = hx.System(chain.system.lagrangian, chain.system.constraint, n=600)
    method = hx.Langevin(friction=5.0, temperature=0.5, **options)
    run = hx.simulate(system, method, chain.start, t1=1.0, h=0.01, paths=4, save_every=20)
    assert "with loops over arrays" in run.reason
    assert np.abs(jax.vmap(system.g)(run.state.q)).max() < 1e-12
    kinetic = 0.5 * np.sum(run.p[:, -1] ** 2, axis=-1) / (0.25 * 400)
    assert np.all(np.abs(kinetic - 1.0) < 5 * np.sqrt(2 / 400))


@pytest.mark.study
@pytest.mark.parametrize("method", [hx.EulerA(), hx.Rattle(), hx.Kicked()], ids=str)
def test_momenta_of_a_ring_of_a_thousand_beads(method):
    ring = hx.systems.ring(1000)
    run = hx.simulate(ring.system, method, ring.start, t1=0.2, h=0.01, paths=2, save_every=None)
    for J in ring.symmetries.values():
        before, after = float(J(ring.start.q, ring.start.p)), jax.vmap(J)(run.state.q, run.state.p)
        assert np.abs(after - before).max() < 1e-12 * float(jnp.sum(jnp.abs(ring.start.q)))
    assert np.abs(run.state.p - ring.start.p).max() > 0.1


@pytest.mark.study
@pytest.mark.parametrize("name", ["net", "water"])
def test_large_catalogue_entries_run(name):
    e, h = (hx.systems.net(12, 12), 0.01) if name == "net" else (hx.systems.water(27), 0.001)
    run = hx.simulate(e.system, hx.Rattle(), e.start, t1=5 * h, h=h, save_every=None)
    assert np.abs(e.system.g(run.state.q[0])).max() < 1e-12
    assert np.abs(run.state.q - e.start.q).max() > 1e-3


def hanging(beads):
    """A chain that hangs vertically, at rest: weight and tension cancel, what is left of the motion is round-off."""

    def lagrangian(q, v):
        return 0.5 * v @ v - 9.81 * jnp.sum(q[2::3])

    def rods(q):
        return jnp.sum(jnp.diff(q.reshape(beads, 3), axis=0, prepend=jnp.zeros((1, 3))) ** 2, axis=1) - 1.0

    q = np.zeros((beads, 3))
    q[:, 2] = -1.0 - np.arange(beads)
    return hx.System(lagrangian, rods, n=3 * beads), q.ravel()


def test_what_balances_is_solved_in_jax():
    system, q = hanging(80)
    pull = jnp.tile(jnp.array([0.0, 0.0, -9.81 * 2**-7]), 80)
    projected = project_momentum(system, jnp.asarray(q), pull, 0 * pull, Newton())
    assert projected.solved.status == 0
    assert projected.solved.iterations <= 2
    assert np.abs(projected.v).max() < 1e-14


def test_what_balances_is_solved_by_kernels(monkeypatch):
    system, q = hanging(200)
    monkeypatch.setattr(ArrayRunner, "_take_again", refuse_doubts)
    run = hx.simulate(system, hx.Rattle(), hx.start(system, q), t1=4 * 2**-6, h=2**-6, save_every=None)
    assert "with loops over arrays" in run.reason
    assert np.abs(run.state.q - q).max() < 1e-12


def refuse_doubts(runner, group, *_):
    """In the place of steps on the plain engine, which takes seconds to compile."""
    assert (runner._tracked(group)[3] == 0).all()


def test_dependent_constraints_of_a_large_system_are_refused():
    chain = hx.systems.chain(200)
    system = hx.System(
        chain.system.lagrangian,
        lambda q: jnp.append(chain.system.g(q), q[3] ** 2 + q[4] ** 2 + q[5] ** 2 - 2.72),
        n=600,
    )
    start = hx.start(system, chain.start.q)  # two beads at a distance that the rods leave free
    assert start.q.shape == (600,)
    twice = hx.System(chain.system.lagrangian, lambda q: jnp.append(chain.system.g(q), chain.system.g(q)[7]), n=600)
    with pytest.raises(hx.StartError, match=r"dependent: constraint (7|200) depends most .*its pivot .*remove the red"):
        hx.start(twice, chain.start.q)
