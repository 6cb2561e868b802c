"""The program of the demo's Mgr: a node with a Manager, which the controller tells what ClusterD says.

A line on stdin is an event in JSON: the name of a class of `taskd_net.job.decide.events`, as `event`, and its fields. A
line on stdout is an event that the controller sees (`evidence.Seen`): the Mgr listens, more nodes are registered, or
ClusterD gets an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Final

import uvloop

from taskd_net import Node, NodeConfig, Position
from taskd_net.base import logs
from taskd_net.job.decide.events import Event, ProfilingSwitch
from taskd_net.job.decide.plain import from_plain
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.traffic import Reply
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net_lab.demos.job.terms import BEGAN, REGISTERED, REPLY

EVENTS: Final[dict[str, type[Event]]] = {kind.__name__: kind for kind in (ProfilingSwitch, StressTest, SwitchNic)}

LOOK_S: Final = 0.02


def say(who: str, what: str, code: int = 0, text: str = "", uuid: str = "") -> None:
    sys.stdout.write(json.dumps({"who": who, "what": what, "code": code, "text": text, "uuid": uuid}) + "\n")
    sys.stdout.flush()


def _answer(reply: Reply) -> bool:
    """Answer ClusterD, which the controller plays."""
    say("ClusterD", REPLY, text=f"{reply.rpc} {reply.result}", uuid=reply.uuid)
    return True


async def _listen(signals: asyncio.Queue[Event]) -> None:
    """Take in what ClusterD says, until stdin ends."""
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    while line := await stdin.readline():
        event = json.loads(line)
        signals.put_nowait(from_plain(EVENTS[event["event"]], event, "signal"))


async def tell_registered(node: Node, manager: Manager) -> None:
    """Tell the controller how many Agents and Workers have joined and registered; it waits for all of them."""
    told = -1
    while True:
        records = manager.job.state.records
        known = {Position.agent(rank) for rank, agent in records.agents.items() if agent.registered}
        known |= {Position.worker(worker.node, rank) for rank, worker in records.workers.items() if worker.registered}
        if (number := len(known & node.routes().keys())) != told:
            say("Mgr", REGISTERED, number)
            told = number
        await asyncio.sleep(LOOK_S)


async def _run(listen: str, config: ManagerConfig) -> None:
    signals: asyncio.Queue[Event] = asyncio.Queue()
    async with (
        Node(NodeConfig.mgr(listen=listen, confirms=True)) as node,
        Manager(node, config, signals=signals, reply=_answer) as manager,
    ):
        say("Mgr", BEGAN)
        telling = asyncio.create_task(tell_registered(node, manager))
        await _listen(signals)
        telling.cancel()


def main() -> None:
    """Run the Mgr until stdin ends."""
    parser = argparse.ArgumentParser(prog="python -m taskd_net_lab.demos.job.manager", description=main.__doc__)
    parser.add_argument("--listen", required=True, help="host:port")
    parser.add_argument("--state", required=True, help="the state file")
    parser.add_argument("--reset-file", required=True, help="the file with RetryTime")
    parser.add_argument("--plugins", help="a folder with plugins")
    parser.add_argument("--faults", help="a JSON object with settings for faults of devices")
    args = parser.parse_args()
    logs.start("manager.log", stdout=False)
    config = ManagerConfig(
        job_id="demo",
        nodes=2,
        processes_per_node=2,
        state=args.state,
        reset_file=args.reset_file,
        plugins=args.plugins,
        **json.loads(args.faults or "{}"),
    )
    uvloop.run(_run(args.listen, config))


if __name__ == "__main__":
    main()
