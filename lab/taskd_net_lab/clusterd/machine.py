"""The recovery of one job: events in, decisions out, with time as an argument."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from taskd_net_lab.clusterd.cluster import Cluster
from taskd_net_lab.clusterd.course import (
    DUE,
    KEEP_ALIVE,
    KILL_MASTER,
    SECONDS,
    STEPS,
    Pass,
    Read,
    Times,
    Wait,
    Watch,
    Write,
)
from taskd_net_lab.clusterd.messages import (
    Answered,
    Crashed,
    Decision,
    Ended,
    Moved,
    Operation,
    Order,
    Queue,
    Ready,
    Report,
    Reset,
    RestartAll,
    Sent,
    Signal,
    Stream,
    StressOrder,
    SwitchOrder,
    Told,
    Unread,
)
from taskd_net_lab.clusterd.round import IN_PLACE, MEMORY, OTHER, Job, Round
from taskd_net_lab.clusterd.table import TABLE, Event, State

INNER_ERROR: Final = 599
"""The code of a report's call that a reset of the machine has ended."""

_TICK: Final = 1e-3
"""Seconds by which a time may be early: the error of a sum."""

_NEW_UUID: Final = (State.NOTIFY_STOP_TRAIN, State.NOTIFY_DUMP, State.NOTIFY_PAUSE_TRAIN)
_BEFORE_GLOBAL_FAULT: Final = (
    State.NOTIFY_WAIT_FAULT_FLUSHING,
    State.NOTIFY_STOP_TRAIN,
    State.WAIT_REPORT_STOP_COMPLETE,
    State.WAIT_FAULT_FLUSH_FINISHED,
    State.NOTIFY_GLOBAL_FAULT,
)
_END_OF_OPERATION: Final = (State.INIT, State.NOTIFY_STOP_TRAIN, State.NOTIFY_KILL_JOB)
_END_OF_MOVE: Final = (State.WAIT_REPORT_RESTART_TRAIN_RESULT, State.NOTIFY_STOP_JOB)


class Device(StrEnum):
    """Faults of a device, as far as ClusterD tells them apart."""

    MEMORY = "memory"
    OTHER = "other"
    SUB_HEALTH = "sub-health"


