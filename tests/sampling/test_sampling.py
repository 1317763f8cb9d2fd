"""`sample`: densities on manifolds against closed forms, and the search for a step size."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from support import FIVE_SIGMA, chi_squared, heavy

AXES = np.array([2.0, 0.8])


def ellipse(q):
    return jnp.sum((q / AXES) ** 2) - 1.0


def tilted(q):
    return 0.5 * q[0] - q[1]


def hump(q):
    return -8.0 * q @ q


def angles_of(samples):
    q = samples.q[:, -1]
    return np.arctan2(q[:, 1] / AXES[1], q[:, 0] / AXES[0])


def density(measure):
    """Of the angle on the ellipse."""

    def value(angle):
        q = AXES * jnp.array([jnp.cos(angle), jnp.sin(angle)])
        length = jnp.linalg.norm(AXES * jnp.array([-jnp.sin(angle), jnp.cos(angle)]))
        slope = jnp.linalg.norm(jax.grad(ellipse)(q)) if measure == "delta" else 1.0
        return jnp.exp(tilted(q)) * length / slope

    return value


def draw(**options):
    """One draw from each of many chains, hence independent."""
    options = {"chains": 8192, "draws": 1, "thin": 200, "warmup": 400, "seed": 1} | options
    return hx.sample(tilted, ellipse, [2.0, 0.0], **options)


@pytest.mark.parametrize(
    "options",
    [{}, heavy({"mass": [[2.0, 0.5], [0.5, 1.0]]}), heavy({"metropolis": False, "mass": [1.0, 3.0]})],
    ids=str,
)
@pytest.mark.parametrize("measure", ["surface", "delta"])
def test_both_measures_on_an_ellipse(measure, options):
    angles = angles_of(draw(measure=measure, **options))
    other = {"surface": "delta", "delta": "surface"}[measure]
    assert chi_squared(angles, density(measure)) > FIVE_SIGMA
    assert chi_squared(angles, density(other)) < 1e-20


@pytest.mark.study
def test_two_constraints_with_the_delta_measure():
    """A circle as the intersection of a sphere and a slanted, curved sheet: no determinant is constant on it."""

    def constraints(q):
        return jnp.array([q @ q - 1.0, q[2] * jnp.exp(q[0])])

    samples = hx.sample(
        lambda q: 0 * q[0], constraints, [1.0, 0.0, 0.0], measure="delta", chains=8192, draws=1, thin=200
    )
    angles = np.arctan2(samples.q[:, -1, 1], samples.q[:, -1, 0])
    assert np.abs(samples.q[..., 2]).max() < 1e-12
    assert chi_squared(angles, lambda angle: jnp.exp(-jnp.cos(angle))) > FIVE_SIGMA


@pytest.mark.parametrize("target", [0.6, heavy(0.95)])
def test_warm_up_finds_the_step_size_for_the_acceptance(target):
    samples = hx.sample(hump, None, np.zeros(3), target_acceptance=target, chains=64, draws=200)
    assert samples.acceptance.mean() == pytest.approx(target, abs=0.03)
    total = sum(samples.counts.values())
    assert (total == 200).all()
    np.testing.assert_allclose(samples.acceptance, samples.counts["accepted"] / total)


@pytest.mark.study
def test_without_metropolis_it_is_found_for_the_energy_error():
    samples = hx.sample(hump, None, np.zeros(3), metropolis=False, target_energy_error=0.2, chains=256, draws=400)
    assert samples.energy_error == pytest.approx(0.2, abs=0.04)
    assert samples.counts == {}
    again = hx.sample(hump, None, np.zeros(3), step_size=samples.step_size, chains=256, draws=400)
    error = np.sqrt(8) * float(jax.scipy.special.erfinv(1 - again.acceptance.mean()))
    assert error == pytest.approx(0.2, abs=0.04)


@pytest.mark.parametrize(("chains", "target"), [heavy(4, 0.1), heavy(4, 0.03), heavy(1, 0.1)])
def test_few_chains_do_as_well(chains, target):
    """Few rejections are seen in a round, often none; the step size must still be the right one, on the average."""
    options = {"metropolis": False, "target_energy_error": target, "chains": chains, "draws": 1}
    sizes = [hx.sample(hump, None, np.zeros(3), seed=seed, **options).step_size for seed in range(8)]
    check = hx.sample(hump, None, np.zeros(3), step_size=np.exp(np.mean(np.log(sizes))), chains=512, draws=500)
    error = np.sqrt(8) * float(jax.scipy.special.erfinv(1 - check.acceptance.mean()))
    assert 0.6 * target < error < 1.6 * target


@pytest.mark.study
def test_values_that_a_density_closes_over_may_change():
    strength = 1.0

    def density(q):
        return -strength * q[2]

    def mean_height():
        means = (
            hx.sample(density, lambda q: q @ q - 1.0, [1.0, 0.0, 0.0], chains=256, draws=100, thin=5).q[..., 2].mean(1)
        )
        return means.mean(), means.std() / 16

    for strength in (1.0, 5.0):
        mean, error = mean_height()
        assert abs(mean + 1 / np.tanh(strength) - 1 / strength) < 5 * error


def test_chains_that_stand_still_are_an_error_that_holds_the_samples():
    with pytest.raises(hx.SimulationError, match=r"0 accepted, .*smaller step_size or a longer warmup") as caught:
        hx.sample(lambda q: -((q @ q) ** 2), None, np.ones(2), step_size=50.0, draws=100, warmup=0)
    assert caught.value.run.q.shape == (4, 100, 2)


def test_a_step_size_that_is_given_is_used():
    samples = draw(step_size=0.3, chains=8)
    assert samples.step_size == 0.3
    assert draw(step_size=0.3, chains=8, warmup=0).q.shape == (8, 1, 2)


def test_a_step_that_is_too_large_is_reported():
    with pytest.warns(hx.StepSizeWarning, match="use a smaller h"):
        samples = draw(step_size=2.0, chains=8)
    assert np.abs(jax.vmap(jax.vmap(ellipse))(samples.q)).max() < 1e-12


def test_chains_are_reproducible_and_differ():
    one, two, other = draw(chains=8), draw(chains=8), draw(chains=8, seed=2)
    np.testing.assert_array_equal(one.q, two.q)
    assert not np.array_equal(one.q, other.q)
    assert len(np.unique(one.q[:, -1, 0])) == 8


def test_one_start_per_chain():
    starts = AXES * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert hx.sample(tilted, ellipse, starts, draws=5, warmup=100).q.shape == (3, 5, 2)
    with pytest.raises(hx.InputError, match="chains = 4"):
        hx.sample(tilted, ellipse, starts, chains=4)


def test_arviz_reads_the_chains():
    import arviz_stats

    samples = draw(chains=4, draws=400, thin=5)
    data = samples.to_arviz()
    assert data.posterior["q"].dims[:2] == ("chain", "draw")
    np.testing.assert_array_equal(data.posterior["q"].values, samples.q)
    assert data.posterior.attrs["step_size"] == samples.step_size
    assert float(arviz_stats.rhat(data)["q"].max()) < 1.1
    assert 10 < float(arviz_stats.ess(data)["q"].min()) < 4 * 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "volume"}, "measure = 'volume'"),
        ({"draws": 0}, "draws = 0"),
        ({"warmup": 5}, "warmup = 5"),
        ({"target_acceptance": 1.0}, "target_acceptance = 1.0"),
        ({"target_energy_error": 0.0}, "target_energy_error = 0.0"),
        ({"mass": [1.0, -1.0]}, "mass must be"),
        ({"mass": np.eye(3)}, "mass must be"),
        ({"mass": [1.0, 2.0, 3.0]}, "mass must be"),
        ({"friction": 0.0}, "friction = 0.0"),
        ({"chains": 0}, "chains = 0"),
        ({"step_size": -1.0}, "step_size = -1.0"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(hx.InputError, match=message):
        hx.sample(tilted, ellipse, [2.0, 0.0], **options)


def test_a_start_off_the_manifold_is_refused():
    with pytest.raises(hx.StartError, match="off the manifold"):
        hx.sample(tilted, ellipse, [2.0, 1.0])


def test_what_is_printed_fits_on_a_screen():
    samples = hx.sample(tilted, ellipse, [2.0, 0.0], chains=64, draws=3, warmup=0, step_size=0.1, progress=False)
    first, *others = repr(samples).splitlines()
    assert first == "Samples: chains 64, draws of each 3, steps between draws 1, n = 2"
    assert others[0] == "  step size   0.1"
    assert f"{samples.counts['accepted'].sum()} accepted" in others[-1]
    assert "accepted" not in repr(replace(samples, counts={}))
