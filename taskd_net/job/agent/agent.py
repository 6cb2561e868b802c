"""The Agent: the launcher of one node's workers (docs/contract.md, section 7; TaskD API reference, "TaskD Agent").

A thin shell around `supervision.Supervisor`, which decides. Two threads share the work:

- The node's thread reads commands, counts seconds, notices the ends of workers, sends reports, and feeds the
  Supervisor. Nothing blocks it.
- The thread that called `start_taskd_agent` calls the framework's functions, one after another.

Faults are judged elsewhere: the Agent reports failed workers, and the Mgr decides.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Final
from uuid import uuid4

from taskd_net.base import vocabulary
from taskd_net.base.cause import summary
from taskd_net.base.progress import NodeProgress
from taskd_net.base.stacks import grouped, write_stacks
from taskd_net.base.untrusted import natural, shown
from taskd_net.base.waiting import taken
from taskd_net.job import arguments
from taskd_net.job.agent import plans
from taskd_net.job.agent.evidence import collected
from taskd_net.job.agent.messages import Exit, Go, Meeting, WantStacks, read_command, read_highest, stacks
from taskd_net.job.agent.plans import Call, Leave, Plans, Return
from taskd_net.job.agent.supervision import (
    AgentJoined,
    AgentTimes,
    CallRaised,
    CallReturned,
    Commanded,
    CommandIgnored,
    Ends,
    Event,
    SendReport,
    Supervisor,
    Tick,
    Waits,
    WaitsForMgr,
    WaitsForRelease,
    Woken,
    WorkerEnded,
    WorkerStatus,
)
from taskd_net.job.agent.workers import FailedCalls, LocalWorkers, carry_out
from taskd_net.job.exchange import REGISTER_EVERY_S, RETRY_S, Fencing, Heartbeat, ReportQueue, from_mgr, read_body
from taskd_net.job.member import StartGuard, by_signal, leave, log, signal_of
from taskd_net.job.node_proxy import AgentsProxy
from taskd_net.net.wire.codec import Message
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig
from taskd_net.node.node import Node
from taskd_net.node.reading import Reading

LOOK_S: Final = 1.0
"""Seconds between two looks of an Agent at its workers, and between two of its KEEP_ALIVEs, as TaskD's Agents do."""

JOIN_S: Final = 180.0
"""Seconds that an Agent has to join the mesh, as TaskD's: the start of a job's other pods. Then it leaves with 1. Where
no platform brings the Manager, it has those of `Told.patience`."""

GO_S: Final = 900.0
"""Seconds that an Agent waits for the go after it has joined, as TaskD's mean to. Then it leaves with 1."""

GRACE_EXIT_S: Final = 600.0
"""Seconds that workers have to end after SIGTERM when the Mgr asks for a graceful exit: time to write a checkpoint."""

LEAVE_S: Final = 3.0
"""Seconds that an Agent that leaves waits for the Mgr to take its last report: three attempts, as TaskD's make."""

FAULT_TIMEOUT: Final = "TASKD_REPORT_FAULT_TIMEOUT"
FAULT_TIMEOUT_S: Final = (300, 600)
"""Least and greatest seconds of `TASKD_REPORT_FAULT_TIMEOUT`; outside it is off, as in TaskD's Agents."""

MTYPE: Final = "DEFAULT"


@dataclass(frozen=True, slots=True)
class Told:
    """Instructions of a launcher about restarts. The Manager decides on them.

    Args:
        most: the restarts that its user allows; None where nobody has said it.
        words: the argument or setting that says who restarts, for people; empty for none.
        job: it says that the Manager restarts what fails; else a platform.
        patience: seconds that the node waits for a Manager that another launcher starts; None where a platform does.
    """

    most: int | None = None
    words: str = ""
    job: bool = True
    patience: float | None = None

    def objection(self, *, restarts: bool) -> str:
        """The difference to what the Manager does, in words; empty for none.

        Args:
            restarts: the Manager restarts what fails.
        """
        if not self.words or restarts == self.job:
            return ""
        does = "restarts what fails" if restarts else "leaves failed nodes to a platform, and restarts none of them"
        mode = vocabulary.JOB if restarts else vocabulary.PLATFORM
        return f"the Manager {does} (--restarts {mode}), whatever {self.words} says; this launcher follows it"


