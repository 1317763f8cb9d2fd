"""Writes anew what the pages show of the code: the picture of the folders, and what examples print.

An example, a block of `python`, that is followed at once by a block of `text` prints that text.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import draw_architecture

PAGES = (draw_architecture.ROOT / "docs" / "compiler.md",)

_EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def refreshed(page: Path) -> str:
    """The text of a page, with what its examples print now."""
    scope: dict = {}

    def example(match: re.Match[str]) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(match["code"], page.name, "exec"), scope)
        code = f"```python\n{match['code']}```\n"
        return code if match["shown"] is None else f"{code}\n```text\n{printed.getvalue()}```\n"

    return _EXAMPLE.sub(example, page.read_text())


if __name__ == "__main__":
    draw_architecture.PICTURE.write_text(draw_architecture.picture())
    for page in PAGES:
        page.write_text(refreshed(page))
