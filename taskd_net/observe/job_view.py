"""The state of a job's Manager, for faces: the command `job`, the status page, metrics.

`Node.job_view` gives it, in the node's own loop; None where the node decides nothing. Its classes declare each field
once: `observe.fields` makes the JSON object of it that docs/manager.md describes, and `job_codec` its wire form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from taskd_net.base import vocabulary
from taskd_net.base.progress import Account
from taskd_net.observe.fields import (
    HIDDEN,
    TEXT,
    TIME,
    TIME_OR_NEVER,
    Alarm,
    Face,
    Form,
    Json,
    document_of,
    named,
    told,
)

DECISIONS_SHOWN: Final = 50
"""Last decisions of a job that its Manager keeps and shows: more than any fault and its recovery take."""

MESSAGES_SHOWN: Final = 16
"""Commands of one decision that are shown one by one; the others are counted."""

SHOWN_CHARS: Final = 200
"""Characters of a command's message, and of a decision's cause, that are shown."""

AGENTS_SHOWN: Final = 1_000
"""Agents of a job that are shown one by one, those in trouble first: some 5 ms for the Manager, once in 100 ms."""

DEVICES_SHOWN: Final = 256
"""Devices of a job that are shown one by one: those of 16 nodes, all with a fault."""

RANKS_SHOWN: Final = 64
"""Failed ranks of one Agent that are shown: four times those of a node."""

FAILURES_SHOWN: Final = 10
"""Last failures of a run that are shown; the Manager keeps as many."""

TRACEBACK_LINES: Final = 400
"""Lines of a traceback that are shown: the first 100, and the last 300."""

ETCD_SCHEME: Final = "etcd://"
"""Beginning of the place of a state that is not a file, but a prefix in etcd."""

OWN: Final = "Manager"
"""The name of the Manager's own decisions, its 210s, beside those of plugins."""

HUNG: Final = "hung"
STUCK: Final = ("suspected", HUNG)
HANG_STATES: Final = ("not watched", "goes on", "unknown", *STUCK)
"""The states of the watch over hangs, and those that need attention."""

FAULTY: Final = "faulty"
EXITED: Final = "exited"
SILENT: Final = "silent"
TROUBLE: Final = (FAULTY, EXITED)
"""The states of an Agent that need attention."""

COMMAND_WORDS: Final = {
    vocabulary.EXIT: "exit",
    vocabulary.SWITCH_NIC: "switch cards",
    vocabulary.STRESS_TEST: "stress test",
    vocabulary.RESTART_ALL: "restart all",
    vocabulary.RESTART_RANKS: "restart ranks",
    vocabulary.EPOCH_BEGIN: "begin epoch",
    vocabulary.EPOCH_END: "end epoch",
    vocabulary.START: "start",
    vocabulary.STOP_RANKS: "stop ranks",
    vocabulary.MEETING: "meet",
    vocabulary.RELEASED: "leave together",
    vocabulary.RANK_GIVEN: "give rank",
    **dict.fromkeys(vocabulary.PROFILING_COMMANDS, "profiling"),
}
"""Commands in words, by code, for the text and the status page."""

AGENT_WORDS: Final = {
    FAULTY: "FAULTY",
    EXITED: "sent away (203), has not come back",
    "left": "ended by a signal, has not come back",
    "asking": "waits for its start",
    "finished": "finished: all its processes have succeeded",
}
"""States of an Agent in words, for the text and the status page; others stand for themselves."""

_PLUGIN: Final = Json(lambda name: name or OWN)
_BY_STATE: Final = Json(lambda states: {str(state): states[state] for state in sorted(states)})
_CLIENT: Final = Json(lambda client: document_of(client) if client.address else None)
_LEADER: Final = Json(lambda leader: document_of(leader) if leader.term else None)

