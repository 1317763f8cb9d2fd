"""Right answers, or a true status: invariance, the right root, words that are true, fallbacks that work."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest

import holonax as hx
from holonax import engines
from holonax.compiler.frontend.newton import QUICK
from holonax.engines import llvm, plain
from holonax.numerics.batching import over_paths
from holonax.numerics.roundoff import magnitude
from support import heavy


def circle(strength=0.0, scale=1.0, noise=None):
    system = hx.System(lambda q, v: 0.5 * v @ v - 0.5 * strength * q @ q, lambda q: scale * (q @ q - 1.0), noise, n=2)
    return system, hx.start(system, [1.0, 0.0], [0.0, 1.0])


@pytest.mark.parametrize("method", [hx.EulerA(), heavy(hx.Rattle()), heavy(hx.Kicked()), heavy(hx.Lobatto(3))], ids=str)
def test_a_force_along_the_normal_changes_nothing(method):
    ends = []
    for strength in (0.0, 300.0, 1e6):
        system, start = circle(strength)
        ends.append(hx.simulate(system, method, start, t1=1.6, h=0.1).q)
        inside = hx.integrate(system, method, start, hx.increments(system, h=0.1, steps=16, seed=0))
        np.testing.assert_allclose(inside.q, ends[-1][0], atol=1e-9)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-12)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-9)
    assert np.abs(np.sum(ends[2] ** 2, axis=-1) - 1.0).max() < 1e-14


@pytest.mark.study
def test_noise_along_the_normal_changes_nothing():
    system, start = circle(noise=lambda q: 1e3 * q @ q)
    free, _ = circle()
    runs = [hx.simulate(s, hx.EulerA(), start, t1=2.0, h=0.0625, paths=200) for s in (system, free)]
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-9)


@pytest.mark.parametrize("method", [hx.EulerA(), heavy(hx.Rattle()), heavy(hx.Kicked()), heavy(hx.Lobatto(3))], ids=str)
def test_a_coordinate_that_stays_at_zero_is_solved_to_round_off(method):
    """There its constraint is a product, so that nothing cancels in it, while the momenta along it do."""
    system = hx.System(
        lambda q, v: 0.5 * v @ v - 0.3 * q[2], lambda q: q[2] * jnp.exp(0.3 * q[0]), lambda q: 0.5 * q, n=3
    )
    start = hx.start(system, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    run = hx.simulate(system, method, start, t1=1.0, h=0.02, paths=16, engine="llvm")  # a failure would be an error
    assert np.abs(run.q[..., 2]).max() < 1e-16
    noise = hx.increments(system, h=0.02, steps=50, seed=0)
    path = jax.jit(lambda start: hx.integrate(system, method, start, noise))(start)
    assert not path.report.status.any()
    np.testing.assert_allclose(path.q, run.q[0], atol=1e-12)


def test_only_a_root_on_another_sheet_is_a_status_of_its_own():
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: q[0] ** 2 - q[1] ** 2 - 1.0, n=2)
    start = hx.start(system, [5**0.5, 2.0], [-6 / 5**0.5, -3.0])
    for engine in ("llvm", "xla"):
        run = hx.simulate(system, hx.Rattle(), start, t1=4.0, h=0.5, engine=engine, on_failure="mark")
        assert (run.q[..., 0] > 0).all()
    assert "another part" in hx.Status.OTHER_BRANCH.advice
    assert "smaller h does not help" in hx.Status.ROUND_OFF.advice


@pytest.mark.parametrize("factor", [1e-8, heavy(1e8)])
@pytest.mark.parametrize("method", [hx.Rattle(), heavy(hx.Lobatto(3))], ids=str)
def test_the_scale_of_a_constraint_does_not_matter(method, factor):
    ends = []
    for scale in (1.0, factor):
        system, start = circle(scale=scale, noise=lambda q: 0.3 * q)
        ends.append(hx.simulate(system, method, start, t1=0.5, h=0.01, paths=4).q)
    np.testing.assert_allclose(*ends, atol=1e-12)


@pytest.mark.parametrize(("length", "time", "mass"), [(1e-12, 1e12, 1.0), (1e12, 1e-12, 1e-12), (1.0, 1.0, 1e12)])
def test_units_do_not_matter(length, time, mass):
    def pendulum(length, time, mass):
        system = hx.System(
            lambda q, v: 0.5 * mass * v @ v - mass * length / time**2 * q[2], lambda q: q @ q - length**2, n=3
        )
        start = hx.start(system, [length, 0.0, 0.0], [0.0, length / time, 0.5 * length / time])
        return hx.simulate(system, hx.Rattle(), start, t1=time, h=time / 64).q / length

    np.testing.assert_allclose(pendulum(length, time, mass), pendulum(1.0, 1.0, 1.0), atol=1e-12)


@pytest.mark.parametrize("h", [heavy(1e-1), 1e-3, heavy(1e-6)])
def test_small_steps_of_a_rigid_water_are_solved(h):
    bonds = [(0, 1), (0, 2), (1, 2)]
    masses = np.repeat([15.9994, 1.008, 1.008], 3)
    q = 0.1 * np.array([0.0, 0.0, 0.0, 0.8, 0.6, 0.0, -0.8, 0.6, 0.0])

    def squares(q):
        r = q.reshape(3, 3)
        return jnp.array([(r[i] - r[j]) @ (r[i] - r[j]) for i, j in bonds])

    lengths = squares(q)
    system = hx.System(lambda q, v: 0.5 * jnp.sum(masses * v**2), lambda q: squares(q) - lengths, n=9)
    time = 0.02 * h
    run = hx.simulate(
        system, hx.Langevin(1.0, 2.494), hx.start(system, q), t1=50 * time, h=time, paths=64, save_every=None
    )
    assert not run.status.any()


def wavy():
    """Paths of all speeds on a surface so curved that the fast ones make Newton's method work hard, or fail."""

    def surface(q):
        return q[0] ** 2 + q[1] ** 2 / 4 + q[2] ** 2 / 9 - 1 + 0.1 * jnp.sin(3 * q[0])

    system = hx.System(lambda q, v: 0.5 * v @ v, surface, lambda q: 0.3 * q, n=3)
    v = np.random.default_rng(0).normal(size=(128, 3)) * np.linspace(1, 12, 128)[:, None]
    return system, hx.start(system, np.tile([0.0, 2.0, 0.0], (128, 1)), v * [1, 0, 1], project=True)


