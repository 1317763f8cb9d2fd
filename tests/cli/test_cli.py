"""The command line, its files, its page, its exit codes, and what is left after a signal."""

import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import holonax as hx
from holonax import engines
from holonax.cli import converge, guard, naming, run, terminal
from holonax.cli import main as cli
from holonax.report import files
from holonax.studies import lockstep, strong_orders
from signals import LONG_RUN, LONG_STUDY, SCRIPT, stop

CONVERGE = ["converge", "oscillator", "-m", "EulerA", "-m", "Kicked", "--h", "2^-3..2^-5", "--paths", "40"]


def invoke(*arguments):
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def process(*arguments, **environment):
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, timeout=300)


def test_list_names_every_method_and_system(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(terminal.console, "_width", 200)  # setting `width` could not be undone
    output = invoke("list")
    for name in [*hx.systems.names(), *(method.__name__ for method in hx.Method.listed), "lobatto(stages)"]:
        assert name in output


@pytest.mark.parametrize("command", ["list", "run", "converge", "explain"])
def test_every_command_has_help_with_an_example(command):
    output = invoke(command, "--help")
    assert f"holonax {command}" in output


def test_run_prints_a_summary_and_writes_it(tmp_path):
    output = invoke("run", "oscillator", "-m", "Rattle", "--h", "0.1", "--paths", "40", "--out", tmp_path)
    assert "E energy" in output
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["specification"]["method"] == "Rattle()"
    assert set(record["versions"]) == {"holonax", "jax", "numpy", "python", "machine", "backend"}
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


def test_explain_tells_what_the_compiler_made_of_it():
    text = invoke("explain", "pendulum", "Rattle")
    assert text.startswith("Rattle() on a system of 3 coordinates, 1 constraint, 3 noises")
    assert "6 eliminated, 1 left to the formula for quadratics" in " ".join(text.split())  # folded at 80 columns
    assert re.search(r"functions of q carried over +3\n", text)


@pytest.fixture(scope="module")
def converged(tmp_path_factory):
    """What a study of strong orders prints, and the folder that it writes."""
    folder = tmp_path_factory.mktemp("report")
    return invoke(*CONVERGE, "--strong", "--out", folder), folder


def test_converge_prints_tables_and_writes_a_report(converged):
    output, folder = converged
    assert "strong errors of EulerA()" in output
    for name in ("convergence.png", "convergence.svg", "results.csv", "results.json", "index.html"):
        assert (folder / name).stat().st_size > 500
    record = json.loads((folder / "results.json").read_text())
    assert record["specification"]["seed"] == 0
    assert record["specification"]["versions"]["holonax"] == hx.__version__
    assert len(record["results"]) == 2 * 2 * 3
    page = (folder / "index.html").read_text()
    assert page.count("<svg") == 1
    body = page.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")
    assert "http" not in body  # nothing is fetched


def test_methods_that_need_arguments(monkeypatch):
    output = invoke("run", "pendulum(noise=None)", "-m", "Langevin(friction=1, temperature=0.5)", "--paths", "2")
    assert "on pendulum(noise=None): 2 paths" in " ".join(output.split())
    seen = []
    monkeypatch.setattr(
        converge, "strong_orders", lambda system, methods, *others, **options: seen.extend(methods) or []
    )
    invoke("converge", "pendulum:noise=None", "-m", "Langevin:1,0.5", "-m", "VPRK:lobatto(4)", "-m", "VPRK:RATTLE")
    assert seen == [hx.Langevin(1.0, 0.5), hx.VPRK(hx.tableaux.lobatto(4)), hx.VPRK(hx.tableaux.RATTLE)]


def test_weak_converge():
    output = invoke(*CONVERGE, "--weak")
    assert "weak errors of Kicked" in output
    assert "energy: order" in output


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine; .ci/run installs it")
def test_the_page_opens_in_a_browser(converged, tmp_path):
    _, folder = converged
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=5000"
    result = subprocess.run(
        [
            BROWSER,
            *flags.split(),
            f"--user-data-dir={tmp_path}/profile",
            "--dump-dom",
            f"file://{folder}/index.html",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "CONSOLE" not in result.stderr, result.stderr
    assert re.search('<figure id="convergence"[^>]*><svg', result.stdout)
    assert "EulerA" in result.stdout


RUN = ("run", "oscillator", "-m", "EulerA", "--h", "0.25", "--paths", "4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "trebuchet"), "there is no system 'trebuchet'; choose one of chain, "),
        (("run", "pendulm"), "there is no system 'pendulm' (did you mean pendulum or double_pendulum?); choose one"),
        (("run", "[/red]"), "there is no system '[/red]'"),
        (("run", "a\x1b[31m\nb:c"), "a [31m b is not a file"),
        (("run", "pendulum.py"), "a file of yours is named as pendulum.py:NAME"),
        (("run", "missing.py:x"), "missing.py is not a file"),
        (("run", "pendulum", "-m", "rattle"), "there is no method 'rattle' (did you mean Rattle?); choose one of Eul"),
        (("run", "pendulum", "-m", "Rattle:3"), "Rattle takes no argument '3'; it takes none"),
        (("run", "pendulum", "-m", "Kicked:scheme=often"), "scheme = 'often': choose one of 'symmetric'"),
        (("run", "pendulum", "-m", "Langevin"), "Langevin needs friction and temperature; write Langevin:friction,"),
        (("run", "pendulum", "-m", "Langevin:1,x"), "'x'"),
        (("run", "pendulum", "-m", "Lobatto(4"), "there is no method 'Lobatto(4': '(' was never closed; write NAME or"),
        (("run", "pendulum", "-m", "VPRK:rk4"), "tableau = 'rk4' is not a tableau"),
        (("run", "pendulum", "-m", "missing.py:x"), "missing.py is not a file"),
        (("run", "pendulum(noise=loud)"), "noise = 'loud': choose one of 'sine'"),
        (("run", "pendulum:weight=1"), "pendulum takes no argument 'weight=1'; it takes noise, sigma, gravity"),
        (("run", "chain(x)"), "'chain(x)': '<' not supported between instances of 'str' and 'int'; pass other"),
        (("run", "pendulum", "--h", "tiny"), "'tiny' is not a step size"),
        (("run", "pendulum", "--h", "0.3"), "not a whole number"),
        (("run", "pendulum", "--h", "10^400"), "'10^400' is not a step size; it must be positive and finite"),
        (("run", "pendulum", "--h", "0^-1"), "'0^-1' is not a step size; it must be positive and finite"),
        (("run", "pendulum", "--h", "inf"), "'inf' is not a step size; it must be positive and finite"),
        (("run", "pendulum", "--h", "0.125,0.0625"), "h = '0.125,0.0625' names 2 step sizes; a run takes one"),
        (("run", "pendulum", "--t1", "nan"), "t1 = nan is nan steps"),
        (("run", "pendulum", "--t1", "1e300", "--h", "1e-300"), "t1 = 1e+300 is inf steps"),
        (("run", "pendulum", "--paths", "many"), "Invalid value for '--paths'"),
        (("run", "pendulum", "--on-failure", "hope"), "Invalid value for '--on-failure'"),
        (("run",), "Missing argument"),
        (("simulate",), "No such command 'simulate'"),
        (("converge", "pendulum", "-m", "EulerA", "--t1", "nan"), "t1 = nan"),
        (("converge", "pendulum", "-m", "EulerA", "--h", "0.1..0.03"), "0.1 is 3.33333 times 0.03, which is no power"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(arguments, message, shell):
    code, out, err = shell(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_no_arguments_show_the_help(shell):
    code, out, err = shell()
    assert (code, err) == (0, "")
    assert "converge" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nimport nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name' (line 2 of "),
        ("\n\ndef entry(:\n", "SyntaxError: invalid syntax (line 3 of "),
        ("raise SystemExit(3)\n", "SystemExit: 3 (line 1 of "),
        ("def entry():\n    raise ValueError('mine\\nat length')\n", "ValueError: mine (line 2 of "),
        ("def entry():\n    assert False\n", "AssertionError (line 2 of "),
        ("def entry(size):\n    pass\n", "entry() missing 1 required positional argument: 'size' ("),
        ("def entri():\n    pass\n", "there is no 'entry' in {file} (did you mean entri?); choose one of entri"),
        ("def entry():\n    return [1] * 1000\n", "it must be an hx.Entry or a function that returns one"),
    ],
)
def test_errors_of_a_user_s_file_name_its_line(text, message, tmp_path, shell):
    file = tmp_path / "mine.py"
    file.write_text(text)
    code, out, err = shell("run", f"{file}:entry")
    assert (code, out) == (2, "")
    assert message.format(file=file) in err
    assert str(file) in err
    assert err.count("\n") == 1


def test_errors_in_the_midst_of_a_user_s_function_name_its_line(tmp_path, shell):
    file = tmp_path / "mine.py"
    file.write_text(
        "import dataclasses, typing, holonax as hx\n"
        "@typing.final\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Broken(hx.EulerMaruyama):\n"
        "    def step(self, system, state, increment):\n"
        "        return 1 / 0\n"
        "entry, method = hx.systems.oscillator(), Broken()\n"
    )
    code, out, err = shell("run", f"{file}:entry", "-m", f"{file}:method")
    assert (code, out) == (2, "")
    assert err == f"ZeroDivisionError: division by zero (line 6 of {file})\n"


def test_our_own_bugs_keep_their_traceback(shell, monkeypatch):
    monkeypatch.setattr(run, "simulate", lambda *arguments, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shell(*RUN)


def test_a_user_s_file_replaces_no_module(tmp_path):
    (tmp_path / "json.py").write_text("import holonax as hx\nentry = hx.systems.oscillator()\n")
    invoke("run", f"{tmp_path / 'json.py'}:entry", *RUN[2:])
    assert sys.modules["json"] is json


def test_a_device_that_is_not_there(monkeypatch, shell):
    def devices():
        raise AssertionError  # as JAX does for JAX_PLATFORMS=cuda on a machine without CUDA

    monkeypatch.setattr(guard.jax, "devices", devices)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    code, out, err = shell(*RUN)
    assert (code, out) == (2, "")
    assert err.startswith("JAX does not start with JAX_PLATFORMS=cuda: ")
    assert err.count("\n") == 1


def test_a_device_that_nobody_knows_in_a_process():
    done = process(*RUN, JAX_PLATFORMS="abacus")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"JAX does not start with JAX_PLATFORMS=abacus: ")
    assert done.stderr.count(b"\n") == 1


TOO_LARGE = ("pendulum", "-m", "Rattle", "--paths", "64", "--h")


def test_failed_paths_are_exit_code_1_unless_marked(shell, tmp_path):
    code, out, err = shell("run", *TOO_LARGE, "1", "--t1", "4", "--out", tmp_path)
    assert code == 1
    assert "E energy" in out
    failed, total, often, name, advice = re.fullmatch(
        r"(\d+) of (\d+) paths failed, (\d+) of them with status (\w+): (.*)\n", err
    ).groups()
    status = np.load(tmp_path / "ends.npz")["status"]
    most = max(set(status[status != 0].tolist()), key=status.tolist().count)
    assert (int(failed), int(total)) == (np.count_nonzero(status), 64)
    assert (int(often), name) == (np.count_nonzero(status == most), hx.Status(most).name)
    assert advice == hx.Status(most).advice
    assert json.loads((tmp_path / "run.json").read_text())["failed"] == int(failed)
    marked = shell("run", *TOO_LARGE, "1", "--t1", "4", "--on-failure", "mark")
    assert (marked[0], marked[2]) == (0, err)


def test_failed_paths_of_a_study_are_exit_code_1_unless_marked(shell):
    code, out, err = shell("converge", *TOO_LARGE, "1,0.5")
    assert code == 1
    assert "strong errors of Rattle()" in out
    assert re.fullmatch(r"Rattle\(\): paths that failed .* \d+ at h = 1.*leave out the largest step sizes\n", err)
    assert shell("converge", *TOO_LARGE, "1,0.5", "--on-failure", "mark")[0] == 0


@pytest.mark.parametrize("command", ["run", "converge"])
@pytest.mark.parametrize(
    ("folder", "reason"),
    [("file", "it is a file"), ("file/below", "Not a directory"), ("/proc/holonax", ""), ("/proc", "")],
)
def test_a_folder_that_cannot_be_written_is_refused_before_the_run(
    command, folder, reason, tmp_path, shell, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    for module, work in ((run, "simulate"), (converge, "strong_orders")):
        monkeypatch.setattr(module, work, lambda *arguments, **options: pytest.fail("it ran"))
    code, out, err = shell(command, *RUN[1:4], "--out", tmp_path / folder)
    assert (code, out) == (2, "")
    assert err.startswith(f"cannot write into {tmp_path / folder}: {reason}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", [RUN, CONVERGE], ids=["run", "converge"])
def test_a_full_disk_leaves_no_half_of_a_file(command, tmp_path, shell):
    for name in ("ends.npz", "convergence.png"):
        (tmp_path / name).write_text("of an earlier run")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        code, out, err = shell(*command, "--out", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 2
    assert "E energy" in out or "strong errors" in out  # what it has it shows
    assert re.fullmatch(rf"cannot write {tmp_path}/\w+\.\w+: {os.strerror(errno.EFBIG)}\n", err)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("ends.npz", "convergence.png"), "of an earlier run"
    )


def test_files_are_there_only_when_they_are_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with files.whole_file(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after"

    def interrupted():
        with files.whole_file(path) as file:
            file.write(b"never")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [one.read_text() for one in tmp_path.iterdir()] == ["after"]


@pytest.mark.parametrize("command", [RUN, CONVERGE], ids=["run", "converge"])
def test_every_file_comes_as_a_whole(command, tmp_path, monkeypatch):
    replace, came = os.replace, set()

    def seen(part, path):
        came.add(Path(path))
        replace(part, path)

    monkeypatch.setattr(files.os, "replace", seen)
    invoke(*command, "--out", tmp_path)
    assert {*tmp_path.iterdir()} <= came


def test_output_that_goes_nowhere():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this machine")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", SCRIPT, *RUN], stdout=full, stderr=subprocess.PIPE, timeout=300)
    assert done.returncode == 2
    assert done.stderr == b"cannot write the output: No space left on device\n"


def test_narrow_ascii_terminals(tmp_path):
    file = tmp_path / "p\u00e9ndule.py"
    file.write_text("import holonax as hx\nentry = hx.systems.oscillator()\n")
    done = process("run", f"{file}:entry", *RUN[2:], PYTHONIOENCODING="ascii", COLUMNS="20")
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    assert r"p\xe9ndule.py" in text
    for t in ("0.25", "0.5", "0.75", "1"):
        assert re.search(rf"^t {t}\n  E energy [\d.]+,\s+\+-\s+[\d.]+,\s+paths\s+4$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("width", [20, 80, 200])
def test_tables_show_every_number(width, monkeypatch, shell):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, err = shell("list")
    assert (code, err) == (0, "")
    assert "\u2026" not in out
    for method in hx.Method.examples():
        assert naming.name_of(method) in out
    _, _, after = out.partition("double_pendulum")
    assert re.findall(r"\b\d+\b", after.partition("ellipsoid")[0]) == ["4", "2", "2"]


def test_names():
    assert naming.find_method("Lobatto:4") == hx.Lobatto(4)
    assert naming.find_method("Kicked:midpoint") == hx.Kicked("midpoint")
    assert naming.find_method("Langevin:1,0.5") == hx.Langevin(1.0, 0.5)
    assert naming.find_method("Langevin:0.5,temperature=2,metropolis=True") == hx.Langevin(0.5, 2.0, metropolis=True)
    assert naming.find_method("VPRK(lobatto(4))") == hx.VPRK(hx.tableaux.lobatto(4))
    assert naming.find_system("chain:2").n == naming.find_system("chain(beads=2)").n == 6
    assert naming.find_step_sizes("2^-4..2^-6") == [2.0**-4, 2.0**-5, 2.0**-6]
    assert naming.find_step_sizes("2^-6..2^-4") == [2.0**-4, 2.0**-5, 2.0**-6]
    assert naming.find_step_sizes("0.1,0.05") == [0.1, 0.05]
    with pytest.raises(hx.InputError, match=r"must be an hx\.Entry"):
        naming.find_system(f"{Path(naming.__file__)}:Path")


@pytest.mark.parametrize("method", [*hx.Method.examples()], ids=str)
def test_a_method_is_found_by_its_name(method):
    assert naming.find_method(naming.name_of(method)) == method


def test_a_method_of_one_s_own(tmp_path):
    (tmp_path / "mine.py").write_text("import holonax as hx\nmethod = hx.VPRK(hx.tableaux.RATTLE)\n")
    assert naming.find_method(f"{tmp_path / 'mine.py'}:method") == hx.VPRK(hx.tableaux.RATTLE)


@pytest.mark.parametrize(
    ("command", "number", "moments"),
    [
        (LONG_RUN, signal.SIGINT, (0, 2, 5, 20, 80)),  # the later ones only if nothing was complete before
        pytest.param(LONG_RUN, signal.SIGTERM, (2, 5, 20, 80), marks=pytest.mark.study),
        pytest.param(LONG_STUDY, signal.SIGINT, (1, 16, 48, 160), marks=pytest.mark.study),
        pytest.param(LONG_STUDY, signal.SIGTERM, (3,), marks=pytest.mark.study),
    ],
)
def test_signals_end_a_process_with_what_is_complete(command, number, moments, tmp_path):
    for moment in moments:
        out = tmp_path / f"after {moment}"
        *_, complete = stop(command, number, moment, tmp_path, out)
        if complete:
            break
    assert complete or moments[1:] == ()
    if complete and command is LONG_RUN:
        assert len(np.load(out / "ends.npz")["status"]) == complete
        assert json.loads((out / "run.json").read_text())["done"] == complete
    elif complete:
        assert {"index.html", "results.json"} <= {path.name for path in out.iterdir()}


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
    with pytest.raises(hx.Interrupted, match="0 of 100 paths are done") as caught:
        hx.simulate(e.system, hx.EulerA(), e.start, **arguments)
    assert caught.value.result.q.shape == (0, 5, 1)


def test_ctrl_c_on_a_study_leaves_the_study_of_the_paths_that_are_done(monkeypatch):
    e = hx.systems.oscillator()
    arguments = {"t1": 1.0, "h": [0.25, 0.125]}
    part = strong_orders(e.system, [hx.EulerA()], e.start, paths=lockstep.CHUNK, **arguments)[0]
    original, calls = lockstep._program(e.system, (hx.EulerA(),), hx.Kicked()), []

    def advance(*args):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(lockstep, "_program", lambda *_: advance)
    monkeypatch.setattr(lockstep, "cores", lambda: 1)
    with pytest.raises(hx.Interrupted, match="1 of 3 chunks of 256 paths are done") as caught:
        strong_orders(e.system, [hx.EulerA()], e.start, paths=3 * lockstep.CHUNK, **arguments)
    assert caught.value.result[0].paths == lockstep.CHUNK
    np.testing.assert_allclose(caught.value.result[0]["q"].error, part["q"].error)
