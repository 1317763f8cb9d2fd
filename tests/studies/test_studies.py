"""The studies themselves: against methods whose error is known, so that a wrong fit, join or reference fails."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.studies import lockstep, strong_orders
from holonax.studies.fit import fitted_order
from support import entry, fitted_slope, heavy, quick_jit, within

FREE = hx.System(lambda q, v: 0.5 * v @ v, noise=lambda q: q, n=1)  # dq = p dt, dp = dW
START = hx.start(FREE, q=[0.0], v=[1.0])
H = [2.0**-k for k in (2, 3, 4)]


@dataclasses.dataclass(frozen=True)
class Known(hx.Method):
    """The exact solution of FREE, plus `constant` h^(order + 1) in q per step; without H if `blind`."""

    constant: float = 0.0
    order: int = 1
    blind: bool = False
    strong_order = 1.0
    weak_order = 1
    symmetric = False
    cost = "none"

    def step(self, system, state, increment):
        h, dW, area = increment
        integral = h * (dW / 2 + (0.0 if self.blind else area))
        q1 = state.q + h * state.p + integral + self.constant * jnp.abs(h) ** (self.order + 1)
        zero = jnp.zeros((), jnp.int32)
        report = hx.Report(zero, jnp.zeros(()), zero, state.p[None], jnp.zeros((1, 0)))
        return hx.State(q1, state.p + dW, state.p), report


def strong(method, reference, refine=16, paths=4096, **options):
    return hx.strong_order(FREE, method, START, t1=1.0, h=H, paths=paths, reference=reference, refine=refine, **options)


def test_joined_increments_are_exact_at_every_level():
    """A method that is exact for every h has no error but round-off: the levels see one and the same Wiener path."""
    study = strong(Known(), Known(), paths=300)
    assert study["q"].error.max() < 1e-14
    assert study["p"].error.max() < 1e-14


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_known_error_is_found_with_its_constant_and_order(order):
    study = strong(Known(constant=0.3, order=order), Known(), paths=300)
    np.testing.assert_allclose(study["q"].error, 0.3 * np.array(H) ** order, rtol=1e-9)
    assert abs(study["q"].order - order) < 1e-8
    low, high = study["q"].interval
    assert low <= study["q"].order + 1e-9
    assert high >= study["q"].order - 1e-9
    np.testing.assert_allclose(study["q"].slopes, order, atol=1e-8)
    np.testing.assert_allclose(study["q"].mean_abs, study["q"].error, rtol=1e-9)


@pytest.mark.parametrize("refine", [2, heavy(4)])
def test_a_coarse_reference_of_the_same_method_does_not_bias_the_strong_order(refine):
    """Without H the error is h sqrt(t1/12) in root mean square, against itself sqrt((h^2 - h_ref^2) t1/12)."""
    against_exact = strong(Known(blind=True), Known())
    np.testing.assert_allclose(against_exact["q"].error, np.array(H) / np.sqrt(12), rtol=0.1)
    assert within(against_exact["q"].order, 1.0, 0.05)
    against_itself = strong(Known(blind=True), Known(blind=True), refine=refine)
    expected = np.sqrt((np.array(H) ** 2 - (H[-1] / refine) ** 2) / 12)
    np.testing.assert_allclose(against_itself["q"].error, expected, rtol=0.1)
    assert within(against_itself["q"].order, 1.0, 0.05)
    if refine == 2:  # a straight line through these errors would say more than 1
        assert fitted_slope(H, against_itself["q"].error) > 1.05


def test_erratum_4_a_reference_twice_as_fine_fakes_weak_order_three_halves():
    """|h - h_ref| at h = 2 h_ref and 4 h_ref has the slope log2(3) = 1.58; with the bias taken out it is 1."""
    method = Known(constant=0.3, order=1)
    study = hx.weak_order(
        FREE, method, START, t1=1.0, h=H[1:], paths=64, reference=method, refine=2, observables={"q": lambda q, p: q[0]}
    )
    assert abs(fitted_slope(H[1:], study["q"].error) - np.log2(3)) < 1e-6
    assert abs(study["q"].order - 1.0) < 1e-6


def test_fit_of_many_samples_at_once():
    h = np.array([0.5, 0.25, 0.125])
    orders = np.array([0.5, 1.0, 1.7, 2.0])
    plain = h ** orders[:, None]
    np.testing.assert_allclose(fitted_order(h, plain, 0.01, 0), orders, atol=1e-12)
    for power in (1, 2):
        biased = (h ** (power * orders[:, None]) - 0.05 ** (power * orders[:, None])) ** (1 / power)
        np.testing.assert_allclose(fitted_order(h, biased, 0.05, power), orders, atol=1e-8)


def test_the_maximum_over_the_common_grid():
    at_end, over_time = (strong(Known(blind=True), Known(), paths=1000, sup=sup) for sup in (False, True))
    assert (over_time["q"].error > 1.05 * at_end["q"].error).all()
    assert within(over_time["q"].order, 1.0, 0.1)


def test_the_common_grid_is_where_all_levels_meet():
    exact = hx.strong_order(FREE, Known(), START, t1=1.5, h=[0.75, 0.5, 0.25], paths=20, reference=Known(), sup=True)
    assert exact["q"].error.max() < 1e-13


@pytest.mark.study
def test_without_noise_the_order_is_the_deterministic_one():
    e = hx.systems.pendulum(noise=None)
    study = hx.strong_order(e.system, hx.Lobatto(3), e.start, t1=1.0, h=[0.25, 0.125, 0.0625], paths=2, refine=2)
    assert study.declared == 4
    assert within(study["q"].order, 4.0, 0.1), study.table()
    assert "Lobatto(stages=6)" in study.reference


def test_weak_errors_against_an_exact_value_and_the_noise_mark():
    study = hx.weak_order(
        FREE, Known(constant=0.3, order=2), START, t1=1.0, h=H, paths=2000, reference=Known(),
        observables={"q": lambda q, p: q[0], "p": lambda q, p: p[0], "exact": lambda q, p: q[0]}, exact={"exact": 1.0},
    )  # fmt: skip
    assert abs(study["q"].order - 2.0) < 1e-8
    assert abs(study["exact"].order - 2.0) < 1e-6  # antithetic pairs: the mean of q is exact here
    assert not study["p"].used.any()
    assert np.isnan(study["p"].order)
    assert any("fewer than two levels above the noise" in note for note in study.notes)
    assert "noise" in study.table()


@pytest.mark.study
def test_closed_form_weak_check_on_the_sphere():
    """gamma_i = sigma q_i: E H(t) = H(0) + sigma^2 t, whatever the potential."""
    e = hx.systems.pendulum(noise="linear", sigma=0.7)
    seen = {"H": lambda q, p: 0.5 * p @ p + q[2]}
    study = hx.weak_order(
        e.system, hx.Kicked(), e.start, t1=1.0, h=[0.125, 0.0625], paths=8192, refine=2, observables=seen,
        exact={"H": float(e.facts["mean_energy"](1.0))},
    )  # fmt: skip
    assert (study["H"].error < 2.5 * study["H"].half_width + 1e-3).all(), study.table()


def test_memory_does_not_depend_on_the_number_of_steps_and_paths_need_not_fill_a_chunk():
    few = strong(Known(constant=0.3), Known(), paths=10)
    assert few.paths == 10
    many = hx.strong_order(FREE, Known(constant=0.3), START, t1=64.0, h=[0.25, 0.125], paths=3, reference=Known())
    np.testing.assert_allclose(many["q"].error, 64 * 0.3 * np.array([0.25, 0.125]), rtol=1e-9)


CIRCLE = hx.System(lambda q, v: 0.5 * v @ v, constraint=lambda q: q @ q - 1.0, noise=lambda q: 3.0 * q[0], n=2)


def test_a_large_system_has_smaller_chunks_and_the_same_paths(monkeypatch):
    method = Known(constant=0.1, blind=True)
    together = strong(method, Known(), paths=25)["q"]
    monkeypatch.setattr(lockstep, "_COORDINATES", 1)  # as if one were many
    assert lockstep.chunk_of(1) == 8 < 25
    chunks = strong(method, Known(), paths=25)["q"]
    np.testing.assert_allclose(chunks.error, together.error, rtol=1e-12)
    np.testing.assert_allclose(chunks.half_width, together.half_width, rtol=1e-9)


@pytest.mark.study
def test_failed_paths_are_reported_and_never_silently_dropped():
    start = hx.start(CIRCLE, q=[1.0, 0.0], v=[0.0, 1.0])
    arguments = {"t1": 1.0, "h": [0.25, 0.125], "paths": 200}
    with pytest.raises(
        hx.SimulationError,
        match=r"(?s)\d+ of 200 paths failed, \d+ of them at h = 0.25: leave out.*status NOT_CONVERGED",
    ):
        hx.strong_order(CIRCLE, hx.Rattle(), start, **arguments)
    study = hx.strong_order(CIRCLE, hx.Rattle(), start, on_failure="mark", **arguments)
    assert 0 < study.failed[0] < 200
    assert study.paths < 200
    assert "paths that failed and are left out at every level" in study.table()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"h": [0.25]}, "at least 2 step sizes"),
        ({"h": [0.25, 0.25]}, "repeats a step size"),
        ({"h": [0.25, 0.1]}, r"0.25 is 2.5 times the finest, 0.1"),
        ({"h": [0.3, 0.15]}, r"t1 = 1.0 is 3.33333 steps of h = 0.3"),
        ({"h": [0.25, -0.125]}, "must be positive and finite"),
        ({"refine": 1}, "refine = 1: the reference must be at least 2 times finer"),
        ({"paths": 1}, "paths = 1: a study needs at least 2 paths"),
        ({"seed": -1}, "seed = -1"),
        ({"on_failure": "drop"}, "on_failure = 'drop'"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(hx.InputError, match=message):
        hx.strong_order(FREE, Known(), START, **({"t1": 1.0, "h": H, "paths": 4, "reference": Known()} | arguments))


def test_wrong_observables():
    weak = functools.partial(hx.weak_order, FREE, Known(), START, t1=1.0, h=H, paths=4)
    with pytest.raises(hx.InputError, match="observables is empty"):
        weak(observables={})
    with pytest.raises(hx.InputError, match=r"exact names \['r'\]"):
        weak(observables={"q": lambda q, p: q[0]}, exact={"r": 1.0})
    with pytest.raises(hx.InputError, match=r"observable 'q' returns shape \(1,\)"):
        weak(observables={"q": lambda q, p: q})
    with pytest.raises(hx.InputError, match="a study starts all paths at one state"):
        hx.strong_order(FREE, Known(), hx.start(FREE, q=[[0.0], [1.0]]), t1=1.0, h=H, paths=2)


def test_table_rows_dataset_and_figure():
    study = strong(Known(constant=0.3), Known(), paths=50)
    assert "q: order 1.000" in study.table()
    assert len(study.rows()) == 6
    data = study.to_xarray()
    np.testing.assert_array_equal(data["error"].sel(quantity="q"), study["q"].error)
    assert data.attrs["kind"] == "strong"
    figure = study.plot()
    (axis,) = figure.axes
    assert axis.get_xscale() == axis.get_yscale() == "log"
    labels = [text.get_text() for text in axis.texts]
    (order,) = (label.split()[1] for label in labels if label.startswith("q "))
    assert abs(float(order) - 1) < 1e-9
    assert "slope 1" in labels


def test_work_precision():
    e = entry("oscillator")
    work = hx.work_precision(e.system, [hx.EulerA(), hx.Kicked()], e.start, t1=1.0, h=[0.125, 0.0625], paths=64)
    assert [row.steps for row in work.rows] == [8, 16, 8, 16]
    assert all(row.seconds > 0 for row in work.rows)
    assert work.rows[0].error > work.rows[2].error  # Kicked is the more accurate at the same step
    ratio = work.times_cheaper(hx.Kicked(), hx.EulerA(), 1e-3)
    assert ratio == pytest.approx(work.seconds_for("EulerA()", 1e-3) / work.seconds_for(hx.Kicked(), 1e-3))
    assert "ms per path" in work.table()
    assert len(work.plot().axes) == 2
    with pytest.raises(hx.InputError, match="Rattle"):
        work.seconds_for(hx.Rattle(), 1e-3)


@pytest.mark.study
@pytest.mark.parametrize("method", [hx.EulerA(), hx.Kicked()], ids=str)
def test_the_paper_s_first_theorem(method):
    """Constrained coordinates in R^3 and two angles, on the same noise, are the same path up to the method's error."""
    e = entry("pendulum")

    def place(angles):
        theta, phi = angles
        return jnp.array([jnp.sin(theta) * jnp.cos(phi), jnp.sin(theta) * jnp.sin(phi), jnp.cos(theta)])

    def lagrangian(q, v):
        return 0.5 * (v[0] ** 2 + jnp.sin(q[0]) ** 2 * v[1] ** 2) - jnp.cos(q[0])

    angles = hx.System(lagrangian, noise=lambda q: jnp.sin(place(q)), n=2)
    start = hx.start(angles, q=[np.pi / 2, 0.0], v=[-0.5, 1.0])
    np.testing.assert_allclose(jax.jvp(place, (start.q,), (jnp.array([-0.5, 1.0]),))[1], e.start.v, atol=1e-15)
    steps, t1 = 256, 0.5

    def differences(factor):
        def one(path):
            noise = hx.increments(e.system, h=t1 / steps, steps=steps, seed=0, path=path).joined(factor)
            there = hx.integrate(e.system, method, e.start, noise)
            here = hx.integrate(angles, method, start, noise)
            return there.q[-1] - place(here.q[-1]), jnp.maximum(there.report.status[-1], here.report.status[-1])

        difference, status = quick_jit(jax.vmap(one))(jnp.arange(200))
        assert int(status.max()) == 0
        return float(jnp.sqrt(jnp.mean(jnp.sum(difference**2, axis=1))))

    h = [t1 / steps * factor for factor in (8, 4, 2)]
    errors = [differences(factor) for factor in (8, 4, 2)]
    assert fitted_slope(h, errors) > method.strong_order - 0.2, errors
    assert errors[-1] < (0.01 if method.order == 1 else 1e-5), errors


def test_several_methods_share_one_reference():
    one, two = strong_orders(
        FREE, (Known(constant=0.3), Known(constant=0.1)), START, t1=1.0, h=H, paths=8, reference=Known()
    )
    np.testing.assert_allclose(one["q"].error, 3 * two["q"].error, rtol=1e-9)


def test_neither_noise_nor_constraint():
    """Equations whose matrix is the same for all paths; more unknowns than are eliminated inline otherwise."""
    system = hx.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, n=3)
    study = hx.strong_order(
        system, hx.EulerA(), hx.start(system, [1.0, 0.0, 0.0]), t1=1.0, h=[2.0**-4, 2.0**-5], paths=2, progress=False
    )
    assert study["q"].order == pytest.approx(1.0, abs=0.1)
