"""Check every link of a built site: those inside lead to a page, and to a place on it; those outside are addresses.

`python docs/tools/links.py out/site` prints what is wrong, and how many were looked at.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page links to, and the places on it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value is not None:
                self.links.add(value)
            elif name in ("id", "name") and value is not None:
                self.places.add(value)


page = cache(_Page)


def fault(path: Path, link: str) -> str | None:
    """What is wrong with a link of a page, if anything is."""
    url = urlsplit(link)
    if url.scheme in ("data", "mailto", "javascript"):
        return None
    if url.scheme or url.netloc:
        sound = url.scheme in ("http", "https") and "." in url.netloc and " " not in link
        return None if sound else "is no address"
    target = path.parent / unquote(url.path) if url.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return "leads nowhere"
    if url.fragment and target.suffix == ".html" and unquote(url.fragment) not in page(target.resolve()).places:
        return "leads to a place that its page does not have"
    return None


def main(site: Path) -> int:
    """Print what is wrong; 1 if anything is."""
    paths = [path.resolve() for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    links = [(path, link) for path in paths for link in sorted(page(path).links)]
    faults = [(path, link, what) for path, link in links if (what := fault(path, link))]
    for path, link, what in faults:
        print(f"{path.relative_to(site.resolve())}: {link} {what}")
    print(f"{len(links)} links on {len(paths)} pages, {len(faults)} of them wrong")
    return 1 if faults or not links else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
