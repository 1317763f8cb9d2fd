"""The gallery: a card for each of its pages, with the first picture that it draws, its title and first sentence."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image
from sphinx.util.docutils import SphinxDirective

FOLDER = "gallery/"
_SIZE = (480, 360)


class _Cards(nodes.General, nodes.Element):
    """Where the cards go, until all pages are known."""


class Cards(SphinxDirective):
    """`{cards}` on a page: the cards of all pages of the gallery."""

    def run(self) -> list[nodes.Node]:
        """A placeholder, to be filled when all pages have been read."""
        return [_Cards()]


def _pages(env: Any) -> list[str]:
    return sorted(name for name in env.all_docs if name.startswith(FOLDER) and name != f"{FOLDER}index")


def fill(app: Any, doctree: nodes.document, docname: str) -> None:
    """Write the cards."""
    for place in doctree.findall(_Cards):
        cards = [_card(app, docname, page) for page in _pages(app.env)]
        place.replace_self(nodes.raw("", f'<div class="cards">{"".join(cards)}</div>', format="html"))


def _card(app: Any, here: str, page: str) -> str:
    title = html.escape(app.env.titles[page].astext())
    first = next(app.env.get_doctree(page).findall(nodes.paragraph)).astext()
    picture = app.builder.get_relative_uri(here, page).replace(f"{Path(page).name}.html", "") + "../_static/cards/"
    return (
        f'<a class="card-of-gallery" href="{app.builder.get_relative_uri(here, page)}">'
        f'<img loading="lazy" src="{picture}{Path(page).name}.png" alt="{title}">'
        f"<b>{title}</b><span>{html.escape(first)}</span></a>"
    )


def draw(app: Any, error: Exception | None) -> None:
    """The pictures of the cards, from those of the pages."""
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "cards"
    folder.mkdir(parents=True, exist_ok=True)
    for page in _pages(app.env):
        pictures = [name for name, (users, _) in app.env.images.items() if page in users and name.endswith(".png")]
        if not pictures:
            raise RuntimeError(f"{page} draws no picture")
        _draw(Path(app.srcdir) / pictures[0], folder / f"{Path(page).name}.png")


def _draw(source: Path, target: Path) -> None:
    picture = Image.open(source).convert("RGB")
    picture.thumbnail(_SIZE)
    card = Image.new("RGB", _SIZE, "white")
    card.paste(picture, tuple((a - b) // 2 for a, b in zip(_SIZE, picture.size, strict=True)))
    card.save(target)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("cards", Cards)
    app.add_node(_Cards)
    app.connect("doctree-resolved", fill)
    app.connect("build-finished", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
