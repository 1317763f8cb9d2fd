"""Files for other programs: what is in them, read by h5py and gsd, is what the run holds."""

import h5py
import numpy as np
import pytest
from gsd import hoomd

import holonax as hx

BONDS = [(0, 1), (1, 2)]


@pytest.fixture(scope="module")
def run():
    entry = hx.systems.chain(beads=3)
    return hx.simulate(entry.system, hx.EulerA(), entry.start, t1=0.5, h=2**-6, paths=3, seed=4, save_every=8)


def test_h5md(run, tmp_path):
    file = tmp_path / "chain.h5md"
    masses = np.array([1.0, 2.0, 4.0])
    run.export(file, path=2, masses=masses, bonds=BONDS, box=[8.0, 9.0, 10.0], units={"length": "nm", "time": "ps"})
    with h5py.File(file) as root:
        assert root["h5md"].attrs["version"].tolist() == [1, 1]
        beads = root["particles/trajectory"]
        np.testing.assert_array_equal(beads["position/value"], run.q[2].reshape(-1, 3, 3))
        np.testing.assert_array_equal(beads["velocity/value"], run.p[2].reshape(-1, 3, 3) / masses[:, None])
        np.testing.assert_array_equal(beads["position/time"], run.t)
        assert beads["position/step"][:].tolist() == [0, 8, 16, 24, 32]
        assert beads["velocity/value"].attrs["unit"] == "nm ps-1"
        assert beads["box/edges/value"][-1].tolist() == [8.0, 9.0, 10.0]
        assert list(beads["box"].attrs["boundary"]) == ["periodic"] * 3
        bonds = root["connectivity/bonds"]
        assert bonds[:].tolist() == [[0, 1], [1, 2]]
        assert root[bonds.attrs["particles_group"]] == beads


def test_gsd(run, tmp_path):
    file = tmp_path / "chain.gsd"
    run.export(str(file), path=1, masses=2.0, bonds=BONDS)
    with hoomd.open(file) as frames:
        assert [frame.configuration.step for frame in frames] == [0, 8, 16, 24, 32]
        last = frames[-1]
        np.testing.assert_allclose(last.particles.position, run.q[1, -1].reshape(3, 3), atol=1e-6)
        np.testing.assert_allclose(last.particles.velocity, run.p[1, -1].reshape(3, 3) / 2, atol=1e-6)
        assert (abs(run.q[1].reshape(-1, 3, 3)) <= last.configuration.box[:3] / 2).all()
        assert last.bonds.group.tolist() == [[0, 1], [1, 2]]
        assert last.log["time"] == run.t[-1]


def test_gsd_in_a_periodic_box_holds_images(run, tmp_path):
    file, box = tmp_path / "chain.gsd", 0.7
    run.export(file, box=box)
    with hoomd.open(file) as frames:
        particles = frames[-1].particles
        assert abs(particles.position).max() <= box / 2 + 1e-6
        assert abs(particles.image).max() > 0
        np.testing.assert_allclose(particles.position + box * particles.image, run.q[0, -1].reshape(3, 3), atol=1e-6)


def test_beads_in_a_plane_have_no_height(tmp_path):
    entry = hx.systems.double_pendulum()
    run = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=0.25, h=2**-5)
    run.export(tmp_path / "x.h5md", dimensions=2)
    with h5py.File(tmp_path / "x.h5md") as root:
        beads = root["particles/trajectory"]
        np.testing.assert_array_equal(beads["position/value"][..., :2], run.q[0].reshape(-1, 2, 2))
        assert not beads["position/value"][..., 2].any()
        assert "velocity" not in beads
        assert "edges" not in beads["box"]


def test_a_path_that_failed_ends_where_it_failed(tmp_path):
    circle = hx.System(lambda q, v: 0.5 * v @ v - 100 * q[2], lambda q: q @ q - 1.0)
    start = hx.start(circle, q=[0.0, 0.6, 0.8])
    run = hx.simulate(circle, hx.Rattle(), start, t1=10.0, h=0.1, on_failure="mark")
    assert 0 < run.failed_step[0] < 100
    run.export(tmp_path / "x.h5md")
    with h5py.File(tmp_path / "x.h5md") as root:
        steps = root["particles/trajectory/position/step"]
        assert steps[-1] == run.failed_step[0]


def test_a_run_that_goes_on_counts_on(tmp_path):
    entry = hx.systems.pendulum()
    first = hx.simulate(entry.system, hx.EulerA(), entry.start, t1=0.25, h=2**-5, save_every=None)
    second = hx.simulate(entry.system, hx.EulerA(), first.state, t0=0.25, t1=0.5, h=2**-5, save_every=4)
    second.export(tmp_path / "x.h5md")
    with h5py.File(tmp_path / "x.h5md") as root:
        assert root["particles/trajectory/position/step"][:].tolist() == [8, 12, 16]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file": "x.xyz"}, r"must end in \.gsd or \.h5md"),
        ({"file": 3}, "file = 3"),
        ({"path": 3}, "path = 3: the run has 3 paths"),
        ({"path": -1}, "path = -1"),
        ({"dimensions": 4}, "dimensions = 4"),
        ({"dimensions": 2}, "9 coordinates are not beads with 2 each"),
        ({"masses": [1.0, 2.0]}, "one for each of the 3 beads"),
        ({"masses": 0.0}, "positive"),
        ({"bonds": [(0, 3)]}, "numbered from 0 to 2"),
        ({"bonds": [0, 1]}, "pairs of beads"),
        ({"box": [1.0, 2.0]}, "three edges"),
        ({"box": -1.0}, "positive"),
        ({"units": {"length": "nm"}}, "pass both"),
        ({"units": {"length": "inch", "time": "ps"}}, "units\\['length'\\] = 'inch'"),
    ],
)
def test_bad_input(run, tmp_path, options, message):
    options = {"file": str(tmp_path / "x.h5md")} | options
    with pytest.raises(hx.InputError, match=message):
        run.export(options.pop("file"), **options)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(run, tmp_path):
    for name in ("x.h5md", "x.gsd"):
        with pytest.raises(hx.HolonaxError, match="cannot be written"):
            run.export(tmp_path / "missing" / name)
