"""The command line, its files, its page, and what is left after Ctrl-C."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import holonax as hx
from holonax import cli, engines, naming
from holonax.studies import lockstep, strong_orders

CONVERGE = ["converge", "oscillator", "-m", "EulerA", "-m", "Kicked", "--h", "2^-3..2^-5", "--paths", "40"]


def invoke(*arguments):
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_every_method_and_system(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(cli.console, "width", 200, raising=False)
    output = invoke("list")
    for name in [*hx.systems.names(), *(type(method).__name__ for method in hx.Method.examples())]:
        assert name in output


@pytest.mark.parametrize("command", ["list", "run", "converge"])
def test_every_command_has_help_with_an_example(command):
    output = invoke(command, "--help")
    assert f"holonax {command}" in output


def test_run_prints_a_summary_and_writes_it(tmp_path):
    output = invoke("run", "oscillator", "-m", "Rattle", "--h", "0.1", "--paths", "40", "--out", tmp_path)
    assert "E energy" in output
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["specification"]["method"] == "Rattle()"
    assert set(record["versions"]) == {"holonax", "jax", "numpy", "python", "backend"}
    assert np.load(tmp_path / "ends.npz")["q"].shape == (40, 1, 1)


def test_a_system_of_one_s_own(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import holonax as hx\n"
        "def spring():\n"
        "    system = hx.System(lambda q, v: 0.5 * v @ v - q @ q, n=1)\n"
        "    return hx.Entry('spring', system, hx.start(system, q=[1.0]))\n"
        "ready = spring()\n"
    )
    for name in ("spring", "ready"):
        assert "E energy" in invoke("run", f"{mine}:{name}", "-m", "EulerA", "--h", "0.5", "--paths", "2")


def test_converge_prints_tables_and_writes_a_report(tmp_path):
    output = invoke(*CONVERGE, "--strong", "--out", tmp_path)
    assert "strong errors of EulerA()" in output
    for name in ("convergence.png", "convergence.svg", "results.csv", "results.json", "index.html"):
        assert (tmp_path / name).stat().st_size > 500
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["specification"]["seed"] == 0
    assert record["specification"]["versions"]["holonax"] == hx.__version__
    assert len(record["results"]) == 2 * 2 * 3
    page = (tmp_path / "index.html").read_text()
    assert page.count("<svg") == 1
    body = page.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")
    assert "http" not in body  # nothing is fetched


def test_weak_converge():
    output = invoke(*CONVERGE, "--weak")
    assert "weak errors of Kicked" in output
    assert "energy: order" in output


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine; .ci/run installs it")
def test_the_page_opens_in_a_browser(tmp_path):
    invoke(*CONVERGE, "--out", tmp_path / "report")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=5000"
    result = subprocess.run(
        [
            BROWSER,
            *flags.split(),
            f"--user-data-dir={tmp_path}/profile",
            "--dump-dom",
            f"file://{tmp_path}/report/index.html",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "CONSOLE" not in result.stderr, result.stderr
    assert '<figure id="convergence"><svg' in result.stdout
    assert "EulerA()" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "trebuchet"), "there is no system 'trebuchet'"),
        (("run", "missing.py:x"), "missing.py is not a file"),
        (("run", "pendulum", "-m", "Euler"), "there is no method 'Euler'; choose one of EulerA"),
        (("run", "pendulum", "-m", "Rattle:3"), "Rattle takes no argument '3'"),
        (("run", "pendulum", "--h", "tiny"), "'tiny' is not a step size"),
        (("run", "pendulum", "--h", "0.3"), "not a whole number"),
    ],
)
def test_errors_are_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["holonax", *arguments])
    monkeypatch.setattr(cli.console, "width", 500, raising=False)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert message in capsys.readouterr().out


def test_names():
    assert naming.find_method("Lobatto:4") == hx.Lobatto(4)
    assert naming.find_method("Kicked:midpoint") == hx.Kicked("midpoint")
    assert naming.find_step_sizes("2^-4..2^-6") == [2.0**-4, 2.0**-5, 2.0**-6]
    assert naming.find_step_sizes("0.1,0.05") == [0.1, 0.05]
    with pytest.raises(hx.InputError, match=r"must be an hx\.Entry"):
        naming.find_system(f"{Path(naming.__file__)}:Path")


def test_ctrl_c_leaves_the_paths_that_are_done(monkeypatch):
    e = hx.systems.oscillator()
    arguments = {"t1": 1.0, "h": 0.25, "paths": 100, "engine": "llvm"}
    whole = hx.simulate(e.system, hx.EulerA(), e.start, **arguments)
    runner = engines.runner("llvm", e.system, hx.EulerA(), 1, "float64")
    monkeypatch.setattr(runner, "workers", 1)
    monkeypatch.setattr(runner, "chunk", 32)
    original, last = runner.advance, 64

    def advance(carried, paths, *args):
        if paths[0] >= last:
            raise KeyboardInterrupt
        return original(carried, paths, *args)

    monkeypatch.setattr(runner, "advance", advance)
    with pytest.raises(hx.Interrupted, match="64 of 100 paths are done") as caught:
        hx.simulate(e.system, hx.EulerA(), e.start, **arguments)
    np.testing.assert_array_equal(caught.value.result.q, whole.q[:64])
    last = 0
    with pytest.raises(KeyboardInterrupt) as caught:
        hx.simulate(e.system, hx.EulerA(), e.start, **arguments)
    assert not isinstance(caught.value, hx.Interrupted)  # nothing was done yet


def test_ctrl_c_on_a_study_leaves_the_study_of_the_paths_that_are_done(monkeypatch):
    e = hx.systems.oscillator()
    arguments = {"t1": 1.0, "h": [0.25, 0.125]}
    part = strong_orders(e.system, [hx.EulerA()], e.start, paths=lockstep.CHUNK, **arguments)[0]
    original, calls = lockstep._advance, []

    def advance(*args):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(lockstep, "_advance", advance)
    monkeypatch.setattr(lockstep.os, "cpu_count", lambda: 1)
    with pytest.raises(hx.Interrupted, match="1 of 3 chunks of 256 paths are done") as caught:
        strong_orders(e.system, [hx.EulerA()], e.start, paths=3 * lockstep.CHUNK, **arguments)
    assert caught.value.result[0].paths == lockstep.CHUNK
    np.testing.assert_allclose(caught.value.result[0]["q"].error, part["q"].error)
