"""A Worker whose event loop hangs as soon as it has joined: `hanging.py Worker/0/1 HOST:PORT`.

Its connections stand, as gRPC's own threads answer pings; a process that is stopped would lose them after some seconds.
"""

import asyncio
import sys
import time

from taskd_net import Node, NodeConfig, Position


async def main(position: str, upstream: str) -> None:
    """Join, say so, and hang until a signal ends the process."""
    async with Node(NodeConfig(position=Position.parse(position), upstream=upstream)) as node:
        await node.joined()
        print("hangs", flush=True)
        time.sleep(3600)  # noqa: ASYNC251 - that is the point


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
