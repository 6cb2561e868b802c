from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from taskd_net.base.address import Address
from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.client import Client, ClusterdError, credentials
from taskd_net.job.clusterd.codes import describe
from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.decide.events import Event, ProfilingSwitch, Signal
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.net.wire import datatrace_pb2
from taskd_net.net.wire import recover_pb2 as wire
from tests.peers.clusterd import INFO as INFO_OF_REFUSALS
from tests.peers.clusterd import QUICK, ClusterD
from tests.polling import until

pytestmark = pytest.mark.oldest

INFO = wire.ClientInfo(jobId="J", role="taskd")


@pytest.fixture
def clusterd() -> Iterator[ClusterD]:
    with ClusterD() as server:
        yield server


@contextlib.asynccontextmanager
async def running(
    clusterd: ClusterD, times: ClusterdTimes = QUICK, **options: Any
) -> AsyncIterator[tuple[Client, asyncio.Queue[Event]]]:
    """A client at work, and the orders that it has taken."""
    taken: asyncio.Queue[Event] = asyncio.Queue()
    client = Client(Address.parse(clusterd.address), INFO, taken.put, times=times, **options)
    task = asyncio.create_task(client.run())
    try:
        yield client, taken
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await client.close()


def signal(uuid: str, job: str = "J", kind: str = "stopTrain") -> wire.ProcessManageSignal:
    return wire.ProcessManageSignal(uuid=uuid, jobId=job, signalType=kind)


async def test_init_register_subscribe_and_signals(clusterd: ClusterD) -> None:
    async with running(clusterd) as (client, taken):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("a"), signal("b"))
        assert [await taken.get(), await taken.get()] == [Signal("a", "stopTrain"), Signal("b", "stopTrain")]
        await asyncio.to_thread(clusterd.wait_for, rpcs.HEALTH_CHECK, 2)
        assert client.counters.orders == 2
    assert clusterd.names == ["Init", "Register", "SubscribeProcessManageSignal"]
    assert all(request == INFO for _, request in clusterd.calls)


async def test_keep_alive_foreign_and_unreadable_orders_are_counted(
    clusterd: ClusterD, caplog: pytest.LogCaptureFixture
) -> None:
    bad = wire.ProcessManageSignal(jobId="J", nodeRankIds=["x"])
    orders: list[Message | bytes] = [signal("k", kind="keep-alive"), signal("f", job="other")]
    orders += [bad, b"\xff\xff", signal("a")]
    async with running(clusterd) as (client, taken):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, *orders)
        assert await taken.get() == Signal("a", "stopTrain")
        seen = client.view()
        assert (seen.taken, seen.keep_alives, seen.foreign, seen.unreadable) == (1, 1, 1, 2)
    assert "a nodeRankId is 'x'" in caplog.text
    assert "clusterd_order_of_another_job" in caplog.text


async def test_operations_have_streams_of_their_own(clusterd: ClusterD) -> None:
    async with running(clusterd, operations=True) as (_, taken):
        await asyncio.to_thread(
            clusterd.send, rpcs.SWITCH_NIC_ORDERS, wire.SwitchRankList(rankID=["1"], op=[True], jobId="J")
        )
        assert await taken.get() == SwitchNic((1,), (True,))
        params = {"3": wire.StressOpList(ops=[0])}
        await asyncio.to_thread(
            clusterd.send, rpcs.STRESS_TEST_ORDERS, wire.StressTestRankParams(stressParam=params, jobId="J")
        )
        assert await taken.get() == StressTest({3: (0,)})
        switch = datatrace_pb2.ProfilingSwitch(Step="on")
        await asyncio.to_thread(
            clusterd.send, rpcs.PROFILING, datatrace_pb2.DataStatusRes(profilingSwitch=switch, code=200)
        )
        assert await taken.get() == ProfilingSwitch(True)
        clusterd.end(rpcs.PROFILING, grpc.StatusCode.INTERNAL)
        await asyncio.to_thread(clusterd.wait_for, rpcs.PROFILING, 2)
    assert clusterd.names.count("Init") == 1, "a broken stream of an operation costs no other stream"


async def test_profiling_switch_is_clusterds_while_its_stream_stands(clusterd: ClusterD) -> None:
    async with running(clusterd, operations=True) as (client, _):
        before = client.profiling
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.PROFILING)
        await asyncio.to_thread(clusterd.wait_for, rpcs.HEALTH_CHECK)
        assert (before, client.profiling) == (False, True), "though nothing has come"
        clusterd.answers[rpcs.PROFILING.name].append(grpc.StatusCode.UNIMPLEMENTED)
        clusterd.end(rpcs.PROFILING)
        await asyncio.to_thread(clusterd.wait_for, rpcs.PROFILING, 2)
        await until(lambda: not client.profiling)


