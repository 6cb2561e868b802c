"""The services over real sockets, with a client that knows the public names alone."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar, cast

import grpc
import pytest
from google.protobuf.message import Message

from taskd_net.base.address import Address
from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.rpcs import Rpc
from taskd_net.net.wire import datatrace_pb2
from taskd_net.net.wire import recover_pb2 as pb
from taskd_net_lab.clusterd import run
from taskd_net_lab.clusterd.desk import HEALTH_CHECKS_PER_S
from taskd_net_lab.clusterd.reader import parse
from taskd_net_lab.clusterd.run import Run
from tests.peers.clusterd import RPCS

JOB = "jobs: [{id: demo, nodes: 2, processes: 2, strategies: [recover, dump, exit]}]\n"
INFO = pb.ClientInfo(jobId="demo", role="taskd")
STOPPED = pb.StopCompleteRequest(jobId="demo", status=pb.Status(code=0))

SPEED = 20.0
"""Times of the real ClusterD, divided by this."""

AnswerT = TypeVar("AnswerT", bound=Message)


class Client:
    """Calls by name, and the events that the stand-in has printed."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.printed = asyncio.Condition()
        self._wakes: set[asyncio.Task[None]] = set()
        self.channel: grpc.aio.Channel | None = None

    def say(self, event: str, fields: Mapping[str, object]) -> None:
        self.events.append({"event": event, **fields})
        wake = asyncio.get_running_loop().create_task(self._wake())
        self._wakes.add(wake)
        wake.add_done_callback(self._wakes.discard)

    async def _wake(self) -> None:
        async with self.printed:
            self.printed.notify_all()

    async def until(self, event: str, times: int = 1) -> dict[str, Any]:
        """Wait for an event to be printed; returns the last one."""

        def found() -> list[dict[str, Any]]:
            return [each for each in self.events if each["event"] == event]

        async with asyncio.timeout(20), self.printed:
            await self.printed.wait_for(lambda: len(found()) >= times)
        return found()[-1]

    async def call(self, name: str, request: Message) -> pb.Status:
        assert self.channel is not None
        method: Any = self.channel.unary_unary(
            f"/Recover/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.Status.FromString,
        )
        answer = await method(request, timeout=20)
        assert isinstance(answer, pb.Status)
        return answer

    async def code(self, name: str, request: Message = INFO) -> int:
        return (await self.call(name, request)).code

    def stream(
        self, name: str, answer: type[AnswerT], request: Message = INFO, service: str = "Recover"
    ) -> grpc.aio.UnaryStreamCall[Any, AnswerT]:
        assert self.channel is not None
        method: Any = self.channel.unary_stream(
            f"/{service}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return cast("grpc.aio.UnaryStreamCall[Any, AnswerT]", method(request, timeout=30))

    async def join(self) -> grpc.aio.UnaryStreamCall[Any, pb.ProcessManageSignal]:
        assert (await self.code("Init"), await self.code("Register")) == (0, 0)
        return self.stream("SubscribeProcessManageSignal", pb.ProcessManageSignal)

    async def fault(self, rank: str = "1", *, stream: int = 1) -> None:
        """Report a fault over the first, or a later stream, once its reset loses no rank."""
        ranks = [pb.FaultRank(rankId=rank, faultType="1"), pb.FaultRank(rankId="x", faultType="1")]
        await self.until("ready", stream)
        assert await self.code("ReportProcessFault", pb.ProcessFaultRequest(jobId="demo", faultRanks=ranks)) == 0


@contextlib.asynccontextmanager
async def running(text: str, health_checks: int = HEALTH_CHECKS_PER_S) -> AsyncIterator[Client]:
    client = Client()
    run = Run(parse(text, speed=SPEED), Address("127.0.0.1", 0), client.say, health_checks=health_checks)
    task = asyncio.create_task(run.until_end())
    try:
        address = (await client.until("listening"))["address"]
        async with grpc.aio.insecure_channel(address) as client.channel:
            yield client
    finally:
        task.cancel()
        await asyncio.wait([task])


async def read(stream: grpc.aio.UnaryStreamCall[Any, AnswerT]) -> AnswerT:
    """The next message that is no keep-alive."""
    async with asyncio.timeout(20):
        message = await stream.read()
        while isinstance(message, pb.ProcessManageSignal) and message.signalType == "keep-alive":
            message = await stream.read()
    assert isinstance(message, Message), message
    return cast(AnswerT, message)


async def ended(stream: grpc.aio.UnaryStreamCall[Any, Any]) -> grpc.StatusCode:
    async with asyncio.timeout(20):
        while await stream.read() is not grpc.aio.EOF:
            pass
        return await stream.code()


async def test_a_recovery_over_the_wire() -> None:
    async with running(JOB + "steps: [{when: subscribed, fault: {ranks: [3]}}]") as client:
        signals = await client.join()
        stop = await read(signals)
        assert (stop.signalType, list(stop.actions), stop.jobId) == ("stopTrain", ["stop_train"], "demo")
        assert [(each.rankId, each.faultType) for each in stop.faultRanks] == [("3", "1")]
        assert await client.code("ReportStopComplete", STOPPED) == 0
        fault = await read(signals)
        assert (fault.signalType, list(fault.nodeRankIds)) == ("globalFault", ["1"])
        offer = pb.RecoverStrategyRequest(jobId="demo", strategies=["recover"])
        assert await client.code("ReportRecoverStrategy", offer) == 0
        change = await read(signals)
        assert (change.signalType, change.changeStrategy) == ("changeStrategy", "recover")
        status = pb.RecoverStatusRequest(jobId="demo", status=pb.Status(code=0), strategy="recover")
        assert await client.code("ReportRecoverStatus", status) == 0
        moves = [each for each in client.events if each["event"] == "moved"]
        assert moves[-1]["to"] == "init"
        assert await ended(signals) is grpc.StatusCode.OK


async def test_before_registration_reports_are_400_and_streams_unknown() -> None:
    async with running(JOB) as client:
        assert await client.code("Register") == 408
        assert await client.code("ReportStopComplete", STOPPED) == 400
        assert await client.code("ReportProcessFault", pb.ProcessFaultRequest(jobId="demo")) == 400
        assert await client.code("ReplySwitchNicResult", pb.SwitchResult(jobId="demo")) == 400
        assert await client.code("HealthCheck") == 0
        for name in ("SubscribeProcessManageSignal", "SubscribeNotifySwitch", "SubscribeNotifyExecStressTest"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.stream(name, pb.ProcessManageSignal).read()
            assert caught.value.code() is grpc.StatusCode.UNKNOWN


async def test_a_second_report_blocks_its_call_and_a_reset_answers_it_599() -> None:
    async with running(JOB) as client:
        signals = await client.join()
        await client.until("reset")
        assert await client.code("ReportStopComplete", STOPPED) == 0
        second = asyncio.create_task(client.code("ReportStopComplete", STOPPED))
        await client.until("called", 4)
        assert not second.done()
        signals.cancel()
        assert await second == 599


async def test_a_process_fault_of_the_client_begins_a_recovery() -> None:
    async with running(JOB) as client:
        signals = await client.join()
        await client.until("reset")
        await client.fault()
        assert [each.rankId for each in (await read(signals)).faultRanks] == ["1"]


async def test_a_switch_of_cards_by_an_operator() -> None:
    async with running(JOB) as client:
        signals = await client.join()
        switches = client.stream("SubscribeNotifySwitch", pb.SwitchRankList)
        await client.until("stream_began", 2)
        request = pb.SwitchNics(jobID="demo", nicOps={"node-1": pb.DeviceList(dev=["0", "1"], op=[True, False])})
        assert await client.code("SwitchNicTrack", request) == 0
        assert await client.code("SwitchNicTrack", request) == 411
        told = client.stream("SubscribeSwitchNicSignal", pb.SwitchNicResponse, pb.SwitchNicRequest(jobID="demo"))
        assert list((await read(signals)).actions) == ["pause_train"]
        assert await client.code("ReportStopComplete", STOPPED) == 0
        order = await read(switches)
        assert (list(order.rankID), list(order.op), order.jobId) == (["2", "3"], [True, False], "demo")
        assert await client.code("ReplySwitchNicResult", pb.SwitchResult(jobId="demo", result=True)) == 0
        assert (await read(signals)).changeStrategy == "continue"
        assert await client.code("ReportRecoverStatus", pb.RecoverStatusRequest(jobId="demo", status=pb.Status())) == 0
        assert (await read(told)).msg == "switch nic finish"


async def test_a_stress_test_that_finds_a_fault() -> None:
    async with running(JOB) as client:
        signals = await client.join()
        tests = client.stream("SubscribeNotifyExecStressTest", pb.StressTestRankParams)
        await client.until("stream_began", 2)
        assert await client.code("StressTest", pb.StressTestParam(jobID="demo", allNodesOps=[0])) == 0
        told = client.stream("SubscribeStressTestResponse", pb.StressTestResponse, pb.StressTestRequest(jobID="demo"))
        assert (await read(signals)).timeout == 900
        assert await client.code("ReportStopComplete", STOPPED) == 0
        assert (await read(signals)).signalType == "pauseStartAgent"
        order = await read(tests)
        assert {rank: list(each.ops) for rank, each in order.stressParam.items()} == {
            str(rank): [0] for rank in range(4)
        }
        bad = pb.StressTestRankResult(rankResult={"0": pb.StressTestOpResult(code="2", result="fault")})
        result = pb.StressTestResult(jobId="demo", stressResult={"2": bad})
        assert await client.code("ReplyStressTestResult", result) == 0
        assert (await read(signals)).signalType == "continueStartAgent"
        stop = await read(signals)
        assert (list(stop.actions), [each.rankId for each in stop.faultRanks]) == (["stop_train"], ["2", "3"])
        assert (await read(told)).msg == "stress test find fault"


@pytest.mark.parametrize("rpc", RPCS.values(), ids=lambda rpc: rpc.name)
async def test_each_method_is_served(rpc: Rpc[Any, Any]) -> None:
    request = rpc.request(
        **{name: "demo" for name in ("jobId", "jobID") if name in rpc.request.DESCRIPTOR.fields_by_name}
    )
    async with running(JOB) as client:
        await client.join()
        await client.until("reset")
        if rpc in (rpcs.STOP_COMPLETE, rpcs.RECOVER_STATUS):
            request.status.code = 0  # it ends without
            request.status.SetInParent()
        if not rpc.streams:
            assert isinstance(await client.call(rpc.name, request), pb.Status)
            return
        stream = client.stream(rpc.name, rpc.answer, request, rpc.service)
        await client.until("stream_began", 2)
        if rpc in (rpcs.SWITCH_NIC_ANSWERS, rpcs.STRESS_TEST_ANSWERS):
            with pytest.raises(grpc.aio.AioRpcError, match="job demo has no "):
                await read(stream)
        else:
            await client.code("HealthCheck")
            assert not stream.done()
            stream.cancel()


async def test_the_profiling_switch_after_a_change_and_for_one_client() -> None:
    steps = "steps: [{profiling: {FP: on}}, {when: subscribed, profiling: {Step: on}}]"
    async with running(JOB + steps) as client:
        await client.until("step")
        info = datatrace_pb2.ProfilingClientInfo(jobId="demo", role="taskd")
        switches = client.stream("SubscribeDataTraceSwitch", datatrace_pb2.DataStatusRes, info, "TrainingDataTrace")
        await client.join()
        first = await read(switches)
        assert (first.profilingSwitch.Step, first.profilingSwitch.FP, first.code) == ("on", "off", 200)
        client.stream("SubscribeDataTraceSwitch", datatrace_pb2.DataStatusRes, info, "TrainingDataTrace")
        assert await ended(switches) is grpc.StatusCode.OK


async def test_a_report_without_status_ends_it() -> None:
    async with running(JOB) as client:
        signals = await client.join()
        await client.until("reset")
        with pytest.raises(grpc.aio.AioRpcError):
            await client.code("ReportStopComplete", pb.StopCompleteRequest(jobId="demo"))
        with pytest.raises(grpc.aio.AioRpcError):
            await ended(signals)
        await client.until("listening", 2)
        assert await client.code("ReportStopComplete", STOPPED) == 400


async def test_a_write_that_the_kube_api_refuses_takes_six_seconds_and_ends_the_round() -> None:
    async with running(JOB + "steps: [{when: subscribed, change: {writable: off}}]") as client:
        signals = await client.join()
        await client.until("step")
        await client.fault()
        killed = await read(signals)
        assert (killed.signalType, killed.uuid) == ("killMaster", "")
        assert await ended(signals) is grpc.StatusCode.OK


async def test_scripted_answers() -> None:
    answers = """\
answers:
  - {call: Init, code: 502, info: later, times: 1}
  - {call: Register, grpc: UNAVAILABLE, info: gone, times: 1}
  - {call: HealthCheck, silent: on}
  - {call: SubscribeProcessManageSignal, grpc: INTERNAL, times: 1}
"""
    async with running(JOB + answers) as client:
        assert (await client.call("Init", INFO)).info == "later"
        with pytest.raises(grpc.aio.AioRpcError, match="gone"):
            await client.code("Register")
        silent = asyncio.create_task(client.code("HealthCheck"))
        await client.until("scripted", 3)
        silent.cancel()
        signals = await client.join()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await signals.read()
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        await client.join()
        await client.until("reset")


async def test_a_new_stream_takes_the_place_of_the_old_one() -> None:
    async with running(JOB) as client:
        old = await client.join()
        await client.until("ready")
        new = await client.join()
        await client.until("reset", 2)
        await client.until("stream_ended")
        assert await ended(old) is grpc.StatusCode.OK
        await client.fault(stream=2)
        assert (await read(new)).signalType == "stopTrain"
        assert [each["event"] for each in client.events].count("reset") == 2


async def test_more_calls_a_second_than_the_bound_are_refused() -> None:
    async with running(JOB, health_checks=5) as client:
        outcomes = await asyncio.gather(*(client.code("HealthCheck") for _ in range(40)), return_exceptions=True)
        refused = [each for each in outcomes if isinstance(each, grpc.aio.AioRpcError)]
        assert "qps exceeded, method=HealthCheck" in [each.details() for each in refused]
        assert outcomes.count(0) >= 5


async def test_gone_and_back_with_an_empty_memory() -> None:
    async with running(JOB + "steps: [{when: subscribed, away: 0.2}, {end: on}]") as client:
        signals = await client.join()
        with pytest.raises(grpc.aio.AioRpcError):
            await signals.read()
        await client.until("listening", 2)
        first, last = (each["address"] for each in client.events if each["event"] == "listening")
        assert first == last
        assert (await client.until("step", 2))["action"] == "End"


async def test_a_client_that_comes_back_finds_other_times() -> None:
    steps = """
- {when: subscribed, fault: {ranks: [3]}}
- {when: unsubscribed, change: {waits: {flush: 0}}}
- {when: subscribed, fault: {ranks: [3]}}
"""
    async with running(JOB + f"waits: {{flush: 900}}\nsteps: {steps}") as client:
        signals = await client.join()
        assert (await read(signals)).signalType == "stopTrain"
        signals.cancel()
        await client.until("step", 2)
        signals = await client.join()
        assert (await read(signals)).signalType == "stopTrain"
        assert await client.code("ReportStopComplete", STOPPED) == 0
        assert (await read(signals)).signalType == "globalFault"


async def hello(address: str) -> asyncio.StreamReader:
    """Open a connection, and greet as a client of HTTP/2."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    _writers.append(writer)
    return reader


_writers: list[asyncio.StreamWriter] = []


@pytest.fixture
async def descriptors() -> AsyncIterator[None]:
    """Room for both ends of 512 connections; all are closed at the end."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 4096), before[1]))
    yield
    for writer in _writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    _writers.clear()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("descriptors")
async def test_the_513th_connection_is_closed() -> None:
    client = Client()
    task = asyncio.create_task(Run(parse(JOB), Address("127.0.0.1", 0), client.say).until_end())
    try:
        address = (await client.until("listening"))["address"]
        async with asyncio.timeout(20):
            for _ in range(run.CONNECTIONS):
                assert await (await hello(address)).read(1)
            with contextlib.suppress(ConnectionResetError):
                assert await (await hello(address)).read(1) == b""
    finally:
        task.cancel()
        await asyncio.wait([task])
