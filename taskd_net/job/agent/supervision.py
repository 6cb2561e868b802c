"""The decisions of an Agent: events and the time in, actions out. Pure: no clock, no I/O, no thread.

    JOINING ─ AgentJoined ─▶ ASKING ── 210 ──▶ RUNNING ── a plan with Leave or Return ──▶ over
       │ 180 s                 │ 900 s           ▲  │ 208, 209, 213: a plan, then on
       └────── Leave(1) ◀──────┘                 └──┘

A command becomes a plan (`plans`): a row of steps. Plans are carried out in the order of their commands, one step at a
time. An urgent plan, which leaves with 1, replaces the current one and all that wait. Once the Agent is to leave, no
other command counts. Workers are looked at only between plans, because a plan changes their state.

A fault is a set of failed ranks that the Mgr has been told of (202). It is unanswered until 208 or 209. Meanwhile
nothing registers, because an original Mgr forgets the fault with each REGISTER. There is one exception: an original Mgr
that comes back may have restarted, and such a Mgr drops reports of Agents that it does not know. It gets a REGISTER.
The 202 follows some seconds later, for this Mgr orders 208 as soon as it has one, and to the Agents that it knows then.
A Mgr of this package is known by the incarnation in its 210.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from taskd_net.base.body import Body
from taskd_net.job.agent import messages
from taskd_net.job.agent import plans as steps
from taskd_net.job.agent.messages import Command
from taskd_net.job.agent.plans import Call, Leave, Plan, Plans, Return

FAULT_AGAIN_S: Final = 2.0
"""Seconds between a REGISTER and the 202 behind it, at a Manager of the original's that may have restarted: it decides
0.1 s after the 202, and an Agent that has not registered by then gets no 208. Its Agents register within a second."""


@dataclass(frozen=True, slots=True)
class AgentJoined:
    """The Mgr knows the way to the Agent: for the first time, or again after the parent or the Mgr was away."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed; comes once a second."""


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of `Supervisor.due` has come."""


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The process of a worker has ended: the workers are looked at as soon as no plan is under way."""


@dataclass(frozen=True, slots=True)
class Commanded:
    """A command has come.

    Args:
        command: the command.
        uuid: of its message.
        meant_for: incarnation of the process that it is for; empty where the Mgr does not say it.
    """

    command: Command
    uuid: str = ""
    meant_for: str = ""


@dataclass(frozen=True, slots=True)
class CallReturned:
    """The current call has returned."""


@dataclass(frozen=True, slots=True)
class CallRaised:
    """The current call has raised."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The current call, `Look`, has returned.

    Args:
        failed: global ranks of the workers that have failed.
        running: whether any worker runs.
        finished: whether all workers have finished their work.
        result: the framework's own form of it.
        state: the framework's name for it; empty where it has none.
        ranks: global ranks of this node's workers; those that are not known yet are missing.
    """

    failed: frozenset[int] = frozenset()
    running: bool = True
    finished: bool = False
    result: object = None
    state: str = ""
    ranks: frozenset[int] = frozenset()


Event = AgentJoined | Tick | Woken | WorkerEnded | Commanded | CallReturned | CallRaised | WorkerStatus


@dataclass(frozen=True, slots=True)
class SendReport:
    """Send this to the Mgr."""

    body: Body


@dataclass(frozen=True, slots=True)
class CommandIgnored:
    """A command is not carried out.

    Args:
        command: the command.
        reason: the cause, for the log.
    """

    command: Command
    reason: str


Action = Call | SendReport | CommandIgnored | Leave | Return
"""A `Call` is answered by one `CallReturned`, `CallRaised` or `WorkerStatus`, and there is one at a time. `Leave` and
`Return` are last."""


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """Times of an Agent, in seconds.

    Args:
        join: for the first join; then it leaves with 1.
        go: for the go after it; then it leaves with 1.
        repeat: between two REGISTERs, two 201s, and two 202s for one fault.
        grace: for workers to end after SIGTERM.
        fault: for an answer to a fault; then it leaves with 1. None: without end.
    """

    join: float
    go: float
    repeat: float
    grace: float
    fault: float | None = None


