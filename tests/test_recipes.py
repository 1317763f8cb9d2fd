"""The guide is true: the recipes of CONTRIBUTING.md work as they stand, and docs/ shows what the code does."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import NamedTuple

import jax
import pytest

from holonax import compiler
from readme import ROOT

sys.path.insert(0, str(ROOT / "docs"))

import draw_architecture
import refresh

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
STEP = re.compile(
    r"^(?:New file `(?P<new>[^`\n]+)`"
    r"|In `(?P<path>[^`\n]+)`, (?P<how>before|after) the line that begins with "
    r"(?P<quote>`+)(?P<line>.+)(?P=quote)"
    r"):\n\n```\w*\n(?P<block>(?s:.*?))^```$",
    re.MULTILINE,
)
COMMAND = re.compile(r"^```sh\n(?P<command>.*)\n```$", re.MULTILINE)
COPIED = ("src", "tests", "docs", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml")


class Recipe(NamedTuple):
    """Steps, as matches of STEP, and the command that tests them."""

    steps: list
    command: str


def recipes():
    """By name: `### A tableau` is "tableau"."""
    (section,) = re.findall(r"^## Recipes\n(.*?)^## One place each$", GUIDE, flags=re.DOTALL | re.MULTILINE)
    parts = re.split(r"^### An? (\w+)\n", section, flags=re.MULTILINE)[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        steps, (command,) = list(STEP.finditer(text)), COMMAND.findall(text)
        assert text.count("\n```") == 2 * (len(steps) + 1), f"{name}: a block that no step or command belongs to"
        found[name] = Recipe(steps, command)
    return found


RECIPES = recipes()
LONG = {"method", "engine"}
"""Recipes whose command takes longer than some seconds."""


def follow(step, root):
    """Write what a step shows, where it says."""
    if step["new"]:
        path = root / step["new"]
        assert not path.exists(), f"{path} exists already"
        path.write_text(step["block"])
        return path
    path = root / step["path"]
    lines = path.read_text().splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if line.strip().startswith(step["line"])]
    assert len(places) == 1, (
        f"{len(places)} lines of {step['path']} begin with {step['line']!r}: "
        "if you changed that line, change this step of CONTRIBUTING.md"
    )
    lines.insert(places[0] + (step["how"] == "after"), step["block"])
    path.write_text("".join(lines))
    return path


def copy_of_the_repository(folder):
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.png", "tutorials"))
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run(command, root):
    """A command of the guide, by the Python of this process, on the code of a copy: its exit code, and what it says."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]],
        cwd=root,
        env=environment | {"PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


EVERY = [pytest.param(name, marks=pytest.mark.study) if name in LONG else name for name in RECIPES]


def test_there_is_a_recipe_for_everything():
    assert [*RECIPES] == ["tableau", "method", "system", "observable", "operation", "primitive", "engine"]
    for recipe in RECIPES.values():
        assert recipe.command.startswith(".venv/bin/python -m pytest -n 0 ")
        assert " or " not in recipe.command, (
            "an alternative that selects no test, or only such as study, is not noticed"
        )


@pytest.mark.parametrize("name", EVERY)
def test_a_recipe_works_as_it_stands(name, tmp_path):
    root = copy_of_the_repository(tmp_path)
    paths = {follow(step, root) for step in RECIPES[name].steps}
    sources = shlex.join(str(path) for path in paths if path.suffix == ".py")
    style = [
        f"python -m ruff {check} {sources}" for check in ("check --fix --select I,RUF022", "check", "format --check")
    ]
    for command in (RECIPES[name].command, *style):
        code, output = run(command, root)
        assert code == 0, output


@pytest.mark.study
@pytest.mark.parametrize("name", RECIPES)
def test_its_test_fails_where_the_code_is_missing(name, tmp_path):
    root = copy_of_the_repository(tmp_path)
    for step in RECIPES[name].steps:
        if not (step["new"] or step["path"]).startswith("src/"):
            follow(step, root)
    code, output = run(RECIPES[name].command, root)
    assert code in (1, 2, 5), output  # tests that fail, that cannot be read, or that are not there


def test_all_recipes_can_be_followed_one_after_the_other(tmp_path):
    root = copy_of_the_repository(tmp_path)
    for recipe in RECIPES.values():
        for step in recipe.steps:
            follow(step, root)


def test_the_page_on_the_architecture_has_every_folder():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "architecture.md").read_text(), flags=re.MULTILINE)
    assert sorted(rows) == sorted(draw_architecture.folders(draw_architecture.imports()))


def test_the_page_on_the_compiler_has_every_pass():
    text = (ROOT / "docs" / "compiler.md").read_text()
    assert re.findall(r"^### (.*)\n\n\*", text, flags=re.MULTILINE) == [name.capitalize() for name in compiler.PASSES]
    for name in compiler.PASSES_OF_LONG_PROGRAMS:
        assert f"**{name.capitalize()}**" in text


def test_the_picture_of_the_folders_is_up_to_date():
    assert draw_architecture.PICTURE.read_text() == draw_architecture.picture(), "run python docs/refresh.py"


@pytest.mark.skipif(jax.__version__ not in refresh.PAGES[0].read_text(), reason="other versions trace other equations")
@pytest.mark.parametrize("page", refresh.PAGES, ids=lambda page: page.name)
def test_pages_show_what_their_examples_print(page):
    assert page.read_text() == refresh.refreshed(page), "run python docs/refresh.py"
