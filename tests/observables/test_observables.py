"""Streaming observables against plain NumPy on stored paths, their algebra, and the honesty of their errors."""

import dataclasses
import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.engines import ROWS, plain
from holonax.methods.path import Fate
from holonax.observables import Grid, Observable, View
from holonax.simulation import accumulating
from holonax.simulation.segments import Segment
from support import entry, mostly

EDGES = np.linspace(-0.8, 0.9, 8)
KINDS = {
    "mean": (hx.Mean, ()),
    "moments": (hx.Moments, ()),
    "histogram": (hx.Histogram, (EDGES,)),
    "autocorrelation": (hx.Autocorrelation, (5,)),
    "max": (hx.Max, ()),
}
OVER = ("paths", "time", "all")


def test_every_observable_is_tested_here():
    """But for `MeanForce`, a `Mean` of a quantity of its own, which has its own tests."""
    public = {getattr(hx, name) for name in hx.__all__}
    kinds = {x for x in public if isinstance(x, type) and issubclass(x, Observable)}
    assert {make for make, _ in KINDS.values()} == kinds - {hx.MeanForce}
    assert CHECKS.keys() == KINDS.keys()


def scalar(q, p):
    return q[2]


def vector(q, p):
    return jnp.stack([q[2], jnp.tanh(p @ p) + 100.0])


QUANTITIES = {"scalar": scalar, "vector": vector}


def everything(fn, kinds=KINDS, **options):
    """Each kind, over whatever it can be taken."""
    return {
        (kind, over): KINDS[kind][0](fn, *KINDS[kind][1], over=over, **options)
        for kind, over in itertools.product(kinds, OVER)
        if over in KINDS[kind][0].meaningful
    }


# The oracles: `x` holds values (times, paths, ...) on the grid, `alive` (times, paths) says which of them count.


def groups(x, alive, over):
    """The values that each result is taken over, as one array (values, ...) for each."""
    if over == "paths":
        return [row[good] for row, good in zip(x, alive, strict=True)]
    if over == "time":
        return [x[:, path][alive[:, path]] for path in range(x.shape[1])]
    return [x[alive]]


def over_groups(statistic, x, alive, over):
    results = np.stack([statistic(group) for group in groups(x, alive, over)])
    return results[0] if over == "all" else results


