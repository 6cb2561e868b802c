"""A job of one process: a Mgr with its Manager, and Agents and Workers as bare nodes of the mesh below it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

from taskd_net import Ack, Message, Node, NodeConfig, Retry
from taskd_net.base.body import Body
from taskd_net.base.vocabulary import AFTER, RESTART_ALL, RESTART_RANKS
from taskd_net.job.manager import Manager, ManagerConfig

SOON = 10.0


class Leaf:
    """An Agent or a Worker that says what a test wants it to say."""

    def __init__(self, node: Node, restarts: str = "3") -> None:
        self.node = node
        self.restarts = restarts
        self.after = ""
        """The uuid of the last 208 or 209 that it has taken."""

    async def report(self, msg_type: str, code: int, message: str = "", **extension: str) -> Ack:
        """Send a report until the Mgr has it."""
        body = Body(msg_type, code, message, extension).to_json()
        ack = await self.node.send(body, to="Mgr", retry=Retry(attempts=1000, within=SOON))
        assert ack.ok, ack
        return ack

    async def register(self, **extension: str) -> None:
        """Register as a new process, and ask for the go."""
        await self.report("REGISTER", 0, **(extension or {"Incarnation": str(uuid4())}))
        await self.report("STATUS", 201, self.restarts)

    async def fault(self, *ranks: int) -> Ack:
        """Report failed ranks."""
        message = json.dumps({"fault_ranks": list(ranks), "restart_times": -1})
        return await self.report("STATUS", 202, message, **({AFTER: self.after} if self.after else {}))

    async def command(self) -> Body:
        """The next command."""
        return (await self.take())[1]

    async def take(self) -> tuple[Message, Body]:
        """The next command, with its message."""
        async with asyncio.timeout(SOON):
            message = await self.node.receive()
        body = Body.parse(message.body)
        if body.code in (RESTART_ALL, RESTART_RANKS):
            self.after = message.uuid
        return message, body


@asynccontextmanager
async def managed(
    config: ManagerConfig, listen: str = "127.0.0.1:0", **more: object
) -> AsyncIterator[tuple[Node, Manager]]:
    """A Mgr with its Manager."""
    async with (
        Node(NodeConfig.mgr(listen=listen, confirms=True)) as node,
        Manager(node, config, **more) as manager,  # type: ignore[arg-type]
    ):
        yield node, manager


@asynccontextmanager
async def leaves(node: Node, *configs: Callable[[str], NodeConfig]) -> AsyncIterator[list[Leaf]]:
    """Nodes below a Mgr, joined."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(Node(config(node.address or ""))) for config in configs]
        for one in made:
            await one.joined(SOON)
        yield [Leaf(one) for one in made]


def agent(rank: int) -> Callable[[str], NodeConfig]:
    """The Agent of a node."""
    return lambda upstream: NodeConfig.agent(server_rank=rank, upstream=upstream)


def worker(node: int, rank: int) -> Callable[[str], NodeConfig]:
    """A Worker."""
    return lambda upstream: NodeConfig.worker(server_rank=node, rank=rank, upstream=upstream)
