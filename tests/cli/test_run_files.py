"""Run files: what they can ask for, and one line for everything that is wrong with one."""

import json
import os

import numpy as np
import pytest

import holonax as hx

MINE = """
import pathlib
import jax.numpy as jnp
import holonax as hx

pathlib.Path(__file__).with_name("executed").touch()

def entry():
    system = hx.System(lambda q, v: 0.5 * v @ v - q[2], lambda q: q @ q - 1.0, jnp.sin, n=3)
    return hx.Entry("mine", system, hx.start(system, q=[1.0, 0.0, 0.0], v=[0.0, 1.0, 0.5]))

method = hx.Kicked("midpoint")

def height(q, p):
    return q[2]

broken = 3
"""
SHORT = 'system = "oscillator"\nmethod = "EulerA"\nh = 0.25\nt1 = 1\npaths = 4\n'


@pytest.fixture
def spec(tmp_path):
    """Writes a run file, beside a file with a system of the user's own."""

    def write(text, mode="w"):
        (tmp_path / "mine.py").write_text(MINE)
        (tmp_path / "raises.py").write_text("\nraise ValueError('no luck')\n")
        (tmp_path / "other.py").write_text("import pathlib\npathlib.Path(__file__).with_name('executed').touch()\n")
        file = tmp_path / "run.toml"
        file.write_bytes(text) if isinstance(text, bytes) else file.write_text(text)
        return file

    return write


