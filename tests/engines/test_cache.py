"""Compiled programs are kept for the next process: the same bits, found by what matters, and never in the way."""

import os
import subprocess
import sys
import time
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import compiler, engines
from holonax.cache import arrays as kept_arrays
from holonax.cache import files, versions
from holonax.cache.files import Cache, user_cache
from holonax.cache.identity import NamelessError, name_of_values
from holonax.cli.main import app
from holonax.engines import kept
from holonax.engines.kept import FROM_CACHE, StepCache
from holonax.engines.llvm import runner as llvm
from holonax.numerics import structure
from support import bent_curve, python

KEY = "0" * 40
ARRAYS = {"x": np.arange(1000.0), "code": np.frombuffer(b"code", np.uint8)}
NUMBERS = {"t1": 2.0**-4, "h": 2.0**-7, "paths": 9, "seed": 1, "engine": "llvm", "progress": False}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache of the user, empty; programs are not checked, which would leave it aside."""
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "CHECKED", False)
    engines.prepared.cache_clear()
    yield user_cache()
    engines.prepared.cache_clear()


def pendulum(gravity=1.0, noise=jnp.sin):
    system = hx.System(lambda q, v: 0.5 * v @ v - gravity * q[2], lambda q: q @ q - 1.0, noise)
    return system, hx.start(system, [1.0, 0.0, 0.0], [0.0, 1.0, 0.5])


def beads(count=30):
    """A chain so long, for the limit that it is given, that it becomes loops over arrays."""
    entry = hx.systems.chain(count)
    return entry.system, entry.start


def fresh(system, method, start, **options):
    """A run whose program was not made in this process, as far as the engines know."""
    engines.prepared.cache_clear()
    return hx.simulate(system, method, start, **NUMBERS | options)


def same(one, other):
    for field in ("q", "p", "status", "residual", "iterations"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    return FROM_CACHE in other.reason and FROM_CACHE not in one.reason


# What is found is what was kept.


def with_lists():
    near = hx.pairs(1.5, skin=0.4, box=6.0)
    system = hx.System(
        lambda q, v, *, near: 0.5 * v @ v - near.sum(lambda r2: (2.25 - r2) ** 2, q), parameters={"near": near}
    )
    x = np.stack(np.meshgrid(*[[0.0, 1.2, 3.0]] * 3), axis=-1).reshape(-1)
    return system, hx.start(system, x, np.sin(np.arange(81.0)))


@pytest.mark.parametrize(
    ("make", "method", "options"),
    [
        (pendulum, hx.Kicked(), {}),
        (pendulum, hx.EulerA(), {"dtype": "float32"}),
        (bent_curve, hx.Rattle(), {"h": 0.25, "t1": 4.0, "on_failure": "mark"}),
        (with_lists, hx.EulerA(), {"paths": 1}),
    ],
    ids=["lanes", "float32", "steps in doubt", "neighbour lists"],
)
def test_a_kept_kernel_gives_the_same_bits(cache, make, method, options):
    system, start = make()
    compiled = fresh(system, method, start, **options)
    assert cache.entries()
    assert same(compiled, fresh(system, method, start, **options))


def test_kernels_of_arrays_give_the_same_bits(cache, monkeypatch):
    monkeypatch.setattr(llvm, "TARGET", llvm.TARGET._replace(most=1000))
    system, start = beads()
    compiled = fresh(system, hx.EulerA(), start, paths=1)
    assert "loops over arrays" in compiled.reason
    assert same(compiled, fresh(system, hx.EulerA(), start, paths=1))


SCRIPT = """
import jax.numpy as jnp
import holonax as hx
system = hx.System(lambda q, v: 0.5 * v @ v - jnp.arctan2(q[0], 2.0 + q[1]) * jnp.sinh(q[2]), lambda q: q @ q - 1.0)
start = hx.start(system, [1.0, 0.0, 0.0], [0.0, 1.0, 0.5])
run = hx.simulate(system, hx.EulerB(), start, t1=0.125, h=2**-7, paths=9, engine="llvm")
print(run.reason, run.q.tobytes().hex(), run.p.tobytes().hex(), sep="\\n")
"""


def test_another_process_finds_it_and_code_holds_no_addresses(tmp_path):
    """Those of functions of the C library are others in every process."""
    environment = {files.VARIABLE: str(tmp_path), "HOLONAX_CHECK": "0"}
    (first, *q), (second, *again), (third, *without) = (
        python(SCRIPT, **environment | more).splitlines() for more in ({}, {}, {files.VARIABLE: ""})
    )
    assert (first, second, third) == ("asked for", f"asked for, {FROM_CACHE}", "asked for")
    assert q == again == without


def test_steps_that_are_taken_again_are_kept_too(cache):
    system, start = bent_curve()
    options = {"h": 0.25, "t1": 4.0, "on_failure": "mark"}
    fresh(system, hx.Rattle(), start, **options)
    assert len(cache.entries()) == 2
    cache.entries()[0].path.unlink()  # one of the two: it is made anew
    fresh(system, hx.Rattle(), start, **options)
    assert len(cache.entries()) == 2


def test_where_jacobians_have_entries_is_kept(cache, monkeypatch):
    """So that the next process need not import the library that finds it."""

    def found(function):
        monkeypatch.setattr(kept_arrays, "_found", OrderedDict())  # as another process has it
        traced = jax.make_jaxpr(function)(np.ones(5))
        places = structure.pattern(traced.jaxpr, traced.consts)
        return places and [*places, *vars(structure.colour(*places, (4, 5))).values()]

    def products(x):
        return x[1:] * x[:-1]

    first = found(products)
    assert first[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    monkeypatch.setitem(sys.modules, "asdex", None)
    for one, other in zip(first, found(products), strict=True):
        np.testing.assert_array_equal(one, other)
    assert found(lambda x: x[1:] * x[0]) is None
    monkeypatch.setenv(files.VARIABLE, "")
    assert found(products) is None


def test_explain_tells_of_the_compiler_all_the_same(cache):
    system, start = pendulum()
    fresh(system, hx.EulerA(), start)
    assert "seconds, translation" in repr(hx.explain(system, hx.EulerA(), engine="llvm"))


# By what it is found.


EULER = hx.EulerA()


def name(system, method=EULER, dtype="float64", machine=("processor",)):
    return StepCache.of(machine, system.form, method, 3, dtype).name


def test_the_name_is_that_of_what_functions_do(cache):
    system, _ = pendulum()
    assert name(system) == name(pendulum()[0])  # other functions, which do the same
    weights = np.ones(3)

    def weighted(q, v):
        return 0.5 * v @ (jnp.asarray(weights) * v) - q[2]

    def inside(q, v):
        return 0.5 * v @ v - jax.jit(lambda q: q @ weights)(q)

    others = [
        pendulum(gravity=1.0 + 2.0**-52)[0],
        pendulum(noise=jnp.cos)[0],
        pendulum(noise=None)[0],
        hx.System(system.lagrangian, lambda q: q @ q - 2.0, system.noise),
        hx.System(weighted, system.constraint, system.noise),
        hx.System(inside, system.constraint, system.noise),
        hx.System(lambda q, v, *, g: 0.5 * v @ v - g * q[2], system.constraint, system.noise, parameters={"g": 1.0}),
        hx.System(lambda q, v, *, a: 0.5 * v @ v - a * q[2], system.constraint, system.noise, parameters={"a": 1.0}),
    ]
    names = [name(system), *map(name, others)]
    weights[2] = 1.0 + 2.0**-52  # constants of a program, and of a program inside it
    names += map(name, others[4:6])
    assert "" not in names
    assert len(set(names)) == len(names)


def test_a_new_value_of_a_parameter_is_the_same_program(cache):
    system = hx.System(lambda q, v, *, g: 0.5 * v @ v - g * q[2], parameters={"g": 1.0})
    assert name(system) == name(system.replace(g=2.0)) != ""


def test_the_name_is_that_of_derivatives_where_functions_have_their_own(cache):
    def system(factor):
        @jax.custom_jvp
        def sine(x):
            return jnp.sin(x)

        sine.defjvp(lambda x, t: (jnp.sin(x[0]), factor * jnp.cos(x[0]) * t[0]))
        return hx.System(lambda q, v: 0.5 * v @ v - sine(q[2]), lambda q: q @ q - 1.0)

    assert name(system(1.0)) == name(system(1.0)) != name(system(2.0))


class Slower(hx.EulerA):
    """A method of the user's."""

    factor = 0.5

    def step(self, system, state, increment):
        return super().step(system, state, increment._replace(h=self.factor * increment.h))


