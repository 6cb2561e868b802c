"""The names of the programs above this process: that of its parent, of that one's parent, and so on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from taskd_net.base.untrusted import natural

PROCESSES: Final = Path("/proc")

MOST: Final = 64
"""Programs above a launcher. A wrapper of a wrapper needs ten."""

_PIDS: Final = 2**31


def names() -> tuple[str, ...]:
    """The names, the nearest first; those that this container shows. The system cuts each after 15 characters."""
    found: list[str] = []
    pid = os.getppid()
    while pid and len(found) < MOST:
        try:
            before, _, after = (PROCESSES / str(pid) / "stat").read_text(errors="replace").rpartition(")")
        except OSError:  # another user's, or gone
            break
        found.append(before.partition("(")[2])
        pid = natural(after.split()[1], _PIDS) or 0
    return tuple(found)
