"""The cost of the state of the mesh: of the counters for each message, and of a large mesh's reports for its Mgr.

    python -m benchmarks.status counters               # nanoseconds a message in the Router, with and without them
    python -m benchmarks.status mgr --nodes 10000      # CPU share and bytes/s of a Mgr with reports on so many nodes

`counters` runs the Router of a Proxy in memory, in turns with its counters and with one that counts nothing. The cost
is the difference of the best turns. docs/benchmarks/results.md has the cost of a whole message for a Proxy.

`mgr` starts a Mgr in a process of its own. Over a few connections, it registers as many Proxies as the nodes need, with
8 Workers and an Agent each. Every node has new figures all the time, which is the most that reports can cost. Before
that the same children report nothing, for comparison. After it, the Mgr answers for its state once a second, as for
`tree --watch`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import uvloop

from taskd_net import Position  # before grpc, because it sets grpc's environment
from taskd_net.base.states import State
from taskd_net.core.acks import Awaited
from taskd_net.core.counters import Counters
from taskd_net.core.frame import Frame
from taskd_net.core.links import Link
from taskd_net.core.router import Router
from taskd_net.net.links import peer as peers
from taskd_net.net.links.grpc_calls import SERVICE, STATUS_SERVICE
from taskd_net.net.wire import codec, requests
from taskd_net.observe import status_codec as wire
from taskd_net.observe.ledger import Record, Report
from taskd_net.observe.records import Direction, NodeStatus, OwnFigures

import grpc  # isort: skip
from taskd_net.base import limits

ROOT = Path(__file__).resolve().parents[1]

MESSAGES = 4096
BELOW = 9
"""Nodes below each Proxy: 8 Workers and an Agent."""

CONNECTIONS = 20
"""Connections of the children: a thousand processes would not fit on one machine, and the Mgr sees no difference."""


class NoCounters(Counters):
    """Counters that count nothing."""

    __slots__ = ()

    def arrived(self, now: float, link: Link, messages: int, size: int) -> None: ...

    def written(self, link: Link, messages: int, size: int) -> None: ...

    def accepted(self, now: float, link: Link, messages: int) -> None: ...

    def time(self, now: float, link: Link, part: Awaited | int) -> None: ...


def router_of(silent: bool) -> tuple[Router, int]:
    """The Router of a Proxy with a Worker, and the Worker's link."""
    with patch("taskd_net.core.router.Counters", NoCounters if silent else Counters):
        router = Router(Position.proxy(0), upstream=True)
    router.upstream_up(0.0, "up", Position.mgr())
    link = router.register(0.0, Position.worker(0, 0)).link or 0
    router.link_up(0.0, link, "down")
    return router, link


def turn(silent: bool, batches: list[list[Frame]]) -> float:
    """Seconds of CPU for each message on its way up, with the answer on its way down."""
    router, link = router_of(silent)
    gc.collect()
    gc.disable()
    began = time.process_time()
    for number, batch in enumerate(batches):
        now, uuids = number / 1000, [frame.uuid for frame in batch]
        router.messages_arrived(now, link, batch, uuids, [3.0] * len(batch))
        router.written(0, "up", len(batch), 100 * len(batch))
        router.answers_arrived(now, 0, uuids)
    took = time.process_time() - began
    gc.enable()
    return took / sum(map(len, batches))


def frames(count: int) -> list[Frame]:
    """Messages of a Worker to the Mgr, 64 B each."""
    worker, mgr, body = Position.worker(0, 0), Position.mgr(), "x" * 64
    return [
        codec.write_message(codec.Message(f"{number:032x}", "default", True, worker, mgr, 1, body))
        for number in range(count)
    ]


def counters(turns: int) -> dict[str, Any]:
    """The cost of the counters, by messages in a batch."""
    all_frames = frames(MESSAGES)
    found: dict[str, Any] = {}
    for size in (1, 8, 64):
        batches = [all_frames[at : at + size] for at in range(0, MESSAGES, size)]
        pairs = [(turn(False, batches), turn(True, batches)) for _ in range(turns)]
        counting, silent = (min(times) for times in zip(*pairs, strict=True))
        found[str(size)] = {"router_ns": round(counting * 1e9), "counters_ns": round((counting - silent) * 1e9)}
    return found


def metadata_of(position: Position) -> tuple[tuple[str, str], ...]:
    """The metadata of a child's calls."""
    return peers.stream_metadata(position)


