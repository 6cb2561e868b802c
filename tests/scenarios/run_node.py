"""One node in a process of its own, with orders and events over its standard input and output, a JSON object a line.

Run with the settings of `NodeConfig` as JSON: `run_node.py mgr '{"listen": "127.0.0.1:0"}'`. It says `ready` with
the address where it listens, `joined`, and `got` for each message; it understands `send`, and ends with its input.
"""

import asyncio
import json
import sys
from typing import Any

from taskd_net import Node, NodeConfig

LINE_BYTES = 16 * 1024 * 1024


def say(what: str, **fields: Any) -> None:
    """Write a line to the controller."""
    print(json.dumps({"what": what, **fields}), flush=True)


async def obey(node: Node, order: dict[str, Any]) -> None:
    """Send a message, and report the outcome."""
    ack = await node.send(order["body"], to=order["to"], timeout=order["timeout"])
    say("sent", uuid=order["id"], code=ack.code, src=str(ack.src))


async def main(kind: str, settings: dict[str, Any]) -> None:
    """Run a node until the input ends."""
    lines = asyncio.StreamReader(limit=LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with Node(getattr(NodeConfig, kind)(**settings)) as node:
        say("ready", address=node.address)

        async def report() -> None:
            await node.joined()
            say("joined")
            async for message in node.messages():
                say("got", body=message.body, src=str(message.src))

        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(report())
            while line := await lines.readline():
                group.create_task(obey(node, json.loads(line)))
            reporting.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
