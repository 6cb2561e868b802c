"""Nodes under test: a common start, checks while they run, a common end.

A `Mesh` fails its test when a Router's invariants break, or when an unexpected error is logged: by gRPC for a failed
handler, by asyncio for an unseen exception of a task, by a node for a failed request.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import pytest

from taskd_net import Message, Node, NodeConfig
from taskd_net.base.times import LinkTimes
from taskd_net.core.ready import Ready
from tests.core.invariants import check
from tests.links import memory
from tests.links.wired import wired
from tests.ports import free_address

PATIENCE_S = 10.0
"""Seconds for an immediate effect, on a busy machine."""

T = TypeVar("T")

_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


async def soon(work: Awaitable[T], timeout: float = PATIENCE_S) -> T:
    """Await something that must happen."""
    async with asyncio.timeout(timeout):
        return await work


class WatchedNode(Node):
    """A node that checks its Router after every event, and reports changes."""

    def __init__(self, config: NodeConfig, mesh: Mesh, times: LinkTimes) -> None:
        super().__init__(config, times=times)
        self._mesh = mesh
        self._carry_out, self.driver.perform = self.driver.perform, self._perform  # type: ignore[method-assign]

    def _perform(self, ready: Ready) -> None:
        self._carry_out(ready)
        try:
            check(self.driver.router)
        except AssertionError as error:
            self._mesh.broken.append(f"{self.position}: {error!r}")
        self._mesh.changed()

    async def take(self) -> Message:
        """Receive a message that must arrive."""
        return await soon(self.receive())

    async def take_all(self, count: int) -> list[str]:
        """The bodies of the next messages."""
        return [(await self.take()).body for _ in range(count)]

    async def take_until(self, count: int, body: str) -> list[Message]:
        """Receive until `count` messages with this body have come, among any others."""
        taken: list[Message] = []
        while sum(message.body == body for message in taken) < count:
            taken.append(await self.take())
        return taken

    def waiting(self) -> int:
        """Messages in the inbox."""
        return self.driver.router.gate.held

    def wait_long_for_room(self) -> None:
        """Let sync messages wait for room in the inbox for longer than 10 ms, in which a busy machine does nothing."""
        self.driver.router._delivery._wait = 25.0


class _Log(logging.Handler):
    def __init__(self, mesh: Mesh) -> None:
        super().__init__(logging.DEBUG)
        self._mesh = mesh

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.name == "taskd_net":
            fields = {key: value.strip('"') for key, value in _FIELD.findall(text)}
            self._mesh.events.append(fields)
            if record.levelno >= logging.ERROR and fields["event"] not in self._mesh.expected_errors:
                self._mesh.broken.append(text)
        elif record.levelno >= logging.ERROR and record.name.partition(".")[0] in self._mesh.heard:
            if _left_by_an_earlier_loop(record):
                return
            detail = f" {record.exc_info[1]!r}" if record.exc_info else ""
            self._mesh.broken.append(f"{record.name}: {text}{detail}")
        self._mesh.changed()


def _left_by_an_earlier_loop(record: logging.LogRecord) -> bool:
    """True for gRPC's report on a call that was cancelled with the previous test's loop.

    gRPC hands every event to the current loop, also that of a closed loop. Only tests have several loops in a process.
    """
    error = record.exc_info[1] if record.exc_info else None
    return (
        "PollerCompletionQueue._handle_events" in record.getMessage()
        and isinstance(error, RuntimeError)
        and str(error) == "Event loop is closed"
    )


both_links = pytest.mark.parametrize("mesh", ["direct", "batched", "tasknet", "mixed", "memory"], indirect=True)
"""Run a test over every kind of link, and over a mixture, in which every third node has the four calls alone."""

fast_links = pytest.mark.parametrize("mesh", ["direct", "batched"], indirect=True)
"""Run a test over both kinds of link between nodes of ours, and not over the four calls."""

batched_only = pytest.mark.parametrize("mesh", ["batched"], indirect=True)
"""Run a test over the batched link alone, where that link is its subject."""


class Mesh:
    """Every node of one test.

    Args:
        links: the best kind of link of its nodes; `mixed`: each of the three kinds in turn.

    Attributes:
        events: the log of the nodes, by field; `event` is the verb.
        expected_errors: verbs of events of level ERROR that belong to the test.
        heard: other loggers whose errors fail the test.
        broken: failures beside the test itself; must be empty at the end.
        times: of the links of nodes that start from now on.
    """

    def __init__(self, links: str = "direct") -> None:
        self._links = links
        self.nodes: list[WatchedNode] = []
        self.events: list[dict[str, str]] = []
        self.expected_errors: set[str] = set()
        self.heard = {"asyncio", "grpc"}
        self.broken: list[str] = []
        self.times = QUICK
        self._waiters: set[asyncio.Future[None]] = set()
        self._log = _Log(self)
        self._registered = contextlib.ExitStack()
        self._level = logging.NOTSET

    async def __aenter__(self) -> Mesh:
        if self._links == memory.KIND.name:
            self._registered.enter_context(memory.registered())
        self._registered.enter_context(wired())
        logger = logging.getLogger("taskd_net")
        self._level = logger.level
        logger.setLevel(logging.DEBUG)
        logging.getLogger().addHandler(self._log)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            for node in reversed(self.nodes):
                await soon(node.close())
                check(node.driver.router)
            gc.collect()
            await asyncio.sleep(0)
        finally:
            self._registered.close()
            logging.getLogger().removeHandler(self._log)
            logging.getLogger("taskd_net").setLevel(self._level)
        assert not self.broken, "\n".join(self.broken)

    def let(self, **times: float) -> None:
        """Give nodes that start from now on other times of their links, by the names of `LinkTimes`."""
        self.times = replace(self.times, **times)

    @property
    def settings(self) -> dict[str, Any]:
        """The default settings of the next node."""
        mixed = ("direct", "tasknet", "batched")[len(self.nodes) % 3]
        return {"links": mixed if self._links == "mixed" else self._links}

    async def start(self, config: NodeConfig, **times: float) -> WatchedNode:
        """Start a node, which is closed with the mesh. Its times are named as in `LinkTimes`."""
        node = WatchedNode(config, self, replace(self.times, **times))
        await node.start()
        self.nodes.append(node)
        return node

    async def mgr(self, listen: str = "", **settings: Any) -> WatchedNode:
        """Start a Mgr, at a free address unless told where."""
        times = _times(settings)
        return await self.start(NodeConfig.mgr(listen=listen or free_address(), **(self.settings | settings)), **times)

    async def proxy(
        self, rank: int, upstream: str | Node, listen: str = "", *, join: bool = True, **settings: Any
    ) -> WatchedNode:
        """Start a Proxy and, unless told otherwise, wait until it has joined."""
        times = _times(settings)
        config = NodeConfig.proxy(
            server_rank=rank,
            upstream=address_of(upstream),
            listen=listen or free_address(),
            **(self.settings | settings),
        )
        return await self._joined(await self.start(config, **times), join)

    async def agent(self, rank: int, upstream: str | Node, *, join: bool = True, **settings: Any) -> WatchedNode:
        """Start an Agent and, unless told otherwise, wait until it has joined."""
        times = _times(settings)
        config = NodeConfig.agent(server_rank=rank, upstream=address_of(upstream), **(self.settings | settings))
        return await self._joined(await self.start(config, **times), join)

    async def worker(
        self, server_rank: int, rank: int, upstream: str | Node, *, join: bool = True, **settings: Any
    ) -> WatchedNode:
        """Start a Worker and, unless told otherwise, wait until it has joined."""
        times = _times(settings)
        config = NodeConfig.worker(
            server_rank=server_rank, rank=rank, upstream=address_of(upstream), **(self.settings | settings)
        )
        return await self._joined(await self.start(config, **times), join)

    async def _joined(self, node: WatchedNode, join: bool) -> WatchedNode:
        if join:
            await node.joined(PATIENCE_S)
        return node

    def changed(self) -> None:
        """Wake all waiting conditions."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    async def until(self, true: Callable[[], object], timeout: float = PATIENCE_S) -> None:
        """Wait until a condition on a node's behaviour or log holds."""
        async with asyncio.timeout(timeout):
            while not true():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
                try:
                    await waiter
                finally:
                    self._waiters.discard(waiter)

    def count(self, event: str, **fields: object) -> int:
        """The number of logged events so far."""
        wanted = {"event": event, **{key: str(value) for key, value in fields.items()}}
        return sum(wanted.items() <= seen.items() for seen in self.events)

    async def logged(self, event: str, *, times: int = 1, timeout: float = PATIENCE_S, **fields: object) -> None:
        """Wait until an event with these fields has been logged."""
        await self.until(lambda: self.count(event, **fields) >= times, timeout)


QUICK = LinkTimes(backoff_initial=0.01, backoff_max=0.2)
"""Times of every node: short pauses, for tests with restarts."""


def _times(settings: dict[str, Any]) -> dict[str, float]:
    """Take the times out of the settings of a node."""
    return {each.name: settings.pop(each.name) for each in fields(LinkTimes) if each.name in settings}


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def address_of(upstream: str | Node) -> str:
    """The address of a parent."""
    if isinstance(upstream, str):
        return upstream
    assert upstream.address is not None
    return upstream.address
