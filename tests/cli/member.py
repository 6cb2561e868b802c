"""A Worker in a process of its own: `member.py HOST:PORT NODE RANK`. It says `joined` and stays until it is ended."""

from __future__ import annotations

import asyncio
import sys

from taskd_net import Node, NodeConfig


async def main(upstream: str, node: str, rank: str) -> None:
    """Be a Worker."""
    async with Node(NodeConfig.worker(server_rank=node, rank=rank, upstream=upstream)) as worker:
        await worker.joined()
        print("joined", flush=True)
        async for _ in worker.messages():
            pass


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
