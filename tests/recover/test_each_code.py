"""Each documented code, provoked against the stand-in for ClusterD over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final

import pytest

from taskd_net.base import limits
from taskd_net.base.address import Address
from taskd_net.job.clusterd import Code, DLRecoverManager, HandlerController, Reports, pb, rpcs
from taskd_net.job.clusterd.client import Client
from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.decide.events import Event
from taskd_net.job.decide.traffic import Call
from taskd_net.net.wire import recover_pb2 as wire
from taskd_net_lab.clusterd import run
from taskd_net_lab.clusterd.desk import Desk
from taskd_net_lab.clusterd.reader import parse

INFO: Final = wire.ClientInfo(jobId="J", role="taskd")
STOPPED: Final = wire.StopCompleteRequest(jobId="J", status=wire.Status())
JOB: Final = "jobs: [{id: J, nodes: 2, processes: 2, strategies: [retry, recover, dump, exit]}]\n"


class StandIn:
    """A stand-in at work.

    Attributes:
        address: where it listens.
        events: those that it has printed, with their names.
    """

    def __init__(self) -> None:
        self.address = ""
        self.events: list[dict[str, Any]] = []
        self._printed = asyncio.Event()

    def say(self, event: str, fields: Mapping[str, object]) -> None:
        """Take an event."""
        self.events.append({"event": event, **fields})
        self._printed.set()

    async def until(self, event: str, times: int = 1, **fields: object) -> None:
        """Wait for events with these fields."""
        async with asyncio.timeout(30):
            while sum({**each, "event": event, **fields} == each for each in self.events) < times:
                self._printed.clear()
                await self._printed.wait()

    @property
    def orders(self) -> list[str]:
        """Types of the signals that it has sent, with their strategies and parameters."""
        fields = ("signal_type", "change_strategy", "extra_params")
        sent = [each for each in self.events if each["event"] == "sent" and each["signal_type"] != "keep-alive"]
        return [" ".join(filter(None, (each[field] for field in fields))) for each in sent]


@contextlib.asynccontextmanager
async def standing_in(scenario: str) -> AsyncIterator[StandIn]:
    """Run a stand-in."""
    stand_in = StandIn()
    task = asyncio.create_task(run.Run(parse(scenario, speed=50), Address("127.0.0.1", 0), stand_in.say).until_end())
    try:
        await stand_in.until("listening")
        stand_in.address = stand_in.events[0]["address"]
        yield stand_in
    finally:
        task.cancel()
        await asyncio.wait([task])


@contextlib.asynccontextmanager
async def client_of(stand_in: StandIn, times: ClusterdTimes = ClusterdTimes()) -> AsyncIterator[Client]:
    client = Client(Address.parse(stand_in.address), INFO, asyncio.Queue[Event]().put, times=times)
    try:
        yield client
    finally:
        await client.close()


async def init(client: Client, _: StandIn) -> int:
    return (await client.call(rpcs.INIT, INFO)).code


async def register(client: Client, _: StandIn) -> int:
    return (await client.call(rpcs.REGISTER, INFO)).code


async def init_and_register(client: Client, stand_in: StandIn) -> int:
    assert await init(client, stand_in) == 0
    return await register(client, stand_in)


async def report(client: Client, _: StandIn) -> int:
    return (await client.call(rpcs.STOP_COMPLETE, STOPPED)).code


async def report_while_the_stream_ends(client: Client, stand_in: StandIn) -> int:
    """The queue has room for one report. The second call waits, until the end of the stream resets the machine."""
    assert await init_and_register(client, stand_in) == 0

    async def take(_: bytes) -> None:
        raise AssertionError("nothing is sent")

    reading = asyncio.create_task(client.read(rpcs.SIGNALS, INFO, take))
    await stand_in.until("reset")
    assert await report(client, stand_in) == 0
    second = asyncio.create_task(report(client, stand_in))
    await stand_in.until("called", 2, call="ReportStopComplete")
    reading.cancel()
    await asyncio.wait([reading])
    return await second


NO_PLACE: Final = 500
ANSWERS: Final[dict[int, tuple[str, Callable[[Client, StandIn], Coroutine[Any, Any, int]]]]] = {
    0: (JOB, init_and_register),
    400: (JOB, report),
    402: (JOB.replace("id: J", "id: J, known: off"), init_and_register),
    403: (JOB.replace("id: J", "id: J, enabled: off"), init),
    408: (JOB, register),
    NO_PLACE: (JOB, init_and_register),
    502: (JOB.replace("id: J", "id: other"), init),
    599: (JOB, report_while_the_stream_ends),
}


@pytest.mark.parametrize("code", ANSWERS)
async def test_answer_to_a_call(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if code == NO_PLACE:
        monkeypatch.setattr(run, "Desk", functools.partial(Desk, most=0))
    scenario, provoke = ANSWERS[code]
    async with standing_in(scenario) as stand_in, client_of(stand_in) as client:
        assert await provoke(client, stand_in) == code


AGAIN: Final = "changeStrategy exit dump_exit"
REACTIONS: Final = {
    404: "stopTrain, killMaster",
    405: "stopTrain, globalFault, changeStrategy retry, globalFault, changeStrategy recover",
    406: f"stopTrain, globalFault, changeStrategy retry, changeStrategy dump, {AGAIN}, {AGAIN}",
    407: f"stopTrain, globalFault, changeStrategy dump, {AGAIN}, {AGAIN}",
    499: f"stopTrain, globalFault, changeStrategy retry, changeStrategy exit, {AGAIN}",
}
"""Signals that follow when the code is reported once: of the stop with 404, else of the first strategy."""

FAULT: Final = """\
waits: {flush: 0.05, settle: 0.1, restart: 0.1}
steps: [{when: subscribed, fault: {ranks: [3], type: 2}}]
"""


@pytest.mark.parametrize("code", REACTIONS)
async def test_code_in_a_report_has_its_reaction(code: int) -> None:
    results: list[int] = []

    def stop(call: Call, reports: Reports) -> None:
        reports.stop_complete(404 if code == 404 else 0, "stopped", call.ranks)

    def choose(call: Call, reports: Reports) -> None:
        reports.strategies(call.ranks, ["dump", "exit"] if code == 407 else ["retry", "recover", "dump", "exit"])

    def change(call: Call, reports: Reports) -> None:
        if call.text != "exit":
            results.append(reports.result(0 if results else code, "as told", {}, call.text))

    handlers = {"stop_train": stop, "on_global_rank": choose, "change_strategy": change}
    async with standing_in(JOB + FAULT) as stand_in:
        info = pb.ClientInfo(jobId="J", role="master agent")
        manager = DLRecoverManager(info, stand_in.address, controller=HandlerController(handlers))
        subscribed = asyncio.create_task(asyncio.to_thread(manager.start_subscribe))
        try:
            await stand_in.until("moved", to="init")
        finally:
            await asyncio.to_thread(manager.close)
            await subscribed
    assert ", ".join(stand_in.orders) == REACTIONS[code]
    assert set(results) <= {0}, "each report was taken"


SCRIPTED: Final = (401, 501, 503, 504, 505, 506, 507, 508, 509)


@pytest.mark.parametrize("code", SCRIPTED)
async def test_scripted_code_is_passed_on_and_is_a_failure(code: int) -> None:
    calls = {"Init": 1, "Register": 1, "HealthCheck": 1, "ReportStopComplete": 2}
    answers = [f"  - {{call: {call}, code: {code}, times: {times}}}\n" for call, times in calls.items()]
    times = ClusterdTimes(init=0.05, pause=0.05, health=0.05)
    async with standing_in(JOB + "answers:\n" + "".join(answers)) as stand_in, client_of(stand_in, times) as client:
        running = asyncio.create_task(client.run())
        await stand_in.until("reset", 3)  # begin, end by the health check, begin
        assert (await client.report(rpcs.STOP_COMPLETE, STOPPED)).code == code
        running.cancel()
        await asyncio.wait([running])
    called = [each["call"] for each in stand_in.events if each["event"] in ("called", "stream_began")]
    attempt = ["Register", "SubscribeProcessManageSignal"]
    assert [call for call in called if call != "HealthCheck"] == [
        *("Init", "Init", "Register", *attempt),
        *("Init", *attempt),
        *("ReportStopComplete", "Register", "ReportStopComplete"),
    ]


def test_every_documented_code_is_here() -> None:
    assert sorted([*ANSWERS, *REACTIONS, *SCRIPTED]) == sorted(int(code) for code in Code if code.documented)


def test_client_pings_as_seldom_as_clusterd_wants() -> None:
    assert limits.KEEPALIVE_TIME_S * 1000 > run.PING_LEAST_MS
