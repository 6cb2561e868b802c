"""Links and file names in the documents have targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents.pages import PAGES, ROOT

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout")


def prose(page: Path) -> str:
    """A document without its code blocks."""
    return re.sub(r"(?ms)^```.*?^```$", "", page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_documents_link_to_what_is_there() -> None:
    missing = []
    for page in PAGES:
        targets = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", prose(page))
        missing += [(page.name, to) for to in targets if not to.startswith("http") and not (page.parent / to).exists()]
    assert missing == []


def test_anchors_are_headings() -> None:
    missing = []
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([\w-]+)\)", page.read_text()):
            to = page.parent / target if target else page
            if to.suffix == ".md" and anchor not in anchors(to):
                missing.append((page.name, target, anchor))
    assert missing == []


def test_documents_that_the_status_page_names_are_there() -> None:
    named = {
        each
        for script in (ROOT / "taskd_net" / "faces" / "page" / "face").glob("*.js")
        for each in re.findall(r"\"(docs/[\w/-]+\.md)#([\w-]+)\"", script.read_text())
    }
    assert len(named) >= 5
    missing = [(page, anchor) for page, anchor in named if anchor not in anchors(ROOT / page)]
    assert missing == []


def test_paths_in_the_documents_are_there() -> None:
    """File names in the sentences of a document."""
    missing = []
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # of what was once there
            continue
        named = re.findall(r"`((?:taskd_net|tests|proto|deploy|examples|benchmarks|docs)/[\w./-]+)`", prose(page))
        missing += [(page.name, path) for path in named if not (ROOT / path).exists()]
    assert missing == []
