"""What docs/operators-guide.md shows is what the commands print today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guide.document import DOCUMENT, shape, shown, written
from tests.guide.situations import SITUATIONS
from tests.guide.stage import Stage

pytestmark = [
    pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout"),
    pytest.mark.timeout(180),
]


@pytest.mark.parametrize("name", SITUATIONS)
async def test_the_guide_shows_what_the_commands_print(name: str, tmp_path: Path) -> None:
    in_guide = {key: text for key, text in shown(DOCUMENT.read_text()).items() if key.partition("/")[0] == name}
    async with Stage(tmp_path) as stage:
        await SITUATIONS[name](stage)
    assert set(stage.shown) == set(in_guide), "make guide"
    for key, text in stage.shown.items():
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