class Agent:
    """The Agent of this process, from init to destroy.

    Args:
        config: the node.
        workers: the workers.
        their_plans: the meaning of each command for them.
        proxy: the Proxy of the node, if this process is to run it.
        devices: names of the node's devices, by local rank.
        times: of its decisions; None for those of `times_of_environment`.
        told: what the launcher was told about restarts.
        look: seconds between two looks at the workers.
        retry: seconds before a report that the Mgr has not taken is sent again.

    Attributes:
        ended: the Mgr's word for the end of the job, once it has come.
        left: the reason of an end in failure that the Mgr has not asked for; empty for none.
        said_end: the Mgr knows that a signal ends this process.
    """

    def __init__(
        self,
        config: NodeConfig,
        workers: LocalWorkers,
        their_plans: Plans,
        proxy: AgentsProxy,
        devices: Sequence[str] = (),
        *,
        times: AgentTimes | None = None,
        told: Told = Told(),
        look: float = LOOK_S,
        retry: float = RETRY_S,
    ) -> None:
        self._times = times or times_of_environment(told.patience)
        self._told = told
        self._look_s = look
        self._retry = retry
        self._devices = devices
        self.workers = workers
        self._plans = their_plans
        self.ended: Exit | None = None
        self.left = ""
        self.said_end = False
        self._start = StartGuard()
        self._failures = FailedCalls()
        self._collecting: asyncio.Task[None] | None = None
        # To the thread that calls: the next call, or the end. A SimpleQueue, as a signal handler may put into it.
        self._jobs: SimpleQueue[Call | _End] = SimpleQueue()
        self._runs = False
        self._proxy = proxy
        self._proxy.start()
        self.node = BlockingNode(config).start()

    def begin(self) -> None:
        """Join, ask for the go and take commands, in the background.

        Raises:
            Refused: it has been started already, or a function is not registered.
            ConfigError: the variable with the Mgr's host is set meanwhile, and is no host.
        """
        self.workers.require()
        self._proxy.start()
        self._start.take()
        self.node.beside(self._run)

    def serve(self) -> Leave | Return | None:
        """Call the framework's functions until the Agent is to leave. Returns how; None: it was closed.

        The exception of a signal handler ends it, too. The Mgr hears of that before the workers end.
        """
        try:
            return self._serve()
        except Exception as error:
            if (number := signal_of(error)) is not None:
                self._say_end(number)
            raise

    def _say_end(self, number: signal.Signals) -> None:
        """Tell the Mgr of a signal that ends this process, where it can be told soon."""
        said = SimpleQueue[None]()
        if self._runs:
            with suppress(RuntimeError, Empty):  # closed meanwhile; or the Mgr does not answer
                self._loop.call_soon_threadsafe(self._end, number, said)
                said.get(timeout=LEAVE_S)

    def _end(self, number: signal.Signals, said: SimpleQueue[None]) -> None:
        self._feed(Ends(number.name, number == signal.SIGINT))
        self._saying = self._loop.create_task(self._say(said))

    async def _say(self, said: SimpleQueue[None]) -> None:
        if self.node.is_joined:
            await self._outbox.empty()
            self.said_end = self._supervisor.is_of_job
        said.put(None)

    def _serve(self) -> Leave | Return | None:
        while True:
            job = taken(self._jobs)
            if isinstance(job, _End):
                return job.outcome
            error: Exception | None = None
            answer: Event = CallRaised()
            pids: Collection[int] | None = None
            try:
                answer = carry_out(self.workers, job) or CallReturned()
                pids = self.workers.pids
            except Exception as raised:
                if by_signal(raised):
                    raise
                error = raised  # logged below; the Mgr sees the state of the workers in reports
            with suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self._called, job, answer, error, pids)

    def close(self) -> None:
        """Leave the mesh, with the Proxy after the Agent; `serve` returns after the current call."""
        leave(self.node)
        self._proxy.close()

    async def _run(self, node: Node) -> None:
        """Feed the Supervisor until it is over. This and all below it belongs to the node's thread."""
        self._loop = asyncio.get_running_loop()
        self._joins = 0
        self._terms = Fencing()
        self._wakes: asyncio.TimerHandle | None = None
        self._outbox, self._heartbeat = ReportQueue(node, MTYPE, self._retry), Heartbeat(node, MTYPE)
        self._ends = ProcessEnds(lambda: self._feed(WorkerEnded()))
        self._over: asyncio.Future[Leave | Return] = self._loop.create_future()
        remaining = self.workers.remaining
        now = time.monotonic()
        self._supervisor = Supervisor(
            self._plans,
            self._times,
            str(uuid4()),
            remaining,
            now,
            self._devices,
            self.workers.features,
            self._told.most,
            is_of_job=self._told.patience is not None,
        )
        self._runs = True
        outcome: Leave | Return | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                parts = (self._outbox.run(), self._read(node), self._tick(node), self._first_join(node))
                work = [tasks.create_task(part) for part in parts]
                outcome = await self._over
                if node.is_joined or not self._supervisor.is_of_job:  # it has waited for its Mgr already
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LEAVE_S):
                            await self._outbox.empty()
                for task in work:
                    task.cancel()
        except Exception:
            # Nobody supervises the workers any more.
            outcome = Leave(1, "a fault of this package")
            raise
        finally:
            self._wake_at(None)
            if self._collecting is not None:
                self._collecting.cancel()
            self._heartbeat.close()
            self._ends.close()
            self._jobs.put(_End(outcome))

    async def _read(self, node: Node) -> None:
        with Reading(node) as reading:
            async for message in node.messages():
                with reading.survive(message):
                    self._obey(message)

    def _obey(self, message: Message) -> None:
        if not from_mgr(message):
            return
        said = read_body(message)
        if not self._terms.admits(message, said):
            return
        src = str(message.src)
        log.info("command", code=said.code, msg_type=said.msg_type, message=said.message, src=src)
        try:
            command = read_command(said)
        except ValueError as error:
            log.error("command_failed", src=src, uuid=message.uuid, reason=str(error))
            return
        if self.workers.records is not None and (highest := read_highest(said)) is not None:
            self.workers.records.note_highest(highest)
        if isinstance(command, WantStacks):
            self._collect(command)
            return
        if isinstance(command, Go) and command.in_place:
            os.environ |= {arguments.IN_PLACE: "on", arguments.AGENT_PID: str(os.getpid())}  # for the workers
            if command.patience:
                os.environ[arguments.MGR_PATIENCE] = f"{command.patience:g}"
        if isinstance(command, Go):
            log.info("go", restarts=vocabulary.JOB if command.restarts else vocabulary.PLATFORM)
        if isinstance(command, Go) and (reason := self._told.objection(restarts=command.restarts)):
            log.warning("manager_decides_restarts", reason=reason)
        if isinstance(command, Meeting) and command.cause is not None:
            log.warning("restarted_after", round=command.round, cause=summary(command.cause))
        self._feed(Commanded(command, message.uuid, said.extension.get(vocabulary.MEANT_FOR, "")))

    def _collect(self, wanted: WantStacks) -> None:
        """Collect stacks, one collection at a time; the Mgr may ask for one again."""
        if self._collecting is not None and not self._collecting.done():
            return
        self._collecting = self._loop.create_task(self._collected(wanted))

    async def _collected(self, wanted: WantStacks) -> None:
        records = self.workers.records
        found = [] if records is None else await collected(records.suspects(wanted.ranks))
        self._outbox.put(stacks(wanted.collection, write_stacks(grouped(found))))

    async def _first_join(self, node: Node) -> None:
        await node.joined()
        self._look_at_joins(node)

    async def _tick(self, node: Node) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            self._look_at_joins(node)
            joined = node.is_joined
            self._feed(Tick(joined, "" if joined else self._absence[1], self._progress))

    @property
    def _progress(self) -> NodeProgress | None:
        """The progress of the workers now; None where they are not watched."""
        return None if self.workers.records is None else self.workers.records.look()

    @property
    def _absence(self) -> tuple[str, str]:
        """The address at which the Mgr is looked for, and the reason why it does not know the way to this node."""
        address, reason = self._proxy.absence or ("", "")
        return (address, reason) if reason else (address or self.node.config.upstream or "", self.node.trouble)

    def _look_at_joins(self, node: Node) -> None:
        if node.is_joined and node.joins != self._joins:
            self._joins = node.joins
            self._feed(AgentJoined())

    def _called(self, call: Call, answer: Event, error: Exception | None, pids: Collection[int] | None) -> None:
        """Take in the answer of one of the framework's functions, and the workers' processes after it."""
        if error is not None:
            self._failures.report(call, error)
        if self._over.done():
            return  # the call was under way at the end: nobody would close its descriptors again
        if pids is not None:
            self._ends.watch(pids)
        if isinstance(answer, WorkerStatus) and answer.failed:
            answer = replace(answer, progress=self._progress)
        self._feed(answer)
        if isinstance(call, plans.StartAll | plans.StartRanks):
            # MONITOR alone tells the processes of MindSpore, and one may end within the first second.
            self._feed(WorkerEnded())

    def _woken(self) -> None:
        self._wakes = None
        self._feed(Woken())

    def _feed(self, event: Event) -> None:
        for action in self._supervisor.handle(event, time.monotonic(), int(time.time())):
            match action:
                case SendReport(report):
                    (self._heartbeat.beat if report.msg_type == vocabulary.KEEP_ALIVE else self._outbox.put)(report)
                case CommandIgnored(command, reason):
                    log.info("command_ignored", command=type(command).__name__, reason=reason)
                case Waits(missing, left):
                    log.warning("waits_for_nodes", nodes=missing, seconds_left=round(left))
                case WaitsForMgr(left):
                    address, reason = self._absence
                    log.warning("waits_for_mgr", address=address, reason=reason, seconds_left=round(left))
                case WaitsForRelease():
                    log.info("waits_for_release")
                case Leave(status, reason, ended):
                    log.info("agent_leaves", code=status, reason=reason)
                    self.ended, self.left = ended, reason if status and ended is None else ""
                    self._over.set_result(action)
                case Return():
                    self._over.set_result(action)
                case _:
                    self._jobs.put(action)
        self._wake_at(self._supervisor.due)

    def _wake_at(self, due: float | None) -> None:
        """End a pause in time, and not with the next second."""
        if self._wakes is not None:
            self._wakes.cancel()
        self._wakes = None
        if due is not None:
            self._wakes = self._loop.call_later(max(0.0, due - time.monotonic()), self._woken)


