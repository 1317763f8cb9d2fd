"""`simulate`: the contract, reproducibility to the bit, statuses, observables, and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from support import entry

CIRCLE = hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: q @ q - 1.0, n=2)


def simulate(**arguments):
    e = entry("pendulum")
    defaults = {"t1": 0.5, "h": 2.0**-4, "paths": 3, "seed": 0, "progress": False}
    return hx.simulate(e.system, hx.EulerA(), e.start, **(defaults | arguments))


def test_shapes_times_and_types():
    run = simulate()
    assert run.q.shape == run.p.shape == (3, 9, 3)
    assert isinstance(run.q, np.ndarray)
    assert run.q.dtype == run.p.dtype == np.float64
    np.testing.assert_allclose(run.t, np.arange(9) / 16)
    np.testing.assert_array_equal(run.q[:, 0], np.tile([1.0, 0.0, 0.0], (3, 1)))
    assert run.status.tolist() == [0, 0, 0]
    assert run.failed_step.tolist() == [-1, -1, -1]
    assert run.residual.max() < 1e-12
    assert 2 <= run.iterations.max() <= 10


def test_save_every():
    every = simulate()
    np.testing.assert_array_equal(simulate(save_every=4).q, every.q[:, ::4])
    odd = simulate(save_every=3)
    np.testing.assert_allclose(odd.t, [0.0, 3 / 16, 6 / 16])
    np.testing.assert_array_equal(odd.q, every.q[:, [0, 3, 6]])
    end = simulate(save_every=None)
    np.testing.assert_array_equal(end.q, every.q[:, -1:])
    np.testing.assert_allclose(end.t, [0.5])
    later = simulate(save_every=None, t0=1.0, t1=1.5, first_step=0)
    np.testing.assert_array_equal(later.q, end.q)
    np.testing.assert_allclose(later.t, [1.5])


def test_long_runs_are_cut_into_calls_without_a_trace():
    # 1000 steps: more than one call into the engine, with every stride
    one = simulate(t1=1.0, h=1e-3, save_every=1)
    for stride in (7, 100, None):
        other = simulate(t1=1.0, h=1e-3, save_every=stride)
        rows = [-1] if stride is None else slice(None, None, stride)
        np.testing.assert_array_equal(other.q, one.q[:, rows])


def test_a_path_is_bitwise_the_same_in_ensembles_of_any_size():
    few, more, many = (simulate(paths=paths, save_every=None) for paths in (18, 100, 10_000))
    np.testing.assert_array_equal(few.q[17], more.q[17])
    np.testing.assert_array_equal(few.p[17], many.p[17])
    np.testing.assert_array_equal(more.p, many.p[:100])


def test_simulate_is_integrate_on_the_increments_of_the_path():
    e = entry("pendulum")
    run = simulate(paths=40)
    noise = hx.increments(e.system, h=2.0**-4, steps=8, seed=0, path=33)
    path = hx.integrate(e.system, hx.EulerA(), e.start, noise)
    np.testing.assert_allclose(run.q[33], path.q, atol=1e-13)
    np.testing.assert_allclose(run.p[33], path.p, atol=1e-13)


@pytest.mark.parametrize("method", [hx.EulerA(), hx.Kicked(), hx.EulerMaruyama()], ids=str)
@pytest.mark.parametrize("constraint", [None, lambda q: q @ q - 1.0])
def test_systems_without_noise_or_constraint(method, constraint):
    system = hx.System(lambda q, v: 0.5 * v @ v - q[1], constraint, n=2)
    run = hx.simulate(system, method, hx.start(system, q=[1.0, 0.0], v=[0.0, 0.3]), t1=0.5, h=0.125, paths=2)
    np.testing.assert_array_equal(run.q[0], run.q[1])
    assert np.isfinite(run.q).all()


def test_one_start_per_path():
    e = entry("pendulum")
    angles = np.linspace(0, 1, 40)
    q = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    start = hx.start(e.system, q=q)
    run = hx.simulate(e.system, hx.Rattle(), start, t1=0.25, h=0.125)
    assert run.q.shape == (40, 3, 3)
    np.testing.assert_array_equal(run.q[:, 0], q)
    alone = hx.simulate(e.system, hx.Rattle(), hx.start(e.system, q=q[35]), t1=0.25, h=0.125, paths=36)
    np.testing.assert_array_equal(run.q[35], alone.q[35])
    with pytest.raises(hx.InputError, match="paths = 3 but start holds 40 states"):
        hx.simulate(e.system, hx.Rattle(), start, t1=0.25, h=0.125, paths=3)


def circle(omega, **arguments):
    omega = np.atleast_1d(omega)
    q, v = np.tile([1.0, 0.0], (len(omega), 1)), np.stack([0 * omega, omega], axis=1)
    return hx.simulate(CIRCLE, hx.Rattle(), hx.start(CIRCLE, q=q, v=v), **({"t1": 1.0, "h": 0.25} | arguments))


def test_the_free_particle_turns_by_the_arcsine():
    run = circle([1.0, 3.0])
    angle = np.unwrap(np.arctan2(run.q[..., 1], run.q[..., 0]), axis=1)
    np.testing.assert_allclose(
        np.diff(angle, axis=1), np.arcsin(0.25 * np.array([[1.0], [3.0]])) * np.ones(4), atol=1e-13
    )


def test_failure_is_a_status_on_just_those_paths():
    good, bad = 3.0, 5.0  # h omega = 0.75 and 1.25: beyond 1 no point of the circle is within reach
    run = circle([good, bad, good, bad, good], on_failure="mark")
    assert run.status.tolist() == [0, 1, 0, 1, 0]
    assert run.failed_step.tolist() == [-1, 0, -1, 0, -1]
    np.testing.assert_array_equal(run.q[[0, 2, 4]], np.tile(circle([good]).q, (3, 1, 1)))
    np.testing.assert_array_equal(run.q[1], np.tile([1.0, 0.0], (5, 1)))  # frozen where it was
    assert np.isfinite(run.q).all()
    assert run.residual[1] > 1e-3


def test_failure_raises_by_default_and_says_which_when_and_what_to_do():
    with pytest.raises(hx.SimulationError, match=r"2 of 5 paths failed; first path 1 at step 0 \(t = 0\)") as caught:
        circle([3.0, 5.0, 3.0, 5.0, 3.0])
    message = str(caught.value)
    for part in ("residual ", "h = 0.25", "use a smaller h", 'on_failure="mark"'):
        assert part in message
    assert caught.value.run.status.tolist() == [0, 1, 0, 1, 0]


def test_a_path_that_fails_on_the_way_is_frozen_at_its_last_good_state():
    # a wall at x = 1.5: the potential is not defined beyond
    walled = hx.System(lambda q, v: 0.5 * v @ v + jnp.log(1.5 - q[0]) - jnp.log(1.5 - q[0]), n=1)
    start = hx.start(walled, q=[[0.0], [0.0]], v=[[1.0], [0.1]])
    run = hx.simulate(walled, hx.EulerA(), start, t1=3.0, h=0.25, on_failure="mark")
    assert run.status.tolist() == [hx.Status.NON_FINITE, 0]
    step = run.failed_step[0]
    assert 5 <= step <= 6
    np.testing.assert_array_equal(run.q[0, step + 1 :], np.tile(run.q[0, step], (12 - step, 1)))
    path = hx.integrate(
        walled, hx.EulerA(), jax.tree.map(lambda x: x[0], start), hx.increments(walled, h=0.25, steps=12, seed=0)
    )
    np.testing.assert_array_equal(np.asarray(path.report.status) > 0, np.arange(12) >= step)
    np.testing.assert_allclose(path.q, run.q[0], atol=1e-14)


def test_mean_is_the_mean_over_the_paths():
    fn = lambda q, p: jnp.array([q[2], p @ p])  # noqa: E731
    run = simulate(paths=70, observe={"both": hx.Mean(fn), "z": hx.Mean(lambda q, p: q[2], every=2)})
    values = np.stack([run.q[..., 2], np.sum(run.p**2, axis=-1)], axis=-1)
    both = run.observed["both"]
    np.testing.assert_allclose(both.t, run.t)
    np.testing.assert_allclose(both.mean, values.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(both.stderr, values.std(axis=0, ddof=1) / np.sqrt(70), atol=1e-14)
    np.testing.assert_allclose(run.observed["z"].mean, values[:, ::2, 0].mean(axis=0), atol=1e-14)
    assert both.count.tolist() == [70] * 9
    streamed = simulate(paths=70, save_every=None, observe={"z": hx.Mean(lambda q, p: q[2], every=2)}).observed["z"]
    np.testing.assert_allclose(streamed.mean, run.observed["z"].mean, atol=1e-15)
    np.testing.assert_allclose(streamed.t, run.t[::2])
    end = simulate(paths=70, save_every=None, observe={"z": hx.Mean(lambda q, p: q[2])}).observed["z"]
    np.testing.assert_allclose(end.mean, values[:, -1:, 0].mean(axis=0), atol=1e-15)
    assert np.isinf(simulate(paths=1, observe={"z": hx.Mean(lambda q, p: q[2])}).observed["z"].stderr).all()


def test_failed_paths_leave_the_mean_and_the_count_says_so():
    run = circle([3.0, 5.0, 3.0], on_failure="mark", observe={"x": hx.Mean(lambda q, p: q[0])})
    seen = run.observed["x"]
    assert seen.count.tolist() == [3, 2, 2, 2, 2]
    np.testing.assert_allclose(seen.mean[1:], run.q[0, 1:, 0], atol=1e-15)


@pytest.mark.parametrize("name", ["ellipsoid", "rigid_body", "chain", "torus"])
def test_single_precision_where_functions_close_over_double_arrays(name):
    e = entry(name)
    run = hx.simulate(e.system, hx.EulerA(), e.start, t1=0.125, h=2.0**-5, paths=2, dtype="float32")
    assert run.q.dtype == np.float32
    assert np.abs([e.system.g(q) for q in run.q[:, -1].astype(float)]).max() < 1e-5


def test_single_precision():
    run = simulate(dtype="float32", paths=5)
    assert run.q.dtype == np.float32
    assert np.abs(np.sum(run.q**2, axis=-1) - 1.0).max() < 1e-6
    np.testing.assert_allclose(run.q, simulate(paths=5).q, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"h": 0.0}, r"h = 0.0: the step size must be positive"),
        ({"h": -0.1}, r"h = -0.1: the step size must be positive"),
        ({"h": float("nan")}, r"h = nan is not finite"),
        ({"t1": float("inf")}, r"t1 = inf is not finite"),
        ({"t1": 0.0}, r"t1 = 0.0 is not after t0 = 0.0"),
        ({"t1": 1.0, "h": 0.3}, r"1.0 is 3.33333 steps of h = 0.3.*use t1 = 0.9 or h = 0.333333333333333"),
        ({"t1": 0.1, "h": 0.5}, r"0.1 is 0.2 steps of h = 0.5.*use t1 = 0.5 or h = 0.1"),
        ({"paths": 0}, r"paths = 0: must be a positive integer"),
        ({"paths": 2.5}, r"paths = 2.5: must be an integer"),
        ({"paths": True}, r"paths = True: must be an integer"),
        ({"seed": -1}, r"seed = -1"),
        ({"save_every": 0}, r"save_every = 0: must be an integer from 1 to the 8 steps"),
        ({"save_every": 9}, r"save_every = 9"),
        ({"engine": "gpu"}, r"engine = 'gpu': choose one of 'auto', 'xla', 'llvm', 'cuda'"),
        ({"dtype": "float16"}, r"dtype = 'float16'"),
        ({"on_failure": "ignore"}, r"on_failure = 'ignore': choose one of 'raise', 'mark'"),
        ({"paths": 10**12}, r"q and p at 9 times of 1000000000000 paths need [\d.]+ GiB.*save_every="),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(hx.InputError, match=message):
        simulate(**arguments)


def test_wrong_starts_and_increments():
    e = entry("pendulum")
    with pytest.raises(hx.InputError, match=r"does not accept 2 coordinates"):
        hx.simulate(e.system, hx.EulerA(), hx.State(jnp.ones(2), jnp.ones(2)), t1=1.0, h=0.5)
    with pytest.raises(hx.InputError, match=r"start.p has shape \(2,\) but q has \(3,\)"):
        hx.simulate(e.system, hx.EulerA(), hx.State(jnp.ones(3), jnp.ones(2)), t1=1.0, h=0.5)
    with pytest.raises(hx.InputError, match=r"g\(q\) = 2 is not zero: q is off the manifold"):
        hx.simulate(e.system, hx.EulerA(), hx.State(jnp.ones(3), jnp.zeros(3)), t1=1.0, h=0.5)
    with pytest.raises(hx.InputError, match=r"is not a method; pass an instance"):
        hx.simulate(e.system, hx.EulerA, e.start, t1=1.0, h=0.5)
    with pytest.raises(hx.InputError, match=r"is not an observable; wrap the function: hx.Mean"):
        hx.simulate(e.system, hx.EulerA(), e.start, t1=1.0, h=0.5, observe={"q": lambda q, p: q})
    noise = hx.increments(entry("oscillator").system, h=0.1, steps=3, seed=0)
    with pytest.raises(hx.InputError, match=r"increments.dW has shape \(3, 1\); \(steps, 3\) is needed"):
        hx.integrate(e.system, hx.EulerA(), e.start, noise)
    with pytest.raises(hx.InputError, match=r"integrate takes one path"):
        hx.integrate(e.system, hx.EulerA(), jax.tree.map(lambda x: x[None], e.start), noise)


@pytest.mark.parametrize("bad", [{"fn": 3}, {"fn": abs, "every": 0}])
def test_wrong_observables(bad):
    with pytest.raises(hx.InputError, match=r"is not a function|must be a positive number of steps"):
        hx.Mean(**bad)


@pytest.mark.study
def test_gradient_of_an_end_point_with_respect_to_a_parameter():
    noise = hx.increments(entry("pendulum").system, h=0.05, steps=20, seed=1)

    @jax.jit
    def height(gravity):
        system = hx.System(
            lambda q, v: 0.5 * v @ v - gravity * q[2] - 0.1 * gravity**2 * q[0] * v[1],
            constraint=lambda q: q @ q - 1.0,
            noise=jnp.sin,
        )
        start = hx.start(system, q=[1.0, 0.0, 0.0], v=[0.0, 1.0, 0.5])
        return hx.integrate(system, hx.Rattle(), start, noise).q[-1, 2]

    for gravity in (0.5, 1.5):
        difference = (height(gravity + 1e-5) - height(gravity - 1e-5)) / 2e-5
        for mode in (jax.grad, jax.jacfwd):
            assert abs(float(mode(height)(gravity)) - float(difference)) < 1e-6


def test_the_bar_appears_on_a_terminal_after_two_seconds_only(monkeypatch, capsys):
    from holonax import progress

    clock = iter([0.0, 1.0, 3.0, 3.1, 5.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.Bar(100, "path-steps", show=True) as bar:
        bar.update(10)  # at 1 s: too early
        assert capsys.readouterr().err == ""
        bar.update(30)  # at 3 s
        assert "30.0%  7 s left  10 path-steps/s" in capsys.readouterr().err
        bar.update(31)  # at 3.1 s: too soon again
        assert capsys.readouterr().err == ""
        bar.update(50)
    assert capsys.readouterr().err.endswith("\n")
