"""The Manager's side of ClusterD: orders come in; reports, results, and the calls of the controller go out.

```
   ClusterD ──▶ Client ──▶ Job ──▶ Outcome ─┬─ calls   ──▶ the controller, in a thread of its own ──┐ reports
      ▲                                     └─ replies ──────────────────────────────────────────┐  │
      └──────────────────────────────────────────────────────────────────────────────────────────┴──┘
```

The state has a call before it is carried out, until ClusterD has its report. A Manager that starts reports the calls it
finds there as failed. It does so after Register and before the stream of signals: ClusterD resets the job's machine
when that stream begins, so the report meets the wait that it ends, and none of a later fault
(`job/clusterd/reporter.py`). Results of switches and stress tests are bound to the stream of their order in the same
way. A pause of starts ends with its stream: a ClusterD that never comes back must not hold Agents back.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

from taskd_net.base.address import Address
from taskd_net.base.codes import ArgumentError, NodeError
from taskd_net.base.logger import get_logger
from taskd_net.base.untrusted import json_value
from taskd_net.job.clusterd import reports, rpcs
from taskd_net.job.clusterd.client import Client, ClusterdError
from taskd_net.job.clusterd.codes import Code
from taskd_net.job.clusterd.controller import Controller, NoHandler, Ranks, give_up, unknown_actions
from taskd_net.job.clusterd.operations import OPERATIONS
from taskd_net.job.clusterd.reporter import (
    ENDED_BY,
    Reporter,
    faults_of,
    has_continued,
    has_recovered,
    has_retry_failed,
)
from taskd_net.job.clusterd.rpcs import Rpc
from taskd_net.job.decide.events import (
    Acknowledged,
    CallEnded,
    Continued,
    DecidesAgain,
    Event,
    FaultsReported,
    MachineReset,
    PluginRequest,
    ProfilingSwitch,
    Recovered,
    Signal,
    Subscribed,
)
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.traffic import Call, Reply, ReportFaults
from taskd_net.job.manager.config import ManagerConfig
from taskd_net.job.manager.framework import Framework
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.job.manager.rejoining import Rejoining
from taskd_net.job.profiling_switch import SwitchFile
from taskd_net.net.wire import recover_pb2

REPORT_ATTEMPTS: Final = 4
"""Times that a report of the controller is sent to ClusterD, as by TaskD's Manager."""

REPLY_ATTEMPTS: Final = 10
"""Times that the result of a switch of cards or a stress test is sent to ClusterD, as by TaskD's Manager."""

ROLE: Final = "taskd"

NO_STREAM: Final = -1
"""Number of no stream of signals."""


