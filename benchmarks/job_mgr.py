"""The Mgr of the measures of a job: `python -m benchmarks.job_mgr LISTEN STATE SETTINGS`, asked over JSON lines.

It is a Manager as it is, with further settings as a JSON object. It notes the time of each report of a fault, of each
command's answer, and of each change of the rules for faults.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import psutil
import uvloop

from benchmarks.job_crowd import AGENTS, WORKERS, reports
from taskd_net import Node, NodeConfig
from taskd_net.base.vocabulary import FAULT, STATUS
from taskd_net.core.frame import Ack
from taskd_net.job.decide.events import DeviceEvent, Event, FaultFiles, Reported, Signal
from taskd_net.job.decide.traffic import Outcome
from taskd_net.job.manager import Manager, ManagerConfig


class TimedManager(Manager):
    """A Manager that notes times (`time.monotonic`).

    Attributes:
        fault: of the last 202.
        answers: of the answers to commands since then.
        orders: uuids of ClusterD's orders that the decisions took.
        last_order: of the last one.
        devices: of the arrival of each fault of a device.
        rules: from which on the rules of each change of files are in force.
    """

    def __init__(self, node: Node, config: ManagerConfig) -> None:
        super().__init__(node, config)
        self.fault = self.last_order = 0.0
        self.answers: asyncio.Queue[float] = asyncio.Queue()
        self.orders: list[str] = []
        self.devices: asyncio.Queue[float] = asyncio.Queue()
        self.rules: asyncio.Queue[float] = asyncio.Queue()

    def _take(self, event: Event) -> Outcome:
        if isinstance(event, Reported) and event.msg_type == STATUS and event.code == FAULT:
            self.fault, self.answers = time.monotonic(), asyncio.Queue()
        elif isinstance(event, DeviceEvent):
            self.devices.put_nowait(time.monotonic())
        outcome = super()._take(event)
        if isinstance(event, FaultFiles):
            self.rules.put_nowait(time.monotonic())
        if outcome.taken and isinstance(event, Signal):
            self.orders.append(event.uuid)
            self.last_order = time.monotonic()
        return outcome

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

    async def device(self) -> float:
        """The time at which the next fault of a device arrived (`time.monotonic`)."""
        return await self._manager.devices.get()

    async def rules(self) -> float:
        """The time from which on the rules of the next change of files are in force (`time.monotonic`)."""
        return await self._manager.rules.get()

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


async def _run(listen: str, state: Path, settings: dict[str, Any]) -> None:
    config = NodeConfig.mgr(listen=listen, confirms=True)
    job = ManagerConfig(
        job_id="bench",
        state=str(state),
        reset_file=str(state.with_name("reset.json")),
        **settings,
    )
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with Node(config) as node, TimedManager(node, job) as manager:
        requests: Final = Requests(manager)
        print(json.dumps(node.address), flush=True)
        while line := await stdin.readline():
            print(json.dumps(await getattr(requests, json.loads(line))()), flush=True)


if __name__ == "__main__":
    uvloop.run(_run(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])))
