"""A hook of MkDocs: files of the repository outside `docs/` that a document links to become pages of the site.

A Markdown file becomes a page, README.md the first one. Any other file becomes a page with its text, and a folder a
page with its files. So the site is whole without a forge, and a link to a missing file fails the build.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
ALWAYS: Final = ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "SECURITY.md")
"""Pages that the navigation names; the others follow from links."""
BELOW: Final = "repository"
"""The folder of the site for all of these but README.md."""
LANGUAGES: Final = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".json": "json", ".proto": "protobuf"}

_LINK: Final = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
_FENCED: Final = re.compile(r"(?ms)(^```.*?^```$)")
_CITED: Final = re.compile(r"docs/contract\.md,\s+section\s+(\d)")
_RENDERED: Final = re.compile(r'href="([\w./-]+\.md)((?:#[\w-]*)?)"')


def place(path: Path) -> str:
    """The source path in the site, from `docs/` on, of a file of the repository.

    Args:
        path: absolute.
    """
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    if name == "README.md":
        return "index.md"
    return f"{BELOW}/{name}" if path.suffix == ".md" else f"{BELOW}/{name}.md"


def targets(markdown: str, folder: Path) -> Iterator[Path]:
    """The files and folders of the repository that a document links to.

    Args:
        markdown: its text.
        folder: the one that its links are relative to.
    """
    for part in _FENCED.split(markdown)[::2]:
        for _, link, _ in _LINK.findall(part):
            found = (folder / link).resolve()
            if found.is_relative_to(ROOT) and found.exists():
                yield found


def placed(markdown: str, path: Path) -> str:
    """A document with its links to places of the site. A link without a target stays, for MkDocs to find.

    Args:
        markdown: its text.
        path: its file in the repository.
    """
    here = Path(place(path)).parent

    def moved(link: re.Match[str]) -> str:
        found = (path.parent / link[2]).resolve()
        if not found.is_relative_to(ROOT) or not found.exists():
            return link[0]
        return f"{link[1]}{os.path.relpath(place(found), here)}{link[3]}"

    parts = _FENCED.split(markdown)
    return "".join(part if number % 2 else _LINK.sub(moved, part) for number, part in enumerate(parts))


def anchors(markdown: str) -> list[str]:
    """The anchors of the headings below the title, as a forge and the site make them."""
    headings: list[str] = re.findall(r"(?m)^##+ (.*)$", markdown)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def shown(path: Path) -> str:
    """The page of a file that is not Markdown, or of a folder; the search leaves it out."""
    name = path.relative_to(ROOT).as_posix()
    head = f"---\nsearch:\n  exclude: true\n---\n# {name}\n\n"
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.is_file() and not one.name.startswith("."))
        return head + "".join(f"- [{one.name}]({path.name}/{one.name})\n" for one in files)
    return f"{head}````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text('utf-8')}\n````\n"


def brought() -> dict[str, Path]:
    """Every file and folder outside `docs/` that the site needs, by its source path there."""
    waiting = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ALWAYS)]
    found: dict[str, Path] = {}
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if not path.is_relative_to(DOCS):
            found[place(path)] = path
        if path.suffix == ".md" or path.is_dir():
            text = shown(path) if path.is_dir() else path.read_text("utf-8")
            waiting += targets(text, path.parent)
    return found


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what lies outside `docs/`."""
    from mkdocs.structure.files import File

    for uri, path in brought().items():
        text = path.read_text("utf-8") if path.suffix == ".md" else shown(path)
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of a page lead to places of the site."""
    path = brought().get(page.file.src_uri, DOCS / page.file.src_uri)
    return placed(markdown, path)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of docstrings, which are relative to `docs/`, lead to pages."""
    if "doc-contents" not in html:
        return html

    def moved(link: re.Match[str]) -> str:
        file: Any = files.get_file_from_path(link[1])
        if file is None:
            raise FileNotFoundError(f"{page.file.src_uri}: a docstring links to {link[1]}, which is not in docs/")
        return f'href="{file.url_relative_to(page.file)}{link[2]}"'

    def linked(citation: re.Match[str]) -> str:
        return f'<a href="{contract.url_relative_to(page.file)}#{sections[citation[1]]}">{citation[0]}</a>'

    contract: Any = files.get_file_from_path("contract.md")
    sections = {anchor[0]: anchor for anchor in anchors((DOCS / "contract.md").read_text("utf-8"))}
    return _CITED.sub(linked, _RENDERED.sub(moved, html))
