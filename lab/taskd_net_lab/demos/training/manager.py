"""The program of an operated Mgr: a node with a Manager, through which the controller of the demo sends commands.

A line on stdin is a command in JSON: its destination, `to`, and the fields of a body. A line on stdout says that the
Mgr listens.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

import uvloop

from taskd_net import Node, NodeConfig, Retry
from taskd_net.base.body import Body
from taskd_net.job.manager import Manager, ManagerConfig


async def _run(listen: str) -> None:
    config = ManagerConfig(job_id="demo", nodes=2, processes_per_node=2, state="none", reset_file="none")
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with Node(NodeConfig.mgr(listen=listen, confirms=True)) as node, Manager(node, config):
        sys.stdout.write("listens\n")
        sys.stdout.flush()
        while line := await stdin.readline():
            command = json.loads(line)
            to = command.pop("to")
            await node.send(Body(**command).to_json(), to=to, retry=Retry())


def main() -> None:
    """Run the Mgr until stdin ends."""
    parser = argparse.ArgumentParser(prog="python -m taskd_net_lab.demos.training.manager", description=main.__doc__)
    parser.add_argument("--listen", required=True, help="host:port")
    args = parser.parse_args()
    uvloop.run(_run(args.listen))


if __name__ == "__main__":
    main()
