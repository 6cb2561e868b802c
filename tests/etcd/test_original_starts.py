"""Everything is killed and started again in any order: each Agent of the original gets its 210."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from taskd_net.base.body import Body
from tests.cli.processes import Command
from tests.etcd.server import ETCD, WHY_NOT, etcd_server
from tests.peers.original.node import OriginalNode
from tests.ports import free_port

pytestmark = pytest.mark.timeout(400)

NODES = 2
GAPS_MS = (0, 1, 2, 3, 4, 5)
PATIENCE_S = 60.0
LATER_S = 1.0
"""Seconds after which an Agent of the original asks for its go, and repeats a REGISTER that has failed."""


class Job:
    """A Mgr, a Proxy of ours, and below it Agents of the original, each of which may be killed and started.

    Args:
        state: of the Manager.
        folder: for logs.
    """

    def __init__(self, state: str, folder: Path) -> None:
        self._folder = folder
        self._mgr, self._proxy = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._settings = ("--job-id", "J", "--state", state)
        self._stack = AsyncExitStack()
        self.agents: list[OriginalNode] = []

    async def end(self) -> None:
        """Kill all processes."""
        await self._stack.aclose()
        self.agents.clear()

    async def start(self, what: str) -> None:
        """Start one kind of process, without waiting for it."""
        enter, logs = self._stack.enter_async_context, self._folder
        match what:
            case "Mgr":
                await enter(Command("mgr", "--listen", self._mgr, "--log-path", logs, *self._settings))
            case "Proxy":
                more = ("--upstream", self._mgr, "--log-path", logs)
                await enter(Command("proxy", "--listen", self._proxy, *more))
            case _:
                for node in range(NODES):
                    self.agents.append(await enter(OriginalNode(f"Agent/{node}", self._proxy)))

    async def go(self, agent: OriginalNode, gap_ms: int) -> None:
        """Register and ask for the go as the original's Agent does, and wait for the 210.

        A REGISTER that fails is repeated in the same moment in which the 201 is sent.
        """

        async def report(msg_type: str, code: int, message: str) -> bool:
            return (await agent.send("Mgr/0", Body(msg_type, code, message).to_json())).ok

        registering = asyncio.create_task(repeated(lambda: report("REGISTER", 0, "")))
        await asyncio.sleep(LATER_S + gap_ms / 1000)
        await repeated(lambda: report("STATUS", 201, "3"))
        await registering
        async with asyncio.timeout(PATIENCE_S):
            while Body.parse((await agent.received.get()).body).code != 210:
                pass


async def repeated(report: Callable[[], Awaitable[bool]]) -> None:
    """Send a report again, a second later, until it is answered."""
    async with asyncio.timeout(PATIENCE_S):
        while not await report():  # noqa: ASYNC110 - as the original does
            await asyncio.sleep(LATER_S)


@asynccontextmanager
async def state_of(kind: str, folder: Path) -> AsyncIterator[str]:
    """A place for the state."""
    if kind == "file":
        yield str(folder / "state")
    else:
        async with etcd_server(folder) as member:
            yield f"etcd://{member.address}/taskd/J"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["file", pytest.param("etcd", marks=pytest.mark.skipif(ETCD is None, reason=WHY_NOT))])
async def test_each_agent_of_the_original_gets_its_210(kind: str, tmp_path: Path) -> None:
    """The state is that of the job before, in which the Agents had their 210."""
    async with state_of(kind, tmp_path) as state:
        job = Job(state, tmp_path)
        gaps = itertools.cycle(GAPS_MS)
        try:
            for order in itertools.permutations(("Mgr", "Proxy", "Agents")):
                for _ in range(4 if kind == "file" else 2):
                    gap = next(gaps)
                    for what in order:
                        await job.start(what)
                        await asyncio.sleep(gap / 1000)
                    try:
                        await asyncio.gather(*(job.go(agent, gap) for agent in job.agents))
                    except TimeoutError:
                        raise AssertionError(f"no 210 after {', '.join(order)}, {gap} ms apart") from None
                    await job.end()
        finally:
            await job.end()
