"""Plain Markdown as notebooks: pages read well where nothing is run, and are run when the site is built."""

from __future__ import annotations

import re
from typing import Any

import nbformat

_PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
_OUTSIDE = re.compile(r"\]\(((?:\.\./)*)\.\./(README|CONTRIBUTING|CHANGELOG)\.md")
_INSIDE = {"README": "index.md", "CONTRIBUTING": "contributing.md", "CHANGELOG": "changelog.md"}
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def read(page: str, **_: Any) -> nbformat.NotebookNode:
    """The notebook of a page: its blocks of `python` are cells, and what is between them is text.

    A block of `text` that follows at once is what the code printed when the page was written; it gives way to what the
    code prints now.  Links to the pages at the root of the repository lead to their copies on the site.
    """
    page = _OUTSIDE.sub(lambda link: f"]({link[1]}{_INSIDE[link[2]]}", page)
    cells, end = [], 0
    for block in _PYTHON.finditer(page):
        cells += _text(page[end : block.start()])
        cells.append(nbformat.v4.new_code_cell(block["code"].rstrip()))
        end = block.end()
    cells += _text(page[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # or every build would write other files
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": _KERNEL})


def _text(words: str) -> list[nbformat.NotebookNode]:
    return [nbformat.v4.new_markdown_cell(words.strip())] if words.strip() else []