def batches(x, alive, over):
    """Lists of batches, one list for each result."""
    times, paths = alive.shape
    if over == "paths":
        return [[value[None] for value in group] for group in groups(x, alive, over)]
    number = min(times, 32 if over == "time" else -(-32 // paths))
    place = [i * number // times for i in range(times)]
    parts = [
        [x[[i for i in range(times) if place[i] == b and alive[i, path]], path] for b in range(number)]
        for path in range(paths)
    ]
    parts = parts if over == "time" else [[batch for path in parts for batch in path]]
    return [[batch for batch in part if len(batch)] for part in parts]


def check_mean(seen, x, alive, over):
    np.testing.assert_allclose(seen.mean, over_groups(lambda v: v.mean(axis=0), x, alive, over), atol=1e-12)
    np.testing.assert_array_equal(seen.count, over_groups(len, x, alive, over))
    errors, variances = [], []
    for group, parts in zip(groups(x, alive, over), batches(x, alive, over), strict=True):
        n, means = np.array([len(part) for part in parts]), np.array([part.mean(axis=0) for part in parts])
        between = np.tensordot(n, (means - group.mean(axis=0)) ** 2, 1) / max(len(parts) - 1, 1)
        error = np.sqrt(between / n.sum()) if len(parts) > 1 else np.full(group.shape[1:], np.inf)
        errors.append(error)
        variances.append(group.var(axis=0, ddof=1) if len(parts) > 1 else np.full(group.shape[1:], np.nan))
    errors, variances = (results[0] if over == "all" else np.stack(results) for results in (errors, variances))
    np.testing.assert_allclose(seen.stderr, errors, rtol=1e-9, atol=1e-12)
    steady = errors > 1e-9  # the start is the same for all paths
    np.testing.assert_allclose(seen.ess[steady], variances[steady] / errors[steady] ** 2, rtol=1e-6)


def check_moments(seen, x, alive, over):
    mean = over_groups(lambda v: v.mean(axis=0), x, alive, over)
    second, third, fourth = (
        over_groups(lambda v, power=power: ((v - v.mean(axis=0)) ** power).mean(axis=0), x, alive, over)
        for power in (2, 3, 4)
    )
    np.testing.assert_allclose(seen.mean, mean, atol=1e-12)
    np.testing.assert_allclose(seen.variance, second, rtol=1e-9, atol=1e-24)
    spread = second > 1e-9
    np.testing.assert_allclose(seen.skewness[spread], (third[spread] / second[spread] ** 1.5), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(seen.kurtosis[spread], (fourth[spread] / second[spread] ** 2 - 3), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(seen.count, over_groups(len, x, alive, over))


def check_histogram(seen, x, alive, over):
    def histogram(values):
        entries = values.reshape(len(values), -1).T
        return np.stack([np.histogram(entry, EDGES)[0] for entry in entries]).reshape(*values.shape[1:], -1)

    counts = over_groups(histogram, x, alive, over)
    number = over_groups(len, x, alive, over)
    np.testing.assert_array_equal(seen.counts, counts)
    np.testing.assert_array_equal(seen.below, over_groups(lambda v: (v < EDGES[0]).sum(axis=0), x, alive, over))
    np.testing.assert_array_equal(seen.above, over_groups(lambda v: (v > EDGES[-1]).sum(axis=0), x, alive, over))
    np.testing.assert_array_equal(seen.count, number)
    assert not seen.undefined.any()
    inside = counts.sum(axis=-1) / np.reshape(number, np.shape(number) + (1,) * (counts.ndim - 1 - np.ndim(number)))
    np.testing.assert_allclose((seen.density * np.diff(EDGES)).sum(axis=-1), inside, atol=1e-12)


def check_autocorrelation(seen, x, alive, over):
    series = [x[:, path][alive[:, path]] for path in range(x.shape[1])]
    collections = [[path] for path in series] if over == "time" else [series]
    covariances, counts = [], []
    for collection in collections:
        mean = np.concatenate(collection).mean(axis=0)
        pairs = [[(v[: max(len(v) - k, 0)] - mean, v[k:] - mean) for v in collection] for k in range(6)]
        counts.append([sum(len(y) for _, y in pair) for pair in pairs])
        covariances.append([sum((a * b).sum(axis=0) for a, b in pair) for pair in pairs])
    covariances, counts = (np.array(y if over == "time" else y[0]) for y in (covariances, counts))
    shaped = counts.reshape(counts.shape + (1,) * (covariances.ndim - counts.ndim))
    expected = np.where(shaped > 0, covariances / np.maximum(shaped, 1), np.nan)
    np.testing.assert_array_equal(seen.count, counts)
    np.testing.assert_allclose(seen.autocovariance, expected, rtol=1e-9, atol=1e-13)
    axis = 1 if over == "time" else 0
    many = np.take(counts, [0], axis).min() > 1  # one value is a constant
    if many:
        np.testing.assert_allclose(seen.autocorrelation, expected / np.take(expected, [0], axis), rtol=1e-7, atol=1e-9)


def check_max(seen, x, alive, over):
    np.testing.assert_allclose(seen.max, over_groups(lambda v: v.max(axis=0), x, alive, over), rtol=1e-14)
    np.testing.assert_array_equal(seen.count, over_groups(len, x, alive, over))


CHECKS = {
    "mean": check_mean,
    "moments": check_moments,
    "histogram": check_histogram,
    "autocorrelation": check_autocorrelation,
    "max": check_max,
}


def check(observed, x, alive):
    for (kind, over), seen in observed.items():
        CHECKS[kind](seen, x, alive, over)


def pendulum(**arguments):
    e = entry("pendulum")
    defaults = {"h": 2.0**-6, "seed": 5, "progress": False}
    return hx.simulate(e.system, hx.EulerA(), e.start, **(defaults | arguments))


def values_of(run, fn, every, after):
    """(times, paths, ...) on the grid of an observable, from a run that stores every step."""
    numbers = [i for i in range(run.q.shape[1]) if i % every == 0 and i >= after]
    values = np.asarray(jax.vmap(jax.vmap(fn))(run.q[:, numbers], run.p[:, numbers])).swapaxes(0, 1)
    return values, run.t[numbers], np.array(numbers)


def compare(fn, every=1, after=0, kinds=KINDS, **arguments):
    stored = pendulum(**arguments, save_every=1)
    x, t, _ = values_of(stored, fn, every, after)
    observed = pendulum(**arguments, save_every=None, observe=everything(fn, kinds, every=every, after=after)).observed
    check(observed, x, np.ones(x.shape[:2], bool))
    return observed, x, t


MANY = [(50, 150, 1, 0), (33, 200, 3, 20)]  # paths, steps, every, after
FEW = [(1, 100, 1, 10), (5, 40, 1, 0)]


@pytest.mark.parametrize("sizes", [pytest.param(MANY, id="many"), pytest.param(FEW, id="few", marks=pytest.mark.study)])
@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("kind", KINDS)
def test_streaming_agrees_with_stored_paths(kind, quantity, sizes):
    for paths, steps, every, after in sizes:
        t1 = steps * 2.0**-6
        observed, x, t = compare(QUANTITIES[quantity], every, after, [kind], paths=paths, t1=t1, engine="llvm")
        if kind == "max":
            check_places(observed, x, t)
        elif kind == "autocorrelation":
            np.testing.assert_allclose(observed[kind, "all"].t, np.arange(6) * every * 2.0**-6)
        elif kind in ("mean", "moments", "histogram"):
            np.testing.assert_allclose(observed[kind, "paths"].t, t)
            np.testing.assert_allclose(observed[kind, "all"].t, t[[0, -1]])


def check_places(observed, x, t):
    """When and where values were the largest."""
    highest = observed["max", "all"]
    if x.ndim == 2:
        i, path = np.unravel_index(np.argmax(x), x.shape)
        assert (highest.t, highest.path) == (t[i], path)
        np.testing.assert_array_equal(observed["max", "time"].t, t[x.argmax(axis=0)])
        np.testing.assert_array_equal(observed["max", "paths"].path, x.argmax(axis=1))
    else:
        assert highest.max.shape == highest.t.shape == highest.path.shape == (2,)


@pytest.mark.study
def test_the_xla_engine():
    compare(vector, 3, 5, paths=2100, t1=70 * 2.0**-6, engine="xla")


def test_the_plain_engine(monkeypatch):
    monkeypatch.setattr(
        "holonax.simulation.simulate.runner",
        lambda _, system, method, n, dtype: plain.prepare(system, method, n, dtype),
    )
    compare(vector, 2, 3, paths=150, t1=70 * 2.0**-6)  # five chunks


def far(q, p):
    return q[2] + 1000.0


def test_single_precision_is_summed_in_double():
    observe = {"mean": hx.Mean(far, over="all"), "moments": hx.Moments(far)}
    run = pendulum(paths=50, t1=2.0, dtype="float32", observe=observe)
    x = run.q[..., 2] + np.float32(1000.0)
    assert x.dtype == np.float32
    assert run.observed["mean"].mean == pytest.approx(x.mean(dtype=float), rel=1e-12)
    assert run.observed["moments"].variance == pytest.approx(x.var(dtype=float), rel=1e-9)


def test_what_is_seen_does_not_depend_on_what_is_saved():
    sparse, dense = (
        pendulum(paths=7, t1=100 * 2.0**-6, save_every=save, observe=everything(scalar, every=4, after=6)).observed
        for save in (None, 6)
    )
    for name in sparse:
        jax.tree.map(np.testing.assert_array_equal, vars(sparse[name]), vars(dense[name]))
    own = pendulum(
        paths=7, t1=100 * 2.0**-6, save_every=10, observe={over: hx.Mean(scalar, over=over) for over in OVER}
    )
    assert own.observed["paths"].t.tolist() == own.t.tolist()
    assert own.observed["time"].count.tolist() == [101] * 7
    assert own.observed["all"].count == 707


def test_results_over_one_axis_agree_with_those_over_both():
    observed = pendulum(paths=50, t1=1.0, save_every=1, observe=everything(scalar)).observed
    for kind in ("mean", "moments"):
        for over in ("paths", "time"):
            assert observed[kind, over].mean.mean() == pytest.approx(observed[kind, "all"].mean, abs=1e-13)
    for over in ("paths", "time"):
        np.testing.assert_array_equal(
            observed["histogram", over].counts.sum(axis=0), observed["histogram", "all"].counts
        )
        assert observed["max", over].max.max() == observed["max", "all"].max


WALL = hx.System(lambda q, v: 0.5 * v @ v - 0.01 * jnp.sqrt(1.5 - q[0]), n=1)  # undefined beyond 1.5


@pytest.mark.parametrize("engine", mostly(["llvm", "xla"]))
def test_failed_paths_are_seen_up_to_their_last_good_state(engine):
    velocity = np.linspace(0.2, 9.0, 41)[:, None]
    start = hx.start(WALL, q=0 * velocity, v=velocity)
    arguments = {"t1": 5.0, "h": 2.0**-5, "on_failure": "mark", "engine": engine, "progress": False}
    stored = hx.simulate(WALL, hx.EulerA(), start, **arguments)
    assert 20 < np.count_nonzero(stored.status) < 41

    def fn(q, p):
        return jnp.stack([jnp.sin(3 * q[0]), p[0]])

    x, _, numbers = values_of(stored, fn, 2, 3)
    alive = (stored.failed_step < 0) | (numbers[:, None] <= stored.failed_step)
    assert (alive.sum(axis=0) > 0).all()
    observe = everything(fn, every=2, after=3)
    check(hx.simulate(WALL, hx.EulerA(), start, save_every=None, observe=observe, **arguments).observed, x, alive)


def numbers(seen, rows):
    """What a result shows, by name; only what has one row for each path, or time, unless `rows` is None."""
    shown = {name: np.asarray(getattr(seen, name)) for name in dir(seen) if not name.startswith("_")}
    return {name: x for name, x in shown.items() if rows is None or x.shape[:1] == (rows,)}


def test_paths_that_fail_before_anything_is_seen_have_no_result():
    start = hx.start(WALL, q=[[0.0], [0.0], [0.0]], v=[[100.0], [0.2], [0.1]])
    observed = hx.simulate(
        WALL, hx.EulerA(), start, t1=4.0, h=0.25, on_failure="mark", observe=everything(first, after=4)
    ).observed
    for kind in KINDS:
        results = [x for x in numbers(observed[kind, "time"], 3).values() if x.dtype.kind == "f"]
        assert not any(np.isfinite(x[0]).any() for x in results), kind
        assert any(np.isfinite(x[1:]).all() for x in results), kind
    assert observed["mean", "time"].count.tolist() == [0, 13, 13]
    assert np.isinf(observed["mean", "time"].stderr[0])
    assert observed["max", "all"].path == 1
    assert observed["autocorrelation", "all"].count.tolist() == [26, 24, 22, 20, 18, 16]


# Values made up, fed to the observables as an engine would.


def stream(observable, values):
    """The summary of values (times, paths) in blocks of changing length, in an order of blocks as in a run."""
    steps, paths = len(values) - 1, values.shape[1]
    view = View(Grid(1, steps), paths, 0.0, float(steps), ())
    accumulator = accumulating.Accumulator(observable, view, range(paths), paths)
    alive = SimpleNamespace(fate=lambda _: Fate(*[None] * 5)._replace(failed_step=np.full(paths, -1)))
    edges = [0, 1, *range(40, steps + 1, ROWS), steps + 1]
    for first, stop in itertools.pairwise(edges):
        q = values[first:stop, :, None]
        accumulator.add(Segment(alive, {}, paths, 0, stop - 1, np.arange(first, stop), q, q, None))
    return accumulator.summaries(np.full(paths, -1))[0], view


def result(observable, values):
    summary, view = stream(observable, values)
    return observable.result(view, summary)


def first(q, p):
    return q[0]


PHI = 0.9


def chains(times, paths, seed):
    """Stationary chains x' = PHI x + noise with variance 1."""
    noise = np.random.default_rng(seed).normal(size=(times, paths))
    noise[1:] *= np.sqrt(1 - PHI**2)
    for i in range(1, times):
        noise[i] += PHI * noise[i - 1]
    return noise


def test_the_error_along_a_path_is_honest_where_the_naive_one_is_not():
    values = chains(12_000, 512, seed=1)
    seen = result(hx.Mean(first, over="time"), values)
    z = seen.mean / seen.stderr
    naive = seen.mean / (values.std(axis=0) / np.sqrt(len(values)))
    spread = np.sqrt(31 / 29)  # of Student's t with 31 degrees of freedom
    tolerance = 5 / np.sqrt(2 * 512)
    assert abs(z.std() - spread) < tolerance
    assert abs(naive.std() - np.sqrt((1 + PHI) / (1 - PHI))) < 4.4 * tolerance
    assert abs(np.median(seen.ess) * (1 + PHI) / (1 - PHI) / len(values) - 1) < 0.1


def test_the_pooled_error_of_a_few_paths_is_honest():
    values = chains(2000, 8 * 100, seed=2)
    results = [result(hx.Mean(first, over="all"), part) for part in np.split(values, 100, axis=1)]
    z = np.array([seen.mean / seen.stderr for seen in results])
    assert abs(z.std() - np.sqrt(31 / 29)) < 5 / np.sqrt(2 * 100)
    assert all(seen.count == 16_000 for seen in results)


def test_the_pooled_error_of_many_paths_is_honest_however_long_their_memory():
    levels = np.random.default_rng(3).normal(size=40)
    seen = result(hx.Mean(first, over="all"), np.tile(levels, (500, 1)))  # they never forget
    assert seen.stderr == pytest.approx(levels.std(ddof=1) / np.sqrt(40), rel=1e-12)
    assert seen.ess == pytest.approx(40, rel=0.05)


def test_the_integrated_time_of_a_chain():
    values = chains(8_000, 64, seed=4)
    pooled = result(hx.Autocorrelation(first, 100), values)
    exact = (1 + PHI) / (1 - PHI) / 2  # 1/2 + sum of PHI^k
    # Madras and Sokal: var = 2 (2 M + 1) tau^2 / n with the window M = 5 tau; the window cuts off exp(-5)
    error = exact * np.sqrt(2 * (10 * exact + 1) / values.size)
    assert abs(pooled.integrated_time - exact) < 5 * error + np.exp(-5) * exact
    np.testing.assert_allclose(pooled.autocorrelation[:20], PHI ** np.arange(20), atol=0.03)
    own = result(hx.Autocorrelation(first, 100, over="time"), values)
    assert own.integrated_time.shape == (64,)
    assert abs(own.integrated_time.mean() - exact) < 5 * error + 0.03 * exact
    short = result(hx.Autocorrelation(first, 20), values)
    assert np.isnan(short.integrated_time)  # 20 lags are not five times 9.5
    ess = result(hx.Mean(first, over="all"), values).ess  # the mean is as good as this time says
    assert ess == pytest.approx(values.size / (2 * pooled.integrated_time), rel=5 / np.sqrt(2 * 63) * 2)


def test_a_large_mean_costs_no_more_digits_than_the_values_have_lost():
    values = np.random.default_rng(6).exponential(size=(300, 16))
    shifted = values + 1e8
    exact = shifted - 1e8  # what is left of the values, without error
    moments = result(hx.Moments(first), shifted)
    assert moments.variance == pytest.approx(exact.var(), rel=1e-7)
    assert moments.skewness == pytest.approx(((exact - exact.mean()) ** 3).mean() / exact.var() ** 1.5, rel=1e-6)
    assert moments.kurtosis == pytest.approx(((exact - exact.mean()) ** 4).mean() / exact.var() ** 2 - 3, rel=1e-6)
    here, there = (result(hx.Autocorrelation(first, 5), x) for x in (exact, shifted))
    np.testing.assert_allclose(there.autocovariance, here.autocovariance, atol=1e-7)
    here, there = (result(hx.Mean(first, over="all"), x) for x in (exact, shifted))
    assert there.stderr == pytest.approx(here.stderr, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_a_number_spoils_what_it_is_part_of_and_nothing_else(kind):
    values = np.random.default_rng(7).normal(size=(100, 16))
    spoilt = values.copy()
    spoilt[90, 2] = np.nan
    for (_, over), observable in everything(first, [kind]).items():
        row, rows = {"paths": (90, 100), "time": (2, 16), "all": (..., None)}[over]
        before, after = (numbers(result(observable, x), rows) for x in (values, spoilt))
        lost = [name for name, x in before.items() if (np.isnan(after[name][row]) & ~np.isnan(x[row])).any()]
        assert lost or after.get("undefined", np.zeros(rows or ()))[row] == 1, f"{kind} over {over} hides it"
        if over != "all":
            for name, x in before.items():
                np.testing.assert_array_equal(np.delete(after[name], row, 0), np.delete(x, row, 0))


def test_where_the_largest_value_is_not_a_number_and_where_it_is_counted():
    values = np.random.default_rng(7).normal(size=(100, 16))
    values[90, 2] = np.nan
    assert result(hx.Max(first), values).t == 90
    seen = result(hx.Histogram(first, EDGES), values)
    assert seen.count == seen.counts.sum() + seen.below + seen.above + 1


def test_bins_hold_their_lower_edge_and_the_last_one_both():
    values = np.array([[-1.0, 0.0, 1.0, 2.0, 2.5, -1.5, np.inf, -np.inf]])
    seen = result(hx.Histogram(first, [-1, 0, 1, 2]), np.concatenate([values, values]))
    assert seen.counts.tolist() == [2, 2, 4]
    assert (seen.below, seen.above, seen.count) == (4, 4, 16)


def test_of_equal_values_the_earliest_of_the_lowest_path_is_the_largest():
    values = np.zeros((200, 5))
    values[[150, 70, 70], [1, 3, 2]] = 1.0
    seen = result(hx.Max(first), values)
    assert (seen.max, seen.t, seen.path) == (1.0, 70, 2)
    assert result(hx.Max(first, over="time"), values).t.tolist() == [0, 150, 70, 70, 0]
    assert result(hx.Max(first), np.full((200, 5), -np.inf)).t == 0


OBSERVABLES = [make(first, *extra, over=over) for make, extra in KINDS.values() for over in make.meaningful]


@pytest.mark.parametrize("observable", OBSERVABLES, ids=lambda o: f"{type(o).__name__}-{o.over}")
def test_merging_is_associative_and_commutes_but_for_the_order_of_paths(observable):
    values = [np.random.default_rng(seed).normal(loc=seed, size=(100, 16)) for seed in range(3)]
    a, b, c = (stream(observable, x)[0] for x in values)

    def agree(one, other):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12), one, other)

    merge = observable.merge
    agree(merge(merge(a, b), c), merge(a, merge(b, c)))
    if observable.over != "time":
        agree(merge(a, b), merge(b, a))
    whole, view = stream(observable, np.concatenate(values, axis=1))
    if not (isinstance(observable, hx.Mean) and observable.over == "all"):  # 48 paths have other batches than 16
        shown = [vars(observable.result(view, summary)) for summary in (merge(merge(a, b), c), whole)]
        for name in set(shown[0]) - {"path"}:  # every stream counts its paths from 0
            np.testing.assert_allclose(shown[0][name], shown[1][name], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("observable", OBSERVABLES, ids=lambda o: f"{type(o).__name__}-{o.over}")
def test_nothing_is_neutral(observable):
    summary = stream(observable, np.random.default_rng(0).normal(size=(100, 16)))[0]
    if observable.over == "time":
        summary = (
            jax.tree.map(lambda x: x.swapaxes(0, 1), summary) if isinstance(observable, hx.Autocorrelation) else summary
        )
    nothing = observable.nothing({"paths": (100,), "time": (16,), "all": ()}[observable.over], ())
    for combined in (observable.combine(summary, nothing), observable.combine(nothing, summary)):
        jax.tree.map(np.testing.assert_array_equal, combined, summary)


def test_blocks_of_any_length_share_one_program():
    moments = hx.Moments(lambda q, p: q[0] + 1)
    stream(moments, np.zeros((500, 16)))
    stream(moments, np.zeros((50, 16)))
    program = accumulating._update(dataclasses.replace(moments, every=None, after=0), 16)
    assert 1 <= program._cache_size() <= 2  # the first carry and those after it


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hx.Mean(3), r"fn = 3 is not a function of \(q, p\)"),
        (lambda: hx.Moments(scalar, every=0), r"every = 0: must be a positive number of steps"),
        (lambda: hx.Moments(scalar, every=1.5), r"every = 1.5: must be an integer"),
        (lambda: hx.Max(scalar, after=-1), r"after = -1: must be 0 or a positive number of steps"),
        (lambda: hx.Max(scalar, over="path"), r"over = 'path': choose one of 'paths', 'time', 'all'"),
        (lambda: hx.Autocorrelation(scalar, 3, over="paths"), r"over = 'paths': choose one of 'time', 'all'"),
        (lambda: hx.Autocorrelation(scalar, 0), r"lags = 0: must be a positive number"),
        (lambda: hx.Autocorrelation(scalar, 2.0), r"lags = 2.0: must be an integer"),
        (lambda: hx.Histogram(scalar, [1.0]), r"edges = \[1.0\]: must be two or more finite numbers that increase"),
        (lambda: hx.Histogram(scalar, [0.0, 0.0, 1.0]), r"must be two or more finite numbers that increase"),
        (lambda: hx.Histogram(scalar, [0.0, np.inf]), r"must be two or more finite numbers that increase"),
        (lambda: hx.Histogram(scalar, 10), r"edges = 10: must be two or more"),
    ],
)
def test_wrong_observables(make, message):
    with pytest.raises(hx.InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("observable", "message"),
    [
        (hx.Mean(scalar, every=9), r"every = 9: must be an integer from 1 to the 8 steps of the run"),
        (
            hx.Moments(scalar, after=9),
            r"after = 9 leaves nothing to see of 8 steps, every 1 of them; make after smaller",
        ),
        (hx.Moments(scalar, every=5, after=6), r"after = 6 leaves nothing to see of 8 steps, every 5 of them"),
        (hx.Mean(scalar, after=100), r"after = 100 leaves nothing"),
        (hx.Autocorrelation(scalar, 9), r"lags = 9: only 9 times are seen, so that lags can be 8 at most"),
        (hx.Mean(lambda q, p: 1j * q[0]), r"fn\(q, p\) is of type complex128.*its real and imaginary parts"),
    ],
)
def test_observables_that_do_not_fit_the_run(observable, message, monkeypatch):
    monkeypatch.setattr("holonax.simulation.simulate.runner", None)  # found before anything is compiled
    with pytest.raises(hx.InputError, match=message):
        pendulum(t1=8 * 2.0**-6, observe={"x": observable})
