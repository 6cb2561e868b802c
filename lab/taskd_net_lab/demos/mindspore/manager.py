"""The program of an operated Mgr: a node with a Manager that leaves faults to ClusterD, which the controller plays.

A line on stdin is a command in JSON: its destination, `to`, and the fields of a body. A line on stdout is the failed
ranks of an Agent, or null when the Mgr listens.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Final

import uvloop

from taskd_net import Node, NodeConfig, Retry
from taskd_net.base.body import Body
from taskd_net.job.manager import Manager, ManagerConfig

LOOK_S: Final = 0.02


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def _tell_faults(manager: Manager) -> None:
    told = 0.0
    while True:
        for agent in manager.view().agents:
            if agent.fault and agent.fault_ranks and agent.fault_at != told:
                told = agent.fault_at
                _say(list(agent.fault_ranks))
        await asyncio.sleep(LOOK_S)


async def _run(listen: str, state: str) -> None:
    config = ManagerConfig(
        job_id="demo", nodes=1, processes_per_node=2, state=state, reset_file="none", clusterd=True, fault_recover="on"
    )
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with Node(NodeConfig.mgr(listen=listen, confirms=True)) as node, Manager(node, config) as manager:
        _say(None)
        telling = asyncio.create_task(_tell_faults(manager))
        while line := await stdin.readline():
            command = json.loads(line)
            to = command.pop("to")
            await node.send(Body(**command).to_json(), to=to, retry=Retry())
        telling.cancel()


def main() -> None:
    """Run the Mgr until stdin ends."""
    parser = argparse.ArgumentParser(prog="python -m taskd_net_lab.demos.mindspore.manager", description=main.__doc__)
    parser.add_argument("--listen", required=True, help="host:port")
    parser.add_argument("--state", required=True, help="the state file")
    args = parser.parse_args()
    uvloop.run(_run(args.listen, args.state))


if __name__ == "__main__":
    main()
