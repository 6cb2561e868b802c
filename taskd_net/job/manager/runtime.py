"""The shell around a job's decisions: events in, outcomes carried out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from taskd_net.base.codes import ArgumentError, NodeClosed
from taskd_net.base.host_clock import CLOCK_STEP_S, HostClock
from taskd_net.base.logger import get_logger
from taskd_net.base.position import Position
from taskd_net.base.vocabulary import JOB, KEEP_ALIVE, PLATFORM
from taskd_net.core.counters import Latency, bucket_of
from taskd_net.core.frame import Ack
from taskd_net.job.decide.events import (
    Acknowledged,
    ClockMoved,
    Event,
    ProfilingSwitch,
    RankWanted,
    ReceiverGone,
    Reported,
    Resumed,
    RetryTime,
    Tick,
    Unbarred,
    Underway,
)
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.outbox import INFINITY
from taskd_net.job.decide.plugins import AnyPlugin, built_in
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Call, Command, Outcome, Reply
from taskd_net.job.keep.place import is_etcd
from taskd_net.job.manager import loading
from taskd_net.job.manager.changed_file import ResetFile
from taskd_net.job.manager.config import ManagerConfig
from taskd_net.job.manager.dispatch import Dispatch, read_event
from taskd_net.job.manager.evidence import StackCollector, is_answer
from taskd_net.job.manager.faults import DeviceFaults
from taskd_net.job.manager.guarded import Guarded
from taskd_net.job.manager.history import DecisionHistory, cause
from taskd_net.job.manager.keeping import decision_part, read_decisions
from taskd_net.job.manager.kept import Kept, NotKept, kept
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.job.manager.notices import log_failure, log_notice, log_without_effect
from taskd_net.job.manager.resets import OnReset
from taskd_net.job.manager.views import counted, job_view
from taskd_net.job.manager.watching import watch
from taskd_net.job.profiling_switch import SwitchFile
from taskd_net.net.wire.codec import Message
from taskd_net.node.node import Node
from taskd_net.node.reading import Reading, Unreadable
from taskd_net.observe.job_codec import Stacks, write_stacks_answer
from taskd_net.observe.job_view import ClusterdView, JobCounters, JobView

if TYPE_CHECKING:
    from taskd_net.job.clusterd.controller import Controller
    from taskd_net.job.keep.leader import Leader
    from taskd_net.job.manager.clusterd import Clusterd
    from taskd_net.job.manager.framework import Protection


SEED_BYTES: Final = 8
"""Random bytes at the head of a Manager's uuids: 64 bits, so that no two Managers share one, of one job neither."""

CLOCK_LOOK_S: Final = 0.5
"""Seconds between two looks of a Manager at the clock."""

FIRST_S: Final = 2.0
"""Seconds after the start of a Manager in which only launchers with a rank get it: the one that has started it does."""

LAUNCHER_S: Final = 2.0
"""Seconds for the answer of a launcher that has a rank: one that is stopped, or whose host is lost, gives it up."""

STOPPED_S: Final = 1.5
"""Seconds between two looks at the clock after which a Manager was stopped, or its event loop held. With a heartbeat's
second it is less than the least silence that counts, `decide.snapshot.SILENT_LEAST_S`."""


