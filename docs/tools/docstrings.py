"""Docstrings as they are written here, with Markdown's code and formulas, in the words of Sphinx."""

from __future__ import annotations

import re
from typing import Any

_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"\$([^$]+?)\$", re.DOTALL)
_CODE = re.compile(r"(?<![`:\w])`([^`]+)`(?!`)", re.DOTALL)


def translated(text: str) -> str:
    """Formulas between dollars and code between backticks, as roles and directives of reStructuredText."""
    kept: list[str] = []

    def keep(words: str) -> str:
        kept.append(words)
        return f"\0{len(kept) - 1}\0"

    def display(match: re.Match[str]) -> str:
        begin = text.rfind("\n", 0, match.start()) + 1
        margin = re.match(r"\s*", text[begin:])[0]
        lines = [f"{margin}   {line.strip()}" for line in match[1].strip().splitlines()]
        return keep("\n".join(["", "", f"{margin}.. math::", "", *lines, "", ""])) + margin

    def inline(match: re.Match[str]) -> str:
        return keep(f":math:`{' '.join(match[1].split())}`") + "\\ "

    text = _DISPLAY.sub(display, text)
    text = _CODE.sub(lambda match: keep(f"``{' '.join(match[1].split())}``") + "\\ ", text)
    text = _INLINE.sub(inline, text)
    return re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], text)


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """As autodoc wants it: changes the lines in place."""
    lines[:] = translated("\n".join(lines)).splitlines()


def setup(app: Any) -> dict[str, bool]:
    """Before napoleon, which takes care of the sections."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
