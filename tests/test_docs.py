"""The examples in README and docs run, links lead somewhere, and every erratum names a test that exists."""

import re

import pytest

import holonax as hx
from readme import ROOT, examples

PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")), *sorted(ROOT.glob("docs/**/*.md"))]


LONG = {
    "errors",
    "free_energy",
    "large_systems",
    "long_runs",
    "neighbours",
    "pendulum_at_temperature",
    "polymer_chain",
    "posterior_on_a_manifold",
    "rigid_trimer",
}
"""Pages that take ten seconds and more."""
RUN = [
    pytest.param(x, marks=pytest.mark.study if x.stem in LONG else ())
    for x in PAGES
    if examples(x) and x.parent.name not in ("from", "gallery")  # which need other libraries: `make docs` runs them
]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_examples_run(page):
    scope = {}
    for example in examples(page):
        exec(compile(example, page.name, "exec"), scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    words = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!http)([^)#]+)", words):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    """By their paths from any folder; those that a recipe makes do not exist yet."""
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("[!.]*/**/*.py")]
    for name in re.findall(r"(?<!New file )`([\w/]+\.py)`", page.read_text()):
        assert any(file.endswith(f"/{name}") for file in files), name


def test_tests_named_in_the_docs_exist():
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for page in PAGES:
        for name in re.findall(r"`(test_\w+)`", page.read_text()):
            assert f"def {name}(" in sources, f"{page.name} names {name}"


def test_every_erratum_has_a_test():
    text = (ROOT / "docs" / "errata.md").read_text()
    for number in range(1, 9):
        section = re.search(rf"^## E{number}\b.*?(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
        assert section, number
        assert "`test_" in section[0] or number == 7, number


@pytest.mark.parametrize("name", [kind.__name__ for kind in hx.Method.listed])
def test_every_method_is_in_the_table(name):
    assert f"| `{name}(" in (ROOT / "docs" / "which_method.md").read_text()


@pytest.mark.parametrize("name", hx.__all__)
def test_the_reference_lists_every_public_name(name):
    assert f"\n   {name}\n" in (ROOT / "docs" / "api.md").read_text()


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert {"make demo", "make test"} <= {" ".join(line.split()[:2]) for line in lines}
