"""Films and figures of runs."""

import shutil

import numpy as np
import pytest
from ensembles import linkage, pendulum, rigid_body
from PIL import Image

import holonax as hx
from holonax.simulation.scenes import scene_of
from holonax.viewer import movie


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(movie, "MOST_FRAMES", 4)


@pytest.mark.parametrize("make", [pendulum, linkage, rigid_body])
def test_a_film_moves(make, tmp_path):
    make().movie(tmp_path / "film.gif", title="A film")
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 4
        pictures = []
        for number in range(4):
            film.seek(number)
            pictures.append(np.asarray(film.convert("RGB")).astype(int))
    assert (np.abs(pictures[0] - pictures[3]).sum(axis=-1) > 60).sum() > 100


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg on this machine")
def test_a_film_by_ffmpeg(tmp_path):
    linkage().movie(tmp_path / "film.mp4")
    assert b"ftyp" in (tmp_path / "film.mp4").read_bytes()[:16]


def test_a_film_without_ffmpeg_or_folder(tmp_path, monkeypatch):
    with pytest.raises(hx.HolonaxError, match="cannot write"):
        linkage().movie(tmp_path / "nowhere" / "film.gif")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(hx.HolonaxError, match=r"an \.mp4 needs the program ffmpeg; install it"):
        linkage().movie(tmp_path / "film.mp4")


def test_a_plot_shows_means_a_portrait_and_the_end():
    run = pendulum()
    over_time, portrait, last = run.plot().axes
    for line, i in zip(over_time.lines, range(3), strict=True):
        np.testing.assert_allclose(line.get_ydata(), run.q[..., i].mean(axis=0))
    i = int(portrait.get_xlabel()[2:-1])
    np.testing.assert_array_equal(portrait.lines[0].get_xdata(), run.q[0, :, i])
    np.testing.assert_array_equal(portrait.lines[0].get_ydata(), run.p[0, :, i])
    assert sum(bar.get_height() for bar in last.patches) == 60
    (over_time, _, last) = run.plot({"height": lambda q, p: q[2]}).axes
    np.testing.assert_allclose(over_time.lines[0].get_ydata(), run.q[..., 2].mean(axis=0))
    assert last.get_xlabel() == "height"


def test_a_plot_of_one_time_and_of_one_path():
    entry = hx.systems.oscillator()
    for options in ({"paths": 5, "save_every": None}, {"paths": 1}):
        run = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=0.5, h=0.125, **options)
        assert len(run.plot().axes) == 3


def test_a_scene_of_a_body_has_its_turns():
    run = rigid_body()
    np.testing.assert_array_equal(scene_of(run).bodies.turns[:, :, 0], run.q)