async def test_profiling_switch_of_a_job_without_recovery_is_clusterds_once_it_has_come(clusterd: ClusterD) -> None:
    clusterd.answers["Init"].extend([403] * 1000)
    async with running(clusterd, operations=True, off_again=0.05) as (client, taken):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.PROFILING)
        await asyncio.to_thread(clusterd.wait_for, rpcs.INIT)
        before = client.profiling
        await asyncio.to_thread(clusterd.send, rpcs.PROFILING, datatrace_pb2.DataStatusRes(code=200))
        assert await taken.get() == ProfilingSwitch()
        assert (before, client.profiling) == (False, True)
        clusterd.end(rpcs.PROFILING)
        await until(lambda: not client.profiling)


async def test_stream_that_clusterd_does_not_know_is_not_asked_for_again(
    clusterd: ClusterD, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clusterd.answers[rpcs.PROFILING.name].append(grpc.StatusCode.UNIMPLEMENTED)
    async with running(clusterd, operations=True):
        await asyncio.to_thread(clusterd.wait_for, rpcs.HEALTH_CHECK, 5)
    assert clusterd.names.count(rpcs.PROFILING.name) == 1
    assert caplog.text.count("clusterd_stream_unknown") == 1


@pytest.mark.parametrize("status", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE])
async def test_broken_stream_begins_again_with_init(clusterd: ClusterD, status: grpc.StatusCode | None) -> None:
    async with running(clusterd) as (client, taken):
        for uuid in ("a", "b"):
            await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal(uuid))
            assert await taken.get() == Signal(uuid, "stopTrain")
            clusterd.end(rpcs.SIGNALS, status)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 3)
        assert client.view().reconnects == 2
    assert clusterd.names == ["Init", "Register", "SubscribeProcessManageSignal"] * 3


async def test_end_of_a_round_is_no_breakdown(clusterd: ClusterD, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(clusterd, operations=True) as (client, taken):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.PROFILING)
        for number, uuid in enumerate(("a", "b", "c", "d"), 1):
            for rpc in (rpcs.SIGNALS, rpcs.STRESS_TEST_ORDERS, rpcs.SWITCH_NIC_ORDERS):
                await asyncio.to_thread(clusterd.wait_for, rpc, number)
            if uuid == "d":
                break
            await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal(uuid))
            assert await taken.get() == Signal(uuid, "stopTrain")
            for rpc in (rpcs.STRESS_TEST_ORDERS, rpcs.SIGNALS, rpcs.SWITCH_NIC_ORDERS):
                clusterd.end(rpc)
        seen = client.view()
        assert (seen.rounds, seen.reconnects, seen.state) == (3, 0, "subscribed")
    assert [clusterd.names.count(name) for name in ("Init", "Register", rpcs.PROFILING.name)] == [1, 1, 1]
    assert caplog.text.count("clusterd_round_over") == 3
    assert caplog.text.count("clusterd_subscribed") == 1
    assert "clusterd_lost" not in caplog.text and "clusterd_stream_lost" not in caplog.text
    assert {record.levelname for record in caplog.records} == {"INFO"}


async def test_two_clients_of_one_job_do_not_fight_without_a_pause(
    clusterd: ClusterD, caplog: pytest.LogCaptureFixture
) -> None:
    """ClusterD ends the stream of a client when another one subscribes."""
    caplog.set_level(logging.INFO)
    async with running(clusterd) as (client, taken):
        for number in range(1, 4):
            await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, number)
            clusterd.end(rpcs.SIGNALS)
            await until(lambda: client.view().state == "away")
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("a"))
        await taken.get()
        clusterd.end(rpcs.SIGNALS)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 5)
        assert (client.view().rounds, client.view().reconnects) == (1, 3)
    assert clusterd.names == ["Init", "Register"] + ["SubscribeProcessManageSignal"] * 5
    assert caplog.text.count("clusterd_taken_over") == 1


async def test_client_that_registers_no_longer_begins_with_init(clusterd: ClusterD) -> None:
    async with running(clusterd) as (_, taken):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("a"))
        await taken.get()
        clusterd.answers[rpcs.SIGNALS.name].append(grpc.StatusCode.UNKNOWN)
        clusterd.end(rpcs.SIGNALS)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 3)
    subscribe = "SubscribeProcessManageSignal"
    assert clusterd.names == ["Init", "Register", subscribe, subscribe, "Init", "Register", subscribe]