class Supervisor:
    """The state machine of one Agent.

    Args:
        plans: the framework's.
        times: waiting times.
        incarnation: a text of this Agent's own.
        remaining: restarts that remain, for the 201.
        now: the present, in seconds of any steady clock, as everywhere.
        devices: names of the node's devices, by local rank.
    """

    def __init__(
        self,
        plans: Plans,
        times: AgentTimes,
        incarnation: str,
        remaining: str,
        now: float,
        devices: Sequence[str] = (),
    ) -> None:
        self._plans = plans
        self._times = times
        self._incarnation = incarnation
        self._registration = messages.registration(incarnation, devices)
        self._question = messages.question(remaining)
        self._join_by = now + times.join
        self._go_by: float | None = None  # set by the first join
        self._repeat_at: float | None = None
        self._started = False
        self._ours = False
        self._leaving = False
        self._over = False

        self._plan: deque[steps.Step] = deque()
        self._waiting: deque[Plan] = deque()
        self._call: Call | None = None
        self._until: float | None = None  # end of a Pause or an AwaitEnd
        self._awaiting = False
        self._ended = False  # a process, since the last look

        self._failed: frozenset[int] = frozenset()
        self._state = ""  # of the workers, at the last look
        self._fault: Body | None = None  # unanswered
        self._fault_by: float | None = None
        self._fault_again_at: float | None = None
        self._restart = ""  # uuid of the last command that restarts workers

        self._actions: list[Action] = []

    @property
    def due(self) -> float | None:
        """The time at which a wait of the current plan ends, or a report is due; None without one."""
        times = [at for at in (self._until, self._fault_again_at) if at is not None]
        return None if self._over else min(times, default=None)

    def handle(self, event: Event, now: float, at: int) -> list[Action]:
        """Take in an event.

        Args:
            event: what has happened.
            now: the time of it.
            at: the same in seconds since the epoch, for reports.

        Returns:
            Actions, to be carried out in this order; none after `Leave` or `Return`.
        """
        self._actions = []
        if self._over:
            return []
        match event:
            case AgentJoined():
                self._joined(now)
            case Tick():
                self._tick(now)
            case Woken():
                self._end_wait(now)
                self._tell_again(now)
            case WorkerEnded():
                self._ended = True
            case Commanded(command, uuid, meant_for):
                if meant_for in ("", self._incarnation):
                    self._take(command, uuid)
                else:
                    self._refuse(command, now)
            case CallReturned():
                self._call = None
            case CallRaised():
                self._call_failed()
            case WorkerStatus():
                self._call = None
                self._looked(event, now, at)
            case _:
                assert_never(event)
        self._advance(now, at)
        if isinstance(event, Tick) or self._ended:
            self._look()
        return self._actions

    def _joined(self, now: float) -> None:
        if self._go_by is None:
            self._go_by = now + self._times.go
        if not self._leaving:
            self._announce(now)

    def _tick(self, now: float) -> None:
        if self._started:
            self._report(messages.keep_alive(self._state))
        self._end_wait(now)
        self._tell_again(now)
        if self._leaving:
            return
        if self._go_by is None:
            if now >= self._join_by:
                self._end((Leave(1, f"not joined within {self._times.join:g} s"),))
        elif not self._started and now >= self._go_by:
            self._end((Leave(1, f"no go within {self._times.go:g} s"),))
        elif self._fault_by is not None and now >= self._fault_by:
            self._end(steps.give_up(f"no answer to a fault within {self._times.fault:g} s"))
        elif self._repeat_at is not None and now >= self._repeat_at and (self._fault is None or self._ours):
            self._announce(now)

    def _refuse(self, command: Command, now: float) -> None:
        """Carry out no command to an earlier process of this Agent, and tell the Mgr of the new one."""
        self._actions.append(CommandIgnored(command, "it is meant for an earlier process"))
        if not self._leaving:
            self._announce(now, unknown=True)

    def _take(self, command: Command, uuid: str) -> None:
        if isinstance(command, messages.Go) and self._started:
            self._actions.append(CommandIgnored(command, "the workers have been started"))
            return
        plan = self._plan_for(command)
        if steps.urgent(plan):
            self._end(plan)
        elif self._leaving:
            self._actions.append(CommandIgnored(command, "the Agent is to leave"))
        elif isinstance(command, messages.Go):
            self._started, self._ours = True, command.ours
            self._waiting.append(plan)
        elif not self._started and not isinstance(command, messages.ExitGracefully):
            self._actions.append(CommandIgnored(command, "the workers have not been started"))
        else:
            if isinstance(command, messages.RestartAll | messages.RestartRanks):
                self._fault = self._fault_by = self._fault_again_at = None
                self._restart = uuid
            self._waiting.append(plan)

    def _plan_for(self, command: Command) -> Plan:
        match command:
            case messages.Go():
                return self._plans.start(command.remaining)
            case messages.Exit():
                return steps.EXIT
            case messages.ExitGracefully():
                return steps.exit_gracefully(self._times.grace)
            case messages.RestartAll():
                return self._plans.restart_all(command.remaining)
            case messages.RestartRanks():
                return self._plans.restart_ranks(command.ranks)
            case messages.StopRanks():
                return (steps.KillRanks(command.ranks),)
            case _:
                assert_never(command)

    def _call_failed(self) -> None:
        call, self._call = self._call, None
        if self._leaving or isinstance(call, steps.Look):
            return  # leaving does not depend on the framework
        if isinstance(call, steps.StartAll):
            # No look would show workers that were never there.
            self._end(steps.give_up("the workers could not be started"))
        else:
            self._plan.clear()

    def _looked(self, seen: WorkerStatus, now: float, at: int) -> None:
        self._state = seen.state
        if self._awaiting:
            if not seen.running:
                self._resume()
        elif self._plan or self._waiting:
            pass  # a command changes what was seen
        elif seen.finished:
            self._waiting.append(self._plans.finished(seen.result))
        elif seen.failed != self._failed:
            self._failed = seen.failed
            told = messages.fault(seen.failed, at, self._restart, seen.state)
            self._report(told)
            self._repeat_at = now + self._times.repeat
            self._fault = told if seen.failed else None
            self._fault_again_at = None
            timeout = self._times.fault
            self._fault_by = now + timeout if seen.failed and timeout is not None else None

    def _announce(self, now: float, *, unknown: bool = False) -> None:
        """Tell the Mgr what it may have forgotten or missed; an `unknown` process registers in any case."""
        self._repeat_at = now + self._times.repeat
        if unknown or self._fault is None or not self._ours:
            self._report(self._registration)
        if self._fault is not None and self._ours:
            self._report(self._fault)
        elif self._fault is not None:
            self._fault_again_at = now + FAULT_AGAIN_S
        elif not self._started:
            self._report(self._question)

    def _tell_again(self, now: float) -> None:
        """Report the fault to a Mgr that has had the time to know the other Agents."""
        if self._fault is None or self._fault_again_at is None or now < self._fault_again_at:
            return
        self._fault_again_at = None
        if not self._leaving:
            self._report(self._fault)

    def _report(self, body: Body) -> None:
        self._actions.append(SendReport(body))

    def _end(self, plan: Plan) -> None:
        """Replace all that goes on by an urgent plan; a call that has begun returns first."""
        self._waiting.clear()
        self._resume()
        self._begin(plan)

    def _begin(self, plan: Plan) -> None:
        self._plan = deque(plan)
        self._leaving = isinstance(plan[-1], Leave | Return)
        if any(isinstance(step, steps.StartAll | steps.StartRanks) for step in plan):
            # A worker that has failed afterwards has failed again.
            self._failed = frozenset()

    def _end_wait(self, now: float) -> None:
        if self._until is not None and now >= self._until:
            self._resume()

    def _resume(self) -> None:
        """End a Pause or an AwaitEnd."""
        self._until, self._awaiting = None, False

    def _advance(self, now: float, at: int) -> None:
        while self._call is None and self._until is None and not self._over:
            if not self._plan:
                if not self._waiting:
                    return
                self._begin(self._waiting.popleft())
            step = self._plan.popleft()
            match step:
                case steps.Pause(seconds):
                    self._until = now + seconds if seconds > 0 else None
                case steps.AwaitEnd(seconds):
                    self._until, self._awaiting = now + seconds, True
                case steps.ReportNoRanks():
                    self._report(messages.fault((), at))
                case Leave() | Return():
                    self._actions.append(step)
                    self._over = True
                case _:
                    self._begin_call(step)

    def _look(self) -> None:
        idle = self._started and not self._plan and self._until is None
        if self._call is None and not self._over and (idle or self._awaiting):
            self._ended = False
            self._begin_call(steps.Look())

    def _begin_call(self, call: Call) -> None:
        self._call = call
        self._actions.append(call)
