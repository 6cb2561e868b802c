"""The decisions of an Agent: events and the time in, actions out. Pure: no clock, no I/O, no thread.

    JOINING ─ AgentJoined ─▶ ASKING ── 210 ──▶ RUNNING ── a plan with Leave or Return ──▶ over
       │ `join` s              │ `go` s          ▲  │ 208, 209, 213: a plan, then on
       └────── Leave    ◀──────┘                 └──┘

A command becomes a plan (`plans`): a row of steps. Plans are carried out in the order of their commands, one step at a
time. An urgent plan, which leaves with 1, replaces the current one and all that wait. Once the Agent is to leave, no
other command counts. Workers are looked at only between plans, because a plan changes their state.

Where the nodes meet by way of the Mgr, a start of all waits in its plan until the Mgr says that all are ready (305),
and the end of the last worker until those of all nodes have succeeded (307). A later round, or the end, ends such a
wait. A 305 while the workers run says where their store is, now that another node has come back.

A fault is a set of failed ranks that the Mgr has been told of (202). It is unanswered until 208 or 209. Meanwhile
nothing registers, because an original Mgr forgets the fault with each REGISTER. There is one exception: an original Mgr
that comes back may have restarted, and such a Mgr drops reports of Agents that it does not know. It gets a REGISTER.
The 202 follows some seconds later, for this Mgr orders 208 as soon as it has one, and to the Agents that it knows then.
A Mgr of this package is known by the incarnation in its 210.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from taskd_net.base.body import Body
from taskd_net.base.cause import AS_TERMINATED, Cause
from taskd_net.base.progress import NodeProgress
from taskd_net.job.agent import messages
from taskd_net.job.agent import plans as steps
from taskd_net.job.agent.messages import Command
from taskd_net.job.agent.plans import Call, Leave, Plan, Plans, Return

WAITS_AGAIN_S: Final = 30.0
"""Seconds between two lines about the nodes that an Agent waits for."""

BEYOND_MGR_S: Final = 30.0
"""Seconds that an Agent waits longer than its Mgr: the Mgr's decision comes first."""

SAME_LOSS_S: Final = 10.0
"""Seconds after the loss of a Mgr in which the failures of workers belong to it: their node is lost, too, and they have
time to end. Later ones begin a wait of their own."""

FAULT_AGAIN_S: Final = 2.0
"""Seconds between a REGISTER and the 202 behind it, at a Manager of the original's that may have restarted: it decides
0.1 s after the 202, and an Agent that has not registered by then gets no 208. Its Agents register within a second."""


