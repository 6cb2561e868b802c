"""Many Workers in one process, with orders over its standard input, a JSON object a line.

`python -m tests.faults.crowd 127.0.0.1:9601 100 125`: 125 Workers of one node, from rank 100 on.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

from taskd_net import Node, NodeConfig


class Crowd:
    """The Workers: one method for each order."""

    def __init__(self, upstream: str, first: int, count: int) -> None:
        self._upstream = upstream
        self._first = first
        self._count = count
        self._nodes: list[Node] = []

    async def start(self, first: int | None = None) -> None:
        """Start the Workers, from this rank on."""
        first = self._first if first is None else first
        self._nodes = [
            Node(NodeConfig.worker(server_rank=0, rank=rank, upstream=self._upstream))
            for rank in range(first, first + self._count)
        ]
        for node in self._nodes:
            await node.start()

    async def joined(self, timeout: float) -> list[float]:
        """Wait until all have joined. Returns the time of each."""

        async def one(node: Node) -> float:
            await node.joined(timeout)
            return time.monotonic()

        return list(await asyncio.gather(*map(one, self._nodes)))

    async def left(self) -> None:
        """Wait until none is joined any more."""
        for node in self._nodes:
            while await self._is_joined(node):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)

    async def _is_joined(self, node: Node) -> bool:
        try:
            await node.joined(0.0)
        except TimeoutError:
            return False
        return True

    async def send(self, to: str) -> list[int]:
        """Send a message from each Worker. Returns the codes."""
        acks = await asyncio.gather(*(node.send("x", to=to) for node in self._nodes))
        return [ack.code for ack in acks]

    async def withdraw(self) -> int:
        """Withdraw each Worker from the routes. Returns the number of successes."""
        return sum(await asyncio.gather(*(node.withdraw(5.0) for node in self._nodes)))

    async def close(self) -> None:
        """Close them."""
        await asyncio.gather(*(node.close() for node in self._nodes))
        self._nodes = []


async def main(upstream: str, first: int, count: int) -> None:
    """Run a crowd until the input ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    crowd = Crowd(upstream, first, count)
    while line := await lines.readline():
        order: dict[str, Any] = json.loads(line)
        number, what = order.pop("id"), order.pop("do")
        print(json.dumps({"id": number, "value": await getattr(crowd, what)(**order)}), flush=True)
    await crowd.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
