"""The walks of a report 202 and of a fault code until their commands: calls of functions of the package, and modules.

    python -m benchmarks.job_walk        both walks, as JSON

A Mgr with a Manager and two Agents share a process, over direct links. A walk begins with the report, and ends when
both Agents have a command. Timers of the nodes may add calls, so the shortest of some walks counts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import FrameType
from typing import Final

import taskd_net
from benchmarks.job_crowd import Agent
from taskd_net import Node, NodeConfig, Position
from taskd_net.job.decide.device_reports import DeviceReport
from taskd_net.job.faults.events import FaultEvent, FaultKind
from taskd_net.job.faults.rules import CODES_FILE
from taskd_net.job.manager import Manager, ManagerConfig

PACKAGE: Final = str(Path(taskd_net.__file__).parent) + os.sep
WALKS: Final = 8
WAIT_S: Final = 30.0
REST_S: Final = 0.3
"""Pause before each walk, in seconds: what an earlier one has left to do is done by then."""

RESTARTS: Final = "100"
CODE: Final = "8C204E00"
WATCHER: Final = 2_000_000_000
"""Rank of the device watcher: a tool, and no node of the job."""


class Walked:
    """The calls of the package's functions in every thread that starts after this object, while `on`."""

    def __init__(self) -> None:
        self.on = False
        self.modules: list[str] = []
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call" and (name := frame.f_code.co_filename).startswith(PACKAGE):
            self.modules.append(name[len(PACKAGE) :])


async def walks() -> Mapping[str, tuple[int, int]]:
    """Take both walks.

    Returns:
        The number of calls and of modules, for `202` and for `code`.
    """
    logging.getLogger("taskd_net").addHandler(logging.NullHandler())
    walked = Walked()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = folder / "files"
        files.mkdir()
        (files / CODES_FILE).write_text(json.dumps({"RestartBusinessCodes": [CODE]}))
        mgr = await stack.enter_async_context(Node(NodeConfig.mgr(listen="127.0.0.1:0", confirms=True)))
        config = ManagerConfig(
            job_id="walk",
            state=str(folder / "state"),
            reset_file=str(folder / "reset.json"),
            fault_config=str(files),
            fault_mode="grace",
        )
        await stack.enter_async_context(Manager(mgr, config))

        async def joined(rank: int, *, service: bool = False) -> Node:
            below = NodeConfig.agent(server_rank=rank, upstream=mgr.address or "", service=service)
            node = await stack.enter_async_context(Node(below))
            await node.joined(WAIT_S)
            return node

        first, second = Agent(await joined(0)), Agent(await joined(1))
        watcher = await joined(WATCHER, service=True)

        async def process_fails() -> None:
            await second.fault(1)

        async def device_fails() -> None:
            event = FaultEvent(CODE, "host/npu-0", FaultKind.ONCE, None, time.time())
            ack = await watcher.send(DeviceReport(event, node=0).body.to_json(), to=Position.mgr())
            ack.raise_for_code()

        async def shortest(report: Callable[[], Awaitable[None]], *, ends: bool) -> tuple[int, int]:
            found = []
            await second.begin(RESTARTS)
            for number in range(WALKS):
                if ends and number:
                    await second.begin(RESTARTS)  # the process that was ended comes back
                await asyncio.sleep(REST_S)
                walked.modules, walked.on = [], True
                await report()
                await first.command()
                await second.command()
                walked.on = False
                found.append((len(walked.modules), len(set(walked.modules))))
            return min(found)

        async with asyncio.timeout(WAIT_S + WALKS * 2 * REST_S):
            await first.begin(RESTARTS)
            return {
                "202": await shortest(process_fails, ends=True),
                "code": await shortest(device_fails, ends=False),
            }


def main() -> None:
    """Print both walks."""
    print(json.dumps(asyncio.run(walks())))


if __name__ == "__main__":
    main()