class Clusterd(Reporter):
    """The connection of one job's Manager to ClusterD, in the node's event loop.

    Args:
        config: the Manager's settings, with a job and the address of ClusterD.
        take: takes events: orders, and what ends a call or a reply. It returns False for a signal taken before.
        open_calls: the calls whose report is missing in the state of the Manager before.
        controller: of the training framework; None for that of scripts that rejoin, where the Manager recovers in
            place, and else for nobody.
        job: gives the decisions of the job, for scripts that rejoin.
        limits: times of the Manager.
    """

    def __init__(
        self,
        config: ManagerConfig,
        take: Callable[[Event], object],
        open_calls: Iterable[Call] = (),
        controller: Controller | None = None,
        job: Callable[[], Job] | None = None,
        limits: ManagerLimits = ManagerLimits(),
    ) -> None:
        self._limits = limits
        job_id = config.job_id or ""
        super().__init__(job_id)
        address = config.clusterd_addr or ""
        self._take = take
        self._interrupted = list(open_calls)
        self._log = get_logger(clusterd=address, job=job_id)
        rejoins = controller is None and config.in_place and job is not None
        self._rejoining = (
            Rejoining(job, self._stand, config.in_place_timeout, limits.clusterd.look) if rejoins and job else None
        )
        self._framework = Framework(
            job_id, self._rejoining or controller, self, self._failed, self._log, limits.controller_s
        )
        info = reports.client_info(job_id, ROLE)
        self.client = Client(
            Address.parse(address, "clusterd"),
            info,
            self._arrived,
            operations=True,
            off_again=limits.off_s,
            times=limits.clusterd,
            registered=self._registered,
            opened=self._opened,
            ended=self._stream_ended,
        )
        self._loop = asyncio.get_running_loop()
        self._replying: set[str] = set()
        # The stream of the last signal, and of the last order that each result answers.
        self._stream = 0
        self._asked: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._file = SwitchFile()
        self._closing = False

    def start(self) -> None:
        """Begin. The stream of signals has ended with the Manager before."""
        self._take(MachineReset())
        self._spawn(self._framework.run(), "carries out calls of the controller")
        self._spawn(self.client.run(), "is a client of ClusterD")
        if self._rejoining is not None:
            self._spawn(self._rejoining.watch(), "watches the epochs")

    async def close(self) -> None:
        """End the connection and the controller. Idempotent."""
        if self._closing:
            return
        self._closing = True
        if self._rejoining is not None:
            self._rejoining.end()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.client.close()
        await self._framework.close()

    def decided(self) -> None:
        """The job has decided."""
        if self._rejoining is not None:
            self._rejoining.look()

    def call(self, call: Call) -> None:
        """Have the controller carry out a call, after those before. Until then reports are to earlier ones."""
        self._framework.call(call, functools.partial(self._ordered, call, self._stream))

    def reply(self, reply: Reply) -> bool:
        """Send a result to ClusterD; False, as an `Acknowledged` comes when ClusterD has it."""
        if reply.uuid not in self._replying:
            self._replying.add(reply.uuid)
            self._spawn(self._send_reply(reply, self._asked.get(reply.rpc)), f"replies {reply.rpc}")
        return False

    def report(self, report: ReportFaults) -> None:
        """Tell ClusterD of faulty ranks."""
        self._log.info("clusterd_fault_reported", ranks=sorted(report.ranks))
        request = reports.process_fault(self._job_id, report.ranks)
        self._spawn(self._report_fault(request), "reports a fault")

    def look(self) -> ProfilingSwitch | None:
        """The profiling switch of the platform's file, if it has changed; None while ClusterD says it."""
        if self.client.profiling:
            self._file = SwitchFile()
            return None
        return self._file.look()

    def fault_ranks(self, ranks: Ranks, codes: object = None) -> int:
        """Report a fault that the controller has seen first, in its thread: see `Reporter`. Returns ClusterD's code."""
        # ClusterD has ordered no checkpoint, so its result is bound to no stream, and is void.
        begun = functools.partial(self._ordered, stream=NO_STREAM)
        self._loop.call_soon_threadsafe(self._framework.fault_seen, self._limits.checkpoint_s, begun)
        return super().fault_ranks(ranks, codes)

    def _report(self, rpc: Rpc[Any, recover_pb2.Status], request: Any) -> int:
        if self._closing:
            raise NodeError("the Manager is closed")
        return asyncio.run_coroutine_threadsafe(self._send_report(rpc, request), self._loop).result()

    async def _send_report(
        self,
        rpc: Rpc[Any, recover_pb2.Status],
        request: Any,
        attempts: int = REPORT_ATTEMPTS,
        *,
        stream: int | None = None,
    ) -> int:
        """Send a report until ClusterD has taken it, or has refused it as often. Returns its last code; 599 where void.

        Args:
            rpc, request: the report.
            attempts: the number of tries.
            stream: that of the call that is reported; None for that of the last order.

        Raises:
            ClusterdError: the last attempt has no answer.
        """
        try:
            if has_retry_failed(request):
                self._take(DecidesAgain())
            if has_recovered(request) and not self._is_void(rpc, self.client.stream, stream):
                self._take(Recovered())
            if (done := has_continued(request)) is not None:
                self._take(Continued(done))
            if ranks := faults_of(request):
                self._take(FaultsReported(ranks))
            for left in reversed(range(attempts)):
                if self._closing:
                    raise NodeError("the Manager is closed")
                if self._is_void(rpc, self.client.stream, stream):
                    self._note_void(rpc)
                    return Code.SERVER_INNER_ERROR
                try:
                    code = (await self.client.report(rpc, request)).code
                    if code == Code.OK or not left:
                        return code
                except ClusterdError:
                    if not left:
                        raise
                await asyncio.sleep(self._limits.reply_pause_s)
            raise AssertionError("the last attempt returns or raises")
        finally:
            self._take(CallEnded(ENDED_BY.get(rpc.name, ())))

    async def _report_fault(self, request: recover_pb2.ProcessFaultRequest) -> None:
        try:
            await self._send_report(rpcs.PROCESS_FAULT, request)
        except (ClusterdError, NodeError) as error:  # the next stream of signals is the next try
            self._log.error("clusterd_report_failed", call=rpcs.PROCESS_FAULT.name, reason=str(error))

    def _stand(self) -> tuple[int, int]:
        """The stream of signals that stands, 0 for none, and that of the last signal."""
        return self.client.stream, self._stream

    def _note_void(self, rpc: Rpc[Any, recover_pb2.Status]) -> None:
        self.client.counters.reports["void"] += 1
        self._log.info("clusterd_report_void", call=rpc.name)

    async def _arrived(self, event: Event) -> None:
        if isinstance(event, PluginRequest):
            operation = next(each for each in OPERATIONS if each.request is type(event))
            self._asked[operation.reply.name] = self.client.stream
        if not isinstance(event, Signal):
            self._take(event)
            return
        self._stream = self.client.stream
        if self._take(event):
            for action in unknown_actions(event):
                self.client.counters.unknown_actions += 1
                self._log.warning("clusterd_action_unknown", action=action)
        elif event.is_ghost:
            self._log.warning("clusterd_order_void", signal=event.signal_type, ranks=sorted(event.fault_ranks))
        else:
            self.client.counters.repeated += 1
            self._log.info("clusterd_order_repeated", signal=event.signal_type, uuid=event.uuid)

    def _failed(self, call: Call, error: Exception) -> None:
        """The controller has failed in a call, or nobody carries it out."""
        nobody = isinstance(error, NoHandler)
        self.client.counters.failed_actions += 1
        self._log.error("clusterd_action_failed", action=f"{call.name} {call.text}".strip(), reason=repr(error))
        # The next call begins before the report is sent, and may have been ordered over the next stream.
        stream = self._streams.get(call.name)
        self._spawn(self._give_up(call, stream, str(error) or repr(error), nobody=nobody), f"gives up {call.name}")

    async def _give_up(self, call: Call, stream: int | None, reason: str, *, nobody: bool = False) -> None:
        """Give the report that ends ClusterD's wait for a call, which was ordered over this stream."""
        answer = _GivenUp(self._job_id)
        give_up(call, reason, answer, nobody=nobody)
        try:
            if answer.rpc is None:
                self._take(CallEnded((call.name,)))
            else:
                await self._send_report(answer.rpc, answer.request, stream=stream)
        except (ClusterdError, NodeError) as error:
            self._log.error("clusterd_report_failed", call=call.name, reason=str(error))

    async def _registered(self) -> None:
        """Report the calls that the Manager before did not end as failed, once each. Then ClusterD's machine begins."""
        calls, self._interrupted = self._interrupted, []
        for call in calls:
            self._log.warning("clusterd_action_interrupted", action=f"{call.name} {call.text}".strip())
            answer = _GivenUp(self._job_id)
            give_up(call, "the Manager was restarted meanwhile", answer)
            try:
                if answer.rpc is not None:
                    await self.client.call(answer.rpc, answer.request)
            except ClusterdError as error:
                self._log.error("clusterd_report_failed", call=call.name, reason=str(error))
            self._take(CallEnded((call.name,)))

    def _opened(self) -> None:
        self._take(Subscribed())

    def _stream_ended(self) -> None:
        """ClusterD resets the job's machine, or is gone: what it has begun ends here, whether it comes back or not."""
        if not self._closing:
            self._take(MachineReset())

    async def _send_reply(self, reply: Reply, stream: int | None) -> None:
        """Send a result; `stream` is that of its order, None for one of the Manager before."""
        rpc, request = _result(self._job_id, reply)
        reason = ""
        try:
            for _ in range(REPLY_ATTEMPTS):
                if stream != self.client.stream:
                    self._note_void(rpc)
                    self._take(Acknowledged(reply.uuid))
                    return
                try:
                    code = (await self.client.call(rpc, request)).code
                    if code == Code.OK:
                        self._take(Acknowledged(reply.uuid))
                        return
                    reason = f"{rpc.name}: {code}"
                except ClusterdError as error:
                    reason = str(error)
                await asyncio.sleep(self._limits.reply_pause_s)
            self._log.error("clusterd_report_failed", call=rpc.name, reason=reason)
            self._take(Acknowledged(reply.uuid))
        finally:
            self._replying.discard(reply.uuid)

    def _spawn(self, work: Any, name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name=f"{name} for {self._job_id}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("manager_failed", task=task.get_name(), reason=repr(error), exc_info=error)


class _GivenUp(Reporter):
    """The report of a call that is given up, as a request instead of a call."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.rpc: Rpc[Any, recover_pb2.Status] | None = None
        self.request: Any = None

    def _report(self, rpc: Rpc[Any, recover_pb2.Status], request: Any) -> int:
        self.rpc, self.request = rpc, request
        return int(Code.OK)


def _result(job_id: str, reply: Reply) -> tuple[Rpc[Any, recover_pb2.Status], Any]:
    """The request of a result.

    Raises:
        ArgumentError: a plugin has made one that ClusterD does not have.
    """
    for each in OPERATIONS:
        if each.reply.name == reply.rpc:
            return each.reply, each.write(job_id, json_value(reply.result))
    expected = " or ".join(each.reply.name for each in OPERATIONS)
    raise ArgumentError(f"rpc is {reply.rpc!r}; expected {expected}")
