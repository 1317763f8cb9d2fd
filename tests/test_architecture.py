"""The layers point one way, modules stay small, and the core needs JAX and NumPy alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "holonax"
LAYERS = [  # a module may import from its own layer and from those before it
    {"errors", "version", "warn", "background"},
    {
        "checks",
        "blame",
        "bounds",
        "foreign",
        "parameters",
        "elementary",
        "elimination",
        "roundoff",
        "solve",
        "system",
        "closures",
        "noise",
        "tableau",
        "tableaux",
        "projection",
        "initial",
        "entry",
    },
    {"eliminated", "lapack"},
    {"methods"},
    {"path"},
    {"lanes", "observables", "progress", "systems"},
    {"free_energy"},
    {"engines"},
    {"recording"},
    {"chunks"},
    {"run", "arguments"},
    {"ensemble"},
    {"studies", "sampling", "target"},
    {"files", "naming", "report"},
    {"__init__", "cli"},
]
ABOVE = {"report", "cli"}
MODULES = sorted(SOURCE.rglob("*.py"))


def layer_of(name):
    return next(level for level, names in enumerate(LAYERS) if name in names)


def home(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "holonax":
                yield from (alias.name for alias in node.names)
            elif node.module.startswith("holonax."):
                yield node.module.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    for name in imports(path):
        assert layer_of(name) <= layer_of(home(path)), f"{path.name} imports {name} from a layer above"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_are_small(path):
    assert len(path.read_text().splitlines()) <= 320


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_prints_or_opens_files(path):
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"print", "open"}
    assert "sys.std" not in path.read_text() or path.name == "progress.py"


def python(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code], env={"JAX_PLATFORMS": "cpu"} | environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_float64_is_switched_on_at_import_unless_told_otherwise():
    code = "import holonax, jax.numpy as jnp; print(jnp.zeros(1).dtype)"
    assert python(code) == "float64"
    assert python(code, HOLONAX_ENABLE_X64="0") == "float32"


def test_without_float64_single_precision_works_and_double_is_refused():
    code = """
import holonax as hx
e = hx.systems.pendulum()
run = hx.simulate(e.system, hx.EulerA(), e.start, t1=0.5, h=0.125, paths=2, dtype="float32")
assert run.q.dtype == "float32" and abs((run.q ** 2).sum(-1) - 1).max() < 1e-6
try:
    hx.simulate(e.system, hx.EulerA(), e.start, t1=0.5, h=0.125)
except hx.InputError as error:
    print(error)
"""
    assert "unset HOLONAX_ENABLE_X64" in python(code, HOLONAX_ENABLE_X64="0")


def test_the_core_imports_jax_and_numpy_alone():
    code = (
        "import sys, jax, numpy; before = {m.split('.')[0] for m in sys.modules}; import holonax;"
        "print(sorted({m.split('.')[0] for m in sys.modules} - before - set(sys.stdlib_module_names)))"
    )
    assert python(code) == "['holonax']"
