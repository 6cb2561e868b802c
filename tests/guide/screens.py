"""Pictures of `top` and `tree` for the documents: an invented mesh, drawn by the commands' own code.

`python -m tests.guide.screens` writes them; `make guide` does so, too.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from taskd_net.base.position import Position
from taskd_net.cli.mesh_lines import Line, draw
from taskd_net.cli.screen import Screen, wrapped
from taskd_net.cli.top import TopView
from taskd_net.observe.document import Document, document
from taskd_net.observe.rates import Rates
from taskd_net.observe.records import Mesh
from tests.page.meshes import Made, of_size

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "screens"
COLUMNS: Final = 110
LINES: Final = 26

# As rich's own form, without the font that it loads from another host.
_FORM: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.{unique_id}-title {{ font: bold 18px system-ui, "DejaVu Sans", sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
_TEXT: Final = re.compile(r'<text [^>]*clip-path="url\(#\w+-line-(\d+)\)">([^<]*)</text>')


def pictures() -> dict[str, str]:
    """The pictures as SVG, by the names of their files."""
    made, expected = of_size(64)
    rates = Rates()
    rates.take(_document(made, expected))
    mesh = _document(made.go_on(2.0), expected)
    top = TopView("flight", None).screen(mesh, rates.take(mesh), COLUMNS, LINES)
    return {
        "tree.svg": _picture("tree", f"taskd-net tree --expect {expected}", wrapped(draw(mesh), COLUMNS)),
        "top.svg": _picture("top", "taskd-net top --by flight", top),
    }


def texts(picture: str) -> list[str]:
    """The lines in a picture. Its geometry is that of a version of rich."""
    lines: dict[int, str] = {}
    for number, text in _TEXT.findall(picture):
        lines[int(number)] = lines.get(int(number), "") + html.unescape(text).replace("\xa0", " ")
    return [lines.get(number, "").rstrip() for number in range(max(lines) + 1)]


def _document(made: Made, expected: str) -> Document:
    nodes = [(position, status._replace(at=made.now)) for position, status in made.nodes.items()]
    return document(Mesh(Position.mgr(), made.now, expected, nodes))


def _picture(name: str, title: str, lines: Iterable[Line]) -> str:
    screen = Screen()
    screen.file, screen.record, screen.width = io.StringIO(), True, COLUMNS
    for text, style in lines:
        screen.say(text, style)
    drawn = screen.export_svg(title=title, code_format=_FORM, unique_id=name)
    return "\n".join(line.strip() for line in drawn.splitlines() if line.strip()) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, picture in pictures().items():
        (FOLDER / file).write_text(picture)
