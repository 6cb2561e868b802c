"""The kernel's files about the cgroups of a process, of version 1 and 2."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from taskd_net.base.bounded_file import read_file

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")

FILE_BYTES: Final = 64 * 1024
"""Bytes of a file of the kernel's that is read; they have some hundred."""

READ_S: Final = 1.0
"""Seconds for the read of one."""


def content(file: Path) -> str:
    """The text of such a file; empty where it cannot be read: the process or its cgroup is gone, or there is none."""
    try:
        return read_file(file, FILE_BYTES, READ_S).data.decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def entries(file: Path) -> list[tuple[list[str], str]]:
    """The cgroups of a process: the controllers of each, none for version 2, and its path.

    Args:
        file: the `cgroup` of the process.
    """
    found = re.findall(r"^\d+:([^:\n]*):/?(.*)$", content(file), re.MULTILINE)
    return [(controllers.split(",") if controllers else [], path) for controllers, path in found]