_DECIDES: Final = Face("decides", Form.FLAG, flags=("no: the lease is not confirmed", "yes"), alarm=Alarm.FALSE)
_ANSWERED: Final = Face("fault to command", Form.SECONDS, "faults answered in {} on average")
_RESTARTS: Final = Face(
    "restarts left", Form.COUNT, "restarts left: {}", zero=True, null="not said yet", alarm=Alarm.NONE_LEFT
)
_ROUNDED: Final = Json(lambda seconds: None if seconds is None else round(seconds, 3))
_BY_ACCOUNT: Final = Json(lambda amounts: {name: round(seconds, 3) for name, seconds in amounts.items()})
_LIMITS: Final = Json(lambda limits: {place: round(limits[place], 1) for place in sorted(limits)})
_BOOKS: Final = Json(lambda books: document_of(books) if books.wall else None)
_LEFT: Final = Face("for at most", Form.SECONDS, "for at most {}")
_PAUSED: Final = Face(
    "starts of Agents", Form.FLAG, "PAUSED by ClusterD: no Agent may start", flags=("", "paused by ClusterD")
)


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream.

    Args:
        name: of the stream.
        owner: the plugin that decides there now; empty: it is free.
        plugins: those that may own it, by priority.
        barred: plugins that failed on it, until another one has finished there.
    """

    name: str = ""
    owner: Annotated[str, TEXT] = ""
    plugins: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentView:
    """An Agent, as its reports show it. Times are in seconds since the epoch; 0 is None in documents.

    Args:
        rank: of its node.
        registered: it has sent REGISTER.
        asking: it waits for the decision on its start.
        fault: it has reported a fault that no command has answered.
        worker_state: state of its training processes in its last report, a name of torch's WorkerState; empty: it
            reports none.
        fault_ranks: the first failed ranks of its report of a fault, 64 at most; no rank if it names none.
        fault_at: time of the arrival of that report; None: it has no fault.
        exited: it was sent 203, and no other process has registered since.
        left: a signal has ended it, as it has said itself.
        heartbeat: time of its last KEEP_ALIVE; None: never.
        silent_since: time since which it has reported nothing, if that is 10 s ago; else None.
        commands: codes of the commands on their way to it.
    """

    rank: int = 0
    registered: Annotated[bool, HIDDEN] = False
    asking: Annotated[bool, HIDDEN] = False
    fault: Annotated[bool, HIDDEN] = False
    worker_state: Annotated[str, TEXT, Face("workers", phrase="workers {}")] = ""
    fault_ranks: tuple[int, ...] = ()
    fault_at: Annotated[float, TIME_OR_NEVER, Face("", Form.AGO, "reported {}")] = 0.0
    exited: Annotated[bool, HIDDEN] = False
    heartbeat: Annotated[float, TIME_OR_NEVER, Face("", Form.AGO, "heartbeat {}")] = 0.0
    commands: tuple[int, ...] = ()
    silent_since: Annotated[float, TIME_OR_NEVER] = 0.0
    left: Annotated[bool, HIDDEN] = False

    @property
    @told()
    def state(self) -> str:
        """The state in a word, the most serious one first: `exited` (sent 203), `faulty`, `left` (ended by a signal),
        `asking` for its start, `silent` (no report for 10 s), `finished` (all its training processes have succeeded),
        `running` or `unregistered`.
        """
        if self.exited:
            return EXITED
        if self.fault:
            return FAULTY
        if self.left:
            return "left"
        if self.asking:
            return "asking"
        if self.silent_since:
            return SILENT
        if self.worker_state == vocabulary.SUCCEEDED:
            return "finished"
        return "running" if self.registered else "unregistered"


@dataclass(frozen=True, slots=True)
class CauseView:
    """The end of the training process that failed first.

    Args:
        rank: global rank of the process.
        node: rank of its node.
        host: name of its host; empty: its Agent does not say the cause.
        pid: its process.
        end: its exit code or signal, in words.
        at: time of the failure, by the clock of its host.
        kind: type of the exception; empty without one.
        message: type and text of the exception.
        file, line, function: the script's deepest line; an empty file if it is unknown.
        traceback: its lines, 400 at most; none for earlier failures than the last one.
        last_lines: of its standard error, where it left no reason, and torch writes that into a file; 10 at most.
    """

    rank: int = 0
    node: int = 0
    host: Annotated[str, TEXT] = ""
    pid: int = 0
    end: str = ""
    at: Annotated[float, named("time", TIME_OR_NEVER)] = 0.0
    kind: Annotated[str, named("type", TEXT)] = ""
    message: Annotated[str, TEXT] = ""
    file: Annotated[str, TEXT] = ""
    line: int = 0
    function: Annotated[str, TEXT] = ""
    traceback: tuple[str, ...] = ()
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailureView:
    """A failure of the job.

    Args:
        number: among those of the run, from 1.
        at: the time at which the Manager heard of it.
        lived: seconds since all processes had been started.
        first: its first cause, below; without an `end` where nodes were lost, and no rank has failed.
        others: ranks that failed because of it.
        lost: nodes that were lost, where no rank failed, or all because of that: the first cause is a victim's then.
        answer: what the Manager did, in words; empty before.
        answered: the time of it.
        phases: seconds of the recovery, by account, as in `books`: `noticed`, `decided`, `nodes`, `restarted`,
            `joined`, `loaded`. Those that it had, so far.
        stepped: a step was done after it, so the recovery has succeeded; never where ranks mark no steps.
        hung: the reason to restart a job that hung, where no rank is named: the first cause is empty then.
    """

    number: int = 0
    at: Annotated[float, named("time", TIME)] = 0.0
    lived: float = 0.0
    first: CauseView = field(default_factory=CauseView)
    others: tuple[int, ...] = ()
    answer: Annotated[str, TEXT] = ""
    answered: Annotated[float, TIME_OR_NEVER] = 0.0
    lost: tuple[int, ...] = ()
    phases: Annotated[Mapping[str, float], _BY_ACCOUNT] = field(default_factory=dict)
    stepped: bool = False
    hung: Annotated[str, TEXT] = ""


@dataclass(frozen=True, slots=True)
class GuiltyView:
    """A rank that holds up the others.

    Args:
        rank: its global rank.
        node: rank of its node.
        pid: its process; 0 without one.
        seen: state of that process: `runs`, `stopped`, `disk`, `traced`, `holds` (the interpreter), `ended`, `absent`.
        words: the reason to name it.
    """

    rank: int = 0
    node: int = 0
    pid: int = 0
    seen: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class HangView:
    """The Manager's judgement whether the job stands still.

    Args:
        state: `not watched`, `goes on`, `unknown`, `suspected` or `hung`.
        since: time of the last mark of the ranks that stand still; None where they go on.
        noticed: time of the suspicion; None without one.
        limit: seconds without a mark that were exceeded; 0 without any.
        words: the reason; empty without one.
        guilty: the ranks that hold up the others, below; none where they are not known.
        limits: seconds without a mark that would be a hang, by place: `steps`, `first step`, `section …`,
            `collectives`. Those that the Manager has learnt, or the user's.
    """

    state: str = "not watched"
    since: Annotated[float, TIME_OR_NEVER] = 0.0
    noticed: Annotated[float, TIME_OR_NEVER] = 0.0
    limit: float = 0.0
    words: Annotated[str, TEXT] = ""
    guilty: tuple[GuiltyView, ...] = ()
    limits: Annotated[Mapping[str, float], _LIMITS] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BooksView:
    """The books of the run: its wall time, and its steps.

    Args:
        wall: seconds since the run has begun, which is the sum of all `seconds`.
        stage: account of the time that passes now; empty after the run.
        seconds: of each account that has some: `steps`, `again` (steps done again), `start`, `nodes` (waiting for
            nodes), `data`, `checkpoint`, `load`, `evaluation`, `other`, `waiting`, `hang`, `unknown`, and the phases of
            all recoveries.
        done: steps that were done, again or not.
        again: those of them that the run had done before.
        step: the last step; None where no rank marks steps.
        highest: the highest one so far; None without one.
        of: the last step of the training; None where no rank tells it.
        left: seconds until that step, at the pace of this run; None where it is not known.
    """

    wall: Annotated[float, _ROUNDED] = 0.0
    stage: Annotated[str, TEXT] = ""
    seconds: Annotated[Mapping[str, float], _BY_ACCOUNT] = field(default_factory=dict)
    done: int = 0
    again: int = 0
    step: int | None = None
    highest: int | None = None
    of: int | None = None
    left: Annotated[float | None, _ROUNDED] = None

    @property
    @told()
    def goodput(self) -> float | None:
        """The part of the wall time that went into steps, from 0 to 1; None where no rank marks steps."""
        if self.highest is None or not self.wall:
            return None
        return round(self.seconds.get(Account.STEPS, 0.0) / self.wall, 4)


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device with a fault that asks for something, or that is isolated.

    Args:
        device: its name, such as `host-a/Ascend910-3`.
        node: rank of its node; None: unknown.
        rank: global rank of its training process; None: unknown.
        fault_type: type of its fault: `RestartNPU`, `SeparateNPU` and so on; empty for a device whose faults are over.
        level: `L1` to `L6`; empty for types without one.
        code: the fault code that counts; empty without one.
        reason: the rule that applies, in words.
        isolated: it takes no job.
        reporter: position of the sender of its last fault; empty: unknown.
        action: the step of the answer that goes on now; empty: none.
        since: time of the decision; None: unknown.
    """

    device: str = ""
    node: int | None = None
    rank: int | None = None
    fault_type: Annotated[str, named("type", TEXT)] = ""
    level: Annotated[str, TEXT] = ""
    code: Annotated[str, TEXT] = ""
    reason: str = ""
    isolated: bool = False
    reporter: Annotated[str, TEXT, Face("reporter", phrase="reported by {}")] = ""
    action: Annotated[str, TEXT, Face("action", phrase="now: {}")] = ""
    since: Annotated[float, TIME_OR_NEVER] = 0.0


