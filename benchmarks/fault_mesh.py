"""Fault levels in a mesh: the part of the measure `faults` with a Manager's process and an Agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

import uvloop

from benchmarks.job import Mgr
from benchmarks.job_crowd import Crowd
from benchmarks.measures import Bench
from benchmarks.systems import OURS
from taskd_net import Node, NodeConfig, Position
from taskd_net.base.vocabulary import RESTART_ALL
from taskd_net.job.decide.device_reports import DeviceReport
from taskd_net.job.faults import editions
from taskd_net.job.faults.events import FaultEvent, FaultKind
from taskd_net.job.faults.rules import CODES_FILE, POLL_FILE

EVENTS: Final = 500
CHANGES: Final = 30
PERIOD_S: Final = editions.POLL_INTERVAL.least
WAIT_S: Final = 90.0

COMMAND_METRIC: Final = "event at the Manager until its command is at the Agent"
CHANGE_METRIC: Final = "change of a file until it is in force"
PERIOD_METRIC: Final = f"change of a file until it is in force, unwatched, PollInterval {PERIOD_S}"

WATCHER: Final = 2_000_000_000
"""Rank of the device watcher: a tool, and no node of the job."""

CODE: Final = "8C204E00"
_LEVEL_3: Final = {"RestartBusinessCodes": [CODE]}
_LEVEL_1: Final = {"NotHandleFaultCodes": [CODE]}


class Volume:
    """The folder of the files, as Kubernetes mounts it.

    Args:
        folder: to be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._versions = 0

    def put(self, codes: object) -> float:
        """Change all files at once, by the link `..data`. Returns the time of it (`time.monotonic`)."""
        self._versions += 1
        version = self.folder / f"..{self._versions}"
        version.mkdir(parents=True)
        texts = {CODES_FILE: json.dumps(codes), POLL_FILE: str(PERIOD_S)}
        for name, text in texts.items():
            (version / name).write_text(text)
            if self._versions == 1:
                (self.folder / name).symlink_to(f"..data/{name}")
        new = self.folder / "..data_tmp"
        new.symlink_to(version.name)
        changed = time.monotonic()
        new.rename(self.folder / "..data")
        return changed


@contextlib.asynccontextmanager
async def managed(**settings: Any) -> AsyncIterator[tuple[Mgr, Volume]]:
    """A Mgr that answers faults of devices, with rules in force, and their files."""
    with tempfile.TemporaryDirectory() as name:
        volume = Volume(Path(name) / "files")
        volume.put(_LEVEL_3)
        given = {"fault_config": str(volume.folder), "fault_mode": "grace", **settings}
        mgr = await Mgr.start(Path(name), **given)
        try:
            await mgr.ask("rules")
            yield mgr, volume
        finally:
            await mgr.kill()


def in_mesh(bench: Bench) -> None:
    """From an event to its command, and from a change of a file to its effect, with a watch and without."""
    for what, measure in (
        (f"{EVENTS} events in a mesh", _events),
        (f"{CHANGES} changes of a file", _changes),
        (f"a change of a file without a watch: {PERIOD_S} s", _period),
    ):
        bench._progress(f"faults: {what}")
        with bench._turn(f"faults: {what}", OURS):
            uvloop.run(measure(bench))


async def _events(bench: Bench) -> None:
    async with managed() as (mgr, _), Crowd(mgr.address) as crowd:
        await crowd.gather(1, restarts=str(EVENTS))
        (agent,) = crowd.agents
        await mgr.ask("answer")  # of the 210
        watcher = NodeConfig.agent(server_rank=WATCHER, upstream=mgr.address, service=True)
        took = []
        async with Node(watcher) as node, asyncio.timeout(WAIT_S + EVENTS):
            await node.joined(WAIT_S)
            for number in range(EVENTS):
                await asyncio.sleep(0.05 + number * 37 % 100 / 1000)  # of different lengths around the interval
                event = FaultEvent(CODE, "host/npu-0", FaultKind.ONCE, None, time.time())
                ack = await node.send(DeviceReport(event, node=0).body.to_json(), to=Position.mgr())
                ack.raise_for_code()
                while await agent.command() != RESTART_ALL:
                    pass
                arrived = time.monotonic()
                took.append(arrived - cast(float, await mgr.ask("device")))
                await mgr.ask("answer")
    bench.results.add_percentiles("faults", COMMAND_METRIC, OURS, took)


async def _changes(bench: Bench) -> None:
    took = []
    async with managed() as (mgr, volume):
        for number in range(CHANGES):
            await asyncio.sleep(0.2 + number * 0.37 % 1.0)
            changed = volume.put(_LEVEL_3 if number % 2 else _LEVEL_1)
            took.append(cast(float, await mgr.ask("rules")) - changed)
    bench.results.add_percentiles("faults", CHANGE_METRIC, OURS, took)


async def _period(bench: Bench) -> None:
    async with managed(fault_watch=False) as (mgr, volume):
        changed = volume.put(_LEVEL_1)
        in_force = cast(float, await mgr.ask("rules"))
    bench.results.add("faults", PERIOD_METRIC, "s", OURS, in_force - changed)
