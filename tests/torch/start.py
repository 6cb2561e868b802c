"""Nodes that start torchrun as the documents of TaskD and Elastic-Agent have it: with a line in torch's run.py."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import taskd
from tests.torch.cluster import SOON

COMPAT: Final = Path(taskd.__file__).parents[1]

SITE: Final = """\
import importlib.util
import sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch.distributed.run":
            return importlib.util.spec_from_file_location(name, {copy!r})


sys.meta_path.insert(0, Finder)
"""
"""Has Python take the copy for torch's own module."""


class Pod:
    """One node: a folder with files of a user, in which the script `start.sh` runs, and with torch's `run.py`.

    Args:
        folder: of the node.
        rank: of the node.
        variables: those of the platform.
        files: their texts by name.
    """

    def __init__(self, folder: Path, rank: int, variables: Mapping[str, str], files: Mapping[str, str]) -> None:
        self.folder = folder
        folder.mkdir()
        shutil.copy(torchs_own(), folder / "run.py")
        for name, text in files.items():
            (folder / name).write_text(text)
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(SITE.format(copy=str(folder / "run.py")))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TASKD_", "RANK", "MASTER_"))}
        self.environment = kept | {
            **variables,
            "RANK": str(rank),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{folder / 'site'}:{COMPAT}:{COMPAT.parent}",
            "PYTHONWARNINGS": "ignore",
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        """Run the start script."""
        with (self.folder / "said").open("a") as said:
            process = subprocess.Popen(
                ["bash", "start.sh"],
                cwd=self.folder,
                env=self.environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def said(self) -> str:
        """The output of the script."""
        return (self.folder / "said").read_text()

    def pids(self) -> list[int]:
        """The training processes that have begun so far."""
        path = self.folder / "began"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def log(self) -> str:
        """The log files."""
        return "".join(path.read_text() for path in (self.folder / "taskd_log").glob("*.log"))

    def close(self) -> None:
        """End all that the script has started."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def torchs_own() -> Path:
    """torch's module `run`."""
    found = find_spec("torch.distributed.run")
    assert found is not None and found.origin is not None
    return Path(found.origin)


def until(true: Callable[[], object], *pods: Pod) -> None:
    """Wait for a state that no event tells of, while the scripts run."""
    give_up_at = time.monotonic() + SOON
    while not true():
        runs = all(pod.processes[-1].poll() is None for pod in pods)
        assert runs and time.monotonic() < give_up_at, [pod.said() + pod.log() for pod in pods]
        select.select([], [], [], 0.02)