def test_steps_in_doubt_are_taken_again():
    system, start = wavy()
    arguments = {"t1": 1.6, "h": 0.1, "seed": 1, "on_failure": "mark", "engine": "llvm"}
    run = hx.simulate(system, hx.EulerA(), start, **arguments)
    again = engines.runner("llvm", system, hx.EulerA(), 3, "float64").again
    assert again.kernel is not None
    hard = np.flatnonzero((run.status == 0) & (run.iterations > QUICK + 1))
    assert len(hard) > 5
    noise = [hx.increments(system, h=0.1, steps=16, seed=1, path=int(path)) for path in range(128)]
    paths = jax.jit(jax.vmap(lambda start, noise: hx.integrate(system, hx.EulerA(), start, noise)))(
        start, jax.tree.map(lambda *x: jnp.stack(x), *noise)
    )
    np.testing.assert_array_equal(np.asarray(paths.report.status[:, -1]), run.status)
    np.testing.assert_allclose(run.q[run.status == 0], paths.q[run.status == 0], atol=1e-9)
    slow = hx.State(*(x[:32] for x in start))  # lanes whose neighbours are in doubt do not notice
    alone = hx.simulate(system, hx.EulerA(), slow, **arguments)
    np.testing.assert_array_equal(run.q[:32], alone.q)


def test_nothing_is_compiled_for_doubts_that_never_come():
    entry = hx.systems.pendulum()
    hx.simulate(entry.system, hx.EulerB(), entry.start, t1=1.0, h=2.0**-6, paths=100, engine="llvm")
    assert engines.runner("llvm", entry.system, hx.EulerB(), entry.n, "float64").again.kernel is None