def test_the_name_is_that_of_the_step_where_the_method_is_the_users(cache, monkeypatch):
    system, _ = pendulum()
    before = name(system, Slower())
    assert before == name(system, Slower()) != name(system)
    monkeypatch.setattr(Slower, "factor", 0.25)
    assert name(system, Slower()) != before


def test_the_name_is_that_of_everything_else_that_matters(cache, monkeypatch):
    system, _ = pendulum()
    names = [name(system), name(system, dtype="float32"), name(system, machine=("another",))]
    names += [name(system, method) for method in hx.Method.examples() if method != hx.EulerA()]
    names += [name(system, hx.EulerA(newton=hx.Newton(max_iterations=7)))]
    with jax.default_matmul_precision("float32"):
        names.append(name(system))
    monkeypatch.setattr(kept, "versions", lambda: ("holonax 2",))
    names.append(name(system))
    assert "" not in names
    assert len(set(names)) == len(names)


def test_versions_and_processor_say_what_there_is(monkeypatch, tmp_path):
    import llvmlite
    import llvmlite.binding as binding

    said = versions.versions()
    assert {f"jax {jax.__version__}", f"numpy {np.__version__}"} <= set(said)
    (tmp_path / "module.py").write_text("x = 1\n")
    monkeypatch.setattr(versions, "_PACKAGE", tmp_path)
    before = versions._source()
    (tmp_path / "module.py").write_text("x = 2\n")
    assert versions._source() != before
    assert {f"llvmlite {llvmlite.__version__}", binding.get_host_cpu_name()} <= set(llvm.processor())
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: "another")
    assert "another" in llvm.processor()