class Reporting:
    """The reports of a Proxy with its nodes."""

    def __init__(self, channel: grpc.aio.Channel, rank: int) -> None:
        self.position = Position.proxy(rank)
        below = [Position.agent(rank), *(Position.worker(rank, rank * 8 + number) for number in range(8))]
        self._all = [self.position, *below]
        self._register: Any = channel.unary_unary(f"/{SERVICE}/Register")
        self._tell: Any = channel.unary_unary(f"/{STATUS_SERVICE}/Tell")
        self._count = 0
        self.pace = limits.STATUS_FIGURES_S
        self.sent_bytes = self.sent = 0

    async def register(self) -> None:
        """Take a place."""
        data = requests.write_register(f"r{self.position.server_rank}", self.position)
        ack = codec.read_ack(await self._register(data, metadata=peers.own_metadata()), Position.mgr())
        assert ack.ok, ack

    def report(self, *, first: bool) -> bytes:
        """A report in which every node has new figures."""
        self._count += 1
        flow = Direction(1000 + self._count, 100_000 + self._count, 0, 3, 1, 0.000512, 0.002)
        records = []
        for position in self._all:
            parent = Position.mgr() if position is self.position else self.position
            own = OwnFigures("", 1, 8, 0, self._count, 0, 0, flow)
            status = NodeStatus(
                parent=parent,
                state=State.JOINED,
                since=1.7e9,
                peer="taskd_net",
                version="0.1.0",
                link="batched",
                address="10.0.0.1:40000",
                last_message=1.7e9,
                down=flow,
                up=flow,
                own=own,
                at=1.7e9 + self._count,
            )
            records.append(Record(str(position), wire.write_node(status)))
        return wire.write_report(Report(records, first=first, complete=first))

    async def tell(self, *, first: bool) -> None:
        """Report once."""
        data = self.report(first=first)
        self.sent += 1
        self.sent_bytes += len(data)
        answer = await self._tell(data, metadata=metadata_of(self.position), timeout=60)
        self.pace = max(limits.STATUS_FIGURES_S, wire.read_pace(answer))

    async def go_on(self) -> None:
        """Report at the pace that the Mgr asks for, until cancelled."""
        while True:
            await asyncio.sleep(self.pace)
            await self.tell(first=False)


async def measured(process: psutil.Process, seconds: float, what: Callable[[], Any]) -> float:
    """The share of a core that a process takes during some work."""
    work = asyncio.ensure_future(what())
    await asyncio.sleep(seconds / 5)
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    await asyncio.sleep(seconds)
    share = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return share


async def mgr(nodes: int, seconds: float) -> dict[str, Any]:
    """The cost of a mesh of this size for its Mgr."""
    proxies = nodes // (BELOW + 1)
    code = (
        "import asyncio, sys\nfrom taskd_net import Node, NodeConfig\nfrom taskd_net.base.times import Times\n"
        "async def main():\n"
        " async with Node(NodeConfig.mgr(listen='127.0.0.1:0'), times=Times(registration_hold=3600.0)) as node:\n"
        "  print(node.address, flush=True)\n  await asyncio.Event().wait()\n"
        "import uvloop\nuvloop.run(main())"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    try:
        assert child.stdout is not None
        address = (await child.stdout.readline()).decode().strip()
        process = psutil.Process(child.pid)
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(CONNECTIONS)]
        told = [Reporting(channels[rank % CONNECTIONS], rank) for rank in range(proxies)]
        for proxy in told:
            await proxy.register()
        idle = await measured(process, seconds, lambda: asyncio.sleep(3600))
        for proxy in told:
            await proxy.tell(first=True)
        for proxy in told:
            proxy.sent = proxy.sent_bytes = 0
        began = time.monotonic()

        async def reports() -> None:
            await asyncio.gather(*(proxy.go_on() for proxy in told))

        busy = await measured(process, seconds, reports)
        took = time.monotonic() - began
        sent, size = sum(proxy.sent for proxy in told), sum(proxy.sent_bytes for proxy in told)

        tree: Any = channels[0].unary_unary(f"/{STATUS_SERVICE}/Tree")
        asked: list[tuple[float, int]] = []

        async def ask() -> None:
            while True:
                asked_at = time.monotonic()
                asked.append((time.monotonic() - asked_at, len(await tree(b""))))
                await asyncio.sleep(1.0)

        watched = await measured(process, seconds, ask)
        for channel in channels:
            await channel.close()
        return {
            "nodes": proxies * (BELOW + 1),
            "reporting_children": proxies,
            "pace_s": told[0].pace,
            "cpu_percent_idle": round(100 * idle, 2),
            "cpu_percent_reports": round(100 * (busy - idle), 2),
            "cpu_percent_tree_each_second": round(100 * (watched - idle), 2),
            "reports_per_s": round(sent / took, 1),
            "bytes_per_s": round(size / took),
            "tree_bytes": asked[-1][1] if asked else 0,
            "rss_mib": round(process.memory_info().rss / 2**20, 1),
        }
    finally:
        child.kill()
        await child.wait()


def main() -> None:
    """Measure by the command line, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["counters", "mgr"])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--turns", type=int, default=20)
    asked = parser.parse_args()
    if asked.what == "counters":
        print(json.dumps(counters(asked.turns), indent=1))
    else:
        print(json.dumps(uvloop.run(mgr(asked.nodes, asked.seconds)), indent=1))


if __name__ == "__main__":
    main()
