"""Newton and the elimination under it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.numerics.linear import INLINE_UNKNOWNS, factorize
from holonax.numerics.newton import Newton, Status
from support import heavy


@pytest.mark.parametrize("n", [1, 2, 5, INLINE_UNKNOWNS, INLINE_UNKNOWNS + 1, 40])
def test_factorize_solves_with_pivoting(n):
    rng = np.random.default_rng(n)
    matrix, x = rng.normal(size=(n, n)), rng.normal(size=n)
    matrix[0, 0] = 0.0 if n > 1 else 1.0  # no elimination without exchanging rows
    solve, singular = factorize(jnp.asarray(matrix))
    assert not bool(singular)
    np.testing.assert_allclose(solve(jnp.asarray(matrix @ x)), x, atol=1e-10)


@pytest.mark.parametrize("n", [3, 30])
def test_singularity_is_seen_whatever_the_units(n):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(n, n))
    rows, columns = 10.0 ** rng.uniform(-12, 12, size=n), 10.0 ** rng.uniform(-12, 12, size=n)
    assert not bool(factorize(jnp.asarray(matrix * rows[:, None] * columns))[1])
    matrix[1] = matrix[0] + matrix[2]
    assert bool(factorize(jnp.asarray(matrix))[1])
    assert bool(factorize(jnp.asarray(matrix * rows[:, None]))[1])


def uses_lapack(n):
    program = jax.jit(lambda a: factorize(a)[0](a[0])).lower(jnp.eye(n)).as_text()
    return "lapack" in program


def test_small_systems_call_no_lapack_and_larger_ones_do():
    assert not uses_lapack(INLINE_UNKNOWNS)
    assert uses_lapack(INLINE_UNKNOWNS + 1)
    assert INLINE_UNKNOWNS >= 12


def errors_of_newton(iterations):
    (x,), _ = Newton(max_iterations=iterations)(lambda x: x**3 - 2.0, (jnp.array([1.5]),))
    return abs(float(x[0]) - 2.0 ** (1 / 3))


def test_convergence_is_quadratic_to_round_off():
    errors = [errors_of_newton(k) for k in (1, 2, 3)]
    for now, then in itertools.pairwise(errors):
        assert then < 2.0 * now**2
    assert errors_of_newton(20) <= 2.3e-16


def status_of(residual, guess, **options):
    _, solved = Newton(**options)(residual, (jnp.asarray(guess),))
    return Status(int(solved.status)), solved


def test_statuses():
    status, solved = status_of(lambda x: x**2 - 2.0, [1.0])
    assert status == Status.CONVERGED
    assert float(solved.residual) < 1e-15
    assert 4 <= int(solved.iterations) <= 6
    assert status_of(lambda x: x**2 + 1.0, [0.3])[0] == Status.NOT_CONVERGED
    assert status_of(lambda x: x**2 - 2.0, [1.0], max_iterations=2)[0] == Status.NOT_CONVERGED
    singular = status_of(lambda x: jnp.array([x[0] + x[1] - 1.0, 2 * x[0] + 2 * x[1] - 3.0]), [0.0, 0.0])[0]
    assert singular == Status.SINGULAR
    assert status_of(lambda x: jnp.log(x), [-1.0])[0] == Status.NON_FINITE
    assert all(len(status.advice) > 20 for status in Status)


def test_an_update_that_leaves_the_domain_is_halved():
    # the first update from 0.9 leads to x < 0, where the logarithm is not defined
    status, _ = status_of(lambda x: jnp.log(x) - jnp.log(1e-3), [0.9])
    assert status == Status.CONVERGED


def test_a_failing_path_does_not_harm_its_neighbours():
    def root(c):
        (x,), solved = Newton()(lambda x: x**2 - c, (jnp.array([1.0]),))
        return x[0], solved.status

    several = jax.jit(jax.vmap(root))
    x, status = several(jnp.array([2.0, -1.1, 2.0]))
    assert status.tolist() == [0, 1, 0]
    assert float(x[0]) == float(x[2]) == float(several(jnp.full(3, 2.0))[0][0])


def test_derivatives_do_not_depend_on_the_guess_or_the_iterations():
    def root(c, guess):
        (x,), _ = Newton()(lambda x: x**3 - c, (guess * jnp.ones(1),))
        return x[0]

    for guess in (0.7, 1.26, 3.0):
        assert abs(jax.grad(root)(2.0, guess) - 2.0 ** (-2 / 3) / 3) < 1e-15
        assert abs(jax.jvp(lambda c, guess=guess: root(c, guess), (2.0,), (1.0,))[1] - 2.0 ** (-2 / 3) / 3) < 1e-15
        assert abs(jax.grad(jax.grad(root))(2.0, guess) + 2 * 2.0 ** (-5 / 3) / 9) < 1e-14


def test_an_unknown_that_vanishes_up_to_round_off_counts_as_solved():
    # g(q + h v)/h determines v only up to eps |q|/h: a test of updates relative to v could never be met
    q, h = jnp.array([1.0 / 3.0]), 1e-6
    (v,), solved = Newton()(lambda v: ((q + h * v) ** 2 - 1.0 / 9.0) / h, (jnp.zeros(1),))
    assert int(solved.status) == 0
    assert abs(float(v[0])) < 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_iterations": 0}, "at least 1 iteration"), ({"tolerance": 0.0}, "between 0 and 1")],
)
def test_wrong_options(options, message):
    with pytest.raises(hx.InputError, match=message):
        Newton(**options)


@pytest.mark.parametrize(("beads", "steps"), [(20, 200), heavy(60, 10)])
def test_many_constraints(beads, steps):
    e = hx.systems.chain(beads)
    noise = hx.increments(e.system, h=0.01, steps=steps, seed=0)
    path = jax.jit(lambda start: hx.integrate(e.system, hx.Rattle(), start, noise))(e.start)
    assert e.k == beads
    assert int(path.report.status.max()) == 0
    assert float(jnp.abs(jax.vmap(e.system.g)(path.q)).max()) < 1e-12
    assert float(jnp.abs(jax.vmap(e.system.hidden)(path.q, path.p)).max()) < 1e-12