def test_a_run_file_is_the_same_run_as_a_script(spec, shell):
    file = spec(
        'system = {name = "pendulum", sigma = 0.5}\nmethod = {name = "Kicked", scheme = "midpoint"}\nh = "2^-5"\n'
        't0 = 1\nt1 = 2\npaths = 20\nseed = 7\nengine = "llvm"\ndtype = "float64"\non_failure = "mark"\n'
        "start = {q = [0, 1, 0], v = [1, 0, 0]}\n"
        "[observe.energy]\nevery = 8\n"
        '[observe.z]\nof = "q[2]"\nkind = "Histogram"\nedges = {from = -1, to = 1, bins = 4}\n'
        '[observe.place]\nof = "q"\nkind = "Moments"\n'
        '[observe.top]\nof = "q[2]"\nkind = "Max"\nafter = 1\n'
        '[observe.memory]\nof = "p[0]"\nkind = "Autocorrelation"\nlags = 3\n'
    )
    code, out, err = shell("run", file, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    entry = hx.systems.pendulum(sigma=0.5)
    begin = hx.start(entry.system, q=[0.0, 1.0, 0.0], v=[1.0, 0.0, 0.0])
    observe = {
        "energy": hx.Mean(entry.system.energy, every=8),
        "z": hx.Histogram(lambda q, p: q[2], np.linspace(-1, 1, 5)),
        "place": hx.Moments(lambda q, p: q),
        "top": hx.Max(lambda q, p: q[2], after=1),
        "memory": hx.Autocorrelation(lambda q, p: p[0], 3),
    }
    options = {"t0": 1.0, "t1": 2.0, "h": 2**-5, "paths": 20, "seed": 7, "save_every": None, "observe": observe}
    run = hx.simulate(entry.system, hx.Kicked("midpoint"), begin, engine="llvm", **options)
    for name, field in [("energy", "mean"), ("z", "counts"), ("place", "variance"), ("top", "max")]:
        np.testing.assert_array_equal(found["observed"][name][field], getattr(run.observed[name], field))
    np.testing.assert_allclose(found["observed"]["memory"]["autocovariance"], run.observed["memory"].autocovariance)
    assert (found["done"], found["failed"], found["engine"]) == (20, 0, "llvm")
    code, out, err = shell("run", file)
    assert (code, err) == (0, "")
    for text in ("E energy", "z from", "mean place", "max top", "correlation time of memory"):
        assert text in out


def test_system_method_and_observable_of_one_file_beside_the_run_file(spec, shell, monkeypatch, tmp_path):
    file = spec(
        'system = "mine.py:entry"\nmethod = "mine.py:method"\nh = 0.125\nt1 = 1\npaths = 3\n'
        '[observe.height]\nof = "mine.py:height"\n'
    )
    monkeypatch.chdir("/")
    code, out, err = shell("run", file, "--json", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert len(json.loads(out)["observed"]["height"]["mean"]) == 1
    assert (tmp_path / "out" / "run.json").exists()


def test_parameters(spec, shell, tmp_path):
    (tmp_path / "swing.py").write_text(
        "import holonax as hx\n"
        "def entry():\n"
        "    system = hx.System(lambda q, v, *, mass: 0.5 * mass * v @ v, n=1, parameters={'mass': 1.0})\n"
        "    return hx.Entry('free', system, hx.start(system, q=[0.0]))\n"
    )
    text = 'system = "swing.py:entry"\nmethod = "EulerA"\nh = 0.5\nt1 = 1\nparameters = {mass = [1.0, 4.0]}\n'
    code, out, err = shell("run", spec(text), "--json")
    assert (code, err, json.loads(out)["done"]) == (0, "", 2)


BAD = [
    ("", "is empty; a run needs system = "),
    ("# nothing but a comment\n", "is empty"),
    (b"\x89PNG\r\n\x1a\n\x00\xff", "is not text: byte 0 is not UTF-8"),
    (b"\x00\x01\x02", "is not TOML"),
    ("just some words\n", "is not TOML: "),
    ("h = 0.1\nh = 0.2\n", "is not TOML: Cannot overwrite a value (at line 2"),
    ("h = [1, 2\n", "is not TOML: "),
    (b"[[[" * 20, "is not TOML"),
    ("x = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    (b"#" * (2**20 + 1), "more than 1 MiB"),
    ('metod = "Kicked"\n' + SHORT, "there is no key 'metod' (did you mean method?); choose one of system, start,"),
    ('"" = 1\n' + SHORT, "there is no key ''"),
    (SHORT.replace("t1 = 1\n", ""), "t1 is missing; write t1 = 10"),
    (SHORT.replace("h = 0.25\n", ""), "h is missing; write h = 0.01"),
    (SHORT.replace('system = "oscillator"\n', ""), "system is missing; write system = "),
    (SHORT.replace("0.25", "0"), "h = 0.0: the step size must be positive"),
    (SHORT.replace("0.25", "-0.25"), "h = -0.25: the step size must be positive"),
    (SHORT.replace("0.25", "nan"), "h = nan: must be finite"),
    (SHORT.replace("0.25", "true"), "h = True: must be a number; write h = 0.01"),
    (SHORT.replace("0.25", '"tiny"'), "'tiny' is not a step size; write 0.01 or 2^-6"),
    (SHORT.replace("0.25", "[0.25]"), "h = [0.25]: must be a number"),
    (SHORT.replace("0.25", "0.3"), "not a whole number; use t1 = 0.9 or h = "),
    (SHORT.replace("0.25", "1e-300"), "can be counted; use a larger h"),
    (SHORT.replace("t1 = 1", "t1 = inf"), "t1 = inf: must be finite"),
    (SHORT.replace("t1 = 1", "t1 = 1" + "0" * 400), "too large"),
    (SHORT.replace("t1 = 1", "t1 = -1"), "t1 = -1.0 is not after t0 = 0.0"),
    (SHORT.replace("t1 = 1", "t1 = 1979-05-27"), "t1 = datetime.date(1979, 5, 27): must be a number"),
    (SHORT.replace("paths = 4", "paths = 0"), "paths = 0: must be a positive integer"),
    (SHORT.replace("paths = 4", "paths = 2.5"), "paths = 2.5: must be a whole number; write paths = 1000"),
    (SHORT.replace("paths = 4", 'paths = "many"'), "paths = 'many': must be a whole number"),
    (SHORT.replace("paths = 4", "paths = 10" + "0" * 30), "GiB, this machine has"),
    (SHORT.replace("paths = 4", "paths = true"), "paths = True: must be a whole number"),
    (SHORT + "seed = -1\n", "seed = -1"),
    (SHORT + 'seed = "lucky"\n', "seed = 'lucky': must be a whole number; write seed = 0"),
    (SHORT + "save = 5\n", 'save = 5: must be from 1 to the 4 steps of the run, or "end"'),
    (SHORT + 'save = "all"\n', "save = 'all': must be a whole number of steps or \"end\"; write save = 8"),
    (SHORT + 'engine = "steam"\n', "engine = 'steam': choose one of 'auto', "),
    (SHORT + "engine = 3\n", "engine = 3: choose one of 'auto', "),
    (SHORT + 'dtype = "float16"\n', "dtype = 'float16': choose one of 'float64', 'float32'"),
    (SHORT + 'on_failure = "hope"\n', "on_failure = 'hope': choose one of 'raise', 'mark'"),
    (SHORT + "store = 3\n", "store = 3: must be the name of a folder; write store = "),
    (SHORT + 'store = " "\n', "store = ' ': must be the name of a folder"),
    (SHORT + "memory = [1]\n", "memory = [1]: must be a size"),
    (SHORT + "parameters = 3\n", "parameters = 3: must be a table of numbers"),
    (SHORT + "parameters = {weight = 3}\n", "weight"),
    (SHORT.replace("oscillator", "osillator"), "there is no system 'osillator' (did you mean oscillator?)"),
    (SHORT.replace('"oscillator"', "3"), "system = 3: must be a name, or a table with a name"),
    (SHORT.replace('"oscillator"', '""'), "system = '': must be a name"),
    (SHORT.replace('"oscillator"', '["oscillator"]'), "system = ['oscillator']: must be a name"),
    (SHORT.replace('"oscillator"', "{beads = 3}"), "its name is missing"),
    (SHORT.replace('"oscillator"', "{name = \"__import__('os')\"}"), "its name is missing or no name"),
    (SHORT.replace('"oscillator"', '{name = "chain", beads = 0}'), "beads = 0: a chain has at least 1 bead"),
    (SHORT.replace('"oscillator"', '{name = "chain", pearls = 3}'), "chain takes no argument 'pearls=3'"),
    (SHORT.replace('"oscillator"', '{name = "chain", "a b" = 3}'), "'a b' is no name of an argument"),
    (SHORT.replace("oscillator", "nowhere.py:entry"), "nowhere.py is not a file"),
    (SHORT.replace("oscillator", "raises.py:entry"), "ValueError: no luck (line 2 of "),
    (SHORT.replace("oscillator", "mine.py:entri"), "there is no 'entri' in "),
    (SHORT.replace("oscillator", "mine.py:broken"), "must be an hx.Entry"),
    (SHORT.replace("EulerA", "EulerC"), "there is no method 'EulerC' (did you mean Euler"),
    (SHORT.replace('"EulerA"', '{name = "Langevin", friction = 1}'), "Langevin needs friction and temperature"),
    (SHORT.replace('"EulerA"', '{name = "Langevin", friction = -1, temperature = 1}'), "friction = -1"),
    (SHORT.replace('"EulerA"', "[1]"), "method = [1]: must be a name"),
    (
        SHORT.replace("EulerA", "other.py:method"),
        "no file but that of its system, which is from the cat",
    ),
    (SHORT + "start = 3\n", "start = 3: must be a table; write start = {q"),
    (SHORT + "start = {v = [1]}\n", "start.q is missing; write start = {q"),
    (SHORT + "start = {q = [1], w = [1]}\n", "there is no key 'w' in start"),
    (SHORT + "start = {q = [1, 2]}\n", "start: "),
    (SHORT + 'start = {q = ["a"]}\n', "start: "),
    (SHORT + "start = {q = [nan]}\n", "start.q[0] = nan: must be finite"),
    (SHORT.replace("oscillator", "pendulum") + "start = {q = [1, 1, 1]}\n", "start: "),
    (SHORT + "observe = 3\n", "observe = 3: must be tables, such as [observe.energy]"),
    (SHORT + "observe.energy = 3\n", "observe.energy = 3: must be a table"),
    (SHORT + '[observe.e]\nof = "energie"\n', "observe.e.of: there is no quantity 'energie' (did you mean energy?)"),
    (SHORT + "[observe.e]\nof = 3\n", "observe.e.of = 3: must be a name"),
    (SHORT + '[observe.energy]\nkind = "Median"\n', "observe.energy.kind: there is no kind 'Median'"),
    (SHORT + "[observe.energy]\noften = 3\n", "there is no key 'often' in observe.energy"),
    (SHORT + "[observe.energy]\nevery = 0\n", "observe.energy: every = 0: must be a positive number of steps"),
    (SHORT + '[observe.energy]\nover = "space"\n', "observe.energy: over = 'space': choose one of "),
    (SHORT + '[observe.z]\nof = "q[3]"\n', "observe.z.of = 'q[3]': there are 1 coordinates, q[0] to q[0]"),
    (
        SHORT + '[observe.q]\nkind = "Histogram"\n',
        "observe.q.edges is missing; a Histogram needs it, such as edg",
    ),
    (SHORT + '[observe.q]\nkind = "Histogram"\nedges = [1, 0]\n', "observe.q: edges = [1, 0]: must be two or more"),
    (
        SHORT + '[observe.q]\nkind = "Histogram"\nedges = {from = 0, to = 1, bins = 10000000000}\n',
        "needs from < to and 1 to 1000000 bins",
    ),
    (SHORT + '[observe.q]\nkind = "Histogram"\nedges = {from = 0}\n', "write edges = {from = -1, to = 1, bins = 40}"),
    (SHORT + '[observe.q]\nkind = "Autocorrelation"\nlags = "few"\n', "observe.q: lags = 'few'"),
    (SHORT + '[observe.x]\nof = "other.py:height"\n', "executes no file but that of its system"),
    (
        SHORT.replace("oscillator", "mine.py:entry") + '[observe.x]\nof = "mine.py:weight"\n',
        "there is no 'weight' in ",
    ),
    (SHORT.replace("oscillator", "mine.py:entry") + '[observe.x]\nof = "mine.py:broken"\n', "observe.x: fn = 3"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_bad_run_file_is_one_line_and_exit_code_2(text, message, spec, shell, tmp_path):
    file = spec(text)
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = shell("run", file)
    assert (code, out) == (2, "")
    assert str(file) in err
    assert message in err
    assert err.count("\n") == 1
    after = {path.name for path in tmp_path.iterdir()} - {"__pycache__", "executed"}
    assert sorted(after) == before  # no half-made store
    if "mine.py" not in str(text):
        assert not (tmp_path / "executed").exists()
    if isinstance(text, str) and "store" not in text:
        code, out, err = shell("run", spec('store = "half.zarr"\n' + text))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert not (tmp_path / "half.zarr").exists()


def test_there_are_at_least_thirty_bad_run_files():
    assert len(BAD) >= 30


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.toml", "is not a file; there is folder.toml, run.toml"),
        ("folder.toml", "is a folder; a run file is a text file"),
    ],
)
def test_run_files_that_are_not_there(name, message, spec, shell, tmp_path):
    spec(SHORT)
    (tmp_path / "folder.toml").mkdir()
    code, out, err = shell("run", tmp_path / name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / name} {message}" in err


def test_a_run_file_that_is_a_device(shell, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    code, out, err = shell("run", tmp_path / "pipe.toml")
    assert (code, out) == (2, "")
    assert "is not a file" in err


@pytest.mark.parametrize("option", [("--h", "0.1"), ("-m", "Rattle"), ("--paths", "3"), ("--on-failure", "mark")])
def test_options_beside_a_run_file_are_refused(option, spec, shell):
    code, out, err = shell("run", spec(SHORT), *option)
    assert (code, out) == (2, "")
    assert "beside the run file" in err


def test_a_run_file_with_a_store_goes_on_where_it_was(spec, shell, tmp_path):
    text = SHORT + 'store = "kept.zarr"\nsave = 2\n[observe.energy]\n[observe.x]\nof = "q[0]"\n'
    code, out, err = shell("run", spec(text), "--json")
    assert (code, err, json.loads(out)["done"]) == (0, "", 4)
    first = np.array(hx.open(tmp_path / "kept.zarr").q)
    code, out, err = shell("run", spec(text.replace("t1 = 1", "t1 = 2")), "--json")
    assert (code, err) == (0, "")
    longer = np.array(hx.open(tmp_path / "kept.zarr").q)
    np.testing.assert_array_equal(longer[:, :3], first)
    assert longer.shape == (4, 5, 1)
    code, out, err = shell("run", spec(text.replace("h = 0.25", "h = 0.125")))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "h" in err
    np.testing.assert_array_equal(hx.open(tmp_path / "kept.zarr").q, longer)
