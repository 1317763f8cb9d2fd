"""A page that tells of a result: one HTML file that needs no network, light and dark, for screen and paper.

The parts are plain text, and are escaped here: names are the user's, and may hold anything.
"""

from __future__ import annotations

import html
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np

from holonax.report.look import SCRIPT, STYLE
from holonax.version import __version__


def made_with() -> dict[str, str]:
    """What a result depends on besides its parameters."""
    return {
        "holonax": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "backend": jax.default_backend(),
    }


@final
@dataclass(frozen=True)
class Drawn:
    """A figure of a page.

    Attributes:
        name: its name on the page and on disk.
        svg: the figure itself, as `style.as_svg` gives it.
        caption: what it shows; its first sentence is printed bold.
        wide: whether it takes the whole width of the page.
    """

    name: str
    svg: str
    caption: str
    wide: bool = False


@final
@dataclass(frozen=True)
class Numbers:
    """A table of a page, which sorts when its heads are clicked.

    Attributes:
        name: its name on the page.
        title: above the table.
        columns: the heads.
        rows: cells as text, or as (text, value) where a number is to be sorted by its value.
        folded: whether it is opened by a click only.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | tuple[str, float]]]
    folded: bool = False


@final
@dataclass(frozen=True)
class Sheet:
    """All that is on a page.

    Attributes:
        title: what was done.
        headline: what came of it, in one or two sentences.
        lead: more sentences, each a line.
        facts: numbers worth seeing at once, as (number, what it is).
        figures: in a grid.
        tables: below the figures.
        notes: what a reader must know.
        code: what to type to get the page again.
        specification: all parameters, printed as `key: value`.
        frame: another page to embed, such as the viewer of the run.
    """

    title: str
    headline: str
    lead: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    figures: Sequence[Drawn] = ()
    tables: Sequence[Numbers] = ()
    notes: Sequence[str] = ()
    code: str = ""
    specification: Mapping[str, Any] = field(default_factory=dict)
    frame: str = ""

    def html(self) -> str:
        """The page."""
        text = html.escape
        lead = "".join(f"<li>{text(line)}</li>" for line in self.lead)
        facts = "".join(f"<div><dt>{text(what)}</dt><dd>{text(number)}</dd></div>" for number, what in self.facts)
        notes = "".join(f"<li>{text(note)}</li>" for note in self.notes)
        parts = [
            f"<header><p class='kicker'>{text(self.title)}</p><h1>{text(self.headline)}</h1>",
            f"<ul class='lead'>{lead}</ul>" if lead else "",
            "</header>",
            f"<dl class='facts'>{facts}</dl>" if facts else "",
            f"<aside class='notes'><h2>To know</h2><ul>{notes}</ul></aside>" if notes else "",
            _frame(self.frame),
            f"<section class='figures'>{''.join(map(_figure, self.figures))}</section>" if self.figures else "",
            "".join(map(_table, self.tables)),
            self._repeat(),
        ]
        return (
            "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            "<meta name='color-scheme' content='light dark'>"
            f"<title>{text(self.title)}</title><link rel='icon' href='data:,'><style>{STYLE}</style></head>"
            f"<body><main>{''.join(parts)}</main><script>{SCRIPT}</script></body></html>\n"
        )

    def _repeat(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(str(key))}</td><td>{html.escape(str(value))}</td></tr>"
            for key, value in self.specification.items()
        )
        code = f"<pre><code>{html.escape(self.code)}</code></pre>" if self.code else ""
        made = ", ".join(f"{name} {version}" for name, version in made_with().items())
        table = f"<details><summary>All parameters</summary><table class='plain'>{rows}</table></details>"
        return (
            f"<section class='repeat'><h2>To repeat it</h2>{code}{table if rows else ''}"
            f"<p class='versions'>Made with {html.escape(made)}.</p></section>"
        )


def _figure(drawn: Drawn) -> str:
    first, stop, rest = drawn.caption.partition(". ")
    caption = f"<b>{html.escape(first + stop.strip())}</b> {html.escape(rest)}"
    wide = " class='wide'" if drawn.wide else ""
    return f'<figure id="{html.escape(drawn.name)}"{wide}>{drawn.svg}<figcaption>{caption}</figcaption></figure>'


def _table(table: Numbers) -> str:
    heads = "".join(
        f"<th aria-sort='none'><button type='button'>{html.escape(column)}</button></th>" for column in table.columns
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    inner = (
        f"<div class='scroll'><table class='sorts' id='{html.escape(table.name)}'>"
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    title = html.escape(table.title)
    if table.folded:
        return f"<details class='table'><summary>{title} ({len(table.rows)} rows)</summary>{inner}</details>"
    return f"<section class='table'><h2>{title}</h2>{inner}</section>"


def _cell(cell: str | tuple[str, float]) -> str:
    if isinstance(cell, str):
        return f"<td>{html.escape(cell)}</td>"
    text, value = cell
    return f"<td class='number' data-value='{value!r}'>{html.escape(text)}</td>"


def _frame(page: str) -> str:
    """A page within the page: it can run its own scripts, and reach nothing of this one."""
    if not page:
        return ""
    rights = "class='viewer' title='viewer of the run' sandbox='allow-scripts'"
    return f"<iframe {rights} srcdoc='{html.escape(page)}'></iframe>"
