"""Two Managers of one job with its state in etcd, at fixed addresses: one leads, and the other one stands by."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from taskd_net import Node, NodeConfig, Position
from taskd_net.base.address import Address
from taskd_net.base.states import State
from taskd_net.observe.client import AskFailed, NodeClient, ask_health
from taskd_net.observe.document import Document
from tests.cli.processes import PATIENCE_S, Command, run
from tests.etcd.server import Member
from tests.manager.cluster import Leaf
from tests.ports import free_port

RESTARTS = 1_000
"""Restarts that the job has: more than rounds of a test."""

LOOK_S = 0.02
"""Seconds between two looks at the tree."""

BACK_S = 30.0
"""Seconds until all nodes are back, on a busy machine."""


class MortalMgr(Command):
    """`taskd-net mgr` that kills itself at a point.

    Args:
        point: the number of boundaries of messages until then; 0: it lives.
        arguments: of the command.
        shift: seconds by which its host's clock differs.
    """

    def __init__(self, point: int, *arguments: object, shift: float = 0.0) -> None:
        self.program = ("-m", "tests.etcd.killed", str(point))
        super().__init__("mgr", *arguments, env={"CLOCK_SHIFT_S": str(shift)})


class Managers:
    """Two Mgrs, each of which may be killed and started again at its address.

    Args:
        members: of etcd.
        folder: for logs.
    """

    def __init__(self, members: Sequence[Member], folder: Path) -> None:
        self._state = f"etcd://{','.join(each.address for each in members)}/taskd/J"
        self._folder = folder
        self._stack = AsyncExitStack()
        self._running: list[MortalMgr | None] = [None, None]
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]

    @property
    def upstream(self) -> str:
        """Both addresses, as a Proxy takes them."""
        return ",".join(self.addresses)

    async def __aenter__(self) -> Managers:
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start(self, which: int, point: int = 0, shift: float = 0.0) -> None:
        """Start one of them, and wait until it answers health.

        Args:
            which: 0 or 1.
            point, shift: as for `MortalMgr`.
        """
        listen, logs = self.addresses[which], self._folder / f"mgr-{which}"
        settings = ("--job-id", "J", "--expect", "2x4", "--state", self._state)
        mgr = MortalMgr(point, "--listen", listen, "--log-path", logs, *settings, shift=shift)
        self._running[which] = await self._stack.enter_async_context(mgr)
        address = Address.parse(listen)
        async with asyncio.timeout(PATIENCE_S):
            while mgr.alive:
                try:
                    if await ask_health(address, "liveness", PATIENCE_S) == "SERVING":
                        return
                except AskFailed:
                    await asyncio.sleep(LOOK_S)

    def of(self, which: int) -> MortalMgr:
        """The process of one of them."""
        found = self._running[which]
        assert found is not None, "started"
        return found

    async def leads(self, which: int) -> float:
        """Wait until one of them leads; returns the time (`time.monotonic`)."""
        await self.of(which).said(r"\bleads\s")
        return time.monotonic()

    async def document(self) -> Document:
        """The document of the job, of the Mgr that leads."""
        for address in self.addresses:
            _, output, _ = await run("job", "--at", address, "--json")
            found: Document = json.loads(output or "{}")
            if (leader := found.get("leader")) and leader["name"] == address:
                return found
        raise AssertionError("nobody leads")

    async def round_over(self) -> None:
        """Wait until the Manager that leads has no round under way."""
        while True:
            for address in self.addresses:
                with contextlib.suppress(AskFailed):  # it was killed, or stands by
                    async with NodeClient(Address.parse(address), PATIENCE_S) as client:
                        view = await client.job()
                    if view.leader.decides and not any(each.owner for each in view.streams):
                        return
            await asyncio.sleep(LOOK_S)

    def kill(self, which: int) -> float:
        """Kill one of them; returns the time."""
        self.of(which).signal(signal.SIGKILL)
        return time.monotonic()

    async def back(self, which: int, expected: int) -> float:
        """Wait until so many nodes below a Mgr have joined; returns the time."""
        async with asyncio.timeout(BACK_S), NodeClient(Address.parse(self.addresses[which]), BACK_S) as client:
            while True:
                try:
                    nodes = (await client.mesh()).nodes
                except AskFailed:
                    nodes = []
                below = [status.state for position, status in nodes if position != Position.mgr()]
                if len(below) >= expected and set(below) == {State.JOINED}:
                    return time.monotonic()
                await asyncio.sleep(LOOK_S)


class Job:
    """Two Proxies as processes, and below each an Agent and four Workers.

    Attributes:
        agents: by rank, which have not registered.
        workers: in pairs below one Proxy.
        size: number of nodes below the Mgr.
    """

    def __init__(self) -> None:
        self.agents: list[Leaf] = []
        self.workers: list[Node] = []
        self.size = 0

    @classmethod
    @asynccontextmanager
    async def below(cls, managers: Managers, folder: Path) -> AsyncIterator[Job]:
        """Run them below two Mgrs."""
        job = cls()
        async with AsyncExitStack() as stack:
            for rank in range(2):
                listen = f"127.0.0.1:{free_port()}"
                logs = ("--log-path", folder / f"proxy-{rank}")
                proxy = Command(
                    "proxy", "--upstream", managers.upstream, "--server-rank", rank, "--listen", listen, *logs
                )
                await stack.enter_async_context(proxy)
                configs = [NodeConfig.agent(server_rank=rank, upstream=listen)]
                configs += [
                    NodeConfig.worker(server_rank=rank, rank=rank * 4 + number, upstream=listen) for number in range(4)
                ]
                nodes = [await stack.enter_async_context(Node(config)) for config in configs]
                job.agents.append(Leaf(nodes[0], str(RESTARTS)))
                job.workers += nodes[1:]
                job.size += 1 + len(nodes)
            for node in (*(each.node for each in job.agents), *job.workers):
                await node.joined(PATIENCE_S)
            yield job
