"""The walk of one acknowledged message: every function of the package on its way, by node and module.

    python -m benchmarks.walk            print it
    python -m benchmarks.walk --write    write it into docs/mesh.md; a test compares the two

One Worker sends one message over its Proxy to the Mgr, in memory, and nothing else happens meanwhile. The functions are
traced as they are called, so the walk is that of the code.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from itertools import count
from pathlib import Path
from types import FrameType

from benchmarks.way import PACKAGE, Way

MESH = Path(__file__).resolve().parents[1] / "docs" / "mesh.md"
BEGIN, END = "<!-- walk: written by `python -m benchmarks.walk --write` -->\n", "<!-- walk: end -->\n"


async def trace() -> list[tuple[str, str]]:
    """The calls of one message and its answer: module and function, in their order."""
    way = Way()
    way.connect()
    # Each message in a millisecond of its own: what is remembered of a time never depends on the machine's speed.
    milliseconds = count(1_800_000_000_000)
    time.time_ns = lambda: next(milliseconds) * 1_000_000
    # And no time passes, so that the answer times of the same messages are measured: none here.
    began = time.monotonic()
    for node in (way.mgr, way.proxy, way.worker):
        node.driver.now = lambda: began
    taker = asyncio.create_task(way.take())
    # Caches are warm, and every task sleeps where it sleeps between two messages.
    for _ in range(4):
        await way.run(1, 1)
        for _ in range(20):
            await asyncio.sleep(0)
    calls: list[tuple[str, str]] = []

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            calls.append((code.co_filename[len(PACKAGE) :], code.co_qualname))

    sys.setprofile(called)
    await way.run(1, 1)
    sys.setprofile(None)
    taker.cancel()
    way.close()
    await asyncio.sleep(0)
    return calls


def steps(calls: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Modules in the order of the walk, each with the functions that are called there in a row."""
    rows: list[tuple[str, list[str]]] = []
    for module, function in calls:
        name = function.replace(".<locals>", "")
        if not rows or rows[-1][0] != module:
            rows.append((module, []))
        if name not in rows[-1][1]:
            rows[-1][1].append(name)
    return rows


def document(calls: list[tuple[str, str]]) -> str:
    """The section of the page."""
    rooms = sorted({module for module, _ in calls})
    lines = [
        f"A message and its answer, alone on three nodes: {len(calls)} calls of functions in {len(rooms)} modules.",
        "",
        "| module | functions, in the order of their first call there |",
        "|---|---|",
    ]
    merged: dict[str, list[str]] = {}
    for module, functions in steps(calls):
        known = merged.setdefault(module, [])
        known += [name for name in functions if name not in known]
    lines += [f"| `{module}` | {', '.join(f'`{name}`' for name in names)} |" for module, names in merged.items()]
    return "\n".join(lines) + "\n"


def written(page: str, section: str) -> str:
    """The page with the section in its place."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + section + END + after


def main() -> None:
    """Print the walk, or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into docs/mesh.md")
    section = document(asyncio.run(trace()))
    if parser.parse_args().write:
        MESH.write_text(written(MESH.read_text(), section))
    else:
        print(section)


if __name__ == "__main__":
    main()
