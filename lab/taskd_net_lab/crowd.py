"""A mesh of many real nodes in one process, over loopback, in which something happens all the time.

Each node has its own sockets, so that `tree`, `top` and the status page show what they would show of so many processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Final, Self

from taskd_net import Node, NodeConfig, Position
from taskd_net.base.position import Role

WORKERS: Final = 8
"""Workers of one node of the job."""

AT_ONCE: Final = 16
"""Nodes that join at the same time."""

FILES_EACH: Final = 12
"""Open files of one node, at most: both ends of its connections, and the sockets that a Proxy listens at."""

FILES_BESIDE: Final = 200
"""Open files beside those of the nodes."""

MESSAGES_PER_S: Final = 50.0
"""Messages a second from random Workers to the Mgr."""

BODY: Final = "x" * 200


@dataclass(frozen=True, slots=True)
class Happening:
    """One change in the mesh, for people.

    Attributes:
        position: the node.
        words: the change.
    """

    position: Position
    words: str


def positions(nodes: int) -> list[Position]:
    """The positions of so many nodes, parents first: a Mgr, then a Proxy, an Agent and eight Workers in turn."""
    found = [Position.mgr()]
    rank = 0
    while len(found) < nodes:
        workers = range(rank * WORKERS, (rank + 1) * WORKERS)
        found += [Position.proxy(rank), Position.agent(rank), *(Position.worker(rank, each) for each in workers)]
        rank += 1
    return found[:nodes]


def allow_files(nodes: int) -> int | None:
    """Raise the limit on open files for so many nodes. Returns the limit where it is too low, else None."""
    wanted = nodes * FILES_EACH + FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft if soft != resource.RLIM_INFINITY and soft < wanted else None


class Crowd:
    """The mesh. As a context it is ended with all its nodes.

    Args:
        nodes: how many, at least 3.
        listen: address of the Mgr.
        seed: of the choice of nodes.
        said: called for each change.
    """

    def __init__(self, nodes: int, listen: str, seed: int, said: Callable[[Happening], None]) -> None:
        self.positions = positions(nodes)
        self._listen = listen
        self._chance = random.Random(seed)  # noqa: S311 - the same story for the same seed
        self._said = said
        self._nodes: dict[Position, Node] = {}
        # Of the nodes that listen: a lost Proxy comes back at its own.
        self._addresses: dict[Position, str] = {}
        self._readers: dict[Position, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def expected(self) -> str | None:
        """The size of the job, as `--expect` has it: its whole nodes; None if there is none."""
        whole = len(self._workers()) // WORKERS
        return f"{whole}x{WORKERS}" if whole else None

    @property
    def mgr(self) -> Node:
        """The root of the mesh, once it has started."""
        return self._nodes[Position.mgr()]

    async def __aenter__(self) -> Self:
        await self._start(Position.mgr())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in (*self._tasks, *self._readers.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._readers.values(), return_exceptions=True)
        leaves = [position for position in self._nodes if Role(position.role).is_leaf]
        above = [position for position in reversed(self._nodes) if position not in leaves]
        await asyncio.gather(*(self._nodes[position].close() for position in leaves))
        for position in above:
            await self._nodes[position].close()

    async def join(self) -> None:
        """Start all nodes below the Mgr, and wait until the Mgr knows the way to each."""
        proxies = [position for position in self.positions if position.role == Role.PROXY]
        leaves = [position for position in self.positions if Role(position.role).is_leaf]
        for some in (proxies, leaves):
            for at in range(0, len(some), AT_ONCE):
                await asyncio.gather(*(self._join(position) for position in some[at : at + AT_ONCE]))

    def begin(self, pause: float) -> None:
        """Begin with messages and changes, until the end of the context.

        Args:
            pause: seconds between two changes.
        """
        self._tasks += [asyncio.create_task(self._talk()), asyncio.create_task(self._happen(pause))]

    async def wait(self) -> None:
        """Wait until something fails."""
        await asyncio.gather(*self._tasks)

    async def _join(self, position: Position) -> None:
        await self._start(position)
        await self._nodes[position].joined()

    async def _start(self, position: Position) -> None:
        node = self._nodes[position] = Node(self._config(position))
        await node.start()
        if node.address is not None:
            self._addresses[position] = node.address
        self._readers[position] = asyncio.create_task(_read(node))

    def _config(self, position: Position) -> NodeConfig:
        if position.role == Role.MGR:
            return NodeConfig.mgr(listen=self._listen, expect=self.expected)
        parent = Position.mgr() if position.role == Role.PROXY else Position.proxy(position.server_rank)
        upstream = self._addresses[parent]
        if position.role == Role.PROXY:
            listen = self._addresses.get(position, "127.0.0.1:0")
            return NodeConfig.proxy(server_rank=position.server_rank, upstream=upstream, listen=listen)
        return NodeConfig(position=position, upstream=upstream)

    async def _lose(self, position: Position) -> None:
        """End a node as a crash of its process would."""
        self._readers.pop(position).cancel()
        await self._nodes[position].close(orderly=False)
        del self._nodes[position]

    async def _talk(self) -> None:
        """Let random Workers send to the Mgr."""
        while True:
            await asyncio.sleep(self._chance.expovariate(MESSAGES_PER_S))
            node = self._nodes.get(self._chance.choice(self._workers()))
            if node is not None and node.is_joined:
                await node.post(BODY, to="Mgr/0")

    def _workers(self) -> Sequence[Position]:
        return [position for position in self.positions if position.role == Role.WORKER]

    async def _happen(self, pause: float) -> None:
        """Lose a Worker, strain one, restart one, and lose a Proxy; again and again."""
        changes = (self._lost_worker, self._strained_worker, self._restarted_worker, self._lost_proxy)
        under_way: set[asyncio.Task[None]] = set()
        try:
            for number in count():
                await asyncio.sleep(pause)
                task = asyncio.create_task(changes[number % len(changes)](pause))
                under_way.add(task)
                for done in [each for each in under_way if each.done()]:
                    under_way.discard(done)
                    done.result()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _any(self, role: Role) -> Position | None:
        """A node that is there."""
        there = [position for position in self._nodes if position.role == role and position in self._readers]
        return self._chance.choice(there) if there else None

    async def _lost_worker(self, pause: float) -> None:
        if (position := self._any(Role.WORKER)) is not None:
            await self._lose(position)
            self._said(Happening(position, "lost, as if its process had been killed"))
            await asyncio.sleep(6 * pause)
            await self._back(position)

    async def _restarted_worker(self, pause: float) -> None:
        if (position := self._any(Role.WORKER)) is not None:
            await self._lose(position)
            await self._back(position)

    async def _strained_worker(self, pause: float) -> None:
        if (position := self._any(Role.WORKER)) is None:
            return
        node = self._nodes[position]
        reader = self._readers.pop(position)
        reader.cancel()
        await asyncio.wait([reader])
        for _ in range(node.config.inbox or 8):
            await self.mgr.post(BODY, to=position)
        self._said(Happening(position, "strained: it reads nothing, and its inbox is full"))
        await asyncio.sleep(max(20.0, 3 * pause))
        self._readers[position] = asyncio.create_task(_read(node))
        self._said(Happening(position, "reads again"))

    async def _lost_proxy(self, pause: float) -> None:
        if (position := self._any(Role.PROXY)) is not None:
            await self._lose(position)
            self._said(Happening(position, "lost, with all below it cut off"))
            await asyncio.sleep(2 * pause)
            await self._back(position)

    async def _back(self, position: Position) -> None:
        """Start a node again, which joins as soon as its parent is there."""
        await self._start(position)
        self._said(Happening(position, "started again"))


async def _read(node: Node) -> None:
    """Take the messages of a node, and leave them."""
    with contextlib.suppress(asyncio.CancelledError):
        async for _ in node.messages():
            pass
