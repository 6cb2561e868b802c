"""The Manager as a client of ClusterD: the measure `recovery`. ClusterD is the stand-in, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Final, cast

import uvloop

from benchmarks.job import Mgr
from benchmarks.job import managed as idle
from benchmarks.job_crowd import Agent, Crowd
from benchmarks.measures import Bench
from benchmarks.systems import OURS
from taskd_net.base.address import Address
from taskd_net.base.vocabulary import STOP_RANKS
from taskd_net_lab.clusterd.reader import parse
from taskd_net_lab.clusterd.run import Run

JOB: Final = "bench"

SIGNALS: Final = 500
RETURNS: Final = 30
ROW: Final = 10_000
REST_S: Final = 8.0
SETTLE_S: Final = 3.0
WAIT_S: Final = 120.0
POLL_S: Final = 0.5
ROW_S: Final = 60.0

SIGNAL_STREAM: Final = "SubscribeProcessManageSignal"
_PRE_EXIT: Final = "{{type: preExitProcess, actions: [pre exit process], ranks: [{rank}], nodes: [0]"
"""A signal that one command answers, a 213 to Agent 0, and that needs no decision before the next one."""


class StandIn:
    """ClusterD's stand-in at work. None is left after `async with`.

    Args:
        address: where it listens.
        steps: of its scenario, in YAML.

    Attributes:
        times: of its events, by name (`time.monotonic`); keep-alives are none.
    """

    def __init__(self, address: str, steps: Iterable[str] = ()) -> None:
        self.times: dict[str, list[float]] = {}
        lines = "".join(f"  - {step}\n" for step in steps)
        scenario = parse(f"jobs: [{{id: {JOB}}}]\n" + (f"steps:\n{lines}" if lines else ""))
        self._run = Run(scenario, Address.parse(address), self._say)
        self._changed = asyncio.Event()

    async def __aenter__(self) -> StandIn:
        self._task = asyncio.create_task(self._run.until_end())
        await self.until("listening")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def until(self, event: str, number: int = 1) -> list[float]:
        """Wait for this number of events of one name since the beginning; returns their times."""
        async with asyncio.timeout(WAIT_S):
            while len(self.times.get(event, ())) < number:
                self._changed.clear()
                await self._changed.wait()
        return self.times[event]

    def _say(self, event: str, fields: Mapping[str, object]) -> None:
        if event == "stream_began":
            event = str(fields["call"])
        if fields.get("signal_type") != "keep-alive":
            self.times.setdefault(event, []).append(time.monotonic())
            self._changed.set()


@contextlib.asynccontextmanager
async def managed(steps: Iterable[str] = ()) -> AsyncIterator[tuple[Mgr, StandIn]]:
    """A Mgr, and the stand-in of which it is a client; the stand-in does not listen yet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as name:
        mgr = await Mgr.start(Path(name), clusterd_addr=address, fault_recover="on")
        try:
            yield mgr, StandIn(address, steps)
        finally:
            await mgr.kill()


def recovery(bench: Bench) -> None:
    """The client of ClusterD: from a signal to its command, a return of ClusterD, signals in a row, rest."""
    for what, measure in (
        (f"{SIGNALS} signals", _signals),
        (f"{RETURNS} returns of ClusterD", _returns),
        (f"{ROW:,} signals in a row", _row),
        ("rest", _rest),
    ):
        bench._progress(what)
        with bench._turn(what, OURS):
            uvloop.run(measure(bench))


@contextlib.asynccontextmanager
async def _agent(mgr: Mgr) -> AsyncIterator[Agent]:
    """Agent 0, which has its go."""
    async with Crowd(mgr.address) as crowd:
        await crowd.gather(1)
        await mgr.ask("answer")  # of the 210
        yield crowd.agents[0]


async def _signals(bench: Bench) -> None:
    # Pauses of different lengths around the Manager's interval.
    waits = [0.05 + number * 37 % 100 / 1000 for number in range(SIGNALS)]
    # A rank each, as a 213 supersedes an unconfirmed one on the same ranks.
    orders = [_PRE_EXIT.format(rank=number) for number in range(SIGNALS)]
    timed = zip(waits, orders, strict=True)
    steps = [f"{{when: subscribed, wait: {wait:.3f}, signal: {order}}}}}" for wait, order in timed]
    async with managed(steps) as (mgr, clusterd), _agent(mgr) as agent, clusterd:
        took = []
        for number in range(SIGNALS):
            async with asyncio.timeout(WAIT_S):
                while await agent.command() != STOP_RANKS:
                    pass
            answered = cast(float, await mgr.ask("answer"))
            took.append(answered - clusterd.times["sent"][number])
    bench.results.add_percentiles("recovery", "signal sent until its command is acknowledged", OURS, took)


async def _returns(bench: Bench) -> None:
    aways = [0.2 + number * 0.37 % 2.0 for number in range(RETURNS)]
    steps = [f"{{when: subscribed, wait: 0.1, away: {away:.2f}}}" for away in aways]
    async with managed(steps) as (_, clusterd), clusterd:
        began = await clusterd.until(SIGNAL_STREAM, 1 + RETURNS)
        back = clusterd.times["listening"]
    took = [after - at for at, after in zip(back[1:], began[1:], strict=True)]
    bench.results.add_percentiles("recovery", "ClusterD listens until its client has subscribed", OURS, took)


async def _row(bench: Bench) -> None:
    steps = [f"{{when: subscribed, signal: {_PRE_EXIT.format(rank=0)}, count: {ROW}}}}}"]
    async with managed(steps) as (mgr, clusterd), clusterd:
        first = (await clusterd.until("sent"))[0]
        taken, distinct, last = 0, 0, first
        # Lost ones are the result.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ROW_S):
                while taken < ROW:
                    await asyncio.sleep(POLL_S)
                    taken, distinct, last = cast("tuple[int, int, float]", await mgr.ask("orders"))
        await asyncio.sleep(POLL_S)  # for further ones
        taken, distinct, last = cast("tuple[int, int, float]", await mgr.ask("orders"))
    for metric, unit, value in (
        ("lost", "", ROW - distinct),
        ("twice", "", taken - distinct),
        ("taken each second", "1/s", distinct / max(last - first, POLL_S)),
    ):
        bench.results.add("recovery", f"{ROW:,} signals in a row: {metric}", unit, OURS, float(value))


async def _rest(bench: Bench) -> None:
    async with idle() as (mgr, _):
        await asyncio.sleep(SETTLE_S)
        without = await mgr.share(REST_S)
    async with managed() as (mgr, clusterd), clusterd:
        await clusterd.until(SIGNAL_STREAM)
        await asyncio.sleep(SETTLE_S)
        share = await mgr.share(REST_S)
    for metric, value in (("idle Manager without a client", without), ("idle client", max(share - without, 0.0))):
        bench.results.add("recovery", metric, "% of a core", OURS, value)