@dataclass(frozen=True, slots=True)
class MessageView:
    """A command of a decision.

    Args:
        to: the destination, such as `Agent/3`.
        code: number of the command.
        message: its message, cut to 200 characters.
        uuid: one for all resends.
        answer: code of the last answer; None before the first one. With 0 the destination has it.
        lost: no receiver has taken it, and it is given up or was superseded.
    """

    to: str = ""
    code: int = 0
    message: str = ""
    uuid: str = ""
    answer: int | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A decision: what one plugin has done in one step.

    Args:
        number: among all decisions of the job, from 1.
        at: its time.
        plugin: its name, which documents have as `Manager` for the Manager's own answers to Agents that ask to start.
        cause: the last event before it, in words.
        messages: its first commands, 16 at most.
        sent, acknowledged, lost: numbers of all of its commands, however many are shown.
        calls: its first calls of the training framework's controller, and answers to ClusterD, in words.
        restarts: restarts that the job has left, where the decision begins a round; else None.
    """

    number: int = 0
    at: Annotated[float, named("time", TIME)] = 0.0
    plugin: Annotated[str, _PLUGIN] = ""
    cause: str = ""
    messages: tuple[MessageView, ...] = ()
    sent: int = 0
    acknowledged: int = 0
    lost: int = 0
    calls: tuple[str, ...] = ()
    restarts: Annotated[int | None, named("restarts_left")] = None


SUBSCRIBED: Final = "subscribed"
OFF: Final = "off"
AWAY: Final = "away"
CLUSTERD_STATES: Final = (SUBSCRIBED, OFF, AWAY)
"""The states of a client of ClusterD."""


@dataclass(frozen=True, slots=True)
class ClusterdView:
    """A client of ClusterD: its state, and its counters since it began.

    Args:
        address: of ClusterD; without one there is no client.
        state: `subscribed` while orders come in, `off` where recovery is switched off for the job (403), else `away`.
        taken: orders that were taken in.
        repeated: orders that had come before, and were dropped.
        foreign: orders for other jobs.
        unreadable: messages that are no orders.
        keep_alives: signs of life of ClusterD.
        unknown_actions: actions of orders that this release does not know.
        failed_actions: actions whose controller or handler has raised, or does not exist.
        reports_sent, reports_refused, reports_unanswered: attempts at reports and results, by ClusterD's answer.
        reports_void: reports that were not sent, because the stream of their order has ended.
        reconnects: streams of signals that were opened after the first one, but for those of `rounds`.
        rounds: streams of signals that were opened because ClusterD had ended a round, and the stream with it.
        refused: why ClusterD has refused the job's Init or Register; empty where it has not, or recovery is off.
    """

    address: str = ""
    state: str = ""
    taken: Annotated[int, HIDDEN] = 0
    repeated: Annotated[int, HIDDEN] = 0
    foreign: Annotated[int, HIDDEN] = 0
    unreadable: Annotated[int, HIDDEN] = 0
    keep_alives: int = 0
    unknown_actions: int = 0
    failed_actions: int = 0
    reports_sent: Annotated[int, HIDDEN] = 0
    reports_refused: Annotated[int, HIDDEN] = 0
    reports_unanswered: Annotated[int, HIDDEN] = 0
    reports_void: Annotated[int, HIDDEN] = 0
    reconnects: Annotated[int, Face("reconnects", Form.COUNT, "{} reconnects", zero=True)] = 0
    rounds: int = 0
    refused: Annotated[str, HIDDEN] = ""

    @property
    @told()
    def orders(self) -> dict[str, int]:
        """Messages of ClusterD without keep-alives, by outcome: orders that were `taken`, `repeated` (dropped),
        `foreign` (for other jobs), and `unreadable` ones, which are no orders.
        """
        return {
            "taken": self.taken,
            "repeated": self.repeated,
            "foreign": self.foreign,
            "unreadable": self.unreadable,
        }

    @property
    @told()
    def reports(self) -> dict[str, int]:
        """Attempts at reports and results, by ClusterD's answer: `sent`, `refused`, `unanswered`, and `void`, which
        were not sent, because the stream of their order has ended.
        """
        return {
            "sent": self.reports_sent,
            "refused": self.reports_refused,
            "unanswered": self.reports_unanswered,
            "void": self.reports_void,
        }


@dataclass(frozen=True, slots=True)
class LeaderView:
    """The lead of a job whose state is in etcd. Of a job with its state in a file, every field is empty.

    Args:
        name: address at which the Manager that leads listens.
        term: its fencing number.
        since: begin of the term.
        changes: number of terms before it.
        decides: the lease is confirmed, so the leader decides.
        committed: time of the last commit of this process; None before the first one.
    """

    name: Annotated[str, Face("leader")] = ""
    term: int = 0
    since: Annotated[float, TIME, Face("leads since", Form.TIME)] = 0.0
    changes: Annotated[int, Face("changes of the leader", Form.COUNT)] = 0
    decides: Annotated[bool, _DECIDES] = False
    committed: Annotated[float, named("last_commit", TIME_OR_NEVER), Face("last commit", Form.AGO, null="none yet")] = (
        0.0
    )


@dataclass(slots=True)
class JobCounters:
    """Counters since this process began. A Manager counts in one of its own, and faces get a copy.

    Args:
        reports: messages of Agents and Workers that were taken in, heartbeats included.
        refused: reports of strangers, and of nodes beyond the bound of a job.
        signals: requests and signals of ClusterD.
        ticks: looks at what has changed.
        decisions: number of decisions, by plugin; the Manager's own have the name `Manager`.
        rounds: decisions that took a restart off the job's count.
        commands: commands, without resends.
        resends: further sends of them.
        acknowledged, lost: commands that were taken, or given up.
        plugin_failures: exceptions and timeouts, by plugin.
        store_failures: commits that failed.
        durable: the state file has all that was decided.
        device_faults: decisions on faults of devices, by level and type: `L5 RestartNPU`, `PreSeparateNPU`.
        fault_to_command: upper bounds in seconds, and how many answers to a fault were not slower.
        fault_to_command_count: faults that commands have answered.
        fault_to_command_seconds: the sum of the times of those answers.
    """

    reports: int = 0
    refused: int = 0
    signals: int = 0
    ticks: int = 0
    decisions: dict[str, int] = field(default_factory=Counter)
    rounds: Annotated[int, Face("rounds", Form.COUNT, "restart rounds: {}", zero=True)] = 0
    commands: int = 0
    resends: int = 0
    acknowledged: int = 0
    lost: int = 0
    plugin_failures: dict[str, int] = field(default_factory=Counter)
    store_failures: Annotated[int, HIDDEN] = 0
    durable: Annotated[bool, HIDDEN] = True
    device_faults: dict[str, int] = field(default_factory=Counter)
    fault_to_command: Annotated[tuple[tuple[float, int], ...], HIDDEN] = ()
    fault_to_command_count: Annotated[int, named("faults_answered")] = 0
    fault_to_command_seconds: Annotated[float, HIDDEN] = 0.0

    @property
    @told("fault_to_command", _ANSWERED)
    def fault_to_command_mean(self) -> float | None:
        """Mean seconds from a fault's report to its command; None before the first one."""
        answered = self.fault_to_command_count
        return round(self.fault_to_command_seconds / answered, 6) if answered else None


