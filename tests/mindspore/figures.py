"""Times of a launcher, for docs/mindspore.md: `python -m tests.mindspore.figures`.

Measured from outside, so each has the start or the end of a process in it: the double's, and the real msrun's where
mindspore is installed.
"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from taskd_net.demo.mindspore import names
from taskd_net.demo.mindspore.stage import DOUBLE, REAL, has_mindspore
from tests.mindspore.cluster import Launched, launched

TURNS: Final = 10
PAUSE_S: Final = 0.5


def spread(turn: int) -> None:
    """Wait, so that the turns lie anywhere between two looks of a second."""
    time.sleep(0.137 * turn % 1.0)


def from_end_to_202(node: Launched) -> list[float]:
    """From the end of a worker to the Mgr's having its 202."""
    node.report(201)
    node.command(210, "1")
    found = []
    for turn in range(1, TURNS + 1):
        pid = node.began(3, turn)
        spread(turn)
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        assert node.failed() == [3]
        found.append(time.monotonic() - began)
        node.command(209, '["3"]')
    node.began(3, TURNS + 1)
    return found


def from_209_to_start(node: Launched) -> list[float]:
    """From 209 to the beginning of the new worker, beyond the pause."""
    node.report(201)
    node.command(210, "1")
    found = []
    for turn in range(1, TURNS + 1):
        node.began(3, turn)
        spread(turn)
        began = time.monotonic()
        node.command(209, '["3"]')
        node.began(3, turn + 1)
        found.append(time.monotonic() - began - PAUSE_S)
    return found


def from_reset_to_end(node: Launched) -> list[float]:
    """From a changed reset file to the end of a worker."""
    found = []
    for turn in range(1, TURNS + 1):
        pid = node.began(3, turn)
        node.began(2, turn)
        spread(turn)
        began = time.monotonic()
        node.write_reset((0, "unrecovered"))
        while pid in node.left():
            time.sleep(0.002)
        found.append(time.monotonic() - began)
        node.write_reset((0, "recovered"))
    node.began(3, TURNS + 1)
    return found


def figures(module: str, measure: Callable[[Launched], list[float]], *modules: str) -> str:
    """Median and greatest time in ms."""
    with (
        tempfile.TemporaryDirectory() as folder,
        launched(module, Path(folder), *modules, TASKD_NET_RESTART_PAUSE=str(PAUSE_S)) as node,
    ):
        found = [seconds * 1000 for seconds in measure(node)]
    return f"{statistics.median(found):.0f} ms, at most {max(found):.0f} ms"


def main() -> None:
    """Print the rows."""
    for module in (DOUBLE, REAL) if has_mindspore() else (DOUBLE,):
        for measure, name in (
            (from_end_to_202, names.AGENT),
            (from_209_to_start, names.AGENT),
            (from_reset_to_end, names.PLUGIN),
        ):
            print(f"{module} {measure.__name__}: {figures(module, measure, name)}", flush=True)


if __name__ == "__main__":
    main()
