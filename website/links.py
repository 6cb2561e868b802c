"""The links of the built site: every file and every anchor that a page names is there.

MkDocs checks the Markdown of the documents. This checks its HTML: the reference, links of docstrings, images, and
README.md. Pages of other hosts are not asked.

    python website/links.py build/site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

ATTRIBUTES: Final = ("href", "src")


class _Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ATTRIBUTES and value:
                self.links.append(value)


def parsed(path: Path) -> _Page:
    """A page, read."""
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def broken(site: Path) -> list[str]:
    """The broken links of a site, each with its page.

    Args:
        site: the folder of the built site.
    """
    pages = {path.resolve(): parsed(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        for link in page.links:
            split = urlsplit(link)
            if split.scheme or split.netloc:
                continue
            target = (path.parent / unquote(split.path)).resolve() if split.path else path
            if not target.is_file():
                found.append(f"{path.relative_to(site.resolve())}: {link}: there is no such file")
            elif target in pages and split.fragment and unquote(split.fragment) not in {"", *pages[target].anchors}:
                found.append(f"{path.relative_to(site.resolve())}: {link}: there is no such anchor")
    return found


def main() -> int:
    """Print the broken links. Returns the exit code: 1 if there are any, or no pages."""
    site = Path(sys.argv[1])
    number = len(list(site.rglob("*.html")))
    found = broken(site)
    print("\n".join(found) if found else f"{number} pages, no broken link")
    return 1 if found or number < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
