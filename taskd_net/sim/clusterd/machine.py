"""The recovery of one job: events in, decisions out, with time as an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from taskd_net.sim.clusterd.course import DUE, KEEP_ALIVE, SECONDS, STEPS, Pass, Read, Wait, Write
from taskd_net.sim.clusterd.messages import (
    Answered,
    Decision,
    Moved,
    Operation,
    Order,
    Queue,
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
from taskd_net.sim.clusterd.round import Job, Round
from taskd_net.sim.clusterd.table import TABLE, Event, State

KEEP_ALIVE_S: Final = 5.0
"""Seconds between two keep-alives in the stream of signals."""

INNER_ERROR: Final = 599
"""The code of a report's call that a reset of the machine has ended."""

_NEW_UUID: Final = (State.NOTIFY_STOP_TRAIN, State.NOTIFY_PAUSE_TRAIN, State.NOTIFY_PREPARE_HOT_SWITCH)
_END_OF_OPERATION: Final = (State.INIT, State.NOTIFY_STOP_TRAIN, State.NOTIFY_KILL_JOB)


class Machine:
    """The machine of one job.

    Begin and end of the stream of signals reset it to `init`: its round, its timers and its unread reports are gone.
    Each queue holds one report. The call of a further one is answered when the queue is read, or by a reset.

    Args:
        job: the job.
        new_uuid: makes the uuid of an order.
        seconds: times instead of those in `course.SECONDS`.
        outcomes: for a state the outcomes of its next visits, in order, whatever is reported. A failure of writing
            sends nothing.

    Attributes:
        job: the job. Changes count from the next round on.
        state: the present state.
        decisions: made since the caller has taken the last ones out.
        seconds: times, from the next state on.
    """

    def __init__(
        self,
        job: Job,
        new_uuid: Callable[[], str],
        seconds: Mapping[Wait, float] = SECONDS,
        outcomes: Mapping[State, tuple[Event, ...]] | None = None,
    ) -> None:
        self.job = job
        self.state = State.INIT
        self.decisions: list[Decision] = []
        self._new_uuid = new_uuid
        self.seconds = {**SECONDS, **seconds}
        self._outcomes = {state: deque(events) for state, events in (outcomes or {}).items()}
        self._streams: set[Stream] = set()
        self._round = Round(job)
        self._queues: dict[Queue, Report] = {}
        self._blocked: dict[Queue, dict[int, Report]] = {queue: {} for queue in Queue}
        self._due: tuple[float, Event | None] | None = None
        self._reading: Read | None = None
        self._keep_alive: float | None = None

    @property
    def wake(self) -> float | None:
        """The time of the next `tick`; None without any."""
        times = [at for at in (self._due and self._due[0], self._keep_alive) if at is not None]
        return min(times, default=None)

    @property
    def operation(self) -> Operation | None:
        """The operation that pauses the training now."""
        return self._round.operation

    def has(self, stream: Stream) -> bool:
        """True while a client reads this stream."""
        return stream in self._streams

    # ---- events

    def begin(self, stream: Stream, now: float) -> None:
        """A client reads a stream from now on."""
        self._streams.add(stream)
        if stream is Stream.SIGNALS:
            self._reset()
            self._keep_alive = now + KEEP_ALIVE_S

    def end(self, stream: Stream) -> None:
        """The client has gone."""
        self._streams.discard(stream)
        if stream is Stream.SIGNALS:
            self._reset()
            self._keep_alive = None

    def tick(self, now: float) -> None:
        """Let time pass; needed at `wake`, harmless at any time."""
        if self._keep_alive is not None and now >= self._keep_alive:
            self._keep_alive = now + KEEP_ALIVE_S
            self._write(Signal(self._new_uuid(), KEEP_ALIVE))
        if self._due is not None and now >= self._due[0]:
            event = self._due[1]
            self._due = None
            self._run(event if event is not None else self._carry_out(), now)

    def fault(self, ranks: Mapping[int, int], now: float, *, in_place: bool = True) -> None:
        """Ranks are faulty: a new round, where the present state allows it, or more ranks in this one.

        Args:
            ranks: type of fault by rank.
            now: the time.
            in_place: the processes can be restarted in their pods, if the job has that strategy.
        """
        if Event.FAULT_OCCUR not in TABLE[self.state]:
            self._round.faults.update(ranks)
            return
        self._round = Round(self.job, self._new_uuid(), dict(ranks), in_place)
        self._run(Event.FAULT_OCCUR, now)

    def pre_exit(self, ranks: Mapping[int, int]) -> None:
        """The client is to end faulty processes. Their death, as the client reports it, is the fault."""
        nodes = tuple(sorted({self.job.node_of(rank) for rank in ranks}))
        actions = ("pre exit process",)
        self._write(Signal(self._new_uuid(), "preExitProcess", actions, dict(ranks), node_rank_ids=nodes))

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
        """A report of the client; its call is answered by `Answered`, perhaps later.

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

    def cancelled(self, call: int) -> None:
        """The client waits no longer for the answer to a report's call."""
        for calls in self._blocked.values():
            calls.pop(call, None)

    # ---- transitions

    def _operate(self, event: Event, new: Round, now: float) -> bool:
        if event not in TABLE[self.state]:
            return False
        self._round = new
        if new.operation is Operation.STRESS:
            self._write(Signal(self._new_uuid(), "pauseStartAgent"))
        self._run(event, now)
        return True

    def _run(self, event: Event | None, now: float) -> None:
        """Move by an event, and by those that follow at once."""
        while event is not None:
            to = TABLE[self.state][event]
            self.decisions.append(Moved(self.state, event, to))
            if event is Event.NOTIFY_SUCCESS and self.state is State.NOTIFY_RESTART_ALL_PROCESS:
                self.decisions.append(RestartAll())
            self._due = self._reading = None
            self.state = to
            if to in _END_OF_OPERATION:
                self._end_operation(event)
            if to in _NEW_UUID:
                self._round.uuid = self._new_uuid()
            event = self._enter(now)

    def _enter(self, now: float) -> Event | None:
        """Begin the work of the present state. Returns its outcome, if that is known at once."""
        if self.state is State.INIT:
            self._forget()
            return None
        step = STEPS[self.state]
        if outcomes := self._outcomes.get(self.state):
            return self._wait(outcomes.popleft(), now)
        if isinstance(step, Pass):
            return self._wait(step.event(self._round), now)
        if isinstance(step, Read):
            self._due = now + self.seconds[Wait.REPORT], Event.REPORT_TIMEOUT
            self._reading = step
            return self._read_reports()
        if step.after is not None:
            self._due = now + self.seconds[step.after], None
            return None
        return self._carry_out()

    def _wait(self, event: Event, now: float) -> Event | None:
        """An event of the platform: at once, or when its time has passed."""
        if event not in DUE:
            return event
        self._due = now + self.seconds[DUE[event]], event
        return None

    def _carry_out(self) -> Event:
        """Write the order of the present state. Returns the outcome."""
        step = STEPS[self.state]
        assert isinstance(step, Write)
        order = step.order(self._round)
        if isinstance(order, Event):
            return order
        written = self._write(order)
        return step.success(self._round) if written or self.state is State.NOTIFY_KILL_JOB else Event.NOTIFY_FAIL

    def _write(self, order: Order) -> bool:
        kinds = {Signal: Stream.SIGNALS, SwitchOrder: Stream.SWITCH, StressOrder: Stream.STRESS}
        stream = kinds[type(order)]
        there = stream in self._streams
        self.decisions.append(Sent(stream, order) if there else Unread(stream, order))
        return there

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
        operation = self._round.operation
        if operation is None:
            return
        self._round.operation = None
        ok = self.state is State.INIT
        self.decisions.append(Told(operation, f"{operation} finished" if ok else f"{operation} failed: {event}"))
        if operation is Operation.STRESS:
            self._write(Signal(self._new_uuid(), "continueStartAgent"))

    def _reset(self) -> None:
        """Give the round up."""
        self.decisions.append(Reset(self.state))
        self.state = State.INIT
        self._forget()

    def _forget(self) -> None:
        """Forget the round, with all unread reports."""
        self._due = self._reading = None
        self._round = Round(self.job)
        self._queues.clear()
        for calls in self._blocked.values():
            self.decisions += [Answered(call, INNER_ERROR) for call in calls]
            calls.clear()
