"""The cost and the speed of a job's Manager: the measure `job`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Final, cast

import uvloop

from benchmarks.job_crowd import AGENTS, AGENTS_OF_A_PROXY, WORKERS, Crowd, fault, heartbeat, reports
from benchmarks.measures import Bench
from benchmarks.processes import ROOT
from benchmarks.systems import OURS
from taskd_net.base.environment import wanted
from taskd_net.base.vocabulary import EXIT, RESTART_ALL
from taskd_net.job.decide.events import Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.snapshot import JobConfig

REST_S: Final = 8.0
"""Seconds of a measurement of CPU time."""

SETTLE_S: Final = 3.0
JOINED_S: Final = 10.0
"""Seconds after which nothing of the joins of a large job is left to do: routes, and the first status of each node."""

TICKS: Final = 200
WAIT_S: Final = 90.0


class Mgr:
    """The Mgr's process (`job_mgr`)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.address = ""

    @classmethod
    async def start(cls, folder: Path, listen: str = "127.0.0.1:0", **settings: object) -> Mgr:
        """Start it, with the state of the one before, and these settings of its Manager."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.job_mgr", listen, str(folder / "state"), json.dumps(settings)),
            cwd=ROOT,
            env={**wanted(), **os.environ},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        mgr = cls(process)
        mgr.address = cast(str, await mgr._answer())
        return mgr

    async def ask(self, request: str) -> object:
        """Have it carry out a method of `job_mgr.Requests`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        return await self._answer()

    def cpu(self) -> float:
        """Seconds of CPU time used, to the nanosecond."""
        return time.clock_gettime((~self._process.pid << 3) | 2)

    async def share(self, seconds: float) -> float:
        """Share of a core that it takes from now on, in percent."""
        before, began = self.cpu(), time.perf_counter()
        await asyncio.sleep(seconds)
        return (self.cpu() - before) / (time.perf_counter() - began) * 100

    async def kill(self) -> None:
        """End it as a crash does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _answer(self) -> object:
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            return cast(object, json.loads(await self._process.stdout.readline()))


@contextlib.asynccontextmanager
async def managed() -> AsyncIterator[tuple[Mgr, Path]]:
    """A Mgr, and the folder of its state."""
    with tempfile.TemporaryDirectory() as name:
        mgr = await Mgr.start(Path(name))
        try:
            yield mgr, Path(name)
        finally:
            await mgr.kill()


def job(bench: Bench) -> None:
    """The Manager: from a fault to its commands, a tick, heartbeats, rest, a restart, memory."""
    _ticks(bench)
    bench._progress("memory and rest of the Manager")
    with bench._turn("rest", OURS):
        uvloop.run(_at_rest(bench))
    for turn in bench._turns("a fault among 2 Agents, and a killed Manager"):
        with bench._turn(f"2 Agents, turn {turn}", OURS):
            uvloop.run(_small(bench))
    bench._progress(f"{AGENTS} Agents")
    with bench._turn(f"{AGENTS} Agents", OURS):
        uvloop.run(_large(bench))


def _ticks(bench: Bench) -> None:
    """The decisions alone, in memory, with all records."""
    deciding = Job(JobConfig(nodes=AGENTS, processes_per_node=WORKERS), seed="b1946ac92492d234")
    now = 1e9
    for report in reports(AGENTS, WORKERS):
        deciding.step(now, report)
    now += 1
    deciding.step(now, Tick())
    took = []
    for number in range(TICKS):
        now += 1
        rank = 1 + number % (AGENTS - 1)
        for beating in range(AGENTS):
            deciding.step(now, heartbeat(beating))
        deciding.step(now, fault(rank) if number == TICKS - 1 else heartbeat(rank))
        began = time.perf_counter()
        outcome = deciding.step(now, Tick())
        took.append(time.perf_counter() - began)
        if number == TICKS - 1:
            assert sorted({command.code for command in outcome.commands}) == [EXIT, RESTART_ALL]
            bench.results.add("job", "a tick that decides a round for all Agents", "ms", OURS, took.pop() * 1e3)
    bench.results.add("job", "a tick over all records", "ms", OURS, median(took) * 1e3)


async def _at_rest(bench: Bench) -> None:
    async with managed() as (mgr, _):
        megabytes = cast(float, await mgr.ask("fill"))
        bench.results.add("job", f"memory of {AGENTS * (1 + WORKERS):,} records", "MB", OURS, megabytes)
        await asyncio.sleep(SETTLE_S)
        share = await mgr.share(REST_S)
        bench.results.add("job", f"idle with {AGENTS * (1 + WORKERS):,} silent records", "% of a core", OURS, share)


async def _small(bench: Bench) -> None:
    async with managed() as (mgr, folder), Crowd(mgr.address) as crowd:
        await crowd.gather(2)
        first, second = crowd.agents
        await _round(bench, mgr, crowd)
        assert await first.command() == RESTART_ALL
        assert await second.command() == EXIT
        await second.begin()
        # The next 208 cannot be delivered before the Manager is killed.
        await first.node.close()
        await second.fault(8)
        assert await second.command() == EXIT
        await mgr.kill()
        began = time.perf_counter()
        again = await Mgr.start(folder, mgr.address)
        try:
            back = await crowd.agent(0, crowd.proxies[0])
            crowd.agents[0] = back
            joined = time.perf_counter()
            assert await back.command() == RESTART_ALL
            after = time.perf_counter()
            bench.results.add("job", "killed Manager: start until the command", "ms", OURS, (after - began) * 1e3)
            metric = "killed Manager: command after the Agent is back"
            bench.results.add("job", metric, "ms", OURS, (after - joined) * 1e3)
        finally:
            await again.kill()


async def _large(bench: Bench) -> None:
    async with managed() as (mgr, _), Crowd(mgr.address) as crowd:
        await crowd.gather(AGENTS)
        beats = [asyncio.create_task(agent.beat()) for agent in crowd.agents]
        await asyncio.sleep(JOINED_S)
        before, began = cast(int, await mgr.ask("reports")), time.perf_counter()
        share = await mgr.share(REST_S)
        # Agents that wait for an Ack beat later: the share is that of one KEEP_ALIVE of each in a second.
        share *= AGENTS * (time.perf_counter() - began) / (cast(int, await mgr.ask("reports")) - before)
        proxies = AGENTS // AGENTS_OF_A_PROXY
        metric = f"KEEP_ALIVE of {AGENTS:,} Agents below {proxies} Proxies"
        bench.results.add("job", metric, "% of a core", OURS, share)
        for beat in beats:
            beat.cancel()
        await asyncio.wait(beats)
        await _round(bench, mgr, crowd)


async def _round(bench: Bench, mgr: Mgr, crowd: Crowd) -> None:
    """A fault, and the answers to all of its commands."""
    await crowd.agents[1].fault(1)
    first, last = cast(list[float], await mgr.ask("times"))
    agents = len(crowd.agents)
    for which, at in (("first", first), ("last", last)):
        metric = f"202 until the {which} command is acknowledged"
        bench.results.add("job", metric, "ms", OURS, at * 1e3, agents=agents)
