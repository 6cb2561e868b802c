"""Several ranks that rejoin: real processes, real gloo, and a Mgr that the test plays."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from taskd_net import BlockingNode, Body, NodeConfig
from tests.polling import until
from tests.torch.cluster import SOON, kill, lives

SCRIPT = Path(__file__).with_name("rejoining.py")
EPOCHS = 20
"""One end in six left a rank in a collective while gloo's connections ended in both directions at once."""

pytestmark = pytest.mark.timeout(300)


class Ranks:
    """The ranks of one node, without an Agent.

    Args:
        folder: of the test.
        world: number of ranks.
        script: arguments of the script.
    """

    def __init__(self, folder: Path, world: int, *script: str) -> None:
        self.folder, self.world, self._script = folder, world, script
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._mgr = BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")).start()
        self._parts: dict[int, tuple[str, int]] = {}
        self.processes = [self._start(rank) for rank in range(world)]

    def start_again(self, rank: int) -> None:
        self.processes[rank] = self._start(rank)

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        numbers = {
            "RANK": rank,
            "WORLD_SIZE": self.world,
            "LOCAL_WORLD_SIZE": self.world,
            "MASTER_PORT": self._store.port,
        }
        texts = {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True", "TASKD_NET_IN_PLACE": "on"}
        more = {"TASKD_NET_UPSTREAM": str(self._mgr.address), "TASKD_LOG_PATH": str(self.folder / "log")}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", str(SCRIPT), *self._script],
            env={**os.environ, **{name: str(value) for name, value in numbers.items()}, **texts, **more},
            cwd=self.folder,
        )

    def command(self, code: int, message: str, to: str = "All", reason: str = "") -> float:
        """Command something. Returns the time before."""
        began = time.monotonic()
        body = Body("ACTION", code, message, {"Reason": reason})
        ack = self._mgr.send(body.to_json(), to=f"Worker/All/{to}", timeout=SOON)
        assert ack.ok, ack
        return began

    def await_parts(self, phase: str, epoch: int, *ranks: int) -> None:
        """Wait until these ranks, or all, have reported a part."""
        while any(self._parts.get(rank) != (phase, epoch) for rank in ranks or range(self.world)):
            message = self._mgr.receive(SOON)
            body = Body.parse(message.body)
            if body.code == 301:
                self._parts[int(message.src.process_rank)] = (body.message, int((body.extension or {})["Epoch"]))

    def end(self, epoch: int = 2) -> None:
        """Let the training end in this epoch, and the processes with it."""
        (self.folder / "end").touch()
        self.await_parts("finished", epoch)
        assert [process.wait(SOON) for process in self.processes] == [0] * self.world

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._mgr.close()
        del self._store


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Ranks]:
    """Three ranks, which train in epoch 1."""
    ranks = Ranks(tmp_path, 3)
    try:
        yield begun(ranks)
    finally:
        ranks.close()


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Ranks]:
    """Two ranks of which rank 1 has left the collectives, so that rank 0 waits in one."""
    ranks = Ranks(tmp_path, 2, "--stuck=1")
    try:
        yield begun(ranks)
    finally:
        ranks.close()


def epochs(folder: Path, rank: int) -> list[tuple[int, int, str]]:
    """The epochs that a rank has trained in: process, number and reason."""
    path = folder / f"epochs-{rank}"
    return [tuple(json.loads(line).values()) for line in path.read_text().splitlines()] if path.exists() else []


def begun(ranks: Ranks) -> Ranks:
    ranks.await_parts("new", 0)
    ranks.command(302, "1", reason="start")
    ranks.await_parts("running", 1)
    asyncio.run(until(lambda: all(epochs(ranks.folder, rank) for rank in range(ranks.world)), SOON))
    return ranks


