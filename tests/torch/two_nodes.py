"""Two launchers of one job on this machine: started, looked at, and ended with their test."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.torch.cluster import PLAIN, SOON


@dataclass
class Job:
    """`taskd-net run` on two nodes of this machine, with two workers each that need no torch.

    No launcher is left after `with`.

    Args:
        folder: of the test.
    """

    folder: Path
    host: str = field(default_factory=lambda: ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))]))
    launchers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for launcher in self.launchers.values():
            if launcher.poll() is None:
                launcher.kill()
                launcher.wait(SOON)

    def start(self, node: int, *more: str, workers: int = 2, script: Path = PLAIN) -> None:
        """Start the launcher of a node."""
        command = [sys.executable, "-m", "taskd_net.cli", "run", "--nnodes=2", f"--node-rank={node}"]
        command += [f"--master-addr={self.host}.1", f"--nproc-per-node={workers}"]
        command += ["--monitor-interval=0.1", *more, str(script)]
        own = ("TASKD_", "RANK", "MASTER_", "PET_")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        variables |= {"TASKD_NET_UPSTREAM": f"{self.host}.{10 + node}:9602", "TASKD_STD_LOG_LEVEL": "INFO"}
        variables |= {"PYTHONWARNINGS": "ignore"}
        with self.out(node).open("ab") as out:
            self.launchers[node] = subprocess.Popen(
                command, cwd=self.folder, env=variables, stdout=out, stderr=subprocess.STDOUT
            )

    def out(self, node: int) -> Path:
        return self.folder / f"out-{node}"

    def workers(self, restarts: int, world: int = 4) -> dict[int, int]:
        """The pids of all workers by rank, when all have begun after so many starts."""
        give_up_at = time.monotonic() + SOON
        while True:
            lines = [line.split() for node in (0, 1) for line in self.out(node).read_text().splitlines()]
            of_world = [each for each in lines if len(each) == 6 and each[3:5] == [str(world), str(restarts)]]
            begun = {int(each[1]): int(each[0]) for each in of_world}
            if len(begun) == world:
                return begun
            assert time.monotonic() < give_up_at, "".join(self.out(node).read_text() for node in (0, 1))
            select.select([], [], [], 0.05)

    def fail(self, rank: int, code: str) -> None:
        """Have a worker of `failing.py` execute some code."""
        (self.folder / f"fail-{rank}").write_text(f"{code}\n")

    def last_words(self, node: int) -> list[str]:
        """The lines with which a launcher has ended."""
        before, found, last = self.out(node).read_text().rpartition("taskd-net run: ")
        assert found, before
        return last.splitlines()

    def finish(self) -> None:
        """Let all workers succeed."""
        for rank in range(4):
            (self.folder / f"end-{rank}").write_text("0\n")

    def statuses(self) -> list[int]:
        """The exit statuses of the launchers."""
        return [self.launchers[node].wait(SOON) for node in (0, 1)]


def await_line(file: Path, text: str) -> None:
    """Wait until a file has a text."""
    give_up_at = time.monotonic() + SOON
    while text not in file.read_text():
        assert time.monotonic() < give_up_at, file.read_text()
        select.select([], [], [], 0.05)
