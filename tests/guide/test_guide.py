"""docs/operators-guide.md shows the current output of the commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.guide.document import DOCUMENT, shape, shown, written
from tests.guide.situations import SITUATIONS
from tests.guide.stage import Stage

pytestmark = [
    pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout"),
    pytest.mark.timeout(180),
]


@pytest.mark.more
async def test_the_guide_shows_what_the_commands_print(tmp_path: Path) -> None:
    """Run all situations at once, because most of the time is waiting."""

    async def run(name: str) -> dict[str, str]:
        folder = tmp_path / name
        folder.mkdir()
        async with Stage(folder) as stage:
            await SITUATIONS[name](stage)
        return stage.shown

    texts: dict[str, str] = {}
    for of_one in await asyncio.gather(*map(run, SITUATIONS)):
        texts |= of_one
    in_guide = shown(DOCUMENT.read_text())
    assert set(texts) == set(in_guide), "make guide"
    for key, text in texts.items():
        assert shape(text) == shape(in_guide[key]), f"{key}: make guide"


def test_every_marker_belongs_to_a_situation() -> None:
    assert {key.partition("/")[0] for key in shown(DOCUMENT.read_text())} == set(SITUATIONS)


def test_writing_what_is_there_changes_nothing() -> None:
    page = DOCUMENT.read_text()
    assert written(page, shown(page)) == page


def test_the_shape_leaves_out_figures_and_nothing_else() -> None:
    same = [
        "├─ Proxy/0  joined  for 12 s  batched  127.0.0.1:41178  answers in 1.2/1.3e+03 ms  2 in flight",
        "├─ Proxy/0  joined  for 3 min  batched  127.0.0.1:9",
    ]
    assert len({tuple(shape(text)) for text in same}) == 1
    for other in ("├─ Proxy/0  LOST  for 12 s", "├─ Proxy/0  joined  for 12 s  tasknet", ""):
        assert shape(other) != shape(same[0])