@dataclass(frozen=True, slots=True)
class AgentJoined:
    """The Mgr knows the way to the Agent: for the first time, or again after the parent or the Mgr was away."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed; comes once a second.

    Args:
        joined: the Mgr knows the way to the Agent.
        trouble: the reason why the node has not joined; empty where none is known.
        progress: of the workers; None where they are not watched.
    """

    joined: bool = True
    trouble: str = ""
    progress: NodeProgress | None = None


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
        cause: the first failure; None where the framework does not know it.
        progress: of the workers that have failed; None where they are not watched.
    """

    failed: frozenset[int] = frozenset()
    running: bool = True
    finished: bool = False
    result: object = None
    state: str = ""
    ranks: frozenset[int] = frozenset()
    cause: Cause | None = None
    progress: NodeProgress | None = None


@dataclass(frozen=True, slots=True)
class Offered:
    """The current call, `Offer`, has returned.

    Args:
        store: address of the workers' store; empty but on node 0.
        local_world: number of workers of the node.
        cause: the first failure of the workers that ran before: also of one that was ended while it died.
    """

    store: str = ""
    local_world: int = 0
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """A signal ends the Agent, and its launcher ends the workers. No command counts any more.

    Args:
        signal: its name.
        job: it ends the job, too.
    """

    signal: str
    job: bool


Event = AgentJoined | Ends | Tick | Woken | WorkerEnded | Commanded | CallReturned | CallRaised | WorkerStatus | Offered


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


@dataclass(frozen=True, slots=True)
class Waits:
    """The Agent waits for other nodes; for people.

    Args:
        missing: their ranks.
        left: seconds until the Mgr gives up.
    """

    missing: str
    left: float


@dataclass(frozen=True, slots=True)
class WaitsForRelease:
    """The workers of this node have succeeded, and those of others run still; for people."""


@dataclass(frozen=True, slots=True)
class WaitsForMgr:
    """The Agent has not joined, or needs a Mgr that is away; for people.

    Args:
        left: seconds until it gives up.
    """

    left: float


Action = Call | SendReport | CommandIgnored | Waits | WaitsForMgr | WaitsForRelease | Leave | Return
"""A `Call` is answered by one `CallReturned`, `CallRaised`, `WorkerStatus` or `Offered`, and there is one at a time.
`Leave` and `Return` are last."""


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """Times of an Agent, in seconds.

    Args:
        join: for the first join; then it leaves with 1, or `AS_TERMINATED` where it is of a job.
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
        features: what the Agent can do, by the names of `vocabulary`.
        most: restarts that the launcher's user allows; None where nobody has said it.
        is_of_job: no platform is to bring the Mgr of this job.
    """

    def __init__(
        self,
        plans: Plans,
        times: AgentTimes,
        incarnation: str,
        remaining: str,
        now: float,
        devices: Sequence[str] = (),
        features: Collection[str] = (),
        most: int | None = None,
        *,
        is_of_job: bool = False,
    ) -> None:
        self._plans = plans
        self._times = times
        self._incarnation = incarnation
        self._devices = devices
        self._features = features
        self._question = messages.question(remaining, most)
        self._join_by = now + times.join
        self._go_by: float | None = None  # set by the first join
        self._repeat_at: float | None = None
        self._started = False
        self._ours = False
        self._unjoined = AS_TERMINATED if is_of_job else 1  # exit status without a join
        self._is_of_job = False  # the Mgr restarts what fails, and knows of signals
        self._leaving = False
        self._over = False

        self._plan: deque[steps.Step] = deque()
        self._waiting: deque[Plan] = deque()
        self._call: Call | None = None
        self._until: float | None = None  # end of a Pause or an AwaitEnd
        self._awaiting = False
        self._wait: steps.AwaitMeeting | steps.AwaitRelease | None = None
        self._wait_by = 0.0
        self._ended = False  # a process, since the last look

        self._round = 0  # the last one that the Mgr has begun for this Agent
        self._patience = 0.0
        self._offered = Offered()
        self._meeting: messages.Meeting | None = None
        self._missing = Waits("", 0.0)
        self._said_at = 0.0  # the last line about a wait
        self._mgr_said_at = now  # the node says at once that it does not join
        self._away_at: float | None = None  # the Mgr, since then
        self._trouble = ""  # of the node, which has not joined
        self._needs_at = 0.0  # the Mgr, for a fault or a wait

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

    @property
    def is_of_job(self) -> bool:
        """True where the Mgr restarts what fails, and knows of signals."""
        return self._is_of_job

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
            case Tick(joined, trouble, progress):
                self._trouble = trouble
                if self._started:  # a Manager of TaskD's gets nothing that it does not know
                    self._report(messages.keep_alive(self._state, progress if self._ours else None))
                if joined:
                    self._away_at = None
                elif self._away_at is None:
                    self._away_at = now
                self._tick(now)
            case Woken():
                self._end_wait(now)
                self._tell_again(now)
            case WorkerEnded():
                self._ended = True
            case Ends(signal, job):
                self._over = True
                return [SendReport(messages.leaves(signal, job=job))] if self._is_of_job else []
            case Commanded(command, uuid, meant_for):
                if meant_for in ("", self._incarnation):
                    self._take(command, uuid, now)
                else:
                    self._refuse(command, now)
            case CallReturned():
                self._call = None
            case CallRaised():
                self._call_failed()
            case WorkerStatus():
                self._call = None
                self._looked(event, now, at)
            case Offered():
                self._call, self._offered = None, event
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
        self._end_wait(now)
        self._tell_again(now)
        if self._leaving:
            return
        if self._waits_for_others and now >= self._said_at + WAITS_AGAIN_S:
            self._say_wait(now)
        if self._go_by is None:
            if now >= self._join_by:
                reason = f"not joined within {self._times.join:g} s"
                self._end((Leave(self._unjoined, f"{reason}: {self._trouble}" if self._trouble else reason),))
            elif now >= self._mgr_said_at + WAITS_AGAIN_S:
                self._mgr_said_at = now
                self._actions.append(WaitsForMgr(self._join_by - now))
        elif (by := self._mgr_by) is not None and (now >= by or now >= self._mgr_said_at + WAITS_AGAIN_S):
            self._wait_for_mgr(by, now)
        elif not self._started and now >= self._go_by:
            self._end((Leave(1, f"no go within {self._times.go:g} s"),))
        elif self._wait is not None and now >= self._wait_by:
            self._give_up_wait()
        elif self._fault_by is not None and now >= self._fault_by:
            self._end(steps.give_up(f"no answer to a fault within {self._answer_s:g} s", AS_TERMINATED))
        elif self._repeat_at is not None and now >= self._repeat_at and (self._fault is None or self._ours):
            self._announce(now)

    @property
    def _mgr_by(self) -> float | None:
        """The time at which the Agent gives a Mgr up that is away and needed; None where it does not wait for one."""
        if self._away_at is None or not self._patience:
            return None
        if self._started and self._fault is None and self._wait is None:
            return None
        return max(self._away_at, self._needs_at - SAME_LOSS_S) + self._patience

    def _wait_for_mgr(self, by: float, now: float) -> None:
        if now < by:
            self._mgr_said_at = now
            self._actions.append(WaitsForMgr(by - now))
        elif isinstance(self._wait, steps.AwaitRelease):
            self._give_up_wait()
        else:
            self._end(steps.give_up(self._no_mgr, AS_TERMINATED))

    @property
    def _no_mgr(self) -> str:
        return f"the Manager has been away for {self._patience:g} s"

    def _refuse(self, command: Command, now: float) -> None:
        """Carry out no command to an earlier process of this Agent, and tell the Mgr of the new one."""
        self._actions.append(CommandIgnored(command, "it is meant for an earlier process"))
        if not self._leaving:
            self._announce(now, unknown=True)

    def _take(self, command: Command, uuid: str, now: float) -> None:
        if isinstance(command, messages.Meeting | messages.Waiting | messages.Released):
            self._met(command, now)
            return
        if isinstance(command, messages.Go) and self._started:
            self._actions.append(CommandIgnored(command, "the workers have been started"))
            return
        if isinstance(command, messages.RestartAll) and 0 < command.round <= self._round:
            self._actions.append(CommandIgnored(command, f"the Agent is in round {self._round}"))
            return
        plan = self._plan_for(command)
        if steps.urgent(plan):
            self._end(plan)
        elif self._leaving:
            self._actions.append(CommandIgnored(command, "the Agent is to leave"))
        elif isinstance(command, messages.Go):
            self._started, self._ours = True, command.ours
            self._is_of_job = command.restarts
            self._enter(command)
            self._waiting.append(plan)
        elif not self._started and not isinstance(command, messages.ExitGracefully):
            self._actions.append(CommandIgnored(command, "the workers have not been started"))
        else:
            if isinstance(command, messages.RestartRanks | messages.StopRanks) and self._wait is not None:
                self._actions.append(CommandIgnored(command, "no worker runs"))
                return
            if isinstance(command, messages.RestartAll | messages.RestartRanks):
                self._fault = self._fault_by = self._fault_again_at = None
                self._restart = uuid
            if isinstance(command, messages.RestartAll):
                self._enter(command)
            if self._wait is not None:
                self._plan.clear()
                self._wait = None
            self._waiting.append(plan)

    def _enter(self, command: messages.Go | messages.RestartAll) -> None:
        """A round begins, or a start as the framework does it."""
        self._round, self._patience = command.round, command.patience
        self._missing = Waits("", 0.0)

    def _met(self, command: messages.Meeting | messages.Waiting | messages.Released, now: float) -> None:
        """Go on where the other nodes are ready, or have finished; or say which are missing."""
        match command, self._wait:
            case messages.Waiting(missing, left), _:
                self._is_of_job = True
                is_news, self._missing = missing != self._missing.missing, Waits(missing, left)
                if not self._started:
                    self._patience = max(self._patience, left)
                if self._go_by is not None:
                    self._go_by = max(self._go_by, now + left + BEYOND_MGR_S)
                if self._fault_by is not None:
                    self._fault_by = max(self._fault_by, now + left + BEYOND_MGR_S)
                if is_news and not self._missing_said(now):
                    self._say_wait(now)
            case messages.Meeting(number), steps.AwaitMeeting(awaited) if number == awaited:
                self._meeting, self._wait, self._missing = command, None, Waits("", 0.0)
            case messages.Meeting(number), None if number == self._round:
                self._missing = Waits("", 0.0)
                if self._meeting is not None and command.store != self._meeting.store:
                    self._meeting = command
                    self._waiting.append((steps.TakeMeeting(command),))
            case messages.Released(number), steps.AwaitRelease(awaited) if number == awaited:
                self._wait, self._leaving = None, True
            case _:
                self._actions.append(CommandIgnored(command, "nobody waits for it"))

    def _give_up_wait(self) -> None:
        """The Mgr has said nothing for too long. Work that is done counts all the same."""
        if isinstance(self._wait, steps.AwaitRelease):
            self._wait, self._leaving = None, True
        else:
            reason = f"no word of the other nodes within {self._patience + BEYOND_MGR_S:g} s"
            self._end(steps.give_up(reason, AS_TERMINATED))

    def _missing_said(self, now: float) -> bool:
        """True where a line about the wait has just been said."""
        return self._said_at > 0.0 and now < self._said_at + WAITS_AGAIN_S

    def _say_wait(self, now: float) -> None:
        self._said_at = now
        self._actions.append(self._missing if self._missing.missing else WaitsForRelease())

    @property
    def _waits_for_others(self) -> bool:
        return bool(self._missing.missing) or isinstance(self._wait, steps.AwaitRelease)

    def _plan_for(self, command: messages.Planned) -> Plan:
        match command:
            case messages.Go():
                return self._after_meeting(self._plans.start(command.remaining), command.round)
            case messages.Exit():
                return steps.leave(command)
            case messages.ExitGracefully():
                return steps.exit_gracefully(self._times.grace)
            case messages.RestartAll():
                return self._after_meeting(self._plans.restart_all(command.remaining), command.round)
            case messages.RestartRanks():
                return self._plans.restart_ranks(command.ranks)
            case messages.StopRanks():
                return (steps.KillRanks(command.ranks),)
            case _:
                assert_never(command)

    def _after_meeting(self, plan: Plan, round_: int) -> Plan:
        return steps.after_meeting(plan, round_) if round_ else plan

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
            plan = self._plans.finished(seen.result)
            self._waiting.append((steps.AwaitRelease(self._round), *plan) if self._round else plan)
        elif self._away_at is not None and self._patience and seen.cause is not None and seen.cause.lost_mgr:
            self._end(steps.give_up(self._no_mgr, AS_TERMINATED))  # the worker has waited already
        elif seen.failed != self._failed:
            self._failed = seen.failed
            progress = seen.progress if self._ours else None
            told = messages.fault(seen.failed, at, self._restart, seen.state, seen.cause, progress)
            self._report(told)
            self._repeat_at = now + self._times.repeat
            self._needs_at = self._needs_at if self._fault is not None else now
            self._fault = told if seen.failed else None
            self._fault_again_at = None
            timeout = self._answer_s
            self._fault_by = now + timeout if seen.failed and timeout is not None else None

    @property
    def _answer_s(self) -> float | None:
        """Seconds that a fault may stay unanswered; None: any time, as a platform brings the Mgr back."""
        if self._times.fault is None and self._round:
            return self._patience + BEYOND_MGR_S
        return self._times.fault

    def _announce(self, now: float, *, unknown: bool = False) -> None:
        """Tell the Mgr what it may have forgotten or missed; an `unknown` process registers in any case."""
        self._repeat_at = now + self._times.repeat
        # A Manager that makes the nodes meet forgets nothing by it, and has to know the round if it is a new one.
        if unknown or self._fault is None or not self._ours or self._round:
            registration = messages.registration(self._incarnation, self._devices, self._features, self._round)
            self._report(registration)
        if self._fault is not None and self._ours:
            self._report(self._fault)
        elif self._fault is not None:
            self._fault_again_at = now + FAULT_AGAIN_S
        elif not self._started:
            self._report(self._question)
        elif self._wait is not None:
            self._report(self._word(self._wait))

    def _word(self, wait: steps.AwaitMeeting | steps.AwaitRelease) -> Body:
        """The Agent's own part in what it waits for."""
        if isinstance(wait, steps.AwaitRelease):
            return messages.finished(wait.round)
        offered = self._offered
        return messages.ready(wait.round, offered.store, offered.local_world, offered.cause)

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
        self._plan, self._wait = deque(plan), None
        self._leaving = isinstance(plan[-1], Leave | Return) and not isinstance(plan[0], steps.AwaitRelease)
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
        while self._call is None and self._until is None and self._wait is None and not self._over:
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
                case steps.AwaitMeeting(number) if number < self._round:
                    self._plan.clear()  # the plan for a later round comes next
                case steps.AwaitMeeting() | steps.AwaitRelease():
                    self._wait, self._wait_by = step, now + self._patience + BEYOND_MGR_S
                    self._needs_at = now
                    self._report(self._word(step))
                    if isinstance(step, steps.AwaitRelease):
                        self._say_wait(now)
                case steps.StartAll():
                    self._begin_call(replace(step, meeting=self._meeting if self._round else None))
                case steps.ReportNoRanks():
                    self._report(messages.fault((), at))
                case Leave() | Return():
                    self._actions.append(step)
                    self._over = True
                case _:
                    self._begin_call(step)

    def _look(self) -> None:
        idle = self._started and not self._plan and self._until is None and self._wait is None
        if self._call is None and not self._over and (idle or self._awaiting):
            self._ended = False
            self._begin_call(steps.Look())

    def _begin_call(self, call: Call) -> None:
        self._call = call
        self._actions.append(call)