@dataclass(frozen=True, slots=True)
class JobView:
    """The state of a job's Manager at one moment.

    Args:
        job_id: id of the job.
        at: the moment of this state.
        nodes, processes_per_node: size of the job; 0 for unknown.
        recovers: ClusterD decides on faults.
        restarts: who starts again what has failed: the Manager (`job`), or a `platform`.
        waits_for: nodes that the others wait for, by rank, with commas between; empty for none.
        waits_left: seconds until the Manager ends the job because they have not come; 0 without a wait.
        nodes_missing: number of those nodes.
        restarts_left: restarts that the job has left; None before an Agent has said a count. Where the Manager
            restarts processes: those of the node with the fewest left.
        retry_time: of reset.json; None without that file.
        paused: ClusterD holds Agents back from starting.
        streams: each stream, below.
        agents: Agents by rank, 1,000 at most, below: those in trouble, then silent ones, before others.
        agents_known: number of all Agents.
        agents_in_trouble: number of those that have a fault or have exited.
        agents_silent: number of those that are silent, and not in trouble.
        workers: number of Workers that have registered.
        profiling: number of those by profiling state: n of their last 1400 + n, `-1` for none.
        decisions: the last ones, oldest first, 50 at most, below.
        counters: since this process began, below.
        state_file: path of the state file, or place of the state in etcd; empty without one.
        plugins_off: users' plugins that are off until the Manager restarts.
        clusterd: the client of ClusterD, below; None without one.
        fault_mode: the mode in which faults of devices are answered: `rescheduling` or `grace`; `reports` where they
            are only shown, because ClusterD answers them; empty without rules.
        devices: those with a fault, the isolated ones first, 256 at most, below.
        devices_known: number of all of them.
        devices_isolated: number of those that take no job.
        leader: the lead of a job with its state in etcd, below; else None.
        unprotected: number of nodes whose training processes have lost MindIO's controller, until they are started
            again.
        failures: the last failures of the run, oldest first, 10 at most, below.
        ended: why the Manager has ended the run; empty while it goes on, and after success.
        books: of the run, below: the time that was lost, and its causes; None before a run.
        hang: whether the job stands still, and who holds it up, below.
    """

    job_id: Annotated[str, named("job")] = ""
    at: Annotated[float, named("time", TIME)] = 0.0
    nodes: Annotated[int, HIDDEN] = 0
    processes_per_node: Annotated[int, HIDDEN] = 0
    recovers: Annotated[bool, HIDDEN] = False
    restarts: Annotated[str, TEXT, Face("restarts", phrase="restarts: {}")] = ""
    waits_for: Annotated[str, TEXT, Face("waits for node", phrase="waits for node {}")] = ""
    waits_left: Annotated[float, _ROUNDED, _LEFT] = 0.0
    nodes_missing: int = 0
    restarts_left: Annotated[int | None, _RESTARTS] = None
    retry_time: Annotated[int | None, Face("", Form.COUNT, "RetryTime {}", zero=True)] = None
    paused: Annotated[bool, _PAUSED] = False
    streams: tuple[StreamView, ...] = ()
    agents: tuple[AgentView, ...] = ()
    agents_known: int = 0
    agents_in_trouble: int = 0
    agents_silent: int = 0
    workers: int = 0
    profiling: Annotated[Mapping[int, int], _BY_STATE] = field(default_factory=dict)
    decisions: tuple[DecisionView, ...] = ()
    counters: JobCounters = field(default_factory=JobCounters)
    state_file: Annotated[str, HIDDEN] = ""
    plugins_off: tuple[str, ...] = ()
    clusterd: Annotated[ClusterdView, _CLIENT] = field(default_factory=ClusterdView)
    fault_mode: Annotated[str, TEXT] = ""
    devices: tuple[DeviceView, ...] = ()
    devices_known: int = 0
    devices_isolated: int = 0
    leader: Annotated[LeaderView, _LEADER] = field(default_factory=LeaderView)
    unprotected: int = 0
    failures: tuple[FailureView, ...] = ()
    ended: Annotated[str, TEXT] = ""
    books: Annotated[BooksView, _BOOKS] = field(default_factory=BooksView)
    hang: HangView = field(default_factory=HangView)

    @property
    @told()
    def expected(self) -> dict[str, int] | None:
        """The size of the job, `{"nodes": 2, "processes": 8}`; None: unknown."""
        return {"nodes": self.nodes, "processes": self.processes_per_node} if self.nodes else None

    @property
    @told()
    def decides_on(self) -> str:
        """The source of the Manager's decisions on faults: `reports` of Agents, or orders of `ClusterD`."""
        return "ClusterD" if self.recovers else "reports"

    @property
    @told()
    def state(self) -> dict[str, Any]:
        """The Manager's state: its `file` or place in etcd, whether it is `durable` (has all decisions), and how many
        commits were `failures`.
        """
        counters = self.counters
        return {"file": self.state_file or None, "durable": counters.durable, "failures": counters.store_failures}

    @property
    @told()
    def trouble(self) -> list[str]:
        """The troubles of the job in words. They are a job that is hung, a state that is not durable, a lease that is
        not confirmed, a job that ClusterD refuses (but for 403), plugins that are off, nodes without MindIO's
        controller, and Agents in trouble. Without any, the exit code is 0.
        """
        found = ["the job is hung: `taskd-net job hang` tells more"] if self.hang.state == HUNG else []
        found += self.manager_trouble
        if self.agents_in_trouble:
            found.append(f"Agents in trouble: {self.agents_in_trouble} of {self.agents_known}")
        return found

    @property
    def manager_trouble(self) -> list[str]:
        """The troubles of the Manager itself in words.

        They are a state that is not durable, a lease that is not confirmed, a refusal of ClusterD, plugins that are
        off, and nodes without MindIO's controller.
        """
        found = []
        if not self.counters.durable:
            in_etcd = self.state_file.startswith(ETCD_SCHEME)
            then = "the Manager decides nothing until it is" if in_etcd else "a restart may repeat commands"
            found.append(f"the state in {self.state_file} is not durable: {then}")
        if self.leader.term and not self.leader.decides:
            found.append(f"the lease in {self.state_file} is not confirmed: the Manager decides nothing until it is")
        if self.clusterd.refused:
            found.append(f"ClusterD at {self.clusterd.address} refuses the job: {self.clusterd.refused}")
        found += [f"plugin {name} is off until the Manager restarts" for name in self.plugins_off]
        if self.unprotected:
            nodes = f"{self.unprotected} nodes train"
            found.append(f"unprotected: {nodes} without MindIO's controller until they are started again")
        return found


def fields_of_mesh(job: JobView) -> dict[str, Any]:
    """The fields of a job that the document of a mesh has, too: its devices with faults, and its silent Agents."""
    names = ("fault_mode", "devices", "devices_known", "devices_isolated", "agents_silent")
    whole = document_of(job)
    silent = [agent for agent in whole["agents"] if agent["state"] == SILENT]
    agents = [{"rank": agent["rank"], "since": agent["silent_since"]} for agent in silent]
    return {**{name: whole[name] for name in names}, "silent_agents": agents}
