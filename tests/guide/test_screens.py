"""The pictures of `top` and `tree` in the documents show the current output of the commands."""

from __future__ import annotations

import re

import pytest

from tests.guide.screens import FOLDER, pictures, texts

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the documents are part of a checkout")


@pytest.mark.parametrize("name", ["top.svg", "tree.svg"])
def test_pictures_show_what_the_commands_draw(name: str) -> None:
    shown = (FOLDER / name).read_text()
    drawn = pictures()[name]
    assert texts(shown) == texts(drawn), "make guide, or python -m tests.guide.screens"
    # A page of the documents asks no other host for anything.
    for picture in (shown, drawn):
        assert set(re.findall(r"https?:[^\s'\"]*", picture)) == {"http://www.w3.org/2000/svg"}


def test_pictures_have_trouble_in_colour_and_the_headings_of_the_table() -> None:
    drawn = pictures()
    tree, top = texts(drawn["tree.svg"]), texts(drawn["top.svg"])
    assert any("Worker/2/19  LOST" in line for line in tree)
    assert any("missing of 6x8: 6:" in line for line in tree)
    assert any(line.startswith("NODE ") and " p99" in line for line in top)
    assert all("fill: #" in drawn[name] and "font-weight: bold" in drawn[name] for name in drawn)