class Manager:
    """The Manager of one job, in the event loop of its Mgr node.

    Use it as `async with Manager(node, config) as manager`, inside the context of the node, which has `confirms`. It
    reads the node's inbox.

    Args:
        node: the Mgr.
        config: the settings.
        signals: events of ClusterD, taken as they come; None without it.
        controller: carries out a call of the training framework's controller; it must not block.
        reply: answers ClusterD; returns whether ClusterD has the answer.
        framework: what a training framework does on ClusterD's orders; None for MindIO's, where it is installed and
            the Manager does not recover in place.
        on_reset: resets a device, and returns whether it is back; None for the program of the settings.
        leader: the lease, where this process has taken it (`Succession`).
        resigned: called once when another Manager leads; None closes the node's inbox.
        limits: times and sizes.

    Attributes:
        job: the decisions; present once `started` is true.
    """

    def __init__(
        self,
        node: Node,
        config: ManagerConfig,
        *,
        signals: asyncio.Queue[Event] | None = None,
        controller: Callable[[Call], None] | None = None,
        reply: Callable[[Reply], bool] | None = None,
        framework: Controller | None = None,
        on_reset: OnReset | None = None,
        leader: Leader | None = None,
        resigned: Callable[[], None] | None = None,
        limits: ManagerLimits = ManagerLimits(),
    ) -> None:
        self._limits = limits
        config = config.rooted()
        self.config = config if on_reset is None else replace(config, resets=True)
        self._node = node
        self._log = get_logger(node=str(node.position), job=config.job_id or "")
        self._signals = signals
        self._framework = framework
        self._on_reset = on_reset
        self._leader = leader
        self._resigned = resigned or node.close_inbox
        self._clusterd: Clusterd | None = None
        self._protection: Protection | None = None
        self._controller = controller
        self._reply = reply
        self._clock = HostClock()
        self._looked = self._now()
        self.job: Job
        self._faults: DeviceFaults
        self.started = False
        self._history = DecisionHistory()
        self._counters = JobCounters()
        self._fault_to_command = Latency()
        state = None if config.state is None or is_etcd(config.state) else Path(config.state)
        self._stacks = StackCollector(node, state, self._log)
        self._keeping: Kept = NotKept()
        self._dispatch = Dispatch(
            node,
            self._answered,
            self._gone,
            lambda: self._keeping.term(),  # noqa: PLW0108 - of the moment
            limits.job.retry,
        )
        self._changed = asyncio.Event()
        self._resigning: asyncio.Task[None] | None = None
        self._closing = False
        self._unconfirmed: list[Message] = []
        self._cause = ""
        self._guarded: list[Guarded] = []
        self._tasks: list[asyncio.Task[None]] = []  # `_run` first: it comes to its own end, the others are cancelled

    async def start(self) -> Self:
        """Begin to decide.

        Raises:
            ConfigError: a newer release has written the state, another process uses it, or etcd does not give it.
        """
        config = self.config
        try:
            await loading.load(config, self._guarded, self._wake, self._plugin_failed, self._log, self._limits.load_s)
            self._keeping = kept(
                config, self._node, self._counters, self._log, self._changed.set, self._leader, self._limits.etcd
            )
            seed = os.urandom(SEED_BYTES).hex()
            resumed = await self._resumed(seed)
            self.job = resumed or Job(self._decisions(), seed, self._plugins())
            if self._closing:
                raise NodeClosed("the Manager was closed while it started")
            self._faults = DeviceFaults(
                config, self.job, self._take, self._counters, self._log, self._on_reset, self._limits.look_s
            )
            self.started = True
        except BaseException:
            await self.close()
            raise
        log_without_effect(self._log, config)
        self._node.driver.job_view, self._node.driver.job_stacks = self.view, self.stacks
        self._spawn(self._run(), "decides")
        self._spawn(self._read(), "reads")
        self._looked, self._began = self._now(), time.monotonic()
        self._spawn(self._watch_clock(), "watches the clock")
        reset = ResetFile(self.config.reset_file, self._log)
        self._spawn(
            watch(self.config.reset_file, reset.look, self._retried, every=self._limits.look_s),
            "watches the reset file",
        )
        self._faults.start(self._spawn)
        framework = self._framework
        if framework is None and (config.subscribes or config.has_framework) and find_spec("mindio_ttp") is not None:
            framework = self._mindio(resumed=resumed is not None)
        if config.subscribes:
            self._connect(config, framework)
        elif config.has_framework and framework is not None:
            self._lead_framework(config, framework)
        switch = SwitchFile()
        look = switch.look if self._clusterd is None else self._clusterd.look
        if not config.clusterd:
            self._spawn(
                watch(switch.path, look, self._switched, every=self._limits.look_s), "watches the profiling switch"
            )
        if self._signals is not None:
            self._spawn(self._listen(self._signals), "listens to ClusterD")
        mode = JOB if self.job.config.supervises else PLATFORM
        if config.supervises != self.job.config.supervises:
            reason = "the run in the state began under a platform, and goes on so; the next run is the job's"
            self._log.warning("restarts_by_platform", reason=reason)
        size = {"nodes": config.nodes, "processes": config.processes_per_node}
        self._log.info("manager_started", restarts=mode, **size)
        return self

    def _mindio(self, *, resumed: bool) -> Controller | None:
        """MindIO's controller. The processes of a job that is resumed have lost that of the Manager before."""
        from taskd_net.job.clusterd.mindio import PORT, MindIO
        from taskd_net.job.manager.framework import Protection  # without MindIO, its modules are not loaded

        if self.config.in_place:
            if os.environ.get(PORT):
                reason = (
                    "the Manager recovers in place, so no controller of MindIO's is at TTP_PORT; scripts have to rejoin"
                )
                self._log.warning("in_place_without_mindio", reason=reason)
            return None
        loop = asyncio.get_running_loop()
        made = MindIO(lambda again: loop.call_soon_threadsafe(self._controller_lost, again))
        self._protection = Protection(made, self._log)
        if resumed:
            made.lose("the Manager before has ended")
            self._protection.lose(self.job)
        return made

    def _controller_lost(self, again: bool) -> None:
        """The training processes have lost MindIO's controller."""
        if self._closing or self._protection is None or self._controller is None:
            return
        self._protection.lose(self.job)
        if again:
            self._controller(Call("start"))

    def _connect(self, config: ManagerConfig, framework: Controller | None) -> None:
        """Be a client of ClusterD."""
        from taskd_net.job.manager.clusterd import Clusterd  # without one, its modules are not loaded

        made = Clusterd(config, self.signal, self.job.state.calls.values(), framework, lambda: self.job, self._limits)
        self._clusterd, self._controller, self._reply = made, made.call, made.reply
        made.start()

    def _lead_framework(self, config: ManagerConfig, framework: Controller) -> None:
        """Have the training framework's controller without ClusterD."""
        from taskd_net.job.manager.framework import without_clusterd  # without one, its modules are not loaded

        made = without_clusterd(config.job_id or "", framework, self._log, self._limits.controller_s)
        self._controller = made.call
        self._spawn(made.serve(), "carries out calls of the controller")

    async def _resumed(self, seed: str) -> Job | None:
        """The job of the state file; None without one."""
        config, now = self._decisions(), self._now()

        def read(parts: Mapping[str, str]) -> tuple[Job, DecisionHistory]:
            job = Job.from_parts(parts, config, self._plugins())
            return job, DecisionHistory(read_decisions(parts), job.state.outbox.commands())

        found = await self._keeping.load(now, read)
        if found is None:
            return None
        job, self._history = found
        ahead = job.state.now - now
        if ahead >= CLOCK_STEP_S:
            self._log.warning("clock_went_back", seconds=round(ahead), state=str(self._keeping.path))
        self._history.move(now)
        job.step(now, Resumed(seed))
        for each in self._guarded:
            job.step(now, Unbarred(each.name, alone=False))
        self._log.info("manager_resumed", file=str(self._keeping.path), sending=len(job.state.outbox.sending))
        return job

    def _decisions(self) -> JobConfig:
        made = self.config.decisions(certified=self._node.config.identity == "certificate")
        return replace(made, times=self._limits.job)

    def _plugins(self) -> list[AnyPlugin]:
        return [*built_in(), *self._guarded]

    def _wake(self) -> None:
        self.job.state.dirty = True
        self._changed.set()

    def _plugin_failed(self, name: str, reason: str, trace: BaseException | str) -> None:
        self._counters.plugin_failures[name] += 1
        log_failure(self._log, name, reason, trace, off=any(each.name == name and each.off for each in self._guarded))

    async def close(self) -> None:
        """End, with nothing half done. Idempotent."""
        if self._resigning is not None and self._resigning is not asyncio.current_task():
            await asyncio.shield(self._resigning)
            return
        self._node.driver.job_view = self._node.driver.job_stacks = None
        self._closing = True
        self._changed.set()
        self._keeping.hurry()
        for task in self._tasks[1:]:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()
        if self._clusterd is not None:
            await self._clusterd.close()
        await self._dispatch.close()
        if self.started:
            await self._faults.close()
        for each in self._guarded:
            await each.close()
        keeping, self._keeping = self._keeping, NotKept()
        await keeping.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def signal(self, event: Event) -> bool:
        """Take in an event of ClusterD or of a file. Returns False for a signal that was taken before."""
        self._counters.signals += not isinstance(event, Underway)
        return self._take(event).taken

    def view(self) -> JobView:
        """The state of the job, for faces."""
        seen = counted(self._counters, self._fault_to_command)
        off = tuple(each.name for each in self._guarded if each.off)
        clusterd = ClusterdView() if self._clusterd is None else self._clusterd.client.view()
        made = job_view(self.config, self.job, self._present(), self._history.decisions, seen, off, clusterd)
        unprotected = 0 if self._protection is None else len(self._protection.unprotected)
        return replace(self._faults.add_to(made), leader=self._keeping.leader_view(), unprotected=unprotected)

    async def stacks(self, ranks: Collection[int], why: str) -> bytes:
        """Collect the stacks of ranks, for faces.

        Args:
            ranks: global ranks; none for all.
            why: who wants them.

        Raises:
            Refusal: as of `StackCollector.collect`.
        """
        found = await self._stacks.collect(self.job.state.records, ranks, why)
        return write_stacks_answer(Stacks(found.groups, found.silent, found.file, time.monotonic() - found.at))

    def _now(self) -> float:
        return self._clock.now()

    def _present(self) -> float:
        """The time, after a look at the host's clock, and at the time since the last look.

        Where the clock has stepped, everything here moves with it. Time in which this process was stopped counts for no
        wait: what others have sent meanwhile is not read yet.
        """
        then = now = self._now()
        if (step := self._clock.follow()) is not None:
            then, now = step
            self._log.warning("clock_stepped", seconds=round(now - then))
            self._history.move(now)
            self._keeping.move(then, now)
        stopped = then - self._looked
        if stopped >= STOPPED_S:
            self._log.warning("manager_was_stopped", seconds=round(stopped))
            then = self._looked
        if then != now:
            self.job.step(now, ClockMoved(then, stopped if stopped >= STOPPED_S else 0.0))
            self._changed.set()
        self._looked = now
        return now

    async def _watch_clock(self) -> None:
        """Look at the clock again and again, so that a long time without a look is one without this process."""
        while True:
            await asyncio.sleep(CLOCK_LOOK_S)
            self._present()

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"{name} for {self.config.job_id}")
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("manager_failed", task=task.get_name(), reason=repr(error), exc_info=error)

    def _take(self, event: Event) -> Outcome:
        """Give an event to the job. A tick decides on what it has changed."""
        job = self.job
        calm = not job.state.dirty
        outcome = job.step(self._present(), event)
        if calm and job.state.dirty:
            self._changed.set()
        if outcome.taken and job.state.dirty and (text := cause(event)):
            self._cause = text
        return outcome

    def _take_message(self, message: Message) -> bool:
        """Take in a message to the Mgr. Returns whether it is confirmed at once: a heartbeat.

        Raises:
            Unreadable: its body is none of TaskD's.
        """
        try:
            event = read_event(message, self._present())
        except ArgumentError as error:
            self._node.confirm([message])
            raise Unreadable(str(error)) from None
        if isinstance(event, Reported) and is_answer(event):
            self._stacks.take(event)
            return True
        if isinstance(event, RankWanted):
            self._spawn(self._look_at_launchers(event, message), "looks at launchers")
            self._tasks[-1].add_done_callback(self._forget)
            return False
        outcome = self._take(event)
        self._counters.reports += outcome.taken
        self._counters.refused += not outcome.taken
        if outcome.refusal:
            self._log.warning("fault_refused", reporter=str(message.src), uuid=message.uuid, reason=outcome.refusal)
            self._node.refuse(message, outcome.refusal)
            return False
        if isinstance(event, Reported) and event.msg_type == KEEP_ALIVE:
            return True
        self._unconfirmed.append(message)
        self._changed.set()
        return False

    def _forget(self, task: asyncio.Task[None]) -> None:
        with contextlib.suppress(ValueError):  # at the end of this Manager
            self._tasks.remove(task)

    async def _look_at_launchers(self, event: RankWanted, message: Message) -> None:
        """Take in a launcher's request, with the launchers that answer, and confirm it when it is stored."""
        if event.rank is None:
            # The launcher that has started this Manager has come first.
            await asyncio.sleep(max(0.0, self._began + FIRST_S - time.monotonic()))
        places = self._launchers()
        answers = await asyncio.gather(*(self._answers(place) for place in places))
        held = tuple(place for place, answered in zip(places, answers, strict=True) if answered)
        # New since the look, so they are there.
        held += tuple(place for place in self._launchers() if place not in places)
        self._take(replace(event, held=held))
        self._unconfirmed.append(message)
        self._changed.set()

    async def _answers(self, place: str) -> bool:
        """True for a launcher that answers a probe."""
        return (await self._node.ping(place, timeout=LAUNCHER_S)).ok

    def _launchers(self) -> tuple[str, ...]:
        """The launchers with ranks that are in the mesh."""
        connected = self._node.driver.router.children.connected
        places = (each.position for each in self.job.state.ranks.holders.values())
        return tuple(place for place in places if connected(Position.parse(place)) is not None)

    def _retried(self, value: int) -> None:
        if value != self.job.state.retry_time:
            self._take(RetryTime(value))

    def _switched(self, switch: ProfilingSwitch) -> None:
        if switch != self.job.requests[ProfilingSwitch.__name__]:
            self._take(switch)

    async def _read(self) -> None:
        await self._faults.ready()
        with Reading(self._node) as reading, contextlib.suppress(NodeClosed):
            while True:
                heartbeats = []
                for message in await self._node.receive_all():
                    with reading.survive(message):
                        if self._take_message(message):
                            heartbeats.append(message)
                self._node.confirm(heartbeats)

    async def _listen(self, signals: asyncio.Queue[Event]) -> None:
        while True:
            self.signal(await signals.get())

    async def _run(self) -> None:
        """Tick when it is due: decide, store, and only then answer the senders of reports and carry out.

        A commit holds everything that came until it began. What comes meanwhile waits for the next one.
        """
        stored = True
        while stored and not self._closing and not self._keeping.lost:
            self._changed.clear()
            now = self._present()
            # A look at the file can wait for a tick that is due in 10 ms, and looks, too.
            retry = INFINITY if self._counters.durable and self.job.state.dirty else self._keeping.again
            wake = min(self.job.wake, retry)
            # A report that changes nothing is stored already; one that does waits for its tick, 10 ms at most.
            if wake > now and (not self._unconfirmed or self.job.state.dirty):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if wake == INFINITY else wake - now):
                        await self._changed.wait()
                continue
            due = self.job.wake <= now
            outcome = self._decide(now) if due else Outcome()
            reports, self._unconfirmed = self._unconfirmed, []
            if due or retry <= now:
                stored = await self._save()
            if stored:
                if reports:
                    self._node.confirm(reports)
                await self._carry_out(outcome)
        if self._keeping.lost and not self._closing:
            # Another Manager leads, and finds nothing of this tick, so nothing of it may happen.
            self._resigned()
            self._resigning = asyncio.create_task(self.close(), name=f"leaves {self.config.job_id} to another Manager")
        elif stored and await self._save():
            self._node.confirm(self._unconfirmed)

    async def _save(self) -> bool:
        """Store what has changed. Returns whether this Manager may act on it."""
        history = self._history
        decisions = dict(decision_part(number, history.get(number)) for number in history.unsaved)
        history.unsaved.clear()
        parts = self.job.unsaved() | decisions
        return await self._keeping.save(self._now(), parts)

    def _decide(self, now: float) -> Outcome:
        job, counters = self.job, self._counters
        outcome = job.step(now, Tick())
        for each in self._guarded:
            job.step(now, Unbarred(each.name, alone=True))
        counters.ticks += 1
        if outcome.decided:
            self._history.add(now, self._cause or "time", outcome.decided, counters)
            self._cause = ""
        for uuid in outcome.withdrawn:
            self._dispatch.withdraw(uuid)
            self._history.gone(uuid)
        counters.lost += len(outcome.withdrawn)
        if self._clusterd is not None:
            self._clusterd.decided()
        for at in outcome.answered:
            seconds = self._now() - at
            self._fault_to_command.add(seconds, bucket_of(seconds))
        return outcome

    async def _carry_out(self, outcome: Outcome) -> None:
        for notice in outcome.notices:
            if (failed := log_notice(self._log, notice, {each.name for each in self._guarded})) is not None:
                self._counters.plugin_failures[failed] += 1
            if notice.event == "hang_suspected":
                self._spawn(self._collect_evidence(), "collects stacks")
                self._tasks[-1].add_done_callback(self._forget)
        if not await self._keeping.confirmed():  # the process may have been stopped since the commit
            return
        self._faults.carry_out(outcome)
        if self._protection is not None:
            self._protection.carry_out(outcome)
        self._counters.resends += len(outcome.commands) - sum(isinstance(item, Command) for _, item in outcome.decided)
        sending = self.job.state.outbox.sending
        for number, command in enumerate(outcome.commands, 1):
            if command.uuid in sending:  # not withdrawn during the commit
                self._dispatch.send(command)
            if number % self._limits.commands_a_turn == 0:
                await asyncio.sleep(0)  # the first are on their way while the others are made
        if (outcome.calls or outcome.replies or outcome.reports) and not await self._keeping.confirmed():
            return
        if self._clusterd is not None:
            for report in outcome.reports:
                self._clusterd.report(report)
        for call in outcome.calls:
            self._log.info("controller_called", call=call.name, text=call.text)
            if self._controller is not None:
                self._controller(call)
        for reply in outcome.replies:
            if self._reply is None or self._reply(reply):
                self._take(Acknowledged(reply.uuid))

    async def _collect_evidence(self) -> None:
        """Collect the stacks of all ranks, before anything is killed."""
        await self._stacks.collect(self.job.state.records, (), "the job is suspected to stand still", fresh=True)

    def _gone(self, uuid: str) -> None:
        self._take(ReceiverGone(uuid))

    def _answered(self, uuid: str, ack: Ack, late: bool) -> None:
        if ack.ok and not self._take(Acknowledged(uuid, ack.receivers, late)).taken:
            return  # superseded, or it goes again to those of its receivers that have not rejoined
        self._history.answered(uuid, ack.code)
        self._counters.acknowledged += ack.ok