def times_of_environment(patience: float | None = None) -> AgentTimes:
    """The times of an Agent, with the one that the environment sets.

    Args:
        patience: as of `Told`.
    """
    return AgentTimes(JOIN_S if patience is None else patience, GO_S, REGISTER_EVERY_S, GRACE_EXIT_S, fault_timeout())


def fault_timeout() -> float | None:
    """Seconds that a fault may stay unanswered; None: any time."""
    text = os.environ.get(FAULT_TIMEOUT)
    if not text:
        return None
    least, most = FAULT_TIMEOUT_S
    seconds = natural(text.strip(), most)
    if seconds is None or seconds < least:
        log.warning("no_fault_timeout", reason=f"{FAULT_TIMEOUT} is {shown(text)}; expected {least} to {most} seconds")
        return None
    return seconds


class _End:
    """The last job of an Agent.

    Args:
        outcome: the way in which it ends; None: it was closed.
    """

    def __init__(self, outcome: Leave | Return | None) -> None:
        self.outcome = outcome


class ProcessEnds:
    """Calls back when a process ends, once for each. The Agent's look every second remains, for systems without pidfds.

    Args:
        ended: called in the event loop.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._watched: dict[int, int | None] = {}  # file descriptors by pid; None: it has ended, or cannot be watched

    def watch(self, pids: Collection[int]) -> None:
        """Watch these processes, and forget all others."""
        for pid in self._watched.keys() - pids:
            self._close(pid)
            del self._watched[pid]
        for pid in pids:
            if pid not in self._watched:
                self._watched[pid] = self._open(pid)

    def close(self) -> None:
        """Forget all of them."""
        self.watch(())

    def _open(self, pid: int) -> int | None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return None  # the framework has taken its exit status, so the next look shows it
        except OSError as error:
            log.warning("worker_not_watched", pid=pid, reason=str(error))
            return None
        self._loop.add_reader(descriptor, self._readable, pid)
        return descriptor

    def _readable(self, pid: int) -> None:
        # A pidfd stays readable until the framework takes the exit status.
        self._close(pid)
        self._ended()

    def _close(self, pid: int) -> None:
        descriptor, self._watched[pid] = self._watched[pid], None
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
