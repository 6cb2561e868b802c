"""ClusterD's services over gRPC: calls in, answers and streams out."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeAlias, cast

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from taskd_net.net.wire import datatrace_pb2, recover_pb2
from taskd_net_lab.clusterd import orders
from taskd_net_lab.clusterd.check import DOMAINS
from taskd_net_lab.clusterd.course import Wait
from taskd_net_lab.clusterd.desk import CALLS_PER_S, HEALTH_CHECKS_PER_S, Answer, Desk, Rate
from taskd_net_lab.clusterd.machine import Machine
from taskd_net_lab.clusterd.messages import (
    Answered,
    Crashed,
    Decision,
    Ended,
    Moved,
    Operation,
    Queue,
    Ready,
    Report,
    Reset,
    RestartAll,
    Sent,
    Stream,
    Told,
    Unread,
)
from taskd_net_lab.clusterd.script import Script

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Unary: TypeAlias = Callable[[Any, Context], Awaitable[Message]]
Stream_: TypeAlias = Callable[[Any, Context], AsyncIterator[Message]]
Say: TypeAlias = Callable[[str, Mapping[str, object]], None]
"""Prints an event: its name and its fields."""

NOT_REGISTERED: Final = 400


class Service:
    """The services `Recover` and `TrainingDataTrace`.

    Args:
        desk: the jobs.
        script: the steps and the scripted answers.
        say: prints what is seen and decided.
        health_checks: taken in a second.
    """

    def __init__(self, desk: Desk, script: Script, say: Say, health_checks: int = HEALTH_CHECKS_PER_S) -> None:
        self._desk = desk
        self._script = script
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._rate, self._health_rate = Rate(CALLS_PER_S), Rate(health_checks)
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[int]] = {}
        self._streams: dict[tuple[str, Stream], asyncio.Queue[Message | None]] = {}
        self._told: dict[tuple[str, Operation], asyncio.Queue[str]] = {}
        self._watching: dict[str, asyncio.Queue[Message | None]] = {}
        self.changed = asyncio.Event()
        self.crashed = ""

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """The methods, for a server of grpc.aio."""
        pb = recover_pb2
        unary: dict[str, tuple[type[Message], Unary]] = {
            "Init": (pb.ClientInfo, self._init),
            "Register": (pb.ClientInfo, self._register),
            "HealthCheck": (pb.ClientInfo, self._health_check),
            Queue.STOPPED: (pb.StopCompleteRequest, self._stop_complete),
            Queue.STRATEGIES: (pb.RecoverStrategyRequest, self._strategies),
            Queue.STATUS: (pb.RecoverStatusRequest, self._status),
            Queue.SWITCHED: (pb.SwitchResult, self._switched),
            Queue.STRESSED: (pb.StressTestResult, self._stressed),
            "ReportProcessFault": (pb.ProcessFaultRequest, self._process_fault),
            "SwitchNicTrack": (pb.SwitchNics, self._switch_cards),
            "StressTest": (pb.StressTestParam, self._stress_test),
        }
        streams: dict[str, tuple[type[Message], Stream_]] = {
            **{name: (pb.ClientInfo, self._subscription(name)) for name in Stream},
            "SubscribeSwitchNicSignal": (pb.SwitchNicRequest, self._result_of(Operation.SWITCH)),
            "SubscribeStressTestResponse": (pb.StressTestRequest, self._result_of(Operation.STRESS)),
        }
        trace = {"SubscribeDataTraceSwitch": (datatrace_pb2.ProfilingClientInfo, self._trace)}
        return (
            grpc.method_handlers_generic_handler(
                "Recover",
                {name: self._unary(name, *each) for name, each in unary.items()}
                | {name: self._stream(name, *each) for name, each in streams.items()},
            ),
            grpc.method_handlers_generic_handler(
                "TrainingDataTrace", {name: self._stream(name, *each) for name, each in trace.items()}
            ),
        )

    def settle(self, job_id: str, machine: Machine) -> None:
        """Carry out the decisions of a machine."""
        decisions, machine.decisions = machine.decisions, []
        for decision in decisions:
            self._carry_out(job_id, decision)
        if decisions:
            self.changed.set()

    def tick(self, now: float) -> None:
        """Let time pass for all machines."""
        for job_id, machine in list(self._desk.machines()):
            machine.tick(now)
            self.settle(job_id, machine)

    def profile(self, job_id: str, domains: Mapping[str, bool]) -> None:
        """Change the profiling switch of a job, and tell those who watch it."""
        if queue := self._watching.get(job_id):
            queue.put_nowait(_switch(domains))

    def _carry_out(self, job_id: str, decision: Decision) -> None:
        match decision:
            case Moved(state, event, to):
                self._say("moved", {"job": job_id, "state": state, "by": event, "to": to})
                self._script.saw(job_id, to, self._loop.time())
            case Sent(stream, order):
                self._streams[job_id, stream].put_nowait(orders.message(job_id, order))
                self._say("sent", {"job": job_id, "stream": stream, **asdict(order)})
            case Unread(stream, order):
                self._say("unread", {"job": job_id, "stream": stream, **asdict(order)})
            case Answered(call, code):
                # The client may have given its call up; its report counts all the same.
                if (waiting := self._calls.get(call)) is not None and not waiting.done():
                    waiting.set_result(code)
            case Told(operation, text):
                self._told.setdefault((job_id, operation), asyncio.Queue()).put_nowait(text)
                self._say("operation_ended", {"job": job_id, "operation": operation, "text": text})
            case Reset(state):
                self._say("reset", {"job": job_id, "state": state})
            case Ready():
                self._say("ready", {"job": job_id})
                self._script.saw(job_id, "subscribed", self._loop.time())
            case RestartAll():
                self._say("restart_all", {"job": job_id})
            case Ended(stream):
                self._streams[job_id, stream].put_nowait(None)
            case Crashed(cause):
                self._crash(cause)

    def _crash(self, cause: str) -> None:
        self.crashed = cause
        self._say("crashed", {"cause": cause})
        self.changed.set()

    def _unary(self, name: str, request: type[Message], method: Unary) -> grpc.RpcMethodHandler[Any, Any]:
        async def answer(asked: Any, context: Context) -> Message:
            rate = self._health_rate if name == "HealthCheck" else self._rate
            if not rate.take(self._loop.time()):
                await context.abort(grpc.StatusCode.UNKNOWN, f"qps exceeded, method={name}")
            fields = {"call": name, "job": _job_of(asked)}
            scripted = await self._scripted(name, context)
            self._say("called", {**fields, "request": _plain(asked)})
            status = await method(asked, context) if scripted is None else scripted
            self._say("answered", {**fields, **_plain(status)})
            return status

        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=request.FromString, response_serializer=_bytes
        )

    async def _scripted(self, name: str, context: Context) -> Message | None:
        """The scripted answer; does not return for an error of gRPC, or for silence."""
        answer = self._script.answer(name, self._loop.time())
        if answer is None:
            return None
        self._say("scripted", {"call": name, "code": answer.code, "grpc": answer.grpc, "silent": answer.silent})
        if answer.grpc:
            await context.abort(grpc.StatusCode[answer.grpc], answer.info)
        if answer.silent:
            await self._loop.create_future()
        return _said(Answer(answer.code, answer.info))

    async def _init(self, request: recover_pb2.ClientInfo, _: Context) -> Message:
        return _said(self._desk.init(request.jobId))

    async def _register(self, request: recover_pb2.ClientInfo, _: Context) -> Message:
        answer = self._desk.register(request.jobId, self._loop.time())
        if answer.code == 0:
            self._script.saw(request.jobId, "registered", self._loop.time())
            self.changed.set()
        return _said(answer)

    async def _health_check(self, _: recover_pb2.ClientInfo, __: Context) -> Message:
        return _said(Answer())

    async def _need_status(self, request: Any, name: str, context: Context) -> None:
        if not request.HasField("status"):
            self._crash(f"{name} without status")
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the process has ended")

    async def _stop_complete(self, request: recover_pb2.StopCompleteRequest, context: Context) -> Message:
        await self._need_status(request, "ReportStopComplete", context)
        return await self._report(request.jobId, Report(Queue.STOPPED, request.status.code))

    async def _strategies(self, request: recover_pb2.RecoverStrategyRequest, _: Context) -> Message:
        return await self._report(request.jobId, Report(Queue.STRATEGIES, strategies=tuple(request.strategies)))

    async def _status(self, request: recover_pb2.RecoverStatusRequest, context: Context) -> Message:
        await self._need_status(request, "ReportRecoverStatus", context)
        isolate = tuple(orders.ranks(request.isolateRankIds))
        return await self._report(request.jobId, Report(Queue.STATUS, request.status.code, isolate=isolate))

    async def _switched(self, request: recover_pb2.SwitchResult, _: Context) -> Message:
        return await self._report(request.jobId, Report(Queue.SWITCHED, done=request.result))

    async def _stressed(self, request: recover_pb2.StressTestResult, _: Context) -> Message:
        return await self._report(request.jobId, Report(Queue.STRESSED, tested=orders.tested(request)))

    async def _report(self, job_id: str, report: Report) -> Message:
        machine = self._desk.machine(job_id)
        if machine is None:
            return _said(Answer(NOT_REGISTERED, f"job {job_id} is not registered"))
        call = next(self._numbers)
        self._calls[call] = self._loop.create_future()
        machine.report(call, report, self._loop.time())
        self.settle(job_id, machine)
        try:
            code = await self._calls[call]
        finally:
            del self._calls[call]
        return _said(Answer(code, "success" if code == 0 else "the machine was reset"))

    async def _process_fault(self, request: recover_pb2.ProcessFaultRequest, _: Context) -> Message:
        machine = self._desk.machine(request.jobId)
        if machine is None:
            return _said(Answer(NOT_REGISTERED, f"job {request.jobId} is not registered"))
        if self._desk.jobs[request.jobId].writable:
            machine.fault(orders.fault_types(request.faultRanks), self._loop.time())
        else:
            await asyncio.sleep(machine.seconds[Wait.REFUSED])
            machine.refuse(self._loop.time())
        self.settle(request.jobId, machine)
        self.changed.set()
        return _said(Answer())

    async def _switch_cards(self, request: recover_pb2.SwitchNics, _: Context) -> Message:
        cards = {node: (list(each.dev), list(each.op)) for node, each in request.nicOps.items()}
        return self._operated(request.jobID, self._desk.switch_cards(request.jobID, cards, self._loop.time()))

    async def _stress_test(self, request: recover_pb2.StressTestParam, _: Context) -> Message:
        nodes = {node: list(each.ops) for node, each in request.stressParam.items()}
        now, everywhere = self._loop.time(), list(request.allNodesOps)
        return self._operated(request.jobID, self._desk.stress_test(request.jobID, nodes, everywhere, now))

    def _operated(self, job_id: str, answer: Answer) -> Message:
        machine = self._desk.machine(job_id)
        if machine is not None:
            self.settle(job_id, machine)
        return _said(answer)

    def _stream(self, name: str, request: type[Message], method: Stream_) -> grpc.RpcMethodHandler[Any, Any]:
        async def serve(asked: Any, context: Context) -> AsyncIterator[Message]:
            fields = {"call": name, "job": _job_of(asked)}
            self._say("stream_began", fields)
            try:
                await self._scripted(name, context)
                async for message in method(asked, context):
                    yield message
            finally:
                self._say("stream_ended", fields)

        return grpc.unary_stream_rpc_method_handler(
            serve, request_deserializer=request.FromString, response_serializer=_bytes
        )

    def _subscription(self, stream: Stream) -> Stream_:
        async def serve(request: recover_pb2.ClientInfo, context: Context) -> AsyncIterator[Message]:
            job_id, machine = request.jobId, self._desk.machine(request.jobId)
            if machine is None:
                await context.abort(grpc.StatusCode.UNKNOWN, f"job {job_id} is not registered")
            machine.begin(stream, self._loop.time())
            self.settle(job_id, machine)  # the client that had the stream loses it
            queue = self._streams[job_id, stream] = asyncio.Queue()
            self.changed.set()
            try:
                while (message := await queue.get()) is not None:
                    yield message
            finally:
                # A later stream of the same kind has taken this one's place.
                if self._streams[job_id, stream] is queue and self._desk.machine(job_id) is machine:
                    machine.end(stream, self._loop.time())
                    self.settle(job_id, machine)
                    if stream is Stream.SIGNALS:
                        self._script.saw(job_id, "unsubscribed", self._loop.time())

        return serve

    def _result_of(self, operation: Operation) -> Stream_:
        async def serve(request: Any, context: Context) -> AsyncIterator[Message]:
            machine = self._desk.machine(request.jobID)
            told = self._told.setdefault((request.jobID, operation), asyncio.Queue())
            if machine is None or (machine.operation is not operation and told.empty()):
                await context.abort(grpc.StatusCode.UNKNOWN, f"job {request.jobID} has no {operation}")
            text = await told.get()
            answer = {
                Operation.SWITCH: recover_pb2.SwitchNicResponse,
                Operation.STRESS: recover_pb2.StressTestResponse,
            }[operation]
            yield answer(jobID=request.jobID, msg=text)

        return serve

    async def _trace(self, request: datatrace_pb2.ProfilingClientInfo, _: Context) -> AsyncIterator[Message]:
        queue: asyncio.Queue[Message | None] = asyncio.Queue()
        if before := self._watching.get(request.jobId):
            before.put_nowait(None)
        self._watching[request.jobId] = queue
        try:
            while (message := await queue.get()) is not None:
                yield message
        finally:
            if self._watching[request.jobId] is queue:
                del self._watching[request.jobId]


def _said(answer: Answer) -> Message:
    return recover_pb2.Status(code=answer.code, info=answer.info)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _job_of(request: Any) -> str:
    return str(getattr(request, "jobId", getattr(request, "jobID", "")))


def _plain(message: Message) -> dict[str, object]:
    return cast("dict[str, object]", MessageToDict(message, preserving_proto_field_name=True))


def _switch(domains: Mapping[str, bool]) -> Message:
    states = {domain: "on" if domains.get(domain) else "off" for domain in DOMAINS}
    switch = datatrace_pb2.ProfilingSwitch(**states)
    return datatrace_pb2.DataStatusRes(message="success", profilingSwitch=switch, code=200)
