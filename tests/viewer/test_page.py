"""What is put into a page, and how input that cannot be drawn is told of."""

import base64
import json
import re
import zlib
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from ensembles import chain, linkage, pendulum, rigid_body

import holonax as hx
from holonax.simulation.scenes import scene_of
from holonax.viewer.encode import MISSING, integers, quantised
from holonax.viewer.level_set import level_set, march
from holonax.viewer.page import make_page
from holonax.viewer.scene import MOST_NUMBERS, MOST_POINTS, thinning


def inflated(text, kind, planes):
    """Numbers of so many bytes, whose bytes of the same place lie together."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.ascontiguousarray(raw.reshape(planes, -1).T).view(kind)[:, 0]


def decoded(packed):
    """As the page does it."""
    folded = inflated(packed["data"], "<u2", 2).astype(int).reshape(packed["shape"])
    codes = np.cumsum((folded >> 1) ^ -(folded & 1), axis=0) % 65536
    return np.where(codes == MISSING, np.nan, np.array(packed["low"]) + codes * np.array(packed["step"]))


def header(page):
    return json.loads(re.search(r'id="scene">(.*?)</script>', page.html, flags=re.DOTALL)[1])


def test_places_survive_to_half_a_step_and_what_is_missing_stays_missing():
    values = np.random.default_rng(0).normal(size=(50, 40, 3)) * [1.0, 1e-6, 1e6] + [0.0, 1.0, -1e7]
    values[3, 4, 0] = np.nan
    low, high = (np.nanmin(values, axis=(0, 1)), np.nanmax(values, axis=(0, 1)))
    found = decoded(quantised(values, low, high))
    assert np.isnan(found[3, 4, 0])
    assert np.isnan(found).sum() == 1
    assert np.nanmax(np.abs(found - values) / (high - low)) <= 0.5001 / 65534


def test_whole_numbers_survive():
    values = np.random.default_rng(0).integers(0, 2**31, size=(30, 3))
    assert (np.cumsum(inflated(integers(values)["data"], "<i4", 4).astype(int)) == values.ravel()).all()


def test_a_page_holds_the_places_of_the_run():
    run = pendulum()
    told = header(run.view())
    step = np.array(told["points"]["step"])
    assert (np.abs(decoded(told["points"]) - run.q.swapaxes(0, 1)) <= 0.51 * step).all()
    energy = told["quantities"][0]
    assert energy["name"] == "energy"
    expected = [float(run.model.energy(run.q[7, i], run.p[7, i])) for i in (0, 30)]
    np.testing.assert_allclose(decoded(energy["values"])[[0, 30], 7, 0], expected, atol=energy["values"]["step"][0])
    assert told["rods"] == [[0, 1]]
    assert told["anchors"] == [[0.0, 0.0, 0.0]]


def test_thousand_paths_of_three_hundred_times_fit_into_five_megabytes():
    rng = np.random.default_rng(0)
    run = pendulum()
    q = np.cumsum(0.05 * rng.normal(size=(1000, 300, 3)), axis=1) + np.array([0, 0, 1])
    q /= np.linalg.norm(q, axis=2, keepdims=True)
    counted = {name: np.zeros(1000, int) for name in ("status", "failed_step", "residual", "iterations")}
    page = replace(run, t=np.arange(300.0), q=q, p=rng.normal(size=q.shape), **counted).view()
    assert not page.notes
    assert len(page.html) <= 5_000_000
    without_scripts = re.sub(r"<script.*?</script>", "", page.html, flags=re.DOTALL)
    assert not re.search(r"https?:|@import|url\(", without_scripts)


@pytest.mark.parametrize(
    "shape", [(10**7, 1, 1, 3), (10**4, 10**3, 1, 3), (1, 10**6, 1, 3), (3, 100, 10**5, 3 * 10**5)]
)
def test_large_runs_are_thinned_and_that_is_said(shape):
    paths, times, points, numbers = shape
    every = thinning(*shape)
    kept = [-(-number // stride) for number, stride in zip((paths, times, points), every, strict=True)]
    assert kept[0] * kept[2] <= MOST_POINTS
    assert kept[0] * kept[1] * kept[2] * numbers / points <= 1.05 * MOST_NUMBERS
    assert kept[0] * kept[1] * kept[2] >= MOST_POINTS / 4
    told = " ".join(every.notes(paths, times, points))
    for number, stride in zip((paths, times, points), every, strict=True):
        assert stride == 1 or f"of {number:,} " in told


def test_small_runs_are_not_thinned():
    assert tuple(thinning(1000, 300, 1, 3)) == (1, 1, 1)


def test_ten_million_points_become_a_page():
    run = pendulum()
    q = np.zeros((10**7, 1, 3), np.float32)
    q[:, 0, 2] = 1.0
    counted = {name: np.zeros(10**7, np.int8) for name in ("status", "failed_step", "residual", "iterations")}
    page = replace(run, t=np.zeros(1), q=q, p=q, **counted).view()
    assert "20,000 of 10,000,000 paths are shown, every 500th, to keep the page small." in page.notes
    assert len(page.html) < 5_000_000


def test_the_surface_of_a_torus():
    def tube(x):
        return (np.hypot(x[:, 0], x[:, 1]) - 1.0) ** 2 + x[:, 2] ** 2 - 0.25

    inside = np.array([[0.9, -0.1, -0.5], [1.5, 0.1, 0.5]])
    corners, triangles = level_set(tube, *inside)
    assert np.abs(tube(corners)).max() < 1e-4
    a, b, c = (corners[triangles[:, i]] for i in range(3))
    across = np.cross(b - a, c - a)
    assert np.linalg.norm(across, axis=1).sum() / 2 == pytest.approx(4 * np.pi**2 * 0.5, rel=0.01)
    assert np.sum(a * across) / 6 == pytest.approx(2 * np.pi**2 * 0.25, rel=0.01)  # outwards: the volume is positive
    edges = np.sort(np.concatenate([triangles[:, [i, (i + 1) % 3]] for i in range(3)]), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()  # closed
    assert len(corners) - len(edges) // 2 + len(triangles) == 0  # Euler: one hole


def test_a_circle_an_open_surface_and_a_pole():
    corners, segments = level_set(lambda x: np.sum(x**2, axis=1) - 4, np.array([1.9, -0.3]), np.array([2.0, 0.3]))
    assert np.abs(np.hypot(*corners.T) - 2).max() < 1e-3
    lengths = np.linalg.norm(corners[segments[:, 0]] - corners[segments[:, 1]], axis=1)
    assert lengths.sum() == pytest.approx(4 * np.pi, rel=1e-2)
    corners, _ = level_set(lambda x: x[:, 2] - 1.0, np.array([-1.0, -1.0, 1.0]), np.array([1.0, 1.0, 1.0]))
    assert np.abs(corners).max() == pytest.approx(1.5)
    for shift in np.linspace(0.011, 0.999, 17):
        found = march(lambda x, shift=shift: 1 / (x[:, 0] - shift), np.array([-1.0, -1.0]), np.array([1.0, 1.0]), 20)
        assert len(found.cells) == 0


def test_rods_are_found_from_the_constraints():
    scene = scene_of(chain())
    assert sorted(map(tuple, scene.rods)) == sorted([(0, 64), *((i, i + 1) for i in range(63))])
    assert scene.anchors.tolist() == [[0.0, 0.0, 0.0]]
    scene = scene_of(linkage())
    assert sorted(map(tuple, scene.rods)) == [(0, 1), (0, 2), (1, 3)]
    np.testing.assert_allclose(scene.anchors, [[0.0, 0.0], [2.2, 0.0]], atol=1e-9)
    ring = hx.systems.ring(5)
    still = {"q": np.tile(ring.start.q, (4, 33, 1)), "p": np.zeros((4, 33, 15)), "model": ring.system}
    scene = scene_of(replace(chain(), **still))
    assert sorted(map(tuple, scene.rods)) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]


def test_quaternions_turn_as_matrices_do():
    angle = 0.7
    q = np.array([np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2), 4.0, 5.0, 6.0])
    frame = hx.Frame((0, 1, 2, 3), at=(4, 5, 6))
    c, s = np.cos(angle), np.sin(angle)
    np.testing.assert_allclose(frame.turns(q).reshape(3, 3), [[c, -s, 0], [s, c, 0], [0, 0, 1]], atol=1e-15)
    assert frame.middle(q).tolist() == [4.0, 5.0, 6.0]
    run = rigid_body()
    body = replace(run, q=np.tile(q, (20, 65, 1)), p=np.zeros((20, 65, 7)), model=None)
    scene = scene_of(body, hx.Drawing(frames=[frame]))
    np.testing.assert_allclose(scene.points[0, 0], [[4.0, 5.0, 6.5]])


def test_points_may_be_computed():
    system = hx.System(
        lambda q, v: 0.5 * v @ v + jnp.cos(q[0]),
        n=1,
        drawing=hx.Drawing(
            points=lambda q: jnp.array([[jnp.sin(q[0]), -jnp.cos(q[0])]]), rods=[(0, 1)], anchors=[(0, 0)]
        ),
    )
    run = hx.simulate(system, hx.Rattle(), hx.start(system, [1.0]), t1=0.5, h=0.125)
    scene = scene_of(run)
    np.testing.assert_allclose(scene.points[0, :, 0, 0], np.sin(run.q[0, :, 0]))
    assert make_page(scene).notes == ()


def test_paths_with_parameters_of_their_own():
    system = hx.System(
        lambda q, v, *, gravity: 0.5 * v @ v - gravity * q[2], lambda q: q @ q - 1.0, parameters={"gravity": 1.0}, n=3
    )
    start = hx.start(system, q=[0.6, 0.0, 0.8])
    run = hx.simulate(system, hx.Rattle(), start, t1=0.5, h=0.125, parameters={"gravity": [1.0, 2.0]})
    np.testing.assert_allclose(scene_of(run).quantities["energy"][:, 0], [0.8, 1.6])


def test_a_run_without_its_system_is_drawn_and_that_is_said(tmp_path):
    page = replace(pendulum(), model=None).view(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html
    assert any("does not know its system" in note for note in page.notes)
    assert header(page)["surface"] is None


def test_what_is_not_a_number_is_left_out_and_that_is_said():
    run = pendulum()
    q = run.q.copy()
    q[3, 5:] = np.nan
    page = replace(run, q=q, model=None).view()
    assert "60 points are not finite numbers and are left out." in page.notes
    assert np.isnan(decoded(header(page)["points"])[5:, 3]).all()


def test_a_name_cannot_break_out_of_the_page():
    page = pendulum().view(title="</script><b>@scene@")
    assert "</script><b>" not in page.html
    assert "&lt;/script&gt;&lt;b&gt;@scene@" in page.html
    assert header(page)["title"] == "</script><b>@scene@"


OSCILLATOR = hx.systems.oscillator()


@pytest.fixture(scope="module")
def oscillating():
    return hx.simulate(OSCILLATOR.system, hx.Rattle(), OSCILLATOR.start, t1=0.5, h=0.125, paths=3)


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        (None, r"q has 1 coordinates, which are not places in 3 dimensions: say which of them are points"),
        ("round", r"drawing = 'round' is not a drawing; pass hx.Drawing"),
        (hx.Drawing(points=[[0, 1]]), "names coordinate 1, but there are 1"),
        (hx.Drawing(points=lambda q: q), r"points returns shape \(1,\): it must be \(points, 2\)"),
        (hx.Drawing(points=lambda q: jnp.zeros((1, 2)), rods=[(0, 7)]), r"rod \(0, 7\) names point 7"),
        (hx.Drawing(points=lambda q: jnp.zeros((1, 2)), anchors=[(0, 0, 0)]), "has 3 coordinates, but points have 2"),
        (hx.Drawing(points=lambda q: jnp.zeros((1, 2)), sizes=[1, 2]), "sizes has 2 numbers, but there are 1 points"),
    ],
)
def test_what_cannot_be_drawn(oscillating, drawing, message):
    with pytest.raises(hx.InputError, match=message):
        oscillating.view(drawing=drawing)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hx.Drawing(dimension=4), "dimension = 4: points have 2 or 3"),
        (lambda: hx.Drawing(points=[[0, 1], [2, 3, 4]]), "each is 2 or 3 numbers of coordinates, all alike"),
        (lambda: hx.Drawing(points=7), "points = 7: pass a sequence"),
        (lambda: hx.Drawing(points=[[0, -1]]), "counted from 0"),
        (lambda: hx.Drawing(rods=[(0, 1, 2)]), "each is a pair of points"),
        (lambda: hx.Drawing(frames=[3]), "pass a tuple of hx.Frame"),
        (lambda: hx.Drawing(trails=-1), "trails = -1"),
        (lambda: hx.Frame(range(3)), "a matrix has 9, a quaternion 4"),
        (lambda: hx.Frame(range(4), at=(1,)), "a place in space has 3"),
        (lambda: hx.Frame(range(4), size=(1, 2)), "a box has 3 edges"),
        (lambda: hx.System(lambda q, v: v @ v, drawing=3), "drawing = 3 is not a drawing"),
        (lambda: pendulum().view(quantities={"z": lambda q, p: q}), r"quantity 'z' returns shape \(3,\)"),
        (lambda: pendulum().view(""), "file = '': pass the name of a file"),
        (lambda: pendulum().view(7), "file = 7: pass the name of a file"),
        (lambda: pendulum().movie("x.avi"), "a film is a .gif or an .mp4"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(hx.InputError, match=message):
        make()


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(hx.HolonaxError, match=r"cannot write .*: No such file or directory"):
        pendulum().view(tmp_path / "nowhere" / "page.html")
    with pytest.raises(hx.HolonaxError, match=r"cannot write .*: Is a directory"):
        pendulum().view(tmp_path)


def test_the_hint_survives_what_a_system_goes_through():
    system = hx.systems.double_pendulum().system
    assert system.form.drawing == system.drawing == hx.Drawing(dimension=2)
    assert replace(system, drawing=None) == system


@pytest.mark.parametrize("size", [1e-10, 1.0, 1e7])
def test_anchors_are_told_apart_at_every_scale(size):
    q = size * np.array([1.0, 1.0, 3.0, 1.0])

    def rods(q):
        first, second = q[:2], q[2:]
        return jnp.array([first @ first, jnp.sum((second - jnp.array([4.0 * size, 0.0])) ** 2)]) - 2 * size**2

    system = hx.System(lambda q, v: 0.5 * v @ v, rods, drawing=hx.Drawing(dimension=2))
    run = hx.simulate(
        system, hx.Rattle(), hx.start(system, q, size * np.array([1.0, -1.0, 1.0, 1.0])), t1=0.25, h=0.125
    )
    scene = scene_of(run)
    np.testing.assert_allclose(scene.anchors, [[0.0, 0.0], [4.0 * size, 0.0]], atol=1e-6 * size)
    assert scene.rods.tolist() == [[0, 2], [1, 3]]


def test_a_surface_at_one_time_of_small_coordinates():
    system = hx.System(lambda q, v: 0.5 * v @ v, lambda q: (q @ q) * 1e18 - 1.0)
    start = hx.start(system, [1e-9, 0.0, 0.0], [0.0, 1e-9, 0.0])
    run = hx.simulate(system, hx.Rattle(), start, t1=0.25, h=0.125, save_every=None)
    assert len(scene_of(run).surface.corners) > 100


def test_constraints_that_differ_from_path_to_path_are_not_drawn_and_that_is_said():
    system = hx.System(
        lambda q, v: 0.5 * v @ v, lambda q, *, length: q @ q - length**2, parameters={"length": 1.0}, n=3
    )
    start = hx.start(system, [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]], parameters={"length": [1.0, 2.0]})
    run = hx.simulate(system, hx.Rattle(), start, t1=0.25, h=0.125, parameters={"length": [1.0, 2.0]})
    scene = scene_of(run)
    assert (scene.surface, len(scene.rods)) == (None, 0)
    assert any("values of their own" in note for note in scene.notes)


def test_a_quantity_of_the_user_s_may_be_called_energy():
    e = hx.systems.pendulum()
    run = hx.simulate(e.system, hx.Rattle(), e.start, t1=0.25, h=0.125)
    assert (scene_of(run, quantities={"energy": lambda q, p: 42.0 + 0.0 * q[0]}).quantities["energy"] == 42.0).all()


@pytest.mark.parametrize(("n", "dimension"), [(12, 2), (12, 3), (4, 2)])
def test_constraints_tell_a_plane_from_space(n, dimension):
    """Twelve coordinates, without a hint: six beads in a plane, or four in space."""

    def rods(q):
        beads = jnp.concatenate([jnp.zeros((1, dimension)), q.reshape(-1, dimension)])
        return jnp.sum(jnp.diff(beads, axis=0) ** 2, axis=1) - 1.0

    system = hx.System(lambda q, v: 0.5 * v @ v, rods)
    q = np.zeros((n // dimension, dimension))
    q[:, 0] = np.arange(1, len(q) + 1)
    run = hx.simulate(system, hx.Rattle(), hx.start(system, q.ravel()), t1=0.25, h=0.125)
    assert scene_of(run).points.shape[2:] == q.shape
