"""The program of a process of the demo: one Node, which its controller steers over stdin and stdout.

A line on stdin is a request in JSON: a method of `DemoNode`, as `do`, and its `arguments` by name. A line on stdout is
its answer, `{"value": ...}` or `{"error": "..."}`. The controller waits for each answer before the next request. The
first line on stdout comes unasked, when the Node has started. A process ends when its stdin does, so it cannot outlive
the controller, however that ends.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypedDict
from uuid import uuid4

import uvloop

from taskd_net import ConfigError, Node, NodeConfig, Position
from taskd_net.faces.page import StatusPage
from taskd_net.net.retry import repeat

LINE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one line, either way: far above a list of a thousand uuids."""

CLOSE_S: Final = 5
"""Seconds between the end of stdin and the end of the process, at the latest."""

RETRY_PAUSE_S: Final = 0.01
REACH_ATTEMPT_S: Final = 1.0


class Started(TypedDict):
    """The node has started: its address, and the time (`time.monotonic`, which is the same for all processes)."""

    address: str | None
    at: float


class Sent(TypedDict):
    """The answers to messages sent one after another, and the microseconds until each of them."""

    codes: list[int]
    us: list[float]


class Reached(TypedDict):
    """The time of a destination's acknowledgement (`time.monotonic`; None without one), and the last code."""

    at: float | None
    code: int


class DemoNode:
    """A Node, and the requests of the demo to it: its methods.

    Args:
        node: the node, which has started.
        beside: closes what is opened beside it.
    """

    def __init__(self, node: Node, beside: AsyncExitStack) -> None:
        self._node = node
        self._beside = beside
        self._received: dict[str, list[str]] = {}
        self._taken = 0
        self._took = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def join(self, timeout: float) -> None:
        """Wait until the Mgr knows the way to this node."""
        await self._node.joined(timeout)

    async def open_page(self, listen: str) -> str:
        """Serve the node's status page. Returns its URL."""
        return (await self._beside.enter_async_context(StatusPage(self._node, listen))).url

    async def send(self, to: str, mtype: str, uuids: Sequence[str]) -> Sent:
        """Send messages with these uuids, one after another."""
        sent = Sent(codes=[], us=[])
        for uuid in uuids:
            began = time.perf_counter_ns()
            ack = await self._node.send("", to=to, mtype=mtype, uuid=uuid)
            sent["us"].append((time.perf_counter_ns() - began) / 1000)
            sent["codes"].append(ack.code)
        return sent

    async def reach(self, to: Sequence[str], timeout: float) -> list[Reached]:
        """Send to all of these at once, each until its Ack."""
        return await asyncio.gather(*(self._reach(position, timeout) for position in to))

    async def pause(self) -> None:
        """Take nothing out of the inbox."""
        self._reader.cancel()
        await asyncio.wait([self._reader])

    async def resume(self) -> None:
        """Take messages out of the inbox again."""
        self._reader = asyncio.create_task(self._read())

    async def received(self) -> dict[str, list[str]]:
        """The uuids of each mtype, in order, including everything acknowledged by now."""
        while self._taken < self._node.statistics.delivered:
            self._took.clear()
            await self._took.wait()
        return self._received

    async def routes(self) -> dict[str, str]:
        """Every node below this one, with the child that leads to it."""
        return {str(position): str(hop) for position, hop in self._node.routes().items()}

    async def _read(self) -> None:
        async for message in self._node.messages():
            self._received.setdefault(message.mtype, []).append(message.uuid)
            self._taken += 1
            self._took.set()

    async def _reach(self, to: str, timeout: float) -> Reached:
        """Send one message until it is acknowledged, with one uuid, so that it arrives once."""
        until = time.monotonic() + timeout
        send = partial(self._node.send, "", to=to, mtype="reach", uuid=str(uuid4()), timeout=REACH_ATTEMPT_S)
        pauses = itertools.takewhile(lambda _: time.monotonic() < until, itertools.repeat(RETRY_PAUSE_S))
        ack = await repeat(send, pauses)
        return Reached(at=time.monotonic() if ack.ok else None, code=ack.code)


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _serve(demo: DemoNode, do: str, arguments: dict[str, object]) -> None:
    try:
        _say({"value": await getattr(demo, do)(**arguments)})
    except (TimeoutError, ValueError) as error:
        _say({"error": str(error)})


async def _run(config: NodeConfig) -> None:
    stdin = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with Node(config) as node, AsyncExitStack() as beside:
        _say({"value": Started(address=node.address, at=time.monotonic())})
        demo = DemoNode(node, beside)
        serving = None
        while line := await stdin.readline():
            serving = asyncio.create_task(_serve(demo, **json.loads(line)))
        # No controller is left to kill a process that hangs while closing.
        signal.alarm(CLOSE_S)
        if serving is not None:
            serving.cancel()


def main() -> None:
    """Run the node that the arguments describe, until stdin ends."""
    parser = argparse.ArgumentParser(prog="python -m taskd_net.demo.process", description=main.__doc__)
    parser.add_argument("position", type=Position.parse, help="Role/serverRank[/processRank]")
    parser.add_argument("--listen", help="host:port, for a Mgr or a Proxy")
    parser.add_argument("--upstream", help="host:port of the parent")
    args = parser.parse_args()
    try:
        config = NodeConfig(position=args.position, listen=args.listen, upstream=args.upstream)
        uvloop.run(_run(config))
    except ConfigError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