def test_survivors_of_a_killed_rank_rejoin_in_their_processes(three: Ranks) -> None:
    pids = [process.pid for process in three.processes]
    asyncio.run(until((three.folder / "stepped").exists, SOON))
    kill(pids[2])
    three.processes[2].wait()
    three.await_parts("left", 1, 0, 1)
    assert all(map(lives, pids[:2]))
    three.start_again(2)
    three.await_parts("new", 0, 2)
    three.command(302, "2", reason="rank 2 failed")
    three.await_parts("running", 2)
    three.end()
    for rank in (0, 1):
        assert epochs(three.folder, rank) == [(pids[rank], 1, "start"), (pids[rank], 2, "rank 2 failed")]
    assert epochs(three.folder, 2)[1:] == [(three.processes[2].pid, 2, "rank 2 failed")]
    first, second = zip(*((three.folder / f"steps-{rank}").read_text().split() for rank in range(3)), strict=True)
    assert set(first) == {"0"} and len(set(second)) == 1 and second[0] != "0", "the new process has a survivor's steps"


def test_rank_that_waits_in_a_collective_leaves_at_the_order(stuck: Ranks) -> None:
    asyncio.run(until((stuck.folder / "stuck").exists, SOON))
    began = stuck.command(303, "1", to="0")
    stuck.await_parts("left", 1, 0)
    # Loosely: a busy machine needs seconds, and the group's own timeout is 30 minutes.
    assert time.monotonic() - began < SOON
    assert stuck.processes[1].poll() is None, "rank 1 lives, and has closed nothing"
    kill(stuck.processes[1].pid)
    stuck.processes[1].wait()
    stuck.start_again(1)
    stuck.await_parts("new", 0, 1)
    stuck.command(302, "2", reason="rank 1 failed")
    stuck.await_parts("running", 2)
    stuck.end()
    assert [pid for pid, _, _ in epochs(stuck.folder, 0)] == [stuck.processes[0].pid] * 2


def test_order_to_all_stops_all_each_time(three: Ranks) -> None:
    """The ranks do nothing but collectives, so each end of an epoch finds other sends and receipts under way."""
    for number in range(1, EPOCHS):
        three.command(303, str(number), reason="an operator")
        three.await_parts("left", number)
        three.command(302, str(number + 1), reason="an operator")
        three.await_parts("running", number + 1)
    three.end(EPOCHS)
    assert all(len({pid for pid, _, _ in epochs(three.folder, rank)}) == 1 for rank in range(3))


def test_collective_of_which_nobody_hears_ends_at_the_timeout(tmp_path: Path) -> None:
    """Rank 1 has left the collectives, and nobody has noticed."""
    ranks = Ranks(tmp_path, 2, "--stuck=1", "--timeout=3")
    try:
        begun(ranks).await_parts("left", 1, 0)
        assert ranks.processes[1].poll() is None
    finally:
        ranks.close()


def test_survivor_that_does_not_come_back_in_time_is_restarted(tmp_path: Path) -> None:
    """Rank 0 computes without a collective, so it does not leave; rank 1 does, and keeps its process."""
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
    variables = {"MASTER_ADDR": f"{host}.1", "TASKD_NET_UPSTREAM": f"{host}.2:9602", "TASKD_LOG_PATH": str(tmp_path)}
    in_place = {"TASKD_NET_IN_PLACE": "on", "TASKD_NET_IN_PLACE_TIMEOUT": "30", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "taskd_net.cli", "run", "--mgr", "--nproc-per-node=3", f"--log-dir={tmp_path}"]
    command += ["--redirects=3", str(SCRIPT), "--stuck=0"]
    with subprocess.Popen(command, env={**os.environ, **variables, **in_place}, cwd=tmp_path) as launcher:
        try:
            asyncio.run(until((tmp_path / "stuck").exists, SOON))
            kill(epochs(tmp_path, 2)[0][0])
            asyncio.run(until(lambda: all(len(epochs(tmp_path, rank)) == 2 for rank in range(3)), 2 * SOON))
            (tmp_path / "end").touch()
            assert launcher.wait(SOON) == 0
        finally:
            launcher.kill()
    assert [len({pid for pid, _, _ in epochs(tmp_path, rank)}) for rank in range(3)] == [2, 1, 2]
    assert {epoch for rank in range(3) for _, epoch, _ in epochs(tmp_path, rank)[1:]} == {2}