async def test_init_comes_before_the_stream_of_the_profiling_switch(clusterd: ClusterD) -> None:
    async with running(clusterd, operations=True) as (client, _):
        for number in (1, 2):
            await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, number)
            await asyncio.to_thread(clusterd.wait_for_stream, rpcs.PROFILING)
            before = len(clusterd.names)
            await asyncio.to_thread(clusterd.stop)
            await until(lambda: client.view().state == "away")
            clusterd.start()
            await asyncio.to_thread(clusterd.wait_for, rpcs.PROFILING, number + 1)
            assert clusterd.names[before:].index("Init") < clusterd.names[before:].index(rpcs.PROFILING.name)


async def test_the_stream_of_the_profiling_switch_waits_for_the_answer_to_init(clusterd: ClusterD) -> None:
    early: list[bool] = []

    def init() -> int:
        looks = (rpcs.PROFILING.name in clusterd.names or pause.wait(0.01) for _ in range(50))
        early.append(any(looks))
        return 0

    pause = threading.Event()
    clusterd.answers["Init"].append(init)
    async with running(clusterd, operations=True):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.PROFILING)
    assert early == [False]


async def test_first_report_of_a_fault_waits_until_the_machine_was_reset(clusterd: ClusterD) -> None:
    """ClusterD resets the machine when a stream begins, and loses the ranks of a report meanwhile."""
    async with running(clusterd, replace(QUICK, settled=0.5)) as (client, _):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
        began = time.monotonic()
        await client.call(rpcs.PROCESS_FAULT, wire.ProcessFaultRequest(jobId="J"))
        first = time.monotonic() - began
        await client.call(rpcs.PROCESS_FAULT, wire.ProcessFaultRequest(jobId="J"))
    assert first > 0.3


async def test_report_of_a_fault_that_waits_ends_with_the_client(clusterd: ClusterD) -> None:
    async with running(clusterd, replace(QUICK, settled=0.5)) as (client, _):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
        report = asyncio.create_task(client.call(rpcs.PROCESS_FAULT, wire.ProcessFaultRequest(jobId="J")))
        await asyncio.sleep(0)
    with pytest.raises(ClusterdError, match="closed"):
        await report
    assert clusterd.requests(rpcs.PROCESS_FAULT) == []


async def test_stream_outlasts_the_time_in_which_its_end_would_end_clusterd(clusterd: ClusterD) -> None:
    """ClusterD ends, with all jobs, when the stream ends within 5 s after changeStrategy recover-in-place."""
    seconds: list[float] = []
    for params in ("recover-in-place", ""):
        async with running(clusterd, replace(QUICK, fragile=1.0)) as (_, taken):
            order = signal("a", kind="changeStrategy")
            order.changeStrategy, order.extraParams = "recover", params
            await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, len(seconds) + 1)
            await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, order)
            await taken.get()
            began = time.monotonic()
        seconds.append(time.monotonic() - began)
    assert seconds[0] > 0.9 > seconds[1]


async def test_clusterd_that_was_killed_gets_its_client_back(clusterd: ClusterD) -> None:
    async with running(clusterd) as (client, taken):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
        await asyncio.to_thread(clusterd.stop)
        with pytest.raises(ClusterdError):
            await client.call(rpcs.STOP_COMPLETE, wire.StopCompleteRequest(jobId="J"))
        clusterd.start()
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("after"))
        assert await taken.get() == Signal("after", "stopTrain")


@pytest.mark.parametrize("code", [402, 500, 502, 599, 401, 503, 777])
async def test_refusals_are_tried_again_and_said_once(
    clusterd: ClusterD, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    clusterd.answers["Init"].extend([code, code, code])
    clusterd.answers["Register"].extend([code])
    async with running(clusterd):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
    assert clusterd.names == ["Init"] * 4 + ["Register"] * 2 + ["SubscribeProcessManageSignal"]
    assert caplog.text.count(f"call=Init code={code}") == 1
    assert caplog.text.count(f"call=Register code={code}") == 1
    assert caplog.text.count(f'reason="{describe(code)}: {INFO_OF_REFUSALS}"') == 2


async def test_a_refusal_is_in_the_view_until_its_call_is_answered_with_0(clusterd: ClusterD) -> None:
    clusterd.answers["Init"].append(502)
    clusterd.answers["Register"].append(500)
    async with running(clusterd) as (client, _):
        await until(lambda: client.view().refused == f"Init 502, {describe(502)}: {INFO_OF_REFUSALS}")
        await until(lambda: client.view().refused.startswith("Register 500, "))
        await until(lambda: client.view().state == "subscribed")
        assert client.view().refused == ""


async def test_403_ends_it_with_one_warning(clusterd: ClusterD, caplog: pytest.LogCaptureFixture) -> None:
    clusterd.answers["Init"].append(403)
    client = Client(Address.parse(clusterd.address), INFO, asyncio.Queue[Event]().put, times=QUICK)
    assert client.view().state == "away"
    await client.run()
    await client.close()
    assert clusterd.names == ["Init"]
    assert (client.view().state, client.view().refused) == ("off", "")
    (line,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert "event=clusterd_recovery_off" in line and f"off or paused for the job: {INFO_OF_REFUSALS}" in line


async def test_403_is_asked_again_by_a_manager(clusterd: ClusterD) -> None:
    clusterd.answers["Init"].extend([403, 403])
    async with running(clusterd, off_again=0.05) as (client, taken):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("a"))
        await taken.get()
        assert client.view().state == "subscribed"
    assert client.view().state == "away"
    assert clusterd.names.count("Init") == 3


@pytest.mark.parametrize("bad", [b"\xff\xff", grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE, 400])
async def test_health_check_that_fails_begins_again(clusterd: ClusterD, bad: Any) -> None:
    clusterd.answers["HealthCheck"].append(bad)
    async with running(clusterd):
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 2)
    assert clusterd.names == ["Init", "Register", "SubscribeProcessManageSignal"] * 2