def test_names_of_values():
    values = [
        1,
        1.0,
        True,
        "1",
        None,
        (1,),
        [1],
        ((1,),),
        (1, ()),
        b"1",
        np.float32(1),
        np.ones(1),
        np.ones((1, 1)),
        -0.0,
    ]
    values += [0.0, {"a": 1}, {"b": 1}, hx.EulerA(), hx.EulerB(), hx.Status.CONVERGED, hx.tableaux.RATTLE]
    names = [name_of_values(x) for x in values]
    assert len(set(names)) == len(names)
    assert names == [name_of_values(x) for x in values]
    for x in (lambda: None, object(), np.array([object()])):
        with pytest.raises(NamelessError):
            name_of_values(x)


# Files.


def test_what_is_kept_is_found(tmp_path):
    cache = Cache(tmp_path / "a" / "b")
    assert cache.find(KEY) is None
    cache.keep(KEY, ARRAYS)
    found = cache.find(KEY)
    assert found.keys() == ARRAYS.keys()
    assert all((found[name] == x).all() for name, x in ARRAYS.items())
    assert cache.find("1" * 40) is None
    ((path, *_),) = cache.entries()
    assert (cache.folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    assert cache.clear()
    assert not list(cache.folder.iterdir())


def test_files_that_are_cut_short_damaged_or_renamed_are_ignored(tmp_path):
    cache = Cache(tmp_path / "cache")
    cache.keep(KEY, ARRAYS)
    ((path, size, _),) = cache.entries()
    content = path.read_bytes()
    for length in (0, 1, 20, 47, 48, 49, size // 2, size - 1):
        path.write_bytes(content[:length])
        assert cache.find(KEY) is None
    for place in (0, 20, 47, 48, 100, size // 2, size - 1):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        assert cache.find(KEY) is None
    path.write_bytes(content + b"x")
    assert cache.find(KEY) is None
    path.with_name("1" * 40 + path.suffix).write_bytes(content)
    assert cache.find("1" * 40) is None
    path.write_bytes(content)
    assert cache.find(KEY)


def test_a_damaged_kernel_is_compiled_anew_and_kept(cache):
    system, start = pendulum()
    compiled = fresh(system, hx.EulerA(), start)
    (entry,) = cache.entries()
    entry.path.write_bytes(entry.path.read_bytes()[:-1])
    repaired = fresh(system, hx.EulerA(), start)
    np.testing.assert_array_equal(repaired.q, compiled.q)
    assert FROM_CACHE not in repaired.reason
    assert same(compiled, fresh(system, hx.EulerA(), start))


def test_nothing_is_read_that_others_could_have_written(tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    cache.keep(KEY, ARRAYS)
    ((path, *_),) = cache.entries()
    for one, mode, good in ((path, 0o620, 0o600), (path, 0o602, 0o600), (cache.folder, 0o770, 0o700)):
        one.chmod(mode)
        assert cache.find(KEY) is None
        one.chmod(good)
        assert cache.find(KEY)
    cache.folder.chmod(0o777)
    cache.keep("1" * 40, ARRAYS)
    assert len(cache.entries()) == 1
    assert "others can write" in cache.refusal()
    cache.folder.chmod(0o700)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.find(KEY) is None
    path.unlink()
    (tmp_path / "elsewhere").rename(path)
    assert cache.find(KEY)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)  # as if the files were somebody else's
    assert cache.find(KEY) is None


@pytest.mark.parametrize("place", ["/proc/holonax", "/dev/null", "/dev/null/cache"])
def test_where_nothing_can_be_written_nothing_is_kept(cache, place, monkeypatch):
    monkeypatch.setenv(files.VARIABLE, place)
    system, start = pendulum()
    assert FROM_CACHE not in fresh(system, hx.EulerA(), start).reason
    assert FROM_CACHE not in fresh(system, hx.EulerA(), start).reason


def test_a_full_disk_leaves_nothing_half_done(tmp_path):
    code = f"""
        import resource, pathlib, numpy as np
        from holonax.cache.files import Cache
        cache = Cache(pathlib.Path({str(tmp_path)!r}) / "cache")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        cache.keep("0" * 40, {{"x": np.zeros(1000)}})
        print(list(cache.folder.iterdir()), cache.find("0" * 40))
    """
    assert python(code) == "[] None"


def test_what_was_not_used_for_longest_goes_first(tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    keys = [str(i) * 40 for i in range(4)]
    for age, key in zip((40, 30, 20), keys, strict=False):
        cache.keep(key, ARRAYS)
        os.utime(cache.folder / f"{key}.kept", (time.time() - age,) * 2)
    cache.find(keys[0])  # used now
    abandoned = cache.folder / "x.unfinished"
    abandoned.touch()
    os.utime(abandoned, (0, 0))
    monkeypatch.setattr(files, "MOST_BYTES", 3 * cache.entries()[0].size)
    cache.keep(keys[3], ARRAYS)
    assert [cache.find(key) is not None for key in keys] == [True, False, True, True]
    assert not abandoned.exists()
    monkeypatch.setattr(files, "MOST_BYTES", 100)
    cache.keep("5" * 40, ARRAYS)  # too large by itself
    assert len(cache.entries()) == 3


WRITER = """
import pathlib, sys
import numpy as np
from holonax.cache.files import Cache
cache, found = Cache(pathlib.Path(sys.argv[1])), 0
for i in range(60):
    key = f"{i % 3:040d}"
    cache.keep(key, {"x": np.full(20_000, float(sys.argv[2]))})
    arrays = cache.find(key)
    found += arrays is not None and len(set(arrays["x"].tolist())) == 1
print(found)
"""
"""What is found under keys that others write at the same time is whole, and a file that is there stays there."""


def test_many_processes_write_and_read_at_a_time(tmp_path):
    commands = [[sys.executable, "-c", WRITER, str(tmp_path / "cache"), str(i)] for i in range(3)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [writer.communicate(timeout=120)[0].strip() for writer in writers] == ["60"] * 3
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".kept"] * 3


# Switches.


def test_switched_off_nothing_is_kept(cache, monkeypatch):
    monkeypatch.setenv(files.VARIABLE, "")
    assert user_cache() is None
    system, start = pendulum()
    fresh(system, hx.EulerA(), start)
    assert not cache.folder.exists()
    monkeypatch.setenv(files.VARIABLE, str(cache.folder))
    monkeypatch.setattr(compiler, "CHECKED", True)  # then passes are meant to run
    fresh(system, hx.EulerA(), start)
    assert not cache.folder.exists()


def test_by_default_it_is_where_caches_are(monkeypatch, tmp_path):
    monkeypatch.delenv(files.VARIABLE)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert user_cache().folder == tmp_path / ".cache" / "holonax"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert user_cache().folder == tmp_path / "own" / "holonax"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert user_cache().folder == tmp_path / "Library" / "Caches" / "holonax"


def test_the_command_shows_and_clears(cache, monkeypatch):
    from typer.testing import CliRunner

    def shown(*arguments):
        result = CliRunner().invoke(app, ["cache", *arguments])
        assert result.exit_code == 0, result.output
        return result.output.replace("\n", "")

    assert "no programs" in shown()
    cache.keep(KEY, ARRAYS)
    assert f"{cache.folder}: 1 program, 0.0 MiB of at most 1024 MiB" in shown()
    cache.folder.chmod(0o777)
    assert "not used" in shown()
    cache.folder.chmod(0o700)
    assert "1 program, 0.0 MiB removed" in shown("--clear")
    assert not cache.entries()
    monkeypatch.setenv(files.VARIABLE, "")
    assert "nothing is kept" in shown()
