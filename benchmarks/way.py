"""The whole way of a message and its answer in memory: Worker → Proxy → Mgr → Worker, without sockets and gRPC.

    python -m benchmarks.way                  µs of CPU and calls of package functions for each message and its answer
    python -m benchmarks.way --in-flight 1    the same for messages that are alone on their way
    python -m benchmarks.way --calls          every function on the way, with its calls for each message
    python -m benchmarks.way --against TREE   beside another checkout of this package, in turns; prints the ratios

The nodes, their links and the writers are the real ones. Only the streams are not: a write hands its bytes to the other
end through a queue of asyncio. A run of the whole system varies by more than a change of the Python code costs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import taskd_net
from benchmarks import checkout, routers
from taskd_net import Node, NodeConfig, Position
from taskd_net.core.links import UP

MESSAGES = 8192
TURNS = 5
PACKAGE = str(Path(taskd_net.__file__).parent) + os.sep


class _Pipe:
    """One end of a stream in memory."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.peer = self

    async def read(self) -> bytes | None:
        return await self.incoming.get()

    async def write(self, data: bytes) -> bool:
        self.peer.incoming.put_nowait(data)
        return True

    async def finish(self) -> None:
        pass


class Way:
    """A Worker, its Proxy and the Mgr."""

    def __init__(self) -> None:
        configs = (
            NodeConfig.mgr(listen="127.0.0.1:0"),
            NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream="127.0.0.1:1"),
            NodeConfig.worker(server_rank=0, rank=0, upstream="127.0.0.1:1"),
        )
        self.mgr, self.proxy, self.worker = (Node(config) for config in configs)
        self._tasks: list[asyncio.Task[None]] = []

    def connect(self) -> None:
        """Let everybody join, top down."""
        for node in (self.mgr, self.proxy, self.worker):
            driver = routers.driver(node)
            driver._loop = asyncio.get_running_loop()
            with contextlib.suppress(AttributeError):  # computed, in an older checkout
                driver.running = True
            if node is not self.mgr:
                driver.joiner = driver._joiner = driver._child = _Joined()
        self._join(self.proxy, self.mgr, 1)
        self._join(self.worker, self.proxy, 2)

    def _join(self, child: Node, parent: Node, depth: int) -> None:
        below, above = _Pipe(), _Pipe()
        below.peer, above.peer = above, below
        link = routers.add_child(parent, child.position)
        up = routers.batched_link(child, UP, parent.position, below)
        down = routers.batched_link(parent, link, child.position, above)
        routers.child_up(parent, link, down)
        routers.parent_up(child, up, parent.position, depth)
        routers.announce_itself(child, up, parent.position)
        routers.announce(parent, link, [child.position])
        if parent is self.proxy:
            self._announce_below()
        self._tasks += [asyncio.create_task(session.run()) for session in (up, down)]

    def _announce_below(self) -> None:
        """The Mgr learns the way to the Worker."""
        child = routers.driver(self.mgr).router.children.find(self.proxy.position)
        assert child is not None
        routers.announce(self.mgr, child.id, [self.worker.position, self.proxy.position])
        proxy = routers.driver(self.proxy)
        proxy.perform(proxy.router.announce_answered(proxy.links[UP], 0, Position.mgr()))

    async def take(self) -> None:
        """Take everything that arrives at the Mgr."""
        async for _ in self.mgr.messages():
            pass

    async def run(self, messages: int, in_flight: int) -> None:
        """Send so many messages, so many at a time; each has to be answered with 0."""

        async def send(count: int) -> None:
            for _ in range(count):
                ack = await self.worker.send("x" * 64, to=mgr)
                assert ack.code == 0, ack

        mgr = Position.mgr()
        await asyncio.gather(*(send(messages // in_flight) for _ in range(in_flight)))

    def close(self) -> None:
        """End every task."""
        for task in self._tasks:
            task.cancel()


class _Joined:
    """Takes the place of what joins."""

    def __init__(self) -> None:
        self.joined = asyncio.Event()
        self.joined.set()

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


async def measure(in_flight: int) -> tuple[float, Counter[str]]:
    """µs of CPU for each message, the least of some turns; and the calls of package functions by name."""
    way = Way()
    way.connect()
    taker = asyncio.create_task(way.take())
    await way.run(MESSAGES // 4, in_flight)
    times = []
    for _ in range(TURNS):
        began = time.process_time()
        await way.run(MESSAGES, in_flight)
        times.append((time.process_time() - began) / MESSAGES * 1e6)
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            calls[f"{code.co_filename[len(PACKAGE) :]}:{code.co_qualname}"] += 1

    sys.setprofile(count)
    await way.run(MESSAGES // 4, in_flight)
    sys.setprofile(None)
    taker.cancel()
    way.close()
    return min(times), calls


def _in(tree: Path, in_flight: int) -> tuple[float, float]:
    """Measure in a process of its own, with the package of a checkout."""
    said = checkout.run(tree, "benchmarks.way", "--json", "--in-flight", str(in_flight))
    time_us, calls = json.loads(said)
    return time_us, calls


def main() -> None:
    """Measure, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="TREE", help="another checkout")
    parser.add_argument("--in-flight", type=int, default=64, metavar="N", help="messages on their way at a time")
    parser.add_argument("--calls", action="store_true", help="every function on the way")
    parser.add_argument("--json", action="store_true", help="two numbers")
    arguments = parser.parse_args()
    if arguments.against is not None:
        pairs = [
            (_in(checkout.HERE, arguments.in_flight), _in(arguments.against, arguments.in_flight)) for _ in range(5)
        ]
        (ours, calls), (theirs, their_calls) = (
            (statistics.median(time_us for time_us, _ in column), column[0][1]) for column in zip(*pairs, strict=True)
        )
        ratios = sorted(one[0] / other[0] for one, other in pairs)
        print(f"{ours:.1f} µs and {calls:.1f} calls here, {theirs:.1f} µs and {their_calls:.1f} calls there; ", end="")
        print(f"ratio of the times {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
        return
    time_us, counted = asyncio.run(measure(arguments.in_flight))
    each = MESSAGES // 4
    total = sum(counted.values()) / each
    if arguments.json:
        print(json.dumps((time_us, total)))
        return
    print(f"{time_us:.1f} µs, {total:.1f} calls of package functions")
    if arguments.calls:
        for name, number in counted.most_common(80):
            print(f"{number / each:8.2f}  {name}")


if __name__ == "__main__":
    main()
