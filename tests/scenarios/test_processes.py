"""Every node a process of its own: a killed or stopped process costs the others nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from taskd_net import Code
from tests.freezing import freeze
from tests.peers.mesh import soon
from tests.scenarios.run_node import LINE_BYTES

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0


class NodeProcess:
    """A node in a process of its own (`run_node.py`).

    Args:
        kind: `mgr`, `proxy` or `worker`.
        settings: of `NodeConfig`.
        folder: that of the package.
    """

    def __init__(self, kind: str, settings: dict[str, Any], folder: Path = ROOT) -> None:
        self._folder = folder
        self.kind = kind
        self.settings = settings
        self.address = ""
        self.got: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.joined = asyncio.Event()
        self._ready = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._sent: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = count()
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process, and wait until it listens."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("run_node.py")),
            self.kind,
            json.dumps(self.settings),
            limit=LINE_BYTES,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self._folder,
            env={"PYTHONPATH": str(self._folder), "PATH": ""},
        )
        self._reader = asyncio.create_task(self._read())
        await soon(self._ready.wait(), PATIENCE_S)

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        # A killed process may leave a part of a line.
        while (line := await self._process.stdout.readline()).endswith(b"\n"):
            told = json.loads(line)
            match told["what"]:
                case "ready":
                    self.address = told["address"] or ""
                    self._ready.set()
                case "joined":
                    self.joined.set()
                case "got":
                    self.got.put_nowait(told)
                case "sent":
                    self._sent.pop(told["uuid"]).set_result(told)

    async def send(self, to: str, body: str = "x", timeout: float = 10.0) -> tuple[int, str]:
        """Send a message from it. Returns the answer's code and src, within the timeout."""
        assert self._process is not None and self._process.stdin is not None
        order = next(self._ids)
        answer = self._sent[order] = asyncio.get_running_loop().create_future()
        text = json.dumps({"id": order, "to": to, "body": body, "timeout": timeout})
        self._process.stdin.write(text.encode() + b"\n")
        started = time.monotonic()
        told = await soon(answer, PATIENCE_S)
        assert time.monotonic() - started < timeout + 1.0
        return told["code"], told["src"]

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        assert self._process is not None
        if number == signal.SIGSTOP:
            freeze(self._process.pid)
        else:
            self._process.send_signal(number)

    async def stop(self) -> None:
        """End the process in any state."""
        if self._process is None or self._reader is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await soon(self._process.wait(), PATIENCE_S)
        await soon(self._reader, PATIENCE_S)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    async def leave(self) -> int:
        """Close its input, for an orderly end. Returns the exit code."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        return await soon(self._process.wait(), PATIENCE_S)


class Job:
    """A Mgr, two Proxies and four Workers, each a process."""

    def __init__(self) -> None:
        self.mgr = NodeProcess("mgr", {"listen": "127.0.0.1:0"})
        self.proxies: list[NodeProcess] = []
        self.workers: list[NodeProcess] = []

    async def start(self) -> None:
        """Start them all and wait until they have joined."""
        await self.mgr.start()
        for rank in range(2):
            self.proxies.append(
                NodeProcess("proxy", {"server_rank": rank, "listen": "127.0.0.1:0", "upstream": self.mgr.address})
            )
        await asyncio.gather(*(proxy.start() for proxy in self.proxies))
        for rank in range(4):
            upstream = self.proxies[rank // 2].address
            self.workers.append(NodeProcess("worker", {"server_rank": rank // 2, "rank": rank, "upstream": upstream}))
        await asyncio.gather(*(worker.start() for worker in self.workers))
        for node in self.nodes:
            await soon(node.joined.wait(), PATIENCE_S)

    @property
    def nodes(self) -> list[NodeProcess]:
        """All of them."""
        return [self.mgr, *self.proxies, *self.workers]

    async def stop(self) -> None:
        """End all of them."""
        for node in self.nodes:
            await node.stop()


@pytest.fixture
async def job() -> AsyncIterator[Job]:
    """A job that has joined."""
    job = Job()
    try:
        await job.start()
        yield job
    finally:
        await job.stop()


async def test_killed_and_stopped_processes_cost_nobody_else_anything(job: Job) -> None:
    stopped, brother, _, far = job.workers
    for node in (brother, far):
        assert await node.send("Mgr/0") == (0, "Mgr/0")
        assert (await job.mgr.send("Worker/All/All"))[0] == 0
        assert await node.send("Worker/0/0") == (0, "Worker/0/0")

    # A stopped Worker: written and not answered, for every sender within its timeout. Each hop waits for less than the
    # one before it. The last one knows first, but on a busy machine its answer may come too late for those before it.
    stopped.signal(signal.SIGSTOP)
    senders = {
        job.mgr: ("Worker/0/0", "Proxy/0"),
        job.proxies[0]: ("Worker/0/0",),
        brother: ("Worker/0/0", "Proxy/0"),
        far: ("Worker/0/0", "Proxy/0", "Mgr/0", "Proxy/1"),
    }
    asked = [node.send("Worker/0/0", timeout=1.5) for node in senders]
    undisturbed = [asyncio.create_task(brother.send("Worker/1/3", timeout=5.0)) for _ in range(20)]
    for (code, src), on_the_way in zip(await asyncio.gather(*asked), senders.values(), strict=True):
        assert code == Code.NETWORK_ACK_LOST
        assert src in on_the_way
    assert await asyncio.gather(*undisturbed) == [(0, "Worker/1/3")] * 20
    # Its Proxy's pings may have detected it by now.
    seen = await job.mgr.send("Worker/All/All", timeout=2.0)
    assert seen in (
        *((Code.NETWORK_ACK_LOST, src) for src in senders[job.mgr]),
        (Code.NET_STREAM_NOT_INITED, "Proxy/0"),
    )
    stopped.signal(signal.SIGCONT)

    # A killed Proxy: its place is known, its stream is gone, and the other node notices nothing.
    job.proxies[0].signal(signal.SIGKILL)
    waits = asyncio.create_task(brother.send("Mgr/0", timeout=2.0))
    deadline = time.monotonic() + PATIENCE_S
    while (answer := await job.mgr.send("Worker/0/1", timeout=1.0)) != (Code.NET_STREAM_NOT_INITED, "Mgr/0"):
        assert answer[0] in (Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST)
        assert time.monotonic() < deadline
    assert (await far.send("Worker/0/1", timeout=1.0)) == (Code.NET_STREAM_NOT_INITED, "Mgr/0")
    assert await far.send("Worker/1/2") == (0, "Worker/1/2")
    assert await far.send("Mgr/0") == (0, "Mgr/0")
    assert (await waits)[0] in (Code.NET_STREAM_NOT_INITED, Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST)

    # A new one on its port: all nodes below rejoin by themselves.
    again = NodeProcess("proxy", job.proxies[0].settings | {"listen": job.proxies[0].address})
    await job.proxies[0].stop()
    job.proxies[0] = again
    await again.start()
    for worker in ("Worker/0/0", "Worker/0/1"):
        deadline = time.monotonic() + PATIENCE_S
        while (await job.mgr.send(worker, timeout=2.0))[0]:
            assert time.monotonic() < deadline
    assert await brother.send("Mgr/0") == (0, "Mgr/0")


async def test_stopped_parent_and_a_worker_that_leaves(job: Job) -> None:
    """No send waits longer than its timeout, also upwards into a stopped process."""
    job.proxies[0].signal(signal.SIGSTOP)
    worker, brother, far, _ = job.workers
    code, src = await worker.send("Mgr/0", timeout=0.5)
    assert (code, src) == (Code.NETWORK_ACK_LOST, "Proxy/0")
    assert await job.mgr.send("Proxy/0", timeout=0.5) == (Code.NETWORK_ACK_LOST, "Proxy/0")
    assert await job.mgr.send("Worker/0/0", timeout=0.5) == (Code.NETWORK_ACK_LOST, "Proxy/0")
    assert await far.send("Mgr/0", timeout=0.5) == (0, "Mgr/0")
    job.proxies[0].signal(signal.SIGCONT)
    deadline = time.monotonic() + PATIENCE_S
    while (await brother.send("Mgr/0", timeout=2.0))[0]:
        assert time.monotonic() < deadline

    # An orderly end takes effect at once.
    assert await worker.leave() == 0
    assert await job.mgr.send("Worker/0/0", timeout=5.0) == (Code.NET_STREAM_NOT_INITED, "Proxy/0")
    assert await brother.send("Mgr/0") == (0, "Mgr/0")
