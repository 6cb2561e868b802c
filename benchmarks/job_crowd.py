"""Simulated Agents and Workers for the measure `job`: bare nodes, and reports without nodes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Final
from uuid import uuid4

from taskd_net import Node, NodeConfig, Position, Retry
from taskd_net.base.body import Body
from taskd_net.base.vocabulary import (
    AGENT_REGISTERS,
    FAULT,
    INCARNATION,
    KEEP_ALIVE,
    MAY_I_START,
    PROFILING_STATES,
    REGISTER,
    START,
    STATUS,
    WORKER_REGISTERS,
)
from taskd_net.job.decide.events import Reported

AGENTS: Final = 1000
WORKERS: Final = 8
"""Workers of a node, of which the Manager has records."""

AGENTS_OF_A_PROXY: Final = 8
RESTARTS: Final = "3"
_BEAT: Final = json.dumps({"fault_ranks": [], "restart_times": -1})
_UNTIL_TAKEN: Final = Retry(attempts=1000, within=60.0)


class Agent:
    """A simulated Agent.

    Args:
        node: its node.
    """

    def __init__(self, node: Node) -> None:
        self.node = node

    async def report(self, msg_type: str, code: int, message: str = "", **extension: str) -> None:
        """Send a report until the Mgr has it."""
        body = Body(msg_type, code, message, extension).to_json()
        ack = await self.node.send(body, to="Mgr", retry=_UNTIL_TAKEN)
        ack.raise_for_code()

    async def begin(self, restarts: str = RESTARTS) -> None:
        """Register as a new process, and wait for the go."""
        await self.report(REGISTER, AGENT_REGISTERS, **{INCARNATION: str(uuid4())})
        await self.report(STATUS, MAY_I_START, restarts)
        while await self.command() != START:
            pass

    async def fault(self, *ranks: int) -> None:
        """Report failed ranks."""
        await self.report(STATUS, FAULT, json.dumps({"fault_ranks": ranks, "restart_times": -1}))

    async def command(self) -> int:
        """The code of the next command."""
        return Body.parse((await self.node.receive()).body).code

    async def beat(self) -> None:
        """Send a KEEP_ALIVE a second, at a time of its own, without end."""
        body = Body(KEEP_ALIVE, 0, _BEAT).to_json()
        await asyncio.sleep(int(self.node.position.server_rank) % 100 / 100)
        while True:
            await self.node.send(body, to="Mgr")
            await asyncio.sleep(1.0)


class Crowd:
    """Agents below Proxies, all in this process. None is left after `async with`.

    Args:
        upstream: address of the Mgr.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self.agents: list[Agent] = []
        self.proxies: list[Node] = []

    async def __aenter__(self) -> Crowd:
        return self

    async def __aexit__(self, *_: object) -> None:
        for nodes in ([agent.node for agent in self.agents], self.proxies):
            await asyncio.gather(*(node.close() for node in nodes))

    async def gather(self, count: int, restarts: str = RESTARTS) -> None:
        """Start Agents with this number of restarts, eight below each Proxy, until all run."""
        for first in range(0, count, AGENTS_OF_A_PROXY):
            proxy = Node(NodeConfig.proxy(server_rank=first, listen="127.0.0.1:0", upstream=self._upstream, inbox=0))
            self.proxies.append(await proxy.start())
            here = range(first, min(first + AGENTS_OF_A_PROXY, count))
            joined = [await self.agent(rank, proxy) for rank in here]
            self.agents += joined
            await asyncio.gather(*(agent.begin(restarts) for agent in joined))

    async def agent(self, rank: int, proxy: Node) -> Agent:
        """A new Agent below a Proxy, joined."""
        node = Node(NodeConfig.agent(server_rank=rank, upstream=proxy.address or ""))
        await node.start()
        await node.joined(60.0)
        return Agent(node)


def reports(agents: int, workers: int) -> Iterator[Reported]:
    """Registrations and first reports of a large job, without nodes.

    Args:
        agents: number of nodes.
        workers: Workers of each.
    """
    for rank in range(agents):
        agent = Position.agent(rank)
        yield Reported(agent, REGISTER, AGENT_REGISTERS, extension={INCARNATION: f"agent {rank}"})
        yield Reported(agent, STATUS, FAULT, _BEAT)
        for number in range(rank * workers, (rank + 1) * workers):
            worker = Position.worker(rank, number)
            yield Reported(worker, REGISTER, WORKER_REGISTERS, extension={INCARNATION: f"worker {number}"})
            yield Reported(worker, STATUS, PROFILING_STATES.start)


def fault(rank: int) -> Reported:
    """A report of a failed rank."""
    ranks = json.dumps({"fault_ranks": [rank], "restart_times": -1})
    return Reported(Position.agent(rank), STATUS, FAULT, ranks, {"REPORT_FAULT_TIME": str(int(time.time()))})


def heartbeat(rank: int) -> Reported:
    """A sign of life of an Agent."""
    return Reported(Position.agent(rank), KEEP_ALIVE, 0, _BEAT)
