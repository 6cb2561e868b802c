"""Sampled stacks: reading, naming, counting, and the flame graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, TypeAlias

Stacks: TypeAlias = Mapping[tuple[str, ...], int]
"""Samples by stack, outermost function first."""

WAITING: Final = ("epoll_wait", "epoll_pwait", "poll", "ppoll", "select", "pthread_cond_timedwait", "pthread_cond_wait")
LIBRARIES: Final = {"cygrpc": "gRPC, native", "libc": "libc", "libpython": "CPython", "_message": "protobuf, native"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One function's share of the samples: on top of the stack, and anywhere in it."""

    name: str
    own: float
    total: float


def read(folded: str) -> Stacks:
    """Stacks from lines of `outer;inner 17`, without waiting ones."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        frames: list[str] = []
        for name in map(_readable, stack.split(";")):
            # Anonymous functions share one name.
            if not frames or frames[-1] != name:
                frames.append(name)
        if not frames[-1].startswith(WAITING):
            stacks[tuple(frames)] += int(count)
    return stacks


def entries(stacks: Stacks) -> list[Entry]:
    """Each function's share, the largest own time first."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for frames, count in stacks.items():
        own[frames[-1]] += count
        for name in set(frames):
            total[name] += count
    samples = max(1, sum(stacks.values()))
    found = [Entry(name, own[name] / samples, total[name] / samples) for name in total]
    return sorted(found, key=lambda entry: (-entry.own, -entry.total, entry.name))


def _readable(frame: str) -> str:
    found = re.fullmatch(r"(.*?) \((.*?)(?::\d+)?\)", frame)
    if found is None:
        return frame
    function, file = found[1], found[2]
    library = file.rpartition("/")[2].partition(".")[0]
    if function.startswith("0x"):
        return LIBRARIES.get(library.removesuffix("3"), library)
    if library in LIBRARIES:
        return f"{function} ({LIBRARIES[library]})"
    # The last two parts of a path suffice.
    return f"{function} ({'/'.join(file.split('/')[-2:])})"


WIDTH, ROW, MARGIN, HEAD, FOOT = 1200, 17, 12, 46, 30
LEAST: Final = 0.001
"""Share of the samples below which a box is not drawn."""

PAPER, INK = "#fcfcfd", "#1f2933"
COLOURS: Final = {"ours": "#8ab8f0", "native": "#f0b48a", "other": "#d5dbe2"}


@dataclass(slots=True)
class _Box:
    count: int = 0
    above: dict[str, _Box] = field(default_factory=dict)


def flame_graph(stacks: Stacks, title: str, caption: str) -> str:
    """An SVG: the width of a box is its function's share of the time; it stands on its caller."""
    root = _Box()
    for frames, count in stacks.items():
        box = root
        box.count += count
        for name in frames:
            box = box.above.setdefault(name, _Box())
            box.count += count
    scale = (WIDTH - 2 * MARGIN) / max(1, root.count)
    least = root.count * LEAST
    height = HEAD + FOOT + ROW * _depth(root, least)
    body = "\n".join(_boxes(root, MARGIN, height - FOOT, scale, least))
    view = f"0 0 {WIDTH} {height}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" font-family="DejaVu Sans, sans-serif">
<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>
<text x="{MARGIN}" y="26" font-size="17" font-weight="bold" fill="{INK}">{escape(title)}</text>
<text x="{MARGIN}" y="{height - 10}" font-size="9.5" fill="#66727f">{escape(caption)}</text>
<g font-size="11" fill="{INK}" stroke="{PAPER}">
{body}
</g>
</svg>
"""


def _depth(box: _Box, least: float) -> int:
    return max((1 + _depth(above, least) for above in box.above.values() if above.count >= least), default=0)


def _boxes(box: _Box, x: float, y: float, scale: float, least: float) -> Iterator[str]:
    for name, above in sorted(box.above.items()):
        width = above.count * scale
        if above.count >= least:
            share = f"{above.count * scale / (WIDTH - 2 * MARGIN):.1%}"
            text = _fitted(name, width)
            label = f'<text x="{x + 3:.1f}" y="{y - 5:.1f}" stroke="none">{escape(text)}</text>' if text else ""
            rect = f'<rect x="{x:.1f}" y="{y - ROW:.1f}" width="{width:.1f}" height="{ROW}" fill="{_colour(name)}"/>'
            yield f"<g><title>{escape(name)}: {share}</title>{rect}{label}</g>"
            yield from _boxes(above, x, y - ROW, scale, least)
        x += width


def _fitted(name: str, width: float) -> str:
    room = int((width - 6) / 6.6)
    if room < 4:
        return ""
    return name if len(name) <= room else f"{name[: room - 1]}…"


def _colour(name: str) -> str:
    if "taskd_net/" in name or any(f"({folder}/" in name for folder in OUR_FOLDERS):
        return COLOURS["ours"]
    return COLOURS["native"] if "native" in name else COLOURS["other"]


OUR_FOLDERS: Sequence[str] = ("core", "links", "transport", "wire")
