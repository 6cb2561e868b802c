"""The Mgr of a recovery with its state in etcd: `taskd_net_lab.demos.recovery.manager`, which leads or stands by.

It says that it has begun when it leads. SIGTERM ends it as the daemon does.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import uvloop

from taskd_net import Node, NodeConfig
from taskd_net.base import logs
from taskd_net.job.manager import ManagerConfig, Succession
from taskd_net_lab.demos.job.manager import say, tell_registered
from taskd_net_lab.demos.job.terms import BEGAN
from taskd_net_lab.demos.job.witness import Witness
from taskd_net_lab.demos.recovery.manager import INTERVAL_MS, LOOK_S, TrainingDouble, tell_away
from tests.polling import until

DRAIN_S = 5.0
LONG_S = 100_000.0


async def _terms(node: Node, succession: Succession) -> None:
    """Tell the controller of each term."""
    while True:
        await until(lambda: succession.leads, LONG_S, pause=LOOK_S)
        manager = succession.manager
        assert manager is not None
        say("Mgr", BEGAN)
        telling = [asyncio.create_task(work) for work in (tell_registered(node, manager), tell_away(manager))]
        await until(lambda manager=manager: succession.manager is not manager, LONG_S, pause=LOOK_S)  # type: ignore[misc]
        for task in telling:
            task.cancel()
        await asyncio.wait(telling)


async def _run(listen: str, config: ManagerConfig) -> None:
    framework, ended = TrainingDouble(Witness("Framework")), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(Node(NodeConfig.mgr(listen=listen, confirms=True, standby=True)))
        succession = await stack.enter_async_context(Succession(node, config, framework=framework.controller))
        terms = asyncio.create_task(_terms(node, succession))
        await ended.wait()
        terms.cancel()
        with suppress(asyncio.CancelledError):
            await terms
        await node.drain(DRAIN_S)


def main() -> None:
    """Run it: `python -m tests.etcd.recovery_mgr LISTEN CLUSTERD STATE`."""
    listen, clusterd, state = sys.argv[1:]
    logs.start(f"manager-{listen}.log", stdout=False)
    config = ManagerConfig(
        job_id="demo",
        nodes=2,
        processes_per_node=2,
        fault_recover="on",
        clusterd_addr=clusterd,
        state=state,
        reset_file=str(Path("reset.json").absolute()),
        process_interval=INTERVAL_MS,
    )
    uvloop.run(_run(listen, config))


if __name__ == "__main__":
    main()
