"""A job's decisions: an event in, its Outcome out.

```
    job = Job(config, seed)                         # or Job.from_parts(stored), and a Resumed
    job.step(now, Reported(…))                      # reports, signals, acknowledgements change the state
    when job.wake has come:
        outcome = job.step(now, Tick())             # decides on all of them together
        store(job.unsaved())
        carry out outcome                           # only what is stored may happen
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, assert_never

from taskd_net.base import vocabulary
from taskd_net.base.cause import Cause, read_cause, write_cause
from taskd_net.base.position import Role, is_rank
from taskd_net.base.progress import read_progress
from taskd_net.job.decide import epochs, events, state, times, traffic
from taskd_net.job.decide.books import stage_of
from taskd_net.job.decide.device_reports import RegisteredDevices
from taskd_net.job.decide.device_state import DevicePlace, ranks_of_node
from taskd_net.job.decide.devices import Devices
from taskd_net.job.decide.events import (
    Acknowledged,
    CallEnded,
    ClockMoved,
    Continued,
    DecidesAgain,
    DeviceEvent,
    DeviceReleased,
    Event,
    FaultsReported,
    MachineReset,
    OfDevices,
    PluginRequest,
    ProfilingSwitch,
    RankWanted,
    ReceiverGone,
    Recovered,
    Reported,
    Resumed,
    RetryTime,
    Signal,
    Subscribed,
    Tick,
    Unbarred,
    Underway,
)
from taskd_net.job.decide.failures import JobFailures, told
from taskd_net.job.decide.hang_answers import failures_of
from taskd_net.job.decide.hangs import EVIDENCE_S, HUNG
from taskd_net.job.decide.node_ranks import Holder
from taskd_net.job.decide.orders import CONTINUE, EXIT
from taskd_net.job.decide.outbox import COMMAND_ATTEMPTS, INFINITY, uuid_of
from taskd_net.job.decide.plugins import AnyPlugin, built_in
from taskd_net.job.decide.plugins.actions import RECOVERY, UNLIMITED, offered
from taskd_net.job.decide.records import JOB_NODES, Fault, Taken, read_fault
from taskd_net.job.decide.snapshot import JobConfig, Snapshot
from taskd_net.job.decide.state import JobState
from taskd_net.job.decide.streams import Streams
from taskd_net.job.decide.traffic import (
    Call,
    Command,
    Item,
    Outcome,
    Replace,
    Reply,
    ReportFaults,
    Reset,
    Restarts,
    StepBegun,
    StepEnded,
)

TIME_STORED_S: Final = 60.0
"""Seconds between two ticks while a job waits for something. Each stores the time, so a Manager that is restarted waits
for at most as much longer."""

TICK_PAUSE_S: Final = 0.010
"""Least seconds between two ticks of a Manager's decisions: a burst of reports is looked at together."""

PAUSE_STARTS_S: Final = 3600.0
"""Seconds after pauseStartAgent for which Agents are held back at most. The stress test behind it has ended before:
ClusterD waits 15 minutes for the training to pause, 15 for the test, and 15 for the training to go on."""

LOST_PEER_S: Final = 5.0
"""Seconds after the first failure in which a rank that has lost a peer counts as its consequence."""

OTHERS_TOLD: Final = 64
"""Ranks that failed after the first one that a 203 names: with a message for each node, all of them would be many."""

CONTROLLER_S: Final = 900.0
"""Seconds for one call of the training framework's controller: as long as ClusterD waits for a report."""

_STARTS: Final = frozenset((vocabulary.START, vocabulary.RESTART_ALL, vocabulary.RESTART_RANKS))
"""Commands to an Agent after which processes start."""

_ANSWERS: Final = frozenset((vocabulary.EXIT, vocabulary.RESTART_ALL, vocabulary.RESTART_RANKS))
"""Commands to an Agent that answer its fault."""

_HEALTHY: Final = "HEALTHY"
"""The state of processes that all run, as torch names it."""

OTHER_FAULT: Final = 1
"""ClusterD's type of a fault that is none of memory or network."""

_SWITCHES: Final = (events.PAUSE_AGENTS, events.CONTINUE_AGENTS)

_Happened = Reported | RankWanted | Underway | Signal | PluginRequest | ProfilingSwitch | RetryTime | OfDevices


