"""The Mgr of the measure `job`: `python -m benchmarks.job_mgr LISTEN STATE CLUSTERD`, asked over JSON lines.

It is a Manager as it is, except that it notes the time of each report of a fault, and of each command's answer.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Final

import psutil
import uvloop

from benchmarks.job_crowd import AGENTS, WORKERS, reports
from taskd_net import Node, NodeConfig
from taskd_net.core.frame import Ack
from taskd_net.jobs.events import Event, Reported, Signal
from taskd_net.manager import Manager, ManagerConfig
from taskd_net.vocabulary import FAULT, STATUS


class TimedManager(Manager):
    """A Manager that notes times (`time.monotonic`).

    Attributes:
        fault: of the last 202.
        answers: of the answers to commands since then.
        orders: uuids of ClusterD's orders that the decisions took.
        last_order: of the last one.
    """

    fault: float
    answers: asyncio.Queue[float]
    orders: list[str]
    last_order = 0.0

    def _take(self, event: Event) -> bool:
        if isinstance(event, Reported) and event.msg_type == STATUS and event.code == FAULT:
            self.fault, self.answers = time.monotonic(), asyncio.Queue()
        taken = super()._take(event)
        if taken and isinstance(event, Signal):
            self.orders.append(event.uuid)
            self.last_order = time.monotonic()
        return taken

    def _answered(self, uuid: str, ack: Ack, late: bool) -> None:
        if ack.ok:
            self.answers.put_nowait(time.monotonic())
        super()._answered(uuid, ack, late)


class Requests:
    """The requests of the controller: its methods."""

    def __init__(self, manager: TimedManager) -> None:
        self._manager = manager

    async def times(self) -> tuple[float, float]:
        """Seconds from the last 202 to the first and the last answer, when each Agent has answered a command."""
        manager = self._manager
        answers = [await manager.answers.get() for _ in manager.job.state.records.agents]
        return answers[0] - manager.fault, answers[-1] - manager.fault

    async def answer(self) -> float:
        """The time of the next answer to a command (`time.monotonic`)."""
        return await self._manager.answers.get()

    async def orders(self) -> tuple[int, int, float]:
        """The number of ClusterD's orders that the decisions took, that of their uuids, and the time of the last."""
        orders = self._manager.orders
        return len(orders), len(set(orders)), self._manager.last_order

    async def reports(self) -> int:
        """The number of reports so far, heartbeats included."""
        return self._manager.view().counters.reports

    async def fill(self) -> float:
        """Take in a REGISTER and a report of each Agent and Worker of a large job. Returns the MB that they take."""
        gc.collect()
        before = psutil.Process().memory_info().rss
        for report in reports(AGENTS, WORKERS):
            self._manager._take(report)
        gc.collect()
        return (psutil.Process().memory_info().rss - before) / 1e6


async def _run(listen: str, state: Path, clusterd: str) -> None:
    config = NodeConfig.mgr(listen=listen, confirms=True)
    job = ManagerConfig(
        job_id="bench",
        state=str(state),
        reset_file=str(state.with_name("reset.json")),
        clusterd_addr=clusterd or None,
        fault_recover="on" if clusterd else "",
    )
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with Node(config) as node, TimedManager(node, job) as manager:
        manager.answers, manager.orders = asyncio.Queue(), []
        requests: Final = Requests(manager)
        print(json.dumps(node.address), flush=True)
        while line := await stdin.readline():
            print(json.dumps(await getattr(requests, json.loads(line))()), flush=True)


if __name__ == "__main__":
    uvloop.run(_run(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
