"""Commands around a run: a file to begin from, stores, pages; what all commands have in common."""

import html
import json
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import holonax as hx
from holonax.cli import main as cli
from holonax.report.numbers import with_error
from holonax.report.page import Drawn, Numbers, Sheet

RUN = {"t1": 1.0, "h": 2**-4, "paths": 6, "save_every": 4}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A stored run of a system in space."""
    folder = tmp_path_factory.mktemp("stores") / "run.zarr"
    entry = hx.systems.pendulum()
    observe = {"energy": hx.Mean(entry.system.energy)}
    hx.simulate(entry.system, hx.EulerA(), entry.start, **RUN, observe=observe, store=folder)
    return folder


def test_a_new_system_runs(shell, tmp_path):
    file = tmp_path / "mine.py"
    code, out, err = shell("new", file)
    assert (code, err) == (0, "")
    assert f"holonax run {file}:entry" in " ".join(out.split())
    text = file.read_text()
    assert str(file) in text
    code, out, err = shell("run", f"{file}:entry", "-m", "EulerA", "--h", "0.0625", "--paths", "4", "--json")
    assert (code, err, json.loads(out)["done"]) == (0, "", 4)
    code, out, err = shell("new", file)
    assert (code, out, err) == (2, "", f"{file} is there already; name another file\n")
    assert file.read_text() == text
    assert shell("new", tmp_path / "mine.txt")[0] == 2


def test_show_tells_what_a_store_is(shell, store):
    code, out, err = shell("show", store)
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    for text in ("complete, 100.0% of 6 paths x 16 steps", "pendulum()", "EulerA()", "6 CONVERGED", "MiB on disk"):
        assert text in words
    record = json.loads(shell("show", store, "--json")[1])
    assert (record["paths"], record["steps"], record["times_saved"], record["done"]) == (6, 16, 5, 1.0)
    assert record["statuses"] == {"CONVERGED": 6}
    assert record["bytes"] == sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    np.testing.assert_array_equal(record["observed"]["energy"]["mean"], hx.open(store).observed["energy"].mean)


def test_resume_extends_a_store(shell, tmp_path):
    folder, entry = tmp_path / "run.zarr", hx.systems.oscillator()
    hx.simulate(entry.system, hx.EulerA(), entry.start, **RUN, store=folder)
    code, out, err = shell("resume", folder, "--t1", "2", "--json")
    assert (code, err) == (0, "")
    assert (json.loads(out)["steps"], json.loads(out)["done"]) == (32, 1.0)
    whole = hx.simulate(entry.system, hx.EulerA(), entry.start, **RUN | {"t1": 2.0})
    np.testing.assert_array_equal(hx.open(folder).q, whole.q)


def test_resume_finds_a_system_of_a_file(shell, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import holonax as hx\nentry = hx.systems.oscillator\n")
    (tmp_path / "run.toml").write_text(
        'system = "mine.py:entry"\nmethod = "EulerA"\nh = 0.25\nt1 = 1\nstore = "run.zarr"\n'
    )
    assert shell("run", tmp_path / "run.toml", "--json")[0] == 0
    monkeypatch.chdir("/")
    code, _, err = shell("resume", tmp_path / "run.zarr", "--t1", "2", "--json")
    assert (code, err) == (0, "")


def test_run_with_a_store(shell, tmp_path):
    """Of a system in a file that imports another one beside it; pages of the store know its manifold."""
    (tmp_path / "beside.py").write_text("import holonax as hx\nentry = hx.systems.torus\n")
    (tmp_path / "mine.py").write_text("from beside import entry\n")
    store = tmp_path / "run.zarr"
    command = ["run", f"{tmp_path / 'mine.py'}:entry", "-m", "EulerA", "--paths", "4", "--store", store, "--json"]
    code, out, err = shell(*command)
    assert (code, err, json.loads(out)["done"]) == (0, "", 4)
    assert hx.open(store).t[-1] == 1.0
    code, out, err = shell("view", store, "--out", tmp_path / "a.html", "--json")
    assert (code, err, json.loads(out)["notes"]) == (0, "", [])
    (tmp_path / "mine.py").unlink()
    notes = json.loads(shell("view", store, "--out", tmp_path / "a.html", "--json")[1])["notes"]
    assert "does not know its system" in " ".join(notes)
    assert not any(str(tmp_path) in folder for folder in sys.path)


def test_view_writes_a_page(shell, store, tmp_path):
    code, out, err = shell("view", store, "--out", tmp_path / "a.html", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["bytes"] == (tmp_path / "a.html").stat().st_size > 100_000
    code, _, err = shell("view", "pendulum", "-m", "EulerA", "--t1", "1", "--paths", "3", "--out", tmp_path / "b.html")
    assert (code, err) == (0, "")
    assert (tmp_path / "b.html").exists()


def test_plot_writes_a_figure(shell, store, tmp_path):
    code, out, err = shell("plot", store, "--out", tmp_path / "a.svg", "--json")
    assert (code, err, json.loads(out)) == (0, "", {"figure": str(tmp_path / "a.svg")})
    assert "<svg" in (tmp_path / "a.svg").read_text()
    code, out, err = shell("plot", store, "--out", tmp_path / "a.docx")
    assert (code, out, err) == (2, "", f"{tmp_path / 'a.docx'}: a figure ends in .png, .svg or .pdf\n")


@pytest.mark.parametrize("command", ["show", "resume", "plot"])
def test_folders_that_are_no_store(command, shell, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        code, out, err = shell(command, folder)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert str(folder) in err


def test_every_command_can_print_json():
    for name in cli.COMMANDS:
        assert "--json" in CliRunner().invoke(cli.app, [name, "--help"]).output, name


@pytest.mark.parametrize("name", ["", *cli.COMMANDS])
@pytest.mark.parametrize("width", [40, 60, 80])
def test_help_fits_the_terminal_and_tells_the_exit_codes(name, width, shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, err = shell(*filter(None, [name, "--help"]))
    assert (code, err) == (0, "")
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    assert "..." not in out.replace("[ARGS]...", "")
    assert "130 and 143" in " ".join(out.split())


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("command", [["list"], ["explain", "pendulum", "EulerA"]], ids=lambda x: x[0])
def test_tables_fit_the_terminal(command, width, shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = shell(*command)
    assert code == 0
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    assert "\x1b" not in out  # no colours but on a terminal


def test_list_for_programs(shell):
    record = json.loads(shell("list", "--json")[1])
    assert {one["system"] for one in record["systems"]} == set(hx.systems.names())
    assert {"method": "Rattle", "order": 2}.items() <= next(
        one for one in record["methods"] if one["method"] == "Rattle"
    ).items()


EVIL = "<script>alert('x')</script>&\"'"


def test_a_page_escapes_what_it_is_given():
    sheet = Sheet(
        EVIL, EVIL, lead=[EVIL], facts=[(EVIL, EVIL)], figures=[Drawn(EVIL, "<svg></svg>", f"{EVIL}. {EVIL}")],
        tables=[Numbers(EVIL, EVIL, [EVIL], [[EVIL], [(EVIL, 1.0)]])], notes=[EVIL], code=EVIL,
        specification={EVIL: EVIL}, frame=EVIL,
    )  # fmt: skip
    page = sheet.html()
    assert EVIL not in page
    assert page.count("<script>") == 1  # our own
    assert page.count(html.escape(EVIL)) >= 14


def test_a_report_says_what_came_of_a_run(tmp_path):
    entry = hx.systems.oscillator()
    observe = {
        "energy": hx.Mean(entry.system.energy, every=2),
        EVIL: hx.Histogram(lambda q, p: q[0], [-2.0, 0.0, 2.0]),
        "memory": hx.Autocorrelation(lambda q, p: q[0], 3),
        "top": hx.Max(lambda q, p: q),
    }
    run = hx.simulate(entry.system, hx.EulerA(), entry.start, **RUN | {"save_every": None}, observe=observe)
    page = run.report(tmp_path / "run.html").read_text()
    energy = run.observed["energy"]
    assert "All 6 paths reached t = 1" in page
    assert f"mean energy {with_error(energy.mean[-1], energy.stderr[-1])} at t = 1" in page
    assert page.count("<figure") == 3
    assert "<script>alert" not in page
    assert not re.search(r"\bnan\b|\binf\b", re.sub(r"<svg.*?</svg>|data-value='\S*'", "", page, flags=re.DOTALL))
    assert "hx.systems.oscillator()" in page
    with pytest.raises(hx.HolonaxError, match="cannot write"):
        run.report(tmp_path / "nowhere" / "run.html")


def test_a_report_tells_of_failures(tmp_path):
    entry = hx.systems.pendulum()
    run = hx.simulate(
        entry.system, hx.Rattle(), entry.start, t1=4.0, h=1.0, paths=64, save_every=None, on_failure="mark"
    )
    failed = np.count_nonzero(run.status)
    assert failed
    page = run.report(tmp_path / "run.html").read_text()
    assert f"{failed} of 64 paths failed" in page
    assert hx.Status(int(run.status.max())).name in page
