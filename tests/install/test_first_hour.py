"""docs/first-hour.md is the transcript of a new user's first hour, which `make first-hour` plays.

`pytest -m first_hour tests/install --rewrite-hour` writes it again.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.documents.pages import PAGES, ROOT
from tests.guide.document import shape, shown, written
from tests.install import first_hour
from tests.install.newcomer import Newcomer

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout")

DOCUMENT: Final = ROOT / "docs" / "first-hour.md"


def plain(line: str) -> str:
    """A line without its numbers, and without the folder of the version before."""
    return re.sub(r"\d+|PID", "#", line.replace("before/dist/", "").replace(" --http-port 8080", ""))


@pytest.mark.first_hour
@pytest.mark.timeout(3600)
def test_a_new_user_gets_through_the_first_hour(request: pytest.FixtureRequest) -> None:
    with Newcomer() as user:
        texts = first_hour.play(user)
    page = DOCUMENT.read_text()
    if request.config.getoption("--rewrite-hour"):
        DOCUMENT.write_text(written(page, texts, "text"))
        return
    in_page = shown(page)
    for name, text in texts.items():
        assert shape(text) == shape(in_page[name]), f"{name}: make first-hour ARGS=--rewrite-hour"


def test_page_has_each_chapter_once_and_in_order() -> None:
    page = DOCUMENT.read_text()
    assert list(shown(page)) == [chapter.__name__.replace("_", "-") for chapter in first_hour.CHAPTERS]
    assert written(page, shown(page), "text") == page


def test_lines_of_the_transcript_stand_in_the_documents() -> None:
    pages = (first_hour.README, first_hour.TUTORIAL, first_hour.DEPLOY, first_hour.UPGRADE)
    known = {plain(line) for page in pages for line in first_hour.lines(page, "", "sh", "")}
    known |= {plain(line) for page in pages for line in re.findall(r"`([^`\n]+)`", (ROOT / page).read_text())}
    known |= {plain(line) for line in (*first_hour.OWN, "cd taskd_net", "cd ..")}
    typed = [line for text in shown(DOCUMENT.read_text()).values() for line in re.findall(r"(?m)^\$ (.*)$", text)]
    assert len(typed) > 30
    assert [line for line in typed if plain(line) not in known] == []


def test_lines_below_a_heading_come_without_comments() -> None:
    shown_lines = first_hour.lines(first_hour.README)
    assert "make demo" in shown_lines and not any("# " in line for line in shown_lines)
    assert first_hour.line(first_hour.DEPLOY, "Kubernetes", "kubectl kustomize").endswith("overlays/full")