class Job:
    """The decisions of one job's Manager.

    Equal events at equal times lead to equal outcomes, uuids included.

    Args:
        config: the settings.
        seed: head of all uuids; no other Manager's may be the same. A stored state gets that of its `Resumed`.
        plugins: the built-in ones, by default; add the user's own to `plugins.built_in()`.
        stored: a state of `from_json`.

    Attributes:
        config: the settings in force. A stored run that began under a platform stays there.
        requests: the last request to each plugin that takes some, by the name of its class.

    Raises:
        ConfigError: two plugins have one name.
    """

    def __init__(
        self,
        config: JobConfig,
        seed: str = "",
        plugins: Sequence[AnyPlugin] | None = None,
        stored: JobState | None = None,
    ) -> None:
        self.plugins = built_in() if plugins is None else list(plugins)
        self.state = JobState(seed=seed) if stored is None else stored
        # A run that began under a platform, as all of 0.2.0 did, goes on so: its Agents know of no round.
        self.config = replace(config, supervises=False) if self.state.records.is_under_platform else config
        self._streams = Streams(self.plugins, self.state.streams)
        self.state.streams = self._streams.streams
        self._takers = {plugin.takes: plugin for plugin in self.plugins if plugin.takes is not None}
        self.requests: dict[str, Any] = {}
        self._note_requests()
        self.devices = Devices(config.faults, self.state.devices, reports_only=config.clusterd)
        self._named = RegisteredDevices()
        self.state.records.registered_again.update(self.state.records.agents)

    @classmethod
    def from_json(cls, text: str, config: JobConfig, plugins: Sequence[AnyPlugin] | None = None) -> Job:
        """Go on from what `to_json` wrote, with the same uuids.

        Raises:
            ConfigError: the text is none of `to_json`, or that of a newer release.
        """
        plugins = built_in() if plugins is None else plugins
        return cls(config, plugins=plugins, stored=state.from_json(text, plugins))

    def to_json(self) -> str:
        """The whole state as a text; the shell stores it after each tick, before it carries out the Outcome."""
        self.devices.sync()
        return state.to_json(self.state, self.plugins)

    @classmethod
    def from_parts(cls, parts: Mapping[str, str], config: JobConfig, plugins: Sequence[AnyPlugin] | None = None) -> Job:
        """Go on from what `unsaved` gave until now; see `from_json`."""
        plugins = built_in() if plugins is None else plugins
        return cls(config, plugins=plugins, stored=state.from_parts(parts, plugins))

    def unsaved(self) -> dict[str, str | None]:
        """The parts of the state that may have changed since the last call, by name; None for one that is gone.

        A shell that stores the state part by part stores these after each tick, before it carries out the Outcome.
        """
        self.devices.sync()
        return state.unsaved(self.state, self.plugins)

    @property
    def wake(self) -> float:
        """Time at which the next tick is due, in seconds since the epoch; infinity for never.

        While there is something to wait for, a tick is due each minute, because the state with the time of the last
        tick is stored after it: the next Manager waits for what was left then.
        """
        current = self.state
        later = min(current.again or INFINITY, current.outbox.wake, self.devices.next_look, current.hangs.wake)
        if later != INFINITY:
            later = min(later, current.ticked + TIME_STORED_S)
        due = current.ticked if current.dirty else later
        return max(due, current.ticked + TICK_PAUSE_S)

    def step(self, now: float, event: Event) -> Outcome:
        """Take an event in. Nothing is decided before the next `Tick`.

        Args:
            now: the time, in seconds since the epoch.
            event: what has happened.

        Returns:
            Of a `Tick` the decisions, each once. Of another event whether it was `taken`. It is not: a report of
            something that is no Agent or Worker, or of one more than `records.JOB_NODES`; an acknowledgement of
            nothing on its way, or by some of a broadcast's receivers; an order of ClusterD that was taken before; a
            request that no plugin takes; and as in `Devices.take`.

        Raises:
            ConfigError: files with rules for faults are refused; the rules in force stay.
        """
        match event:
            case Tick():
                return self._decide(now)
            case Resumed():
                self._resume(now, event.seed)
            case ClockMoved():
                self.state.books.clock_moves(now - event.then - event.stopped)
                self._move(event.then, now)
            case Unbarred():
                self._streams.unbar(event.plugin, alone=event.alone)
            case DeviceEvent() | DeviceReleased() if refusal := self._refusal(event):
                return Outcome(taken=False, refusal=refusal)
            case _:
                return Outcome(taken=self._take(now, event))
        return Outcome()

    def _resume(self, now: float, seed: str) -> None:
        self.state.seed, self.state.own_until = seed, 0.0
        self._move(self.state.now or now, now)
        self.state.outbox.hurry(now)
        self.devices.resume(now)
        self.state.dirty = self.state.dirty or self.devices.stepped

    def _move(self, then: float, now: float) -> None:
        current = self.state
        times.move(current, then, now)
        current.hangs.changed = True
        current.records.deaf_until(now)
        current.outbox.unsaved.update(current.outbox.sending)
        for plugin in self.plugins:
            plugin.move(then, now)
        self.devices.move(then, now)

    def _take(self, now: float, event: _Happened) -> bool:
        current = self.state
        current.now = max(now, current.now)
        match event:
            case Reported():
                return self._report(event)
            case Acknowledged():
                return self._acknowledge(event)
            case RankWanted():
                asker = Holder(event.host, event.key, str(event.src), event.pid, event.rank, event.nodes)
                current.ranks.ask(asker, event.held)
                current.dirty = True
            case ReceiverGone():
                current.dirty = current.outbox.receiver_gone(event.uuid) or current.dirty
            case Signal():
                return self._signal(event)
            case DecidesAgain():
                current.orders.decide_again()
                current.dirty = True
            case CallEnded():
                for name in event.names:
                    current.dirty = current.calls.pop(name, None) is not None or current.dirty
            case MachineReset():
                begun = [current.paused, *(plugin.clusterd_forgets() for plugin in self.plugins)]
                current.dirty = current.dirty or any(begun)
                current.paused_until = 0.0
                self._note_requests()
                current.open_faults.end()
                self._void_orders()
            case Subscribed():
                current.to_report |= current.open_faults.begin()
                current.dirty = True
            case FaultsReported():
                current.open_faults.reported(event.ranks)
                current.dirty = True
            case Recovered():
                current.open_faults.answered()
                current.dirty = True
            case Continued():
                current.open_faults.continued(done=event.done)
                current.dirty = True
            case RetryTime():
                if current.first_retry_time is None:
                    current.first_retry_time = event.value
                current.retry_time, current.dirty = event.value, True
            case PluginRequest() | ProfilingSwitch():
                return self._ask(event)
            case _:  # one of `events.OfDevices`
                current.dirty = True
                return self.devices.take(event, current.now)
        return True

    def _ask(self, request: PluginRequest | ProfilingSwitch) -> bool:
        """Hand a request to the plugin that takes its class."""
        plugin, current = self._takers.get(type(request)), self.state
        if plugin is None:
            return False
        plugin.take(replace(request, uuid=current.uuid()) if isinstance(request, PluginRequest) else request)
        self._note_requests()
        current.dirty = True
        return True

    def _refusal(self, event: DeviceEvent | DeviceReleased) -> str:
        """The reason not to take a report of a device from its sender; empty for a good one."""
        rule = self.config.reporters
        if not rule.certified:
            return ""
        device = event.device if isinstance(event, DeviceReleased) else event.event.device
        devices, records = self.state.devices, self.state.records
        mapped = devices.mapped_node(device, records, self.config.processes_per_node)
        known = {*self._named.of(device, records), mapped, devices.nodes.get(device)} - {None}
        if not known and self.devices.remembers(device):
            known = {None}
        return rule.refusal(event, known)

    def place(self, device: str) -> DevicePlace:
        """The node and the ranks of a device."""
        return self._snapshot().place(device)

    def candidates(self, stream: str) -> tuple[str, ...]:
        """Names of the plugins that may own a stream, by priority."""
        return self._streams.candidates(stream)

    def restarts_left(self, now: float) -> int | None:
        """Restarts that the job has left; None before an Agent has said a count."""
        records, failures = self.state.records, self.state.failures
        if not self.config.supervises or records.restarts is None:
            return records.restarts
        snapshot = self._snapshot()
        # One that has not failed stands for all others: launchers of a job have the same `--max-restarts`.
        nodes = {*islice(records.agents, 1), *failures.charged}
        if failures.open is not None:
            nodes.add(failures.open.first.node)
        counts = {node: offered(snapshot, node) for node in nodes & records.agents.keys()}
        return failures.left(now, {node: None if count >= UNLIMITED else count for node, count in counts.items()})

    def _decide(self, now: float) -> Outcome:
        current, outcome = self.state, Outcome()
        current.now = current.ticked = max(now, current.now)
        self.devices.look(current.now)
        self.devices.stepped = False
        self._judge_hang(outcome)
        self._keep_books()
        self._resend(outcome)
        again = self._run(outcome)
        self._bring_on(outcome)
        while current.signals:
            current.signal = current.signals.pop(0)
            again = self._run(outcome)
        self._start_agents(outcome)
        self._give_ranks(outcome)
        report_at = self._report_faults(outcome)
        self._keep_books()
        current.hangs.watch(current.now, going=self._trains())
        current.records.forget_changes()
        outcome.withdrawn = current.outbox.take_withdrawn()
        current.dirty = self.devices.stepped
        outcome.faults, outcome.fault_counts = self.devices.taken_out()
        snapshot = self._snapshot()
        deadlines = [
            current.paused_until or INFINITY,
            current.own_until or INFINITY,
            report_at,
            *(plugin.deadline(snapshot) for plugin in self.plugins),
        ]
        # A deadline in the past is that of a plugin whose stream is taken, or that is barred.
        soon = current.now + self.config.interval
        looks = [deadline if deadline > current.now else soon for deadline in deadlines]
        look = min([*looks, soon if again else INFINITY])
        current.again = 0.0 if look == INFINITY else look
        return outcome

    def _report(self, report: Reported) -> bool:
        current, src = self.state, report.src
        # As a number: a rank may come with zeros before it.
        named = src.role == Role.AGENT and is_rank(src.server_rank)
        leaving = named and current.outbox.has(traffic.agent(int(src.server_rank)), vocabulary.EXIT)
        cause = None
        if vocabulary.CAUSE in report.extension:
            cause = read_cause(report.extension[vocabulary.CAUSE])
            rest = {key: text for key, text in report.extension.items() if key != vocabulary.CAUSE}
            report = replace(report, extension=rest)  # it is long, and stored elsewhere
        progress = report.extension.get(vocabulary.PROGRESS, "") if named else ""
        if progress:
            rest = {key: text for key, text in report.extension.items() if key != vocabulary.PROGRESS}
            report = replace(report, extension=rest)
        taken = current.records.take(current.now, report, leaving=leaving)
        if named and report.code in (vocabulary.FAULT, vocabulary.READY):
            self._note_failure(int(src.server_rank), cause)
        says = bool(progress) or report.msg_type == vocabulary.KEEP_ALIVE
        if named and says and taken is not Taken.REFUSED:
            self._note_progress(int(src.server_rank), progress, report)
        if leaving and report.code == vocabulary.FAULT and read_fault(current.now, report.message, {}) is None:
            # An Agent says this on its way out, so it has its 203, whatever becomes of the acknowledgement.
            for command in current.outbox.commands_to(traffic.agent(int(src.server_rank)), vocabulary.EXIT):
                current.dirty = current.outbox.receiver_gone(command.uuid) or current.dirty
        if taken is Taken.NEW_PROCESS:
            node = int(src.server_rank)
            current.open_faults.replaced(self._ranks_of(node) if src.role == Role.AGENT else ())
            if src.role == Role.AGENT and current.failures.began:
                current.failures.replaces(node)
            if src.role == Role.WORKER:
                current.outbox.void(traffic.worker(node, int(src.process_rank)))
            else:
                theirs = not current.records.agents[node].incarnation
                current.outbox.void(traffic.agent(node), vocabulary.START if theirs else None)
        current.dirty = current.dirty or taken in (Taken.CHANGED, Taken.NEW_PROCESS)
        return taken is not Taken.REFUSED

    def _note_failure(self, node: int, cause: Cause | None) -> None:
        """Take in what an Agent says about failed processes of its own node, with the first cause if it says it."""
        current = self.state
        if cause is not None:
            cause = replace(cause, node=node)
        fault = current.records.fresh_faults.pop(node, None)
        if fault is not None:
            current.failures.take(current.now, node, fault, cause, rounds=current.records.rounds.open)
        elif cause is not None:
            current.failures.late(cause)

    def _note_progress(self, node: int, text: str, report: Reported) -> None:
        """Take in what an Agent tells of its ranks, or that it says nothing of them."""
        current = self.state
        agent, failures, rounds = current.records.agents[node], current.failures, current.records.rounds
        failure = failures.open
        begun = failures.began > 0.0 or not rounds.meets
        again = failure is None or (bool(failure.answer) and not rounds.open)
        healthy = report.extension.get(vocabulary.WORKER_STATE, _HEALTHY) == _HEALTHY
        runs = begun and again and healthy and report.msg_type == vocabulary.KEEP_ALIVE
        progress = read_progress(text)
        current.books.report(current.now, node, agent.birth, progress, failures, runs=runs)
        failures.reaches(current.books.highest)
        if progress is not None:
            changed = current.hangs.take(current.now, node, progress, self.config.hang_timeout)
            current.dirty = current.dirty or changed or self._hang_is_unanswered

    @property
    def _hang_is_unanswered(self) -> bool:
        """True for a hang that is still to be answered: the stacks of all ranks are collected before."""
        hangs = self.state.hangs
        return self.config.answers_hangs and hangs.verdict.state == HUNG and not hangs.acted

    def _trains(self) -> bool:
        """True while the ranks are at work, and nobody waits for a node, a restart, or ClusterD."""
        current, records, rounds = self.state, self.state.records, self.state.records.rounds
        if not records.agents or current.paused or self._streams.pauses_training or self._snapshot().any_faulty:
            return False
        if self.config.supervises and (not rounds.open or self._streams.streams[RECOVERY].owner):
            return False
        return not (records.asking or epochs.LEFT in records.epochs.phases)

    def _judge_hang(self, outcome: Outcome) -> None:
        """Judge whether the job stands still, and have its guilty ranks restarted where the settings say so."""
        current, hangs, config = self.state, self.state.hangs, self.config
        hangs.look(current.now, config.hang_timeout)
        verdict = hangs.verdict
        if event := hangs.news():
            ranks = ",".join(str(each.rank) for each in verdict.guilty)
            reason = "; ".join(f"rank {each.rank}: {each.words}" for each in verdict.guilty) or verdict.words
            quiet = round(current.now - verdict.since) if verdict.since else 0
            outcome.note(event, seconds=quiet, limit=round(verdict.limit), ranks=ranks, reason=reason)
        if not self._hang_is_unanswered or not self._trains():
            return
        records = current.records
        if current.now < verdict.noticed + EVIDENCE_S and any(
            records.has_feature(rank, vocabulary.SHOWS_STACKS) for rank in records.agents
        ):
            return
        hangs.acted = hangs.changed = True
        everybody = config.on_hang == vocabulary.ON_HANG_ALL
        processes, open_ = config.processes_per_node, current.records.rounds.open
        for each in failures_of(verdict, current.records, processes, current.now, everybody=everybody):
            current.records.hangs(each.node, each.fault)
            current.failures.take(current.now, each.node, each.failed, each.cause, rounds=open_)

    def _keep_books(self) -> None:
        """Bring the books up to the present."""
        current, known = self.state, self.state.records.epochs
        stage = stage_of(current.now, current.records, current.failures, supervises=self.config.supervises)
        joined = known.number > known.over and known.all_in(epochs.RUNNING)
        hung = current.hangs.stands(current.now)
        current.books.look(current.now, stage, current.failures, joined=joined, hung=hung)

    def _acknowledge(self, event: Acknowledged) -> bool:
        """Settle what has arrived.

        A mesh that has just begun again knows some of a broadcast's receivers. The others get the next try, and these
        drop it, as its uuid is the same.
        """
        outbox = self.state.outbox
        sending = outbox.sending.get(event.uuid)
        if sending is None:
            return False
        command = sending.command
        if command is not None and event.receivers is not None and event.receivers < self._registered(command):
            return False
        outbox.remove(event.uuid)
        self.state.dirty = True
        if command is not None and command.code in (vocabulary.RESTART_ALL, vocabulary.RESTART_RANKS):
            sent = sending.sent if event.late or sending.resumed else None
            for rank in self._agents(command):
                self.state.records.settle(rank, event.uuid, sent)
        return True

    def _signal(self, signal: Signal) -> bool:
        """Queue a signal; heartbeats say nothing, and the pause of Agents is a switch beside the others.

        Each order has a uuid of its own then, also a killMaster and one without a uuid.
        """
        current = self.state
        if signal.signal_type == events.KEEP_ALIVE:
            return True
        if (fresh := current.orders.fresh(signal)) is None:
            return False
        if signal.signal_type == events.KILL_MASTER or not signal.uuid:
            fresh = replace(fresh, uuid=current.uuid())
        current.dirty = True
        if signal.signal_type in _SWITCHES:
            pauses = signal.signal_type == events.PAUSE_AGENTS
            current.paused_until = current.now + PAUSE_STARTS_S if pauses else 0.0
            if pauses:
                self._hold_back()
        else:
            if fresh.begins_round:
                self._end_kill()
            current.to_report |= current.open_faults.take(fresh)
            if fresh.signal_type == events.PRE_EXIT:
                current.announced_until = current.now + self.config.times.unreported
            current.signals.append(fresh)
        return True

    def _end_kill(self) -> None:
        """A new round has begun, so the order before it to end the job is over, unless Agent 0 has taken its 203."""
        current = self.state
        current.signals = [each for each in current.signals if each.signal_type != events.KILL_MASTER]
        for command in current.outbox.commands_to(traffic.agent(0), vocabulary.EXIT):
            owner = self._streams.plugins.get(command.owner)
            if owner is not None and owner.ends_job:
                current.outbox.withdraw(command.uuid)
                current.records.stay(0, current.now)

    def _void_orders(self) -> None:
        """ClusterD has forgotten its orders. What they have not done yet is void; commands and killMaster go on."""
        current = self.state
        current.signals = [each for each in current.signals if each.signal_type == events.KILL_MASTER]
        lasts = current.signal.signal_type == events.KILL_MASTER or current.signal.uuid == current.own_order
        if current.signal != Signal() and not lasts:
            current.signal, current.dirty = Signal(), True

    def _bring_on(self, outcome: Outcome) -> None:
        """Order what brings the training on, where ClusterD has forgotten that it stopped it, and no rank is faulty.

        Cards are switched and devices tested until the end, before the training uses them again.
        """
        current = self.state
        faults = current.open_faults
        if 0.0 < current.own_until <= current.now:
            faults.continued(done=False)
        strategy = faults.strategy
        if not strategy:
            current.own_until = 0.0
            return
        if strategy != CONTINUE:
            current.own_until = 0.0
        else:
            if not current.own_until:
                current.own_order, current.own_until = "", current.now + CONTROLLER_S
            if current.own_order or self._streams.pauses_training:
                return
        current.own_order = current.uuid()
        order = Signal(current.own_order, events.CHANGE_STRATEGY, ("change_strategy",), change_strategy=strategy)
        if strategy == EXIT:  # no end of a stream makes it void
            faults.answered()
        current.signals.append(order)
        outcome.note("stop_forgotten", strategy=strategy)

    def _snapshot(self) -> Snapshot:
        current = self.state
        return Snapshot(
            current.now,
            self.config,
            current.records,
            current.outbox,
            current.clusterd_round,
            current.devices,
            current.signal,
            current.retry_time,
            current.first_retry_time,
            self.requests,
            current.failures,
        )

    def _note_requests(self) -> None:
        """Show the last request of each class in the next snapshots."""
        for kind, plugin in self._takers.items():
            self.requests[kind.__name__] = plugin.state.request

    def _run(self, outcome: Outcome) -> bool:
        def carry_out(owner: str, items: list[Item]) -> None:
            for item in items:
                self._carry_out(owner, item, outcome)

        return self._streams.run(self._snapshot(), outcome, carry_out)

    def _carry_out(self, owner: str, item: Item, outcome: Outcome) -> None:
        current = self.state
        match item:
            case Command():
                agents = self._agents(item)
                answers = agents if item.code in _ANSWERS else []
                if answers and current.signal.strategy == EXIT:
                    current.open_faults.answered()
                ended = answers if item.code == vocabulary.EXIT else []
                if ended and current.records.exited.issuperset(ended):
                    return  # two signals may name one node; its process has its 203
                outcome.answered += [fault.at for fault in self._unanswered(answers).values()]
                if item.code in _STARTS:
                    if current.failures.count > current.books.failure:
                        self._keep_books()  # it knows the failure before what answers it
                    for rank in agents:
                        current.books.awaits(rank)
                more = self._receiver(item, agents) | self._round(item) | self._cause(item, agents)
                more |= self._highest_step(item, agents)
                command = item.signed(current.uuid(), owner, more)
                current.outbox.add(current.now, command, self.config.times.retry)
                outcome.commands.append(command)
                item = command
                for rank in answers:
                    current.clusterd_round.take(current.signal.uuid, rank, command)
                for rank in ended:
                    current.records.exit(rank)
                if command.code == vocabulary.EPOCH_BEGIN:
                    current.records.begin_epoch(int(command.message))
                    current.failures.attempt_begins(current.now)
                elif command.code == vocabulary.RESTART_RANKS:
                    self._answered(f"ranks restarted alone: {','.join(map(str, command.ranks))}", outcome)
            case Reply():
                reply = replace(item, uuid=current.uuid())
                current.outbox.add(current.now, reply, self.config.times.retry)
                outcome.replies.append(reply)
                item = reply
            case Call():
                outcome.calls.append(item)
                if item.name in traffic.REPORTED:
                    current.calls[item.name] = item
                elif item.name == "destroy":
                    current.open_faults.answered()
            case ReportFaults():
                current.open_faults.reported(item.ranks)
                outcome.reports.append(item)
            case Restarts():
                current.records.restarted(item.left, current.retry_time, everybody=item.everybody)
                if item.everybody:
                    current.open_faults.answered()
                    self._answered(f"all ranks restarted: round {current.records.rounds.number}", outcome)
                self.devices.restarted(current.now)
            case traffic.Retried():
                current.records.retry_answered(current.retry_time)
                return
            case traffic.RunBegins():
                current.records.run_begins(meets=item.meets)
                current.failures = JobFailures(changed=True)
                if not item.meets:
                    self._note_meeting(outcome)
            case traffic.MeetsNoMore():
                current.records.meets_no_more()
                self._note_meeting(outcome)
            case traffic.NodesMissing():
                current.records.nodes_missing(item.nodes, item.until)
                return
            case traffic.NodesLost():
                current.failures.loses(current.now, item.nodes)
            case traffic.AttemptBegins():
                if current.failures.open is not None and not current.failures.open.answer:
                    self._answered("the nodes are back; the others have kept their processes", outcome)
                current.failures.attempt_begins(current.now)
                current.records.all_met()
            case traffic.RunEnds():
                current.records.run_ends()
                current.failures.ends(item.reason)
                if item.reason:
                    self._answered(f"the job has ended: {item.reason}", outcome)
            case Reset():
                item = replace(item, uuid=current.uuid())
                self.devices.begun(item.device, item.uuid)
                outcome.resets.append(item)
            case Replace():
                current.records.replace(item.node)
            case StepBegun() | StepEnded():
                self.devices.mark(item, current.now)
                return
            case _:
                assert_never(item)
        outcome.decided.append((owner, item))

    def _receiver(self, command: Command, agents: list[int]) -> dict[str, str]:
        """The process that a command to one Agent is for, where the Agent is one of this package."""
        agent = self.state.records.agents.get(agents[0]) if agents and command.destination.unicast else None
        return {vocabulary.MEANT_FOR: agent.incarnation} if agent is not None and agent.incarnation else {}

    def _round(self, command: Command) -> dict[str, str]:
        """The round that a 208 or 210 begins, where Agents meet by way of the Manager; the starts before, in a 305."""
        rounds = self.state.records.rounds
        if command.code == vocabulary.MEETING and vocabulary.MISSING not in command.extension:
            return {vocabulary.STARTS: str(rounds.starts)}
        meets = rounds.meets and self.config.supervises
        if command.code not in (vocabulary.RESTART_ALL, vocabulary.START) or not meets:
            return {}
        return {vocabulary.ROUND: str(rounds.number), vocabulary.SECONDS: f"{self.config.node_s:.0f}"}

    def _highest_step(self, command: Command, agents: list[int]) -> dict[str, str]:
        """The highest step that the job has done, for the processes that a command starts, where ranks mark steps."""
        highest, known = self.state.books.highest, self.state.records.agents
        ours = [rank for rank in agents if rank in known and known[rank].incarnation]
        starts = command.code in _STARTS or (
            command.code == vocabulary.MEETING and vocabulary.MISSING not in command.extension
        )
        if highest is None or not starts or not ours:
            return {}
        return {vocabulary.HIGHEST_STEP: str(highest)}

    def _note_meeting(self, outcome: Outcome) -> None:
        """Say which nodes have an Agent that cannot meet the others by way of the Manager."""
        records = self.state.records
        nodes = ",".join(str(rank) for rank in sorted(records.agents) if not records.meets(rank))
        outcome.note("meets_by_framework", nodes=nodes)

    def _answered(self, words: str, outcome: Outcome) -> None:
        """Note what becomes of the job because of a failure."""
        failures = self.state.failures
        failures.answer(self.state.now, words)
        if failures.open is not None:
            outcome.note("failure_answered", number=failures.open.number, cause=told(failures.open), answer=words)

    def _cause(self, command: Command, agents: list[int]) -> dict[str, str]:
        """The first failure of the job, in a 203 or 305 to an Agent that takes it."""
        if command.code not in (vocabulary.EXIT, vocabulary.MEETING):
            return {}
        failures, records = self.state.failures, self.state.records
        if not records.rounds.open:
            failures.close(self.state.now)
        failure = failures.open
        if failure is None or not failure.ranks or not agents:
            return {}
        if not all(records.has_feature(rank, vocabulary.TELLS) for rank in agents):
            return {}
        if command.code == vocabulary.MEETING:
            # One that says whom the nodes wait for comes again and again.
            brief = {vocabulary.CAUSE: write_cause(failure.first.brief)}
            return {} if vocabulary.MISSING in command.extension else brief
        others = {vocabulary.OTHERS: ",".join(map(str, failure.others[:OTHERS_TOLD]))} if failure.others else {}
        return {vocabulary.CAUSE: write_cause(failure.first.told)} | others

    def _unanswered(self, nodes: Iterable[int]) -> dict[int, Fault]:
        """The faults of these Agents that no command on its way answers, by node."""
        records, codes = self.state.records, self.state.outbox.codes_to
        open_ = (node for node in nodes if node in records.faulty and _ANSWERS.isdisjoint(codes(traffic.agent(node))))
        return {node: fault for node in open_ if (fault := records.agents[node].fault) is not None}

    def _report_faults(self, outcome: Outcome) -> float:
        """Report faulty ranks to ClusterD: those that it has lost, and those that no training framework reports.

        After a preExitProcess ClusterD waits for a report, also of a node whose Agent is silent.

        Returns:
            The time at which a fault is to be reported next; infinity for none.
        """
        current, due = self.state, INFINITY
        ranks, current.to_report = current.to_report, {}
        if not self.config.recovers or not current.open_faults.subscribed:
            return due
        found = self._unreported(ranks)
        if current.open_faults.announced:
            found.append((current.announced_until, current.open_faults.announced - ranks.keys()))
        for at, unreported in found:
            if at <= current.now:
                ranks |= dict.fromkeys(sorted(unreported), OTHER_FAULT)
            else:
                due = min(due, at)
        if ranks:
            self._carry_out("", ReportFaults(ranks), outcome)
        return due

    def _unreported(self, ranks: Collection[int]) -> list[tuple[float, set[int]]]:
        """Failed ranks that ClusterD has to hear of, each group with the time at which it is to be reported.

        ClusterD recovers in place only where the processes of one node are faulty. So a rank that has lost a peer, as
        its last words say, is held back beside the first failure, and restarted in the round of that one.

        Args:
            ranks: those that are reported in this tick.
        """
        current = self.state
        known = (current.open_faults.ranks.keys() - current.open_faults.announced) | set(ranks)
        faults = self._unanswered(sorted(current.records.faulty))
        snapshot = self._snapshot()
        failed = {node: snapshot.global_ranks(node, fault) - known for node, fault in faults.items()}
        if not self.config.in_place:
            return [(faults[node].at + self.config.times.unreported, each) for node, each in failed.items() if each]
        times = {node: fault.at if fault.reported is None else fault.reported for node, fault in faults.items()}
        if not known:
            current.first_failure = min(times.values(), default=0.0)
        held = {
            rank: node
            for node, each in failed.items()
            for rank in each
            if times[node] <= current.first_failure + LOST_PEER_S and current.records.has_lost_peer(rank)
        }
        others = {rank for each in failed.values() for rank in each} - held.keys()
        found = [(current.now, others)] if others else []
        if held and not others and not known:
            # The cause may be one that its Agent has not seen yet.
            first = min(held, key=lambda rank: (times[held[rank]], rank))
            found.append((faults[held[first]].at + self.config.times.unreported, {first}))
        return found

    def _ranks_of(self, node: int) -> list[int]:
        return ranks_of_node(node, self.state.records, self.config.processes_per_node)

    def _start_agents(self, outcome: Outcome) -> None:
        """210 to all Agents that ask, unless ClusterD holds them back, or a device of theirs is being reset.

        Where the Manager restarts processes, the first of them wait for the last.
        """
        current, records = self.state, self.state.records
        if 0.0 < current.paused_until <= current.now:
            current.paused_until = 0.0
            outcome.note("pause_overdue", seconds=int(PAUSE_STARTS_S))
        snapshot = self._snapshot()
        resetting = {snapshot.place(device).node for device, task in current.devices.tasks.items() if task.resets}
        held = current.paused or (self.config.supervises and not records.rounds.open)
        for rank in () if held else sorted(records.asking - resetting):
            agent = records.agents[rank]
            # A count of 0 is the original's for none: the Agent keeps its own.
            message = str(records.restarts) if records.restarts else agent.asked or ""
            extension = {vocabulary.INCARNATION: current.seed}
            if self.config.in_place:
                extension[vocabulary.IN_PLACE] = "on"
            if self.config.supervises:
                extension[vocabulary.RESTARTS] = vocabulary.JOB
            start = Command(traffic.agent(rank), vocabulary.START, message, extension, mtype=agent.mtype)
            self._carry_out("", start, outcome)
            records.started(rank)

    def _give_ranks(self, outcome: Outcome) -> None:
        """Answer launchers that ask for the ranks of their nodes."""
        current, nodes = self.state, self.config.nodes or JOB_NODES
        if not current.ranks.asking:
            return
        present = {rank for rank, each in current.records.agents.items() if each.registered and not each.exited}
        joined = {rank for rank in present if current.records.silent_since(rank, current.now) is None}
        for asker in current.ranks.asking:
            found = current.ranks.give(asker, nodes, joined)
            given = (str(found), {}) if isinstance(found, int) else ("", {vocabulary.REASON: found})
            self._carry_out("", Command(asker.position, vocabulary.RANK_GIVEN, *given), outcome)
        current.ranks.asking.clear()

    def _hold_back(self) -> None:
        """Take back the 210s that no Agent has acknowledged; a second one to an Agent that has started is ignored."""
        outbox = self.state.outbox
        for sending in list(outbox.sending.values()):
            if sending.command is not None and sending.command.code == vocabulary.START:
                outbox.withdraw(sending.command.uuid)
                for rank in self._agents(sending.command):
                    self.state.records.ask_again(rank)

    def _resend(self, outcome: Outcome) -> None:
        """Send again what is due. After the last try it is decided on again, by who has decided on it."""
        current = self.state
        snapshot = self._snapshot()
        for sending in current.outbox.due(current.now):
            tries = sending.tries + 1
            if tries > COMMAND_ATTEMPTS:
                command = sending.command
                goes_on = command is not None and self._lost(command, snapshot, outcome)
                outcome.note("message_lost", uuid=uuid_of(sending), goes_on=goes_on)
                if not goes_on:
                    current.outbox.withdraw(uuid_of(sending))
                    continue
                tries = 1
            current.outbox.again(current.now, sending, tries, self.config.times.retry)
            outcome.commands += [sending.command] if sending.command else []
            outcome.replies += [sending.reply] if sending.reply else []

    def _lost(self, command: Command, snapshot: Snapshot, outcome: Outcome) -> bool:
        """True to go on. A 210 is owed until the Agent has it, or its next process registers."""
        if not command.owner:
            return command.code != vocabulary.RANK_GIVEN
        plugin = self._streams.plugins.get(command.owner)
        if plugin is None:
            return False
        try:
            return plugin.lost(command, snapshot)
        except BaseException as error:  # noqa: BLE001 - a plugin of the user's ends no Manager; the notice is logged
            outcome.note("plugin_failed", plugin=plugin.name, reason=f"{type(error).__name__}: {error}")
            return False

    def _registered(self, command: Command) -> int:
        """The number of registered processes that a broadcast or list goes to; 0 for a command to one."""
        destination = command.destination
        return 0 if destination.unicast else self.state.records.registered(destination)

    def _agents(self, command: Command) -> list[int]:
        """Node ranks of the Agents that a command goes to."""
        destination = command.destination
        if destination.position.role != Role.AGENT:
            return []
        servers = destination.servers
        return sorted(self.state.records.agents if servers is None else map(int, servers))