class Machine:
    """The machine of one job.

    A reset ends the job's streams, and forgets the round, its timers and its unread reports. Begin and end of the
    stream of signals reset the machine, and each return to `init`. A reset takes the time of a write to the kube API;
    faults that are reported meanwhile lose their ranks.

    Each queue holds one report. The call of a further one is answered when the queue is read, or by a reset.

    Args:
        job: the job.
        new_uuid: makes the uuid of an order.
        seconds: times instead of those in `course.SECONDS`.
        outcomes: for a state the outcomes of its next visits, in order, whatever is reported. A failure of writing
            sends nothing.
        cluster: what stands in the cluster, also before this machine.
        resets: times of resets, one after another, instead of those in `seconds`.

    Attributes:
        job: the job.
        state: the present state.
        decisions: made since the caller has taken the last ones out.
        seconds: times, from the next state on.
        cluster: the pods and devices.
    """

    def __init__(
        self,
        job: Job,
        new_uuid: Callable[[], str],
        seconds: Mapping[Wait, float] = SECONDS,
        outcomes: Mapping[State, tuple[Event, ...]] | None = None,
        cluster: Cluster | None = None,
        resets: Iterator[float] | None = None,
    ) -> None:
        self.job = job
        self.state = State.INIT
        self.decisions: list[Decision] = []
        self.cluster = cluster if cluster is not None else Cluster()
        self._new_uuid = new_uuid
        self._resets = resets
        self.seconds = {**SECONDS, **seconds}
        self._outcomes = {state: deque(events) for state, events in (outcomes or {}).items()}
        self._streams: dict[Stream, float] = {}
        self._round = Round(job)
        self._queues: dict[Queue, Report] = {}
        self._blocked: dict[Queue, dict[int, Report]] = {queue: {} for queue in Queue}
        self._due: tuple[float, Callable[[float], Event | None]] | None = None
        self._later: list[tuple[float, Callable[[float], None]]] = []
        self._reading: Read | None = None
        self._since = -math.inf
        self._keep_alive: float | None = None
        self._pending: dict[int, int] = {}
        self._occurs: float | None = None
        self._filtered: dict[int, float] = {}
        self._begins: float | None = None
        self._begun_by_fault = False
        self._closes: float | None = None
        self._ghost: float | None = None

    @property
    def wake(self) -> float | None:
        """The time of the next `tick`; None without any."""
        times = [self._keep_alive, self._occurs, self._begins, self._closes, self._ghost, self._due and self._due[0]]
        times += [at for at, _ in self._later]
        return min((at for at in times if at is not None), default=None)

    @property
    def operation(self) -> Operation | None:
        """The operation that pauses the training now."""
        return self._round.operation

    @property
    def subscribed(self) -> bool:
        """True while a client reads the stream of signals, and its reports count."""
        return Stream.SIGNALS in self._streams and self._begins is None and self._closes is None

    @property
    def rests(self) -> bool:
        """True in `init`, where no fault is on its way to a round."""
        return self.state is State.INIT and self._occurs is None and not self._begun_by_fault and not self._later

    def has(self, stream: Stream) -> bool:
        """True while a client reads this stream."""
        return stream in self._streams

    def begin(self, stream: Stream, now: float) -> None:
        """A client reads a stream from now on. It takes the stream from the client that has it."""
        if stream is Stream.SIGNALS:
            # Another stream of the same client may be there first.
            fresh = {each: at for each, at in self._streams.items() if at > now - self.seconds[Wait.BEGIN]}
            self._end_streams(keep=() if stream in self._streams else tuple(fresh))
            self._reset(now)
            self._begins = now + self._reset_s(Wait.BEGIN)
            self._keep_alive = now + self.seconds[Wait.KEEP_ALIVE]
        elif stream in self._streams:
            self.decisions.append(Ended(stream))
        self._streams[stream] = now

    def end(self, stream: Stream, now: float) -> None:
        """The client has gone; harmless for a stream that has ended."""
        if self._streams.pop(stream, None) is None or stream is not Stream.SIGNALS:
            return
        in_place = self.state is State.WAIT_REPORT_PROCESS_RECOVER_STATUS and self._round.strategy == IN_PLACE
        if in_place and now < self._since + self.seconds[Wait.READ]:
            self.decisions.append(Crashed("the stream of signals ended within 5 s of changeStrategy recover-in-place"))
        self._end_streams()
        self._reset(now)

    def stand(self, now: float) -> None:
        """Take note of the faults that stand in the cluster, as after a start of ClusterD."""
        if self.cluster.devices or self.cluster.nodes:
            self._later.append((now + self.seconds[Wait.PRE_EXIT], self._pre_exit))

    def devices(self, node: int, faults: Mapping[int, Device], now: float) -> None:
        """The faulty devices of a node from now on.

        Args:
            node: its rank.
            faults: the fault by global rank.
            now: the time.
        """
        known = {rank for rank in self.cluster.devices if self.job.node_of(rank) == node}
        for rank in known.difference(faults):
            del self.cluster.devices[rank]
        for rank in sorted(set(faults).difference(known)):
            match faults[rank]:
                case Device.SUB_HEALTH:
                    self._at(now, Wait.SUB_HEALTH, lambda at: self._sub_health(node, at))
                    continue
                case Device.MEMORY:
                    self._filtered[rank] = now + self.seconds[Wait.FILTER]
                    self._at(now, Wait.MEMORY, self._pre_exit)
                case Device.OTHER:
                    self._at(now, Wait.PRE_EXIT, self._pre_exit)
            self.cluster.devices[rank] = MEMORY if faults[rank] is Device.MEMORY else OTHER

    def node(self, node: int, faulty: bool, now: float) -> None:
        """A node is faulty, or no longer."""
        if faulty and node not in self.cluster.nodes:
            self._at(now, Wait.NODE, self._pre_exit)
        (self.cluster.nodes.add if faulty else self.cluster.nodes.discard)(node)

    def pod_deleted(self, node: int, back: float) -> None:
        """The pod of a node has gone; it is back at a time, or never (infinite)."""
        self.cluster.absent[node] = back

    def new_pod(self, now: float) -> None:
        """The new pod of a hot switch runs."""
        if self.state is State.WAIT_NEW_POD:
            self._run(Event.NEW_POD_RUNNING, now)

    def old_pod_deleted(self, now: float) -> None:
        """The old pod of a hot switch has gone."""
        if self.state is State.WAIT_OLD_POD_DELETED:
            self._run(Event.OLD_POD_DELETED, now)

    def refuse(self, now: float) -> None:
        """The kube API has refused a write: the round ends."""
        self._write(Signal("", KILL_MASTER))
        self._reset(now)
        self._closes = now + self._reset_s(Wait.RESET)

    def tick(self, now: float) -> None:
        """Let time pass; needed at `wake`, harmless at any time."""
        while (wake := self.wake) is not None and wake <= now:
            self.cluster.look(now)
            if wake == self._begins:
                self._begins = None
                self.decisions.append(Ready())
                if self._begun_by_fault:
                    self._begun_by_fault = False
                    self._occur(now)
            elif wake == self._closes:
                self._end_streams()
                self._reset(now)
            elif wake == self._keep_alive:
                self._keep_alive = now + self.seconds[Wait.KEEP_ALIVE]
                self._write(Signal(self._round.uuid, KEEP_ALIVE))
            elif wake == self._ghost:
                self._ghost = None
                self._write(Signal(self._round.uuid, "globalFault", ("on_global_rank", "fault_nodes_exit")))
            elif wake == self._occurs:
                self._occur(now)
            elif self._due is not None and wake == self._due[0]:
                work, self._due = self._due[1], None
                self._run(work(now), now)
            else:
                first = min(self._later, key=lambda each: each[0])
                self._later.remove(first)
                first[1](now)

    def fault(self, ranks: Mapping[int, int], now: float, *, in_place: bool = True) -> None:
        """The client reports faulty ranks: a new round, where the present state allows it, or more ranks in this one.

        Without a stream of signals the report is lost. In a reset its ranks are.

        Args:
            ranks: type of fault by rank.
            now: the time.
            in_place: False where their devices are faulty too, which rules a restart in their pods out.
        """
        if not in_place:
            self.cluster.devices.update(ranks)
        if Stream.SIGNALS not in self._streams or self._closes is not None:
            return
        if self._begins is not None:
            self._begun_by_fault = True
        elif self.state is State.INIT:
            self._pending.update(ranks)
            at = now + self.seconds[Wait.NOTICE]
            if OTHER not in ranks.values():  # the fault centre decides
                at = max([now + self.seconds[Wait.CENTRE], *(self._filtered.get(rank, 0.0) for rank in ranks)])
            self._occurs = min(at, self._occurs if self._occurs is not None else at)
        elif self.state is State.SCALE_IN_RUNNING:
            self._round.faults = {**self._round.ranks_lost, **ranks}
            self._run(Event.FAULT_OCCUR, now)
        elif self.state in _BEFORE_GLOBAL_FAULT:
            self._round.faults.update(ranks)

    def order(self, signal: Signal) -> None:
        """Write any signal; one without uuid gets one."""
        self._write(signal if signal.uuid else replace(signal, uuid=self._new_uuid()))

    def hot_switch(self, ranks: Mapping[int, int], now: float) -> bool:
        """Replace the pods of these ranks while they train. Returns False where the job is busy."""
        return self._operate(Event.BEGIN_HOT_SWITCH, Round(self.job, faults=dict(ranks)), now)

    def switch_cards(self, ranks: tuple[int, ...], ops: tuple[bool, ...], now: float) -> bool:
        """Switch network cards. Returns False where the job is busy.

        Args:
            ranks: global ranks.
            ops: for each, whether it goes to the backup card.
            now: the time.
        """
        new = Round(self.job, operation=Operation.SWITCH, ranks=ranks, ops=ops)
        return self._operate(Event.START_SWITCH_NIC, new, now)

    def stress_test(self, tests: Mapping[int, tuple[int, ...]], now: float) -> bool:
        """Test devices. Returns False where the job is busy.

        Args:
            tests: operations by global rank.
            now: the time.
        """
        return self._operate(Event.START_STRESS_TEST, Round(self.job, operation=Operation.STRESS, tests=tests), now)

    def report(self, call: int, report: Report, now: float) -> None:
        """A report of the client; its call is answered by `Answered`, perhaps later, or after the client has gone.

        Args:
            call: number of the call.
            report: the report.
            now: the time.
        """
        if report.queue in self._queues:
            self._blocked[report.queue][call] = report
            return
        self._queues[report.queue] = report
        self.decisions.append(Answered(call, 0))
        self._run(self._read_reports(), now)

    def _at(self, now: float, wait: Wait, work: Callable[[float], None]) -> None:
        self._later.append((now + self.seconds[wait], work))

    def _occur(self, now: float) -> None:
        """Begin a round, with the ranks that are known."""
        faults, self._pending, self._occurs = self._pending, {}, None
        if self.state is State.INIT:
            self._round = Round(self.job, faults=faults)
            self._run(Event.FAULT_OCCUR, now)

    def _pre_exit(self, _: float) -> None:
        """Let the client end the processes of faulty devices. Their death, as the client reports it, is the fault."""
        ranks = dict.fromkeys(self.cluster.devices, OTHER)
        for node in self.cluster.nodes:
            ranks |= dict.fromkeys(range(node * self.job.processes, (node + 1) * self.job.processes), OTHER)
        if ranks and self.state is State.INIT:
            nodes = tuple(sorted({self.job.node_of(rank) for rank in ranks}))
            self._write(Signal(self._new_uuid(), "preExitProcess", ("pre exit process",), ranks, node_rank_ids=nodes))

    def _sub_health(self, node: int, now: float) -> None:
        first = node * self.job.processes
        self.hot_switch(dict.fromkeys(range(first, first + self.job.processes), OTHER), now)

    def _operate(self, event: Event, new: Round, now: float) -> bool:
        if self._closes is not None:  # taken, and forgotten by the reset
            return True
        if event not in TABLE[self.state]:
            return False
        self._round = new
        self._run(event, now)
        return True

    def _run(self, event: Event | None, now: float) -> None:
        """Move by an event, and by those that follow at once."""
        while event is not None:
            state, to = self.state, TABLE[self.state][event]
            if self._round.lost and event is Event.RECEIVE_REPORT and state is State.WAIT_REPORT_STOP_COMPLETE:
                self._reset(now)
                self._closes = now + self._reset_s(Wait.RESET)
                return
            self.decisions.append(Moved(state, event, to))
            if event is Event.NOTIFY_SUCCESS and state is State.NOTIFY_RESTART_ALL_PROCESS:
                self.decisions.append(RestartAll())
            self._due = self._reading = None
            self.state, self._since = to, now
            if self._round.operation is not None and to in _END_OF_OPERATION:
                self._end_operation(event)
            if to is State.INIT:
                self._forget()
                self._closes = now + self._reset_s(Wait.MOVED if state in _END_OF_MOVE else Wait.RESET)
                return
            if to in _NEW_UUID:
                self._round.uuid = self._new_uuid()
            event = self._enter(now)

    def _enter(self, now: float) -> Event | None:
        """Begin the work of the present state. Returns its outcome, if that is known at once."""
        step, round_ = STEPS[self.state], self._round
        if outcomes := self._outcomes.get(self.state):
            forced = outcomes.popleft()
            return self._after((DUE[forced],) if forced in DUE else (), lambda _: forced, now)
        match step:
            case Pass():
                if self.state is State.WAIT_NEW_POD:
                    self._at(now, Wait.POD, self.new_pod)
                elif self.state is State.WAIT_FAULT_FLUSH_FINISHED:
                    well = not round_.tests and not any(
                        self.job.node_of(rank) in round_.nodes for rank in self.cluster.devices
                    )
                    round_.in_place = well and len(round_.nodes) == 1
                return self._after(step.after(round_), lambda _: step.event(round_), now)
            case Read():
                return self._after(step.after(round_), self._read, now)
            case Watch():
                if step.order is not None:
                    self._write(step.order(round_))
                return self._look(now)
            case Write():
                return self._after(step.after(round_), self._carry_out, now)

    def _after(self, times: Times, work: Callable[[float], Event | None], now: float) -> Event | None:
        if not times:
            return work(now)
        self._due = now + sum(self.seconds[each] for each in times), work
        return None

    def _look(self, now: float) -> Event | None:
        """Look at the pods, and again later."""
        step = STEPS[self.state]
        assert isinstance(step, Watch)
        self.cluster.look(now)
        event = step.look(self.cluster, now - self._since + _TICK, self.seconds)
        if event is None:
            self._due = now + self.seconds[Wait.POLL], self._look
        return event

    def _carry_out(self, _: float) -> Event | None:
        """Write the order of the present state. Returns the outcome."""
        step, round_ = STEPS[self.state], self._round
        round_.absent = frozenset(self.cluster.absent)
        assert isinstance(step, Write)
        if self.state is State.NOTIFY_STRESS_TEST:
            self._write(Signal(self._new_uuid(), "pauseStartAgent", ("pause_start_agent",)))
        elif self.state is State.NOTIFY_CONTINUE_TRAIN and round_.operation is Operation.STRESS:
            round_.uuid = self._new_uuid()
            self._write(Signal(round_.uuid, "continueStartAgent", ("continue_start_agent",)))
            self._tell(Operation.STRESS, "stress test finish")
        order = step.order(round_)
        if order is None or isinstance(order, Event):
            return order
        written = self._write(order)
        return step.success(round_) if written or not step.fails else Event.NOTIFY_FAIL

    def _write(self, order: Order) -> bool:
        kinds = {Signal: Stream.SIGNALS, SwitchOrder: Stream.SWITCH, StressOrder: Stream.STRESS}
        stream = kinds[type(order)]
        there = stream in self._streams
        self.decisions.append(Sent(stream, order) if there else Unread(stream, order))
        return there

    def _read(self, now: float) -> Event | None:
        """Read reports from now on."""
        step = STEPS[self.state]
        assert isinstance(step, Read)
        self._reading = step
        missing = self.state is State.WAIT_REPORT_PROCESS_RECOVER_STATUS and bool(self.cluster.absent)
        if missing:
            self._due = now + self.seconds[Wait.SCHEDULE], self._missed
        else:
            self._due = now + self.seconds[Wait.REPORT], lambda _: Event.REPORT_TIMEOUT
        return self._read_reports()

    def _missed(self, now: float) -> Event | None:
        """Give up on pods that are still missing, or wait on for the report."""
        self.cluster.look(now)
        if self.cluster.absent:
            return Event.SCHEDULE_TIMEOUT
        self._due = now + self.seconds[Wait.REPORT], lambda _: Event.REPORT_TIMEOUT
        return None

    def _read_reports(self) -> Event | None:
        """Read reports that the present state waits for. Returns the event of the first that has one."""
        for queue, read in self._reading.readers.items() if self._reading else ():
            while queue in self._queues:
                event = read(self._round, self._take(queue))
                if event is not None:
                    return event
        return None

    def _take(self, queue: Queue) -> Report:
        """Take the report out of a queue, and let the next one in."""
        report = self._queues.pop(queue)
        if self._blocked[queue]:
            call = next(iter(self._blocked[queue]))
            self._queues[queue] = self._blocked[queue].pop(call)
            self.decisions.append(Answered(call, 0))
        return report

    def _end_operation(self, event: Event) -> None:
        """Tell the operator how the operation has ended, and let Agents start again."""
        operation, state = self._round.operation, self.state
        assert operation is not None
        self._round.operation = None
        if state is State.INIT:
            text = f"{operation} finish"
        elif state is State.NOTIFY_KILL_JOB:
            text = "om failed, pause train failed"
        elif operation is Operation.STRESS:
            text = "stress test timeout fault" if self._round.lost else "stress test find fault"
        elif event is Event.WAIT_SWITCH_NIC_RECV_FAULT:
            text = "switch nic failed, report error when switching nic"
        else:
            text = "switch nic failed, switch nic failed"
        if operation is Operation.STRESS and state is State.NOTIFY_STOP_TRAIN:
            self._write(Signal(self._new_uuid(), "continueStartAgent", ("continue_start_agent",)))
        self._tell(operation, text)

    def _tell(self, operation: Operation, text: str) -> None:
        """Tell the operator the result, once."""
        if not self._round.told:
            self._round.told = True
            self.decisions.append(Told(operation, text))

    def _reset_s(self, wait: Wait) -> float:
        """Seconds of the next reset."""
        return self.seconds[wait] if self._resets is None else next(self._resets)

    def _end_streams(self, keep: tuple[Stream, ...] = ()) -> None:
        for stream in tuple(self._streams):
            if stream not in keep:
                del self._streams[stream]
                self.decisions.append(Ended(stream))
        if Stream.SIGNALS not in self._streams:
            self._keep_alive = None

    def _reset(self, now: float) -> None:
        """Give the round up. ClusterD sleeps before a globalFault, and then writes it all the same."""
        self.decisions.append(Reset(self.state))
        if self.state is State.NOTIFY_GLOBAL_FAULT and self._due is not None and self._due[0] > now:
            self._ghost = self._due[0]
        self.state = State.INIT
        self._forget()

    def _forget(self) -> None:
        """Forget the round, with all unread reports and all faults that no round has begun for."""
        self._due = self._reading = self._occurs = self._begins = self._closes = None
        self._begun_by_fault = False
        self._later.clear()
        self._filtered.clear()
        self._pending = {}
        self._round = Round(self.job)
        self.cluster.replaced = False
        self._queues.clear()
        for calls in self._blocked.values():
            self.decisions += [Answered(call, INNER_ERROR) for call in calls]
            calls.clear()
