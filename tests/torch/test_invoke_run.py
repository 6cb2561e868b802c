"""`taskd_net.mindspore.invoke_run` in torch's own LocalElasticAgent, in place of its `_invoke_run`."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.torch.cluster import SOON, await_end, kill

ROOT = Path(__file__).parents[2]


class Node:
    """The process of an agent, and the platform's file in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TASKD_", "RANK", "MASTER_"))}
        logs = {"TASKD_LOG_PATH": str(folder / "log"), "TASKD_LOG_STDOUT": "False"}
        path = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-m", "tests.torch.resets", str(folder), str(free_port("127.0.0.1"))]
        with (folder / "stderr").open("w") as stderr:
            self.process = subprocess.Popen(
                command, cwd=folder, env=kept | path | logs, stdout=subprocess.PIPE, stderr=stderr, text=True
            )

    def until(self, true: Callable[[], object]) -> None:
        """Wait for a state that no event tells of, while the agent runs."""
        give_up_at = time.monotonic() + SOON
        while not true():
            assert self.process.poll() is None and time.monotonic() < give_up_at, self.said()
            select.select([], [], [], 0.02)

    def file(self, *listed: tuple[int, str], **fields: object) -> None:
        """Replace the reset file."""
        new = self.folder / "new"
        ranks = [{"RankId": rank, "Status": status} for rank, status in listed]
        new.write_text(json.dumps({"RankList": ranks, "RetryTime": 0, **fields}))
        new.rename(self.folder / "reset.json")

    def began(self, times: int = 1) -> list[int]:
        """The processes of this start."""
        self.until(lambda: len(self._begun()) >= times)
        return self._begun()[times - 1]

    def _begun(self) -> list[list[int]]:
        path = self.folder / "begun"
        return [[*map(int, line.split())] for line in path.read_text().splitlines()] if path.exists() else []

    def end(self, rank: int, status: int = 0) -> None:
        """Let a worker end."""
        (self.folder / f"end-{rank}").write_text(f"{status}\n")

    def result(self) -> tuple[int, object]:
        """The exit status and torch's result, when no worker is left."""
        said, _ = self.process.communicate(timeout=SOON)
        await_end(*(pid for pids in self._begun() for pid in pids))
        return self.process.returncode, json.loads(said) if said else None

    def said(self) -> str:
        """Its log, and torch's."""
        return "".join(file.read_text() for file in (*self.folder.glob("log/*"), self.folder / "stderr"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node, which ends with the test. Its gate is closed until the test opens it."""
    (tmp_path / "reset.json").write_text('{"FaultFlushing": true, "RetryTime": 0}')
    made = Node(tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()
    for pids in made._begun():
        await_end(*pids)


def test_workers_to_their_end_over_a_reset_and_a_new_retry_time(node: Node) -> None:
    node.file()
    first = node.began()
    node.file((7, "unrecovered"))
    await_end(*first)
    node.file((7, "recovered"))
    second = node.began(2)
    node.file(RetryTime=1)
    await_end(*second)
    third = node.began(3)
    for rank in range(2):
        node.end(rank)
    assert node.result() == (0, {"state": "SUCCEEDED", "failures": {}}), node.said()
    assert len({*first, *second, *third}) == 6


def test_gate_and_a_worker_that_fails(node: Node) -> None:
    """torch itself ends the other one, and both are in its result."""
    node.until(lambda: "FaultFlushing is set" in node.said())
    assert not (node.folder / "begun").exists()
    node.file()
    kill(node.began()[1])
    assert node.result() == (0, {"state": "FAILED", "failures": {"0": -15, "1": -9}}), node.said()


def test_fault_of_this_node(node: Node) -> None:
    """No rank is restarted alone, though the platform allows it."""
    node.file()
    node.began()
    node.file((1, "fault"), (2, "fault"), RestartFaultProcess=True)
    assert node.result() == (1, None), node.said()
    assert len(node._begun()) == 1
