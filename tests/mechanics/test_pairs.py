"""Sums over neighbour lists: those over all pairs, or not a number; and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from support import heavy

BOX = np.array([5.0, 6.0, 7.0])
POSITIONS = np.random.default_rng(1).uniform(-20, 20, (60, 3))
CHARGES = np.linspace(-1.0, 1.0, 60)
EXCLUDED = np.array([[1, 0], [2, 3]])


def potential(r2, a, b):
    return (1.0 + a * b) * jnp.sqrt(r2) * (2.25 - r2) ** 2


def near(box=BOX, skin=0.4, **options):
    return hx.pairs(1.5, skin, box, **options)


def by_all_pairs(q, box):
    x, charges = q.reshape(-1, 3), jnp.asarray(CHARGES)
    i, j = np.triu_indices(len(x), 1)
    counts = ~np.isin(60 * i + j, [1, 2 * 60 + 3])
    i, j = i[counts], j[counts]
    apart = x[i] - x[j]
    r2 = jnp.sum((apart if box is None else apart - box * jnp.round(apart / box)) ** 2, axis=1)
    return jnp.sum(jnp.where(r2 < 2.25, potential(r2, charges[i], charges[j]), 0.0))


def derivatives(function):
    """Value, gradient and second derivatives along a vector."""

    def all_of_them(q, along):
        return function(q), *jax.jvp(jax.grad(function), (q,), (along,))

    return jax.jit(all_of_them)


@pytest.mark.parametrize("box", [heavy(None), BOX, heavy(6.0)], ids=["free", "box", "cube"])
def test_a_sum_and_its_derivatives_are_those_over_all_pairs(box):
    """Also after particles have moved, by almost half the skin; padding and pairs beyond the cutoff add nothing."""
    x = POSITIONS if box is not None else POSITIONS / 8
    made = near(box, exclude=EXCLUDED).around(x.ravel())
    assert made.room > np.count_nonzero(made.i != made.j) > 10
    moved = np.random.default_rng(2).normal(size=x.shape)
    q = (x + 0.199 * moved / np.linalg.norm(moved, axis=1)[:, None]).ravel()

    def with_list(q):
        return made.sum(potential, q, CHARGES)

    def with_all(q):
        return by_all_pairs(q, box)

    ours, theirs = (derivatives(f)(q, moved.ravel()) for f in (with_list, with_all))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-11)


def test_bits_of_a_sum_do_not_depend_on_when_the_list_was_made():
    """On a CPU, energies and forces are added up in one order, whatever else is in the list."""
    q = np.random.default_rng(0).uniform(0, 9, 1200)
    recipe = hx.pairs(2.0, 0.6, 9.0)
    first = recipe.around(q)
    value = jax.jit(jax.value_and_grad(lambda q, made: made.sum(lambda r2: jnp.exp(-r2) * (4 - r2) ** 2, q)))
    energy, force = value(q, first)
    for other in (0.05 * np.sin(q), 0.15 * np.cos(q)):
        again = value(q, recipe.around(q + other, first.room))
        assert float(again[0]) == float(energy)
        np.testing.assert_array_equal(again[1], force)
    for skin in (0.3, 0.5, 0.9, 1.5):  # which is another program; energies do not depend on that, either
        assert float(value(q, hx.pairs(2.0, skin, 9.0).around(q))[0]) == float(energy)


def test_where_a_list_does_not_reach_nothing_is_a_number():
    """Also if no pair is near, and for particles that have not moved."""
    for x in (POSITIONS, 100.0 * np.eye(3)):
        made = near(None).around(x.ravel())
        far = x.ravel().copy()
        far[4] += 0.2001

        def total(q, made=made):
            return made.sum(lambda r2: r2, q)

        everything = derivatives(total)
        assert all(np.isfinite(value).all() for value in everything(x.ravel(), 0 * far))
        assert all(np.isnan(value).all() for value in everything(far, 0 * far))
        assert [bool(made.covers(q)) for q in (x.ravel(), far)] == [True, False]


def test_positions_need_not_be_coordinates():
    """Particles in two dimensions, at the ends of rods whose angles are the last coordinates."""

    def ends(q):
        centre, angle = q[:8].reshape(4, 2), q[8:]
        along = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        return jnp.concatenate([centre - along, centre + along])

    q = np.random.default_rng(3).uniform(0, 3, 12)
    made = hx.pairs(1.5, 0.5, positions=ends).around(q)
    x = ends(q)
    i, j = np.triu_indices(8, 1)
    r2 = np.sum((x[i] - x[j]) ** 2, axis=1)
    np.testing.assert_allclose(made.sum(lambda r2: r2, q), r2[r2 < 2.25].sum(), rtol=1e-13)


def lagrangian(q, v, *, near):
    return 0.5 * v @ v - near.sum(lambda r2: (2.25 - r2) ** 2, q)


def gas(**options):
    return hx.System(lagrangian, parameters={"near": near(None, **options)})


Q = np.array([0.0, 0.0, 0.0, 1.0, 0.1, 0.0, 5.0, 0.0, 0.0])


def test_a_start_and_an_energy_make_lists_and_traced_ones_ask_for_them():
    system = gas()
    start = hx.start(system, Q, np.ones(9))
    energy = 4.5 + (2.25 - 1.01) ** 2
    np.testing.assert_allclose(system.energy(start.q, start.p), energy, rtol=1e-13)
    with pytest.raises(hx.InputError, match=r"system\.around\(q\)"):
        jax.jit(system.energy)(start.q, start.p)
    jitted = jax.jit(system.around(start.q).energy)
    np.testing.assert_allclose(jitted(start.q, start.p), energy, rtol=1e-13)


def test_integrate_keeps_its_list_and_stops_where_that_ends():
    system = gas()
    start = hx.start(system, Q, np.array([0, 0, 0, 0, 0, 0, 1.0, 0, 0]))
    noise = hx.increments(hx.System(lambda q, v: 0.5 * v @ v, n=9), h=0.03, steps=10, seed=0)
    path = hx.integrate(system, hx.EulerA(), start, noise)
    np.testing.assert_array_equal(path.report.status, [0] * 6 + [hx.Status.STALE_LIST] * 4)  # 0.2 at a speed of 1
    np.testing.assert_allclose(path.q[:, 6], 5.0 + 0.03 * np.minimum(np.arange(11), 6), rtol=1e-12)


def simulate(system, q=Q, **options):
    start = hx.start(system, q, np.broadcast_to(np.eye(9)[6], q.shape))
    return hx.simulate(system, hx.EulerA(), start, **{"t1": 0.5, "h": 0.1, "progress": False} | options)


def test_a_particle_that_moves_too_far_in_one_step_is_a_failure():
    with pytest.raises(hx.SimulationError, match=r"at step 0 .*half of its skin.*a smaller h or a larger skin"):
        simulate(gas(skin=0.19), 3 * Q)
    assert (simulate(gas(skin=0.19), 3 * Q, h=0.05).status == 0).all()


def test_forces_inside_of_equations_run_on_the_plain_engine():
    system, start = gas(), hx.start(gas(), Q)
    assert "plain, since 'llvm' cannot translate" in repr(hx.explain(system, hx.Lobatto(3), n=9))
    with pytest.raises(hx.InputError, match=r"cannot translate .*engine='auto' runs it on the plain XLA engine"):
        hx.simulate(system, hx.Lobatto(3), start, t1=0.1, h=0.1, engine="llvm")


def test_paths_have_lists_of_their_own_and_bits_do_not_depend_on_others():
    system = gas(skin=0.19)
    q = np.stack([Q, Q + 0.01, 3 * Q])
    run = simulate(system, q, h=0.05, observe={"H": hx.Mean(system.energy, over="time")})
    alone = simulate(system, q[1], h=0.05)
    np.testing.assert_array_equal(run.q[1], alone.q[0])
    assert run.engine == "llvm"
    assert "lists of neighbours" in run.reason
    assert "pairs(cutoff=1.5" in repr(run)
    np.testing.assert_allclose(run.observed["H"].mean[2], 0.5, rtol=1e-13)


def say(call, text):
    with pytest.raises(hx.InputError, match=text):
        call()


def test_bad_input_is_told_in_one_sentence():
    say(lambda: near(skin=0.0), r"skin = 0\.0: must be positive")
    say(lambda: hx.pairs("2", 0.1), "cutoff = '2': must be a real number")
    say(
        lambda: hx.pairs(3.0, 0.1, [7.0, 5.0, 7.0]),
        r"cutoff = 3 is beyond half the box, 2\.5: .*; use a smaller",
    )
    say(lambda: near([1.0, -1.0]), "box = .*sides must be positive")
    say(lambda: near(exclude=[[0, 1], [4, 4]]), r"exclude\[1\] is a pair of particle 4 with itself")
    say(lambda: near(exclude=[[0, -1]]), "particle -1; they are numbered from 0")
    say(lambda: near(exclude=[0.5, 1.0]), r"an array \(number, 2\)")
    say(lambda: near(positions=3), "positions = 3 is not a function of q")
    say(lambda: jax.jit(lambda x: near(exclude=x).exclude)(EXCLUDED), "exclude is traced.*depend on the state")
    say(lambda: hx.start(gas(exclude=[[0, 3]]), Q), "exclude names the particle 3, but there are 3")
    say(lambda: hx.start(gas(), Q[:8]), "q has 8 coordinates, .* positions=lambda q")
    say(lambda: hx.start(gas(positions=lambda q: q), Q), r"positions returns shape \(9,\) for n = 9")
    say(lambda: hx.start(gas(positions=lambda q: q.reshape(2, -1)), Q), "positions raised TypeError.*test_pairs.py")
    flat = hx.System(lagrangian, parameters={"near": hx.pairs(1.0, 0.1, [4.0, 4.0])})
    say(lambda: hx.start(flat, Q), "box has 2 sides but the particles move in 3 dimensions")
    total = hx.System(
        lambda q, v, *, near: v @ v + near.sum(lambda r2: jnp.sum(r2), q), parameters={"near": near(None)}
    )
    say(lambda: hx.start(total, Q), r"the potential returns shape \(\) for .* squared distances.*test_pairs.py")
    for charges in (np.ones(2), np.ones(4), np.float64(1.0)):
        charged = hx.System(
            lambda q, v, *, near, c=charges: 0.5 * v @ v + near.sum(lambda r2, a, b: a * b * r2, q, c),
            parameters={"near": near(None)},
        )
        say(lambda charged=charged: hx.start(charged, Q), r"an array of shape .* for 3 particles; it must have a row")
    wrong = hx.System(lambda q, v, *, near: v @ v + near.sum(lambda r2: r2[:2], q), parameters={"near": near(None)})
    say(lambda: hx.start(wrong, Q), r"the potential returns shape \(2,\) for .* squared distances.*test_pairs.py")
    say(lambda: gas().replace(near=1.0), "near has shape .* but the system has it with Pairs")
    say(lambda: simulate(gas(), parameters={"near": near(None)}), r"made by holonax.*system\.replace\(near=")
    say(lambda: simulate(gas(), engine="xla"), "engine cannot translate neighbour lists.*engine='auto'")
    start = hx.start(gas(), Q)
    say(
        lambda: hx.strong_order(gas(), hx.EulerA(), start, t1=1.0, h=[0.25, 0.125], paths=4),
        "is a neighbour list.*sum over all pairs",
    )


def test_index_arrays_of_users_are_looked_at():
    """Beyond the end JAX would take the last entry; a pair of a particle with itself has no distance."""
    i, j = np.triu_indices(3, 1)

    def energy(i, j):
        def lagrangian(q, v):
            x = q.reshape(-1, 3)
            return 0.5 * v @ v - jnp.sum(1 / jnp.sqrt(jnp.sum((x[i] - x[j]) ** 2, axis=1)))

        return hx.System(lagrangian)

    assert hx.start(energy(i, j), Q).q.shape == (9,)
    say(lambda: hx.start(energy(i, j + 1), Q), "index 3 is out of bounds for axis 0 with size 3")
    say(lambda: hx.start(energy(i, jnp.asarray(j) + 1), Q), "index 3 is out of bounds for axis 0 with size 3")
    said = "not finite at the start.*a pair of a particle with itself"
    say(lambda: hx.start(energy(i, np.array([0, 2, 2])), Q), said)

    def springs(q, v):  # finite, but for the force
        x = q.reshape(-1, 3)
        return 0.5 * v @ v - jnp.sum((jnp.sqrt(jnp.sum((x - x[np.array([1, 0, 2])]) ** 2, axis=1)) - 1) ** 2)

    say(lambda: hx.start(hx.System(springs), Q), said)


@pytest.mark.study
def test_lists_and_redundant_constraints_go_together():
    """Which constraints are left out is found with lists that are made for the start."""
    sides = np.array([[0, 1], [1, 2], [0, 2], [0, 1]])

    def lagrangian(q, v, *, near):
        return 0.5 * v @ v - near.sum(lambda r2: (2.25 - r2) ** 2, q)

    def constraint(q):
        x = q.reshape(-1, 3)
        return jnp.sum((x[sides[:, 0]] - x[sides[:, 1]]) ** 2, axis=1) - 1.0

    system = hx.System(lagrangian, constraint, parameters={"near": near(None)}, redundant="allow")
    q = np.array([0, 0, 0, 1, 0, 0, 0.5, 0.75**0.5, 0, 0.5, 0.3, 1.1])
    start = hx.start(system, q=q, v=np.eye(12)[11])
    run = hx.simulate(system, hx.Rattle(), start, t1=0.5, h=0.05)
    alone = hx.System(lagrangian, lambda q: constraint(q)[:3], parameters={"near": near(None)})
    other = hx.simulate(alone, hx.Rattle(), start, t1=0.5, h=0.05)
    np.testing.assert_allclose(run.q, other.q, atol=1e-12)


def test_positions_that_refer_to_something_else_are_noticed():
    """Nothing else of the system changes, nor of an observable that asks for the list."""
    stretch = np.array([1.0])

    def lagrangian(q, v, *, near):
        return 0.5 * v @ v - near.sum(lambda r2: (2.25 - r2) ** 2, q)

    def energy(q, p, *, near):
        return near.sum(lambda r2: (2.25 - r2) ** 2, q)

    recipe = near(None, positions=lambda q: jnp.asarray(stretch) * q.reshape(-1, 3))
    system = hx.System(lagrangian, parameters={"near": recipe})
    start = hx.start(system, q=[0.0, 0, 0, 0.5, 0, 0])

    def found():
        run = hx.simulate(system, hx.EulerA(), start, t1=0.01, h=0.01, observe={"energy": hx.Mean(energy)})
        return run.observed["energy"].mean[0]

    assert found() == pytest.approx(2.0**2)
    stretch[0] = 2.0
    assert found() == pytest.approx(1.25**2)
