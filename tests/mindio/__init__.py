"""A job of MindIO's: the double of its package, which has to be in the path, and training processes.

Times of the double are divided by `SPEED`; its wait for ClusterD's decision is longer than any test, unless a test is
about it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.ports import free_port

PATH: Final = Path(__file__).parent
SPEED: Final = 50
LONG_S: Final = 3600


class Job:
    """Training processes of MindIO's, and the calls of their controller.

    Args:
        folder: for files of the job.
        size: number of ranks.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size
        self.port = free_port()
        self.environment = {
            "WORLD_SIZE": str(size),
            "POD_IP": "127.0.0.1",
            "TTP_PORT": str(self.port),
            "TTP_LOG_PATH": str(folder / "logs"),
            "MINDIO_CALLS": str(folder / "calls"),
            "MINDIO_SPEED": str(SPEED),
            "MINDIO_WAIT_MINDX_TIME": str(LONG_S),
        }
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def train(self, *ranks: int) -> None:
        """Start processes; by default all."""
        environment = {**os.environ, **self.environment, "PYTHONPATH": str(PATH)}
        for rank in ranks or range(self.size):
            if rank in self._processes:
                self.kill(rank)
            (self.folder / str(rank)).unlink(missing_ok=True)
            command = [sys.executable, "-S", "-m", "mindio_ttp.processor", "127.0.0.1", str(self.port)]
            self._processes[rank] = subprocess.Popen([*command, str(rank), str(self.folder)], env=environment)

    def kill(self, rank: int) -> None:
        """Kill a process."""
        self._processes[rank].kill()
        self._processes[rank].wait()

    @property
    def states(self) -> list[str]:
        """The state of each rank in words."""
        paths = [self.folder / str(rank) for rank in range(self.size)]
        return [path.read_text() if path.exists() else "" for path in paths]

    def all_are(self, state: str) -> bool:
        """True where every rank has this state."""
        return self.states == [state] * self.size

    @property
    def calls(self) -> list[list[Any]]:
        """The calls of the controller."""
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def names(self) -> list[str]:
        """The names of the calls."""
        return [name for name, *_ in self.calls]

    def close(self) -> None:
        """Kill the processes."""
        for each in self._processes.values():
            each.kill()
            each.wait()


@contextmanager
def job(folder: Path, patch: pytest.MonkeyPatch, size: int = 4) -> Iterator[Job]:
    """A job whose package and variables this process has, without any training process."""
    made = Job(folder, size)
    patch.syspath_prepend(PATH)
    for name in ("MS_WORKER_NUM", "HIGH_AVAILABILITY", "HCCL_CONNECT_TIMEOUT", "PROCESS_RECOVER"):
        patch.delenv(name, raising=False)
    for name, value in made.environment.items():
        patch.setenv(name, value)
    patch.delenv("TORCH_AGENT_START", raising=False)
    try:
        yield made
    finally:
        made.close()