@pytest.mark.study
def test_an_error_while_a_step_is_taken_again_is_not_lost(monkeypatch):
    system, start = wavy()
    runner = llvm.prepare(system, hx.Rattle(), 3, "float64")
    monkeypatch.setattr(runner.again, "code", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runner.advance(runner.begin(start, {}), range(128), 1, 0.1, 0, 16, 16)


def test_magnitudes_count_what_cancels():
    assert float(magnitude(lambda q: (q[0] + 1e8) - 1e8, jnp.array([1.0]))) == pytest.approx(2e8, rel=1e-6)
    assert float(magnitude(lambda q: jnp.exp(q[0]) - 1.0, jnp.array([0.0]))) == pytest.approx(2.0)
    value = magnitude(lambda q: jnp.sum(jnp.reshape(q, (2, 2)) @ jnp.array([1.0, -1.0])), jnp.ones(4))
    assert float(value) == pytest.approx(8.0)


def test_the_constraint_that_became_dependent_is_named():
    system = hx.System(
        lambda q, v: 0.5 * v @ v + 20.0 * q[0],
        lambda q: jnp.array([q[2], q[1] ** 2 + q[2] ** 2 - (1.0 - q[0]) ** 2 * (q[0] + 2.0)]),
        n=3,
    )
    start = hx.start(system, [0.0, 2.0**0.5, 0.0], project=True)
    with pytest.raises(hx.SimulationError, match=r"constraint|smaller h"):
        hx.simulate(system, hx.Rattle(), start, t1=4.0, h=0.05)


def test_empty_leaves_are_no_obstacle_for_batches():
    def function(tree):
        return {"x": jnp.linalg.solve(tree["a"], tree["b"]), "none": tree["none"]}

    tree = {"a": jnp.tile(jnp.eye(30), (20, 1, 1)), "b": jnp.ones((20, 30)), "none": jnp.zeros((20, 0))}
    result = over_paths(function, tree)
    assert result["none"].shape == (20, 0)
    np.testing.assert_allclose(result["x"], 1.0)


def test_one_path_of_a_large_system_is_not_padded():
    chain = hx.systems.chain(32)
    assert plain.prepare(chain.system, hx.EulerA(), 96, "float64").chunk < 8
    assert plain.prepare(hx.systems.pendulum().system, hx.EulerA(), 3, "float64").chunk == 32


def matrix(q):
    return jnp.roll(jnp.eye(3), 1, axis=0) + 0.3 * jnp.outer(q[:3], q[1:])  # its diagonal may vanish


FUNCTIONS = {
    "solve": lambda q: q[:3] @ jnp.linalg.solve(matrix(q), q[:3]),
    "inv": lambda q: jnp.sum(jnp.linalg.inv(matrix(q))),
    "slogdet": lambda q: jnp.linalg.slogdet(matrix(q))[1],
    "det": lambda q: jnp.linalg.det(jnp.pad(matrix(q), (0, 1)) + jnp.diag(jnp.array([0.0, 0.0, 0.0, 1.0]))),
    "cholesky": lambda q: jnp.sum(jnp.linalg.cholesky(matrix(q) @ matrix(q).T)),
    "expm": lambda q: jnp.trace(jax.scipy.linalg.expm(0.3 * matrix(q)[:2, :2])),
}


@pytest.mark.parametrize("name", [*map(heavy, ("solve", "slogdet", "inv", "det", "cholesky", "expm"))])
def test_linear_algebra_in_a_lagrangian_is_translated(name):
    system = hx.System(lambda q, v: 0.5 * v @ v - 0.1 * FUNCTIONS[name](q), lambda q: q @ q - 1.0, n=4)
    start = hx.start(system, [0.6, 0.0, 0.8, 0.0], [0.0, 1.0, 0.0, 0.5])
    run = hx.simulate(system, hx.EulerA(), start, t1=0.2, h=0.02, engine="llvm")  # a warning would be an error
    path = jax.jit(lambda s: hx.integrate(system, hx.EulerA(), s, hx.increments(system, h=0.02, steps=10, seed=0)))
    np.testing.assert_allclose(run.q[0], path(start).q, atol=1e-12)


def test_what_is_too_large_for_single_numbers_has_loops_over_arrays_or_says_so_before_any_work():
    chain = hx.systems.chain(256)
    run = hx.simulate(chain.system, hx.EulerA(), chain.start, t1=0.02, h=0.01, engine="llvm")
    assert "loops over arrays, because equations of 1024 unknowns (the limit is 600)" in run.reason
    with pytest.raises(hx.InputError, match=r"cannot translate equations of 1024 unknowns.*engine='auto'"):
        hx.simulate(chain.system, hx.EulerA(), chain.start, t1=0.02, h=0.01, engine="xla")
