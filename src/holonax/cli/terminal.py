"""What goes to the terminal: results to stdout, complaints to stderr, tables that fit, JSON."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from rich.console import Console

from holonax.cli.results import to_json

# Names are the user's: whatever is in brackets or between colons is meant as it stands.
console = Console(markup=False, emoji=False, highlight=False)
complaints = Console(markup=False, emoji=False, highlight=False, stderr=True)

_GAP = 2  # spaces between columns


def width() -> int:
    """Columns of the terminal as it is now; rich's console would keep those that were there when it was made."""
    return shutil.get_terminal_size().columns


def say(text: str) -> None:
    """Lines of a result, as they are."""
    console.print(text, soft_wrap=True)


def say_wrapped(text: str, indent: str = "") -> None:
    """A sentence, broken between words where the terminal ends."""
    lines = textwrap.wrap(text, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    say("\n".join(lines))


def complain(text: str) -> None:
    """One line on stderr, whatever characters the names in it have."""
    complaints.print("".join(c if c.isprintable() else " " for c in text), soft_wrap=True)


def show_json(record: Any) -> None:
    """The result for programs: one JSON document, and nothing else, on stdout."""
    say(to_json(record).rstrip("\n"))


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table if it fits with whole words, and its first column whole; otherwise a paragraph for each row.

    Columns without any name have no head.
    """
    if title:
        say_wrapped(title)
    widths = _widths([columns, *rows], width())
    if widths is None:
        for row in rows:
            _show_record(columns, row)
        return
    for number, row in enumerate([columns, *rows] if any(columns) else rows, 0 if any(columns) else 1):
        cells = [_wrapped(cell, room) or [""] for cell, room in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            text = (" " * _GAP).join(f"{part:<{room}}" for part, room in zip(line, widths, strict=True))
            console.print(text.rstrip(), style=None if number else "bold", soft_wrap=True)


def _widths(rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """As wide as each column would like to be, the widest made narrower as far as whole words allow; None: no room."""
    wishes = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    least = [max(len(word) for cell in cells for word in cell.split() or [""]) for cells in zip(*rows, strict=True)]
    least[0] = wishes[0]
    room -= _GAP * (len(wishes) - 1)
    if sum(least) > room:
        return None
    while sum(wishes) > room:
        widest = max((wish, column) for column, wish in enumerate(wishes) if wish > least[column])[1]
        wishes[widest] -= 1
    return wishes


def _wrapped(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, max(room, 1), break_long_words=False, break_on_hyphens=False)


def _show_record(columns: Sequence[str], row: Sequence[str]) -> None:
    """One row as a paragraph: its name, then what the columns say of it."""
    name, *cells = row
    console.print(f"{columns[0]} {name}" if name[:1].isdigit() else name, style="bold", soft_wrap=True)
    told = [f"{column} {cell}".strip() for column, cell in zip(columns[1:], cells, strict=True) if cell]
    if told:
        say_wrapped("  " + ", ".join(told), indent="  ")
