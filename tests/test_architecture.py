"""The layers point one way, modules stay small, and the core needs JAX and NumPy alone."""

import ast
from pathlib import Path

import pytest

from support import python

SOURCE = Path(__file__).parent.parent / "src" / "holonax"
ROOT = {"errors", "version", "warn", "background", "packing", "progress"}
LAYERS = [  # a folder may import from those before it, and every folder from the modules of the root
    ROOT,
    {"cache"},
    {"inputs", "report"},
    {"exports", "numerics", "viewer"},
    {"mechanics"},
    {"methods", "systems", "observables"},
    {"compiler"},
    {"engines"},
    {"store"},
    {"simulation"},
    {"studies", "sampling"},
    {"interop"},
    {"cli"},
    {"__init__"},
]
COMPILER = [{"ir"}, {"frontend", "passes"}, {"arrays"}, {"program"}, {"__init__"}]
MODULES = sorted(SOURCE.rglob("*.py"))


def layer_of(name, layers):
    return next(level for level, names in enumerate(layers) if name in names)


def imports(path):
    """What a module imports of the package, as lists of names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1:] for alias in node.names if alias.name.startswith("holonax."))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "holonax":
            _, *names = node.module.split(".")
            yield from ([*names, alias.name] for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    folder, *inside = (part.removesuffix(".py") for part in path.relative_to(SOURCE).parts)
    for other, *names in imports(path):
        if other != folder:
            assert layer_of(other, LAYERS) < layer_of(folder, LAYERS), f"{path} imports {other} from a layer above"
        elif folder == "compiler" and names[0] != inside[0]:
            assert layer_of(names[0], COMPILER) < layer_of(inside[0], COMPILER), f"{path} imports {names[0]}"


def test_folders_are_layers():
    """Whatever lies in the package has its place in the list."""
    assert {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES} == set().union(*LAYERS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_are_small(path):
    assert len(path.read_text().splitlines()) <= 320


def lines_of(function):
    """Without the docstring."""
    return (
        function.end_lineno - function.lineno + 1 - len((ast.get_docstring(function, clean=False) or "").splitlines())
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_are_short(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert lines_of(node) <= 60, node.name


def test_names_have_one_meaning():
    """Public classes and functions of different folders; what all engines have, and commands, are meant to be alike."""
    engines = {"missing", "prepare", "lanes", "kernel"}
    orders = {"strong_order", "weak_order"}  # measured by studies, and by theory, of a tableau
    found = {}
    for path in MODULES:
        folder = path.relative_to(SOURCE).parts[0]
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_") and folder != "cli":
                found.setdefault(node.name, set()).add(path)
    assert not {name: paths for name, paths in found.items() if len(paths) > 1 and name not in engines | orders}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_prints_or_opens_files(path):
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"print", "open"}
    assert "sys.std" not in path.read_text() or path.name == "progress.py"


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
