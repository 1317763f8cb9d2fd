"""Draws docs/figures/architecture.svg: the folders of the package, and which of them imports which.

All of it is read from the source.  A folder stands one row above the highest folder that it imports from.  An arrow
that follows from others is left out: A -> C, where there are A -> B and B -> C.
"""

from __future__ import annotations

import ast
from collections import Counter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "holonax"
PICTURE = ROOT / "docs" / "figures" / "architecture.svg"

MAKES = {
    "simulation": ("Plan", "Segment", "Run"),
    "engines": ("Runner",),
    "compiler": ("Program",),
    "methods": ("Method",),
    "systems": ("Entry",),
    "observables": ("Observable",),
    "mechanics": ("System", "State"),
    "numerics": ("Newton",),
    "viewer": ("Drawing", "Scene", "Page"),
    "studies": ("Study",),
    "sampling": ("Samples",),
}
"""The classes of a folder that the others see most of."""

WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 190, 46, 240, 78, 24
"""Of a box, from one box to the next, and around all of them."""

Imports = dict[str, Counter[str]]


def imports() -> Imports:
    """For each folder, and each module beside them, how often it imports from which others."""
    found: Imports = {}
    for path in sorted(SOURCE.rglob("*.py")):
        mine = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        here = found.setdefault(mine, Counter())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "holonax":
                _, *inside = (node.module or "").split(".")
                here.update(inside[:1] or [alias.name for alias in node.names])
        del here[mine]
    return found


def folders(found: Imports) -> list[str]:
    """Those of the names that are folders."""
    return [name for name in found if (SOURCE / name).is_dir()]


def rows(found: Imports) -> dict[str, int]:
    """The row of each folder, from the bottom."""
    names = folders(found)

    def row(name: str) -> int:
        return 1 + max((row(other) for other in found[name] if other in names), default=-1)

    return {name: row(name) for name in names}


def arrows(found: Imports) -> list[tuple[str, str]]:
    """Who imports from whom, without what follows from the rest."""
    names = folders(found)

    def below(name: str) -> set[str]:
        direct = {other for other in found[name] if other in names}
        return direct.union(*map(below, direct))

    return [
        (name, other)
        for name in names
        for other in found[name]
        if other in names and not any(other in below(between) for between in found[name] if between in names)
    ]


def places(found: Imports) -> dict[str, tuple[int, int]]:
    """Column and row of each folder; of its row, the one that is imported most is in the middle, others beside it."""
    height, used = rows(found), Counter[str]()
    for others in found.values():
        used += others
    result = {}
    for level in range(max(height.values()) + 1):
        here = sorted((name for name in height if height[name] == level), key=lambda name: (-used[name], name))
        for column, name in zip((1, 2, 0, 3), here, strict=False):
            result[name] = (column, max(height.values()) - level)
    assert result.keys() == height.keys(), "a row of more than four folders needs another column"
    return result


def classes(folder: str) -> set[str]:
    """The names of all classes of a folder."""
    trees = (ast.parse(path.read_text()) for path in (SOURCE / folder).rglob("*.py"))
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


def _text(x: float, y: float, words: str, size: int, **style: str) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="middle"{more}>{escape(words)}</text>'


def _box(x: float, y: float, width: float, colours: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width}" height="{HEIGHT}" rx="6" {colours}/>'


def _bar(y: float, words: str, below: str) -> list[str]:
    width = 3 * ACROSS + WIDTH
    box = _box(MARGIN, y, width, 'fill="#f3f3f3" stroke="#888888"')
    middle = MARGIN + width / 2
    return [box, _text(middle, y + 20, words, 15, font_weight="bold"), _text(middle, y + 37, below, 12, fill="#555555")]


def picture() -> str:
    """The picture as text."""
    found = imports()
    for folder, names in MAKES.items():
        assert classes(folder) >= {*names}, f"{folder} does not define all of {names}"
    at = {name: (MARGIN + column * ACROSS, MARGIN + (row + 1) * DOWN) for name, (column, row) in places(found).items()}
    bottom = max(y for _, y in at.values()) + DOWN
    lines = []
    for name, other in arrows(found):
        (x, y), (to_x, to_y) = at[name], at[other]
        if to_y - y == DOWN:  # to the next row
            lines.append(f"M {x + WIDTH / 2:g} {y + HEIGHT} L {to_x + WIDTH / 2:g} {to_y}")
        else:  # to the side, and then down
            side = x if to_x < x else x + WIDTH
            lines.append(f"M {side} {y + HEIGHT / 2:g} H {to_x + WIDTH / 2:g} V {to_y}")
    paths = [f'<path d="{line}" fill="none" stroke="#444444" marker-end="url(#head)"/>' for line in lines]
    boxes = []
    for name, (x, y) in at.items():
        boxes.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#e8f0fb" stroke="#3b6ea5"/>'
        )
        boxes.append(_text(x + WIDTH / 2, y + (20 if name in MAKES else 28), name, 15, font_weight="bold"))
        if name in MAKES:
            boxes.append(_text(x + WIDTH / 2, y + 37, ", ".join(MAKES[name]), 12, fill="#555555"))
    modules = [name for name in found if name not in folders(found) and name != "__init__"]
    boxes += _bar(MARGIN, "holonax", "what users import; may import from every folder")
    boxes += _bar(bottom, ", ".join(modules), "modules that every folder may import from")
    width, height = 2 * MARGIN + 3 * ACROSS + WIDTH, bottom + HEIGHT + MARGIN
    head = (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M 0 0 L 10 5 L 0 10 z" fill="#444444"/></marker></defs>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" fill="#111111">',
            "<title>The folders of holonax; an arrow points to a folder that is imported from</title>",
            head,
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *paths,
            *boxes,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
