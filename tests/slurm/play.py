"""A training under a launcher of this Slurm: started, looked at, hurt, and ended with its test."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.slurm.cluster import NAMES, Cluster
from tests.torch.cluster import PLAIN, SOON

RUN: Final = (sys.executable, "-m", "taskd_net.cli", "run", "--monitor-interval=0.1")
STEP: Final = ("srun", "--ntasks-per-node=1", "--output=out-%n", "--open-mode=append")


class Play:
    """Launchers of `taskd-net run` in the folder of a test, with workers that need no torch.

    Args:
        cluster: with the nodes.
        folder: of the test. The workers run in it.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self._begun: list[subprocess.Popen[bytes]] = []
        self.variables = {"TMPDIR": str(folder), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        self.variables["TASKD_STD_LOG_LEVEL"] = "INFO"  # tests read all events

    def begin(self, *command: str, node: int = 0) -> subprocess.Popen[bytes]:
        """Start a command of a user on a node. Its output goes into the file `said`."""
        self._begun.append(self.cluster.begin(node, command, self.folder / "said", self.folder, self.variables))
        return self._begun[-1]

    def srun(self, *options: str, script: Path = PLAIN, arguments: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Start a launcher on each of two nodes, with two workers each."""
        return self.begin(*STEP, "--nodes=2", *options, *RUN, "--nproc-per-node=2", str(script), *arguments)

    def batch(self, *lines: str, options: tuple[str, ...] = ()) -> str:
        """Submit a script of these lines for two nodes. Returns the id of the job."""
        script = self.folder / "batch.sh"
        script.write_text("\n".join(["#!/bin/bash", *lines]) + "\n")
        command = ["sbatch", "--parsable", "--nodes=2", "--ntasks-per-node=1", "--output=batch", "--open-mode=append"]
        done = self.begin(*command, *options, str(script))
        assert done.wait(SOON) == 0, self.said("said")
        return self.said("said").split()[-1]

    def said(self, *names: str) -> str:
        """The text of files of the folder; of all outputs without a name."""
        paths = [self.folder / name for name in names] or sorted(
            path for path in self.folder.iterdir() if path.name.startswith(("out", "said", "batch"))
        )
        return "".join(path.read_text(errors="replace") for path in paths if path.exists())

    def until(self, true: Callable[[], object], seconds: float = SOON) -> None:
        """Wait until a condition holds."""
        give_up_at = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < give_up_at, f"{self.said()}\n{self.cluster.ask('squeue')}\n{self.cluster.words()}"
            select.select([], [], [], 0.05)

    def until_said(self, text: str, name: str, seconds: float = SOON) -> None:
        """Wait until a file has a text."""
        self.until(lambda: text in self.said(name), seconds)

    def workers(self, restarts: int, world: int = 4, since: int = 0) -> dict[int, int]:
        """The pids of all workers by rank, when all have begun after so many starts.

        Args:
            restarts: number of starts of all before.
            world: number of ranks.
            since: characters of each node's output before which nothing counts.
        """
        found: dict[int, int] = {}

        def begun() -> bool:
            texts = [self.said(f"out-{node}")[since:] for node in range(len(NAMES))]
            lines = [line.split() for text in texts for line in text.splitlines()]
            of_world = [each for each in lines if len(each) == 6 and each[3:5] == [str(world), str(restarts)]]
            found.clear()
            found.update({int(each[1]): int(each[0]) for each in of_world})
            return len(found) == world

        self.until(begun)
        return found

    def placed(self, node: int) -> str:
        """The last line of a launcher about its place."""
        return [line for line in self.said(f"out-{node}").splitlines() if "node_placed" in line][-1]

    def launcher(self, node: int) -> int:
        """The launcher on a node."""
        (found,) = (pid for pid in self.cluster.pids(node) if RUN[2:4] == _words(pid)[2:4] and "mgr" not in _words(pid))
        return found

    def kill(self, pid: int) -> None:
        """End a process as a crash does."""
        os.kill(pid, signal.SIGKILL)

    def finish(self) -> None:
        """Let all workers succeed."""
        for rank in range(4):
            (self.folder / f"end-{rank}").write_text("0\n")

    def job(self) -> str:
        """The id of the only job."""
        (found,) = self.cluster.ask("squeue", "--noheader", "--format=%A").split()
        return found

    def about(self, job: str, name: str) -> str:
        """A field of Slurm's about a job."""
        found = re.search(rf"\b{name}=(\S+)", self.cluster.ask("scontrol", "show", "job", job))
        return found[1] if found else ""

    def close(self) -> None:
        """End all jobs and commands of the test, and check that no process of theirs is left."""
        self.cluster.ask("scancel", "--user=root")
        for process in self._begun:
            if process.poll() is None:
                process.terminate()
        for process in self._begun:
            process.wait(SOON)
        self.cluster.until_idle(SOON)
        self.until(lambda: not self.cluster.jobs(), 20.0)


def _words(pid: int) -> tuple[str, ...]:
    """The command of a process; empty where it has gone."""
    try:
        return tuple(Path(f"/proc/{pid}/cmdline").read_text().split("\0"))
    except OSError:
        return ()
