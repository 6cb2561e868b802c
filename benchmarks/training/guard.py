"""The program of a guardian: it ends every process that works in a folder, and then removes the folder.

It begins at the end of its input, which is that of the process that started it, however that ends. It imports nothing
of this package, so that it is small and starts fast.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.02
GRACE_S = 3.0
"""Seconds until every process has to be gone."""


def main(folder: str) -> None:
    """Wait for the end of the input, and end everything.

    Args:
        folder: without links in its path.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    until = time.monotonic() + GRACE_S
    while (left := list(inside(folder))) and time.monotonic() < until:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_S)  # a launcher may have started others meanwhile
    shutil.rmtree(folder, ignore_errors=True)


def inside(folder: str) -> Iterator[int]:
    """The processes that work in a folder."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str((path / "cwd").readlink()) == folder:
                yield int(path.name)


if __name__ == "__main__":
    main(sys.argv[1])
