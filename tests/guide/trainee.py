"""A training process of the guide: a Worker that prints its messages, below a running parent."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from taskd_net import Node, NodeConfig, Position


async def serve(position: str, upstream: str, inbox: int) -> None:
    """Join, report that, and print bodies until SIGTERM."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    async with Node(NodeConfig(position=Position.parse(position), upstream=upstream, inbox=inbox)) as node:
        await node.joined()
        print(f"{position} is ready", file=sys.stderr, flush=True)
        printing = asyncio.create_task(_print_all(node))
        await ending.wait()
        printing.cancel()
        await asyncio.wait([printing], timeout=0.1)


async def _print_all(node: Node) -> None:
    async for message in node.messages():
        # In a thread, because an unread output must not stop the node.
        await asyncio.to_thread(print, message.body, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--as", dest="position", required=True)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--inbox", type=int, default=8)
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(given.position, given.upstream, given.inbox))
