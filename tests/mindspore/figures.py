"""Times of a launcher, and of the import of TaskD's names, in docs/mindspore.md.

    python -m tests.mindspore.figures            print the table
    python -m tests.mindspore.figures --write    write it into the document

Times are seen from outside, in the kernel's view of processes: by msrun's double, and by the real msrun where mindspore
is installed. `.venv-mindspore/bin/python`, of `make mindspore`, gives both. The run takes some two minutes.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import documents
from benchmarks.machine import caption, describe
from taskd_net_lab.demos.mindspore import names
from taskd_net_lab.demos.mindspore.stage import DOUBLE, REAL, has_mindspore
from tests.mindspore.cluster import SOON, Launched, launched

TURNS: Final = 10
PAUSE_S: Final = 0.5
"""Pause between the end and the start of a worker, longer than the end takes."""

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "mindspore.md"
COMPAT: Final = Path(__file__).parents[2] / "compat"


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table.

    Args:
        name: of the time.
        limit: that it has to keep, in ms.
        columns: times of each column in ms; none where it was not measured.
    """

    name: str
    limit: int
    columns: Sequence[Sequence[float]]


def spread(turn: int) -> None:
    """Wait, so that the turns lie anywhere between two looks of a second."""
    time.sleep(0.137 * turn % 1.0)


def clock() -> float:
    """Seconds since the start of the system, as in /proc."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def start_of(pid: int) -> float:
    """The latest possible start of a process by `clock`: the kernel rounds it down to 10 ms."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return (int(ticks) + 1) / os.sysconf("SC_CLK_TCK")


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended."""
    descriptor = os.pidfd_open(pid)
    assert select.select([descriptor], [], [], SOON)[0], pid
    os.close(descriptor)


def from_end_to_202(node: Launched, turns: int) -> list[float]:
    """From the end of a worker to the Mgr's having its 202."""
    node.report(201)
    node.command(210, "1")
    found = []
    for turn in range(1, turns + 1):
        pid = node.began(3, turn)
        spread(turn)
        began = clock()
        os.kill(pid, signal.SIGKILL)
        assert node.failed() == [3]
        found.append(clock() - began)
        node.command(209, '["3"]')
    node.began(3, turns + 1)
    return found


def from_209_to_start(node: Launched, turns: int) -> list[float]:
    """From 209 to the new process of the worker, without the pause before it."""
    node.report(201)
    node.command(210, "1")
    found = []
    for turn in range(1, turns + 1):
        node.began(3, turn)
        spread(turn)
        began = clock()
        node.command(209, '["3"]')
        found.append(start_of(node.began(3, turn + 1)) - began - PAUSE_S)
    return found


def from_reset_to_end(node: Launched, turns: int) -> list[float]:
    """From a changed reset file to the end of a worker."""
    found = []
    for turn in range(1, turns + 1):
        pid = node.began(3, turn)
        node.began(2, turn)
        spread(turn)
        began = clock()
        node.write_reset((0, "unrecovered"))
        wait_for_end(pid)
        found.append(clock() - began)
        node.write_reset((0, "recovered"))
    node.began(3, turns + 1)
    return found


LAUNCHERS: Final = (
    ("the end of a worker → its 202 at the Mgr", 100, from_end_to_202, names.AGENT),
    ("209 → the process of START_WORKER_LIST, beyond the pause", 100, from_209_to_start, names.AGENT),
    ("another `reset.json` → the end of a worker, by MSRunPlugin", 1100, from_reset_to_end, names.PLUGIN),
)


def of_launcher(
    module: str, measure: Callable[[Launched, int], list[float]], name: str, turns: int = TURNS
) -> list[float]:
    """The times of a launcher, in ms."""
    with (
        tempfile.TemporaryDirectory() as folder,
        launched(module, Path(folder), name, TASKD_NET_RESTART_PAUSE=str(PAUSE_S)) as node,
    ):
        return [seconds * 1000 for seconds in measure(node, turns)]


IMPORTS: Final = {
    "`import taskd.api`": "import taskd.api",
    "the same with a Worker's calls": "from taskd.api import init_taskd_worker, start_taskd_worker",
    "with an Agent's": "from taskd.api.taskd_agent_api import init_taskd_agent, start_taskd_agent, register_func",
    "with a Manager's": "from taskd.api import init_taskd_manager, start_taskd_manager",
}
IMPORT_LIMIT_MS: Final = 300


def of_import(line: str, turns: int = TURNS) -> list[float]:
    """The times of an import in new interpreters, in ms. The first, which compiles, does not count."""
    code = f"import time; began = time.perf_counter(); {line}; print(time.perf_counter() - began)"
    path = os.pathsep.join([str(COMPAT), str(COMPAT.parent)])
    found = []
    for _ in range(turns + 1):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": path},
            check=True,
            capture_output=True,
            text=True,
            timeout=SOON,
        )
        found.append(float(done.stdout) * 1000)
    return found[1:]


def measured(turns: int = TURNS) -> list[Figure]:
    """Measure everything."""
    modules = (DOUBLE, REAL) if has_mindspore() else (DOUBLE,)
    rows = [
        Figure(name, limit, [of_launcher(module, measure, alias, turns) for module in modules])
        for name, limit, measure, alias in LAUNCHERS
    ]
    return [*rows, *(Figure(name, IMPORT_LIMIT_MS, [of_import(line, turns)]) for name, line in IMPORTS.items())]


def table(figures: Sequence[Figure]) -> str:
    """The table in Markdown: median and greatest time."""
    lines = ["| time, ms | limit | msrun's double | msrun of mindspore |", "|---|--:|--:|--:|"]
    for figure in figures:
        cells = [f"{statistics.median(times):.0f} ({max(times):.0f})" if times else "–" for times in figure.columns]
        lines.append(f"| {figure.name} | {figure.limit:,} | {' | '.join([*cells, '–'][:2])} |")
    return "\n".join(lines)


def missed(figures: Sequence[Figure]) -> list[str]:
    """The rows whose median is above the limit."""
    return [
        figure.name
        for figure in figures
        if any(times and statistics.median(times) > figure.limit for times in figure.columns)
    ]


def main() -> None:
    """Measure, and print or write the table. Exit status 1 where a limit is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.mindspore.figures", description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/mindspore.md")
    parser.add_argument("--turns", type=int, default=TURNS, help="of each time")
    args = parser.parse_args()
    figures = measured(args.turns)
    text = f"{table(figures)}\n\nMedian, and the greatest, of {args.turns} turns. {caption(describe())}."
    print(text)
    if args.write and not documents.fill(DOCUMENT, "figures", text):
        sys.exit(f"{DOCUMENT} has no markers of the figures")
    if rows := missed(figures):
        sys.exit(f"above the limit: {'; '.join(rows)}")


if __name__ == "__main__":
    main()