async def test_garbage_for_an_answer_is_an_error_with_its_cause(clusterd: ClusterD) -> None:
    client = Client(Address.parse(clusterd.address), INFO, asyncio.Queue[Event]().put)
    clusterd.answers["ReportStopComplete"].extend([b"\xff\xff", grpc.StatusCode.INTERNAL, 599])
    request = wire.StopCompleteRequest(jobId="J")
    with pytest.raises(ClusterdError, match="the answer cannot be read") as garbage:
        await client.call(rpcs.STOP_COMPLETE, request)
    assert garbage.value.__cause__ is not None
    with pytest.raises(ClusterdError, match="INTERNAL: as told") as failed:
        await client.call(rpcs.STOP_COMPLETE, request)
    assert isinstance(failed.value.__cause__, grpc.RpcError)
    assert (await client.call(rpcs.STOP_COMPLETE, request)).code == 599
    assert client.view().reports == {"sent": 0, "refused": 1, "unanswered": 2, "void": 0}
    await client.close()
    with pytest.raises(ClusterdError, match="closed"):
        await client.call(rpcs.STOP_COMPLETE, request)


async def test_call_that_is_not_answered_ends_in_time(clusterd: ClusterD) -> None:
    release = threading.Event()

    def wait() -> int:
        release.wait()
        return 0

    clusterd.answers["ReportStopComplete"].extend([wait, wait])
    client = Client(Address.parse(clusterd.address), INFO, asyncio.Queue[Event]().put)
    request = wire.StopCompleteRequest(jobId="J")
    with pytest.raises(ClusterdError, match="DEADLINE_EXCEEDED"):
        await client.call(rpcs.STOP_COMPLETE, request, 0.1)
    hanging = asyncio.create_task(client.call(rpcs.STOP_COMPLETE, request, 60.0))
    await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE)
    await client.close()
    with pytest.raises(ClusterdError):
        await hanging
    release.set()


async def test_flood_loses_and_repeats_nothing(clusterd: ClusterD) -> None:
    number = 10_000
    seen: list[str] = []
    done = asyncio.Event()

    async def take(event: Event) -> None:
        assert isinstance(event, Signal)
        seen.append(event.uuid)
        if len(seen) == number:
            done.set()

    client = Client(Address.parse(clusterd.address), INFO, take, times=QUICK)
    task = asyncio.create_task(client.run())
    await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, *(signal(str(each)) for each in range(number)))
    await done.wait()
    assert seen == [str(each) for each in range(number)]
    task.cancel()
    await asyncio.wait([task])
    await client.close()


async def test_registered_comes_before_the_stream(clusterd: ClusterD) -> None:
    async def registered() -> None:
        assert (await client.call(rpcs.STOP_COMPLETE, wire.StopCompleteRequest(jobId="J"))).code == 0

    async with running(clusterd, registered=registered) as (client, _):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
    assert clusterd.names == ["Init", "Register", "ReportStopComplete", "SubscribeProcessManageSignal"]


async def test_certificate_that_does_not_fit_is_an_error(clusterd: ClusterD) -> None:
    client = Client(
        Address.parse(clusterd.address), INFO, asyncio.Queue[Event]().put, credentials=credentials("")
    )  # the server speaks plain text
    with pytest.raises(ClusterdError, match="UNAVAILABLE"):
        await client.call(rpcs.INIT, INFO)
    await client.close()
