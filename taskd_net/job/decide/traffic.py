"""Messages, calls and answers that a Manager sends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from taskd_net.base.codes import ArgumentError, Refusal
from taskd_net.base.position import ALL, Destination, Position, Role
from taskd_net.base.untrusted import json_value, natural, shown
from taskd_net.base.vocabulary import (
    ACTION,
    AGENT_COMMANDS,
    EPOCH_BEGIN,
    FAULT_RANKS,
    MEETING_COMMANDS,
    RESTART_ALL,
    RESTART_RANKS,
    START,
    STOP_RANKS,
)
from taskd_net.job.faults.decisions import Decision

_COUNT_MOST: Final = 2**31 - 1
REPORTED: Final = ("stop_train", "on_global_rank", "change_strategy", "dump", "prepare_action")
"""Calls of the controller after which ClusterD waits for a report."""
ALL_WORKERS: Final = str(Position.worker(ALL, ALL))


def agent(rank: int) -> str:
    """The Agent of a node, as a destination."""
    return f"{Role.AGENT}/{rank}"


def worker(node: int, rank: int) -> str:
    """The Worker with a global rank, as a destination."""
    return f"{Role.WORKER}/{node}/{rank}"


@dataclass(frozen=True, slots=True)
class Command:
    """A message of the Mgr to an Agent or to Workers.

    Args:
        to: the destination, such as `Agent/3` or `Worker/All/All`.
        code: the number of the command.
        message: details; the form depends on the code.
        extension: further details, by key.
        msg_type: `ACTION`, as a rule.
        mtype: of the message's header.
        uuid: given by the Job; one for all resends.
        owner: name of the plugin that decided on it; empty for the Job's own.
    """

    to: str = ""
    code: int = 0
    message: str = ""
    extension: dict[str, str] = field(default_factory=dict)
    msg_type: str = ACTION
    mtype: str = "default"
    uuid: str = ""
    owner: str = ""

    @property
    def destination(self) -> Destination:
        """The destination, checked.

        Raises:
            ArgumentError: it is none.
        """
        return _destination(self.to)

    @property
    def ranks(self) -> list[int]:
        """Global ranks that the message of a 209 or 213 names."""
        numbers = (natural(text, _COUNT_MOST) for text in _read_texts(self.message) or ())
        return [number for number in numbers if number is not None]

    def signed(self, uuid: str, owner: str, extension: dict[str, str]) -> Command:
        """This command with its uuid, its owner, and further details."""
        more = self.extension | extension
        return Command(self.to, self.code, self.message, more, self.msg_type, self.mtype, uuid, owner)

    def require(self) -> None:
        """Check that receivers of every make survive this command.

        Raises:
            ArgumentError: the destination names no Agent or Worker, or an original's Agent would die of the code.
        """
        position = self.destination.position
        if position.role not in (Role.AGENT, Role.WORKER):
            raise ArgumentError(f"to is {self.to!r}; expected an Agent or Workers")
        known = AGENT_COMMANDS | MEETING_COMMANDS
        if position.role == Role.AGENT and (self.code not in known or self.msg_type != ACTION):
            codes = ", ".join(map(str, sorted(AGENT_COMMANDS)))
            raise ArgumentError(f"{self.msg_type} {self.code} is for an Agent; expected ACTION with one of {codes}")
        if position.role == Role.WORKER and self.code == EPOCH_BEGIN and natural(self.message, _COUNT_MOST) is None:
            raise ArgumentError(f"the message of a {self.code} is {shown(self.message)}; expected the epoch's number")
        if position.role == Role.AGENT and not self._is_readable:
            expected = "expected a whole number in a 208 and 210, a JSON list of ranks as texts in a 209 and 213"
            raise ArgumentError(f"the message of a {self.code} for an Agent is {shown(self.message)}; {expected}")

    @property
    def _is_readable(self) -> bool:
        """True where an original's Agent can read the message, of which it dies otherwise."""
        if self.code in (RESTART_ALL, START):
            return read_count(self.message) is not None
        return self.code not in (RESTART_RANKS, STOP_RANKS) or _read_texts(self.message) is not None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the training framework's controller, in the Manager's own process.

    Args:
        name: `dump`, `stop_train`, `on_global_rank`, `change_strategy`, `prepare_action`, `destroy`, or `restart`
            (destroy, and start again).
        ranks: type of fault by global rank.
        text: `stop` or `pause`, the strategy, or the action.
        params: extra parameters of a strategy.
        timeout: in seconds; 0 for the controller's default.
    """

    name: str = ""
    ranks: dict[int, int] = field(default_factory=dict)
    text: str = ""
    params: str = ""
    timeout: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A request to ClusterD. The shell adds the job id.

    Args:
        rpc: `ReplySwitchNicResult` or `ReplyStressTestResult`.
        result: a JSON text: true or false, or the results by rank.
        uuid: given by the Job, for `Acknowledged`.
    """

    rpc: str = ""
    result: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class ReportFaults:
    """Faulty ranks that ClusterD has to hear of.

    Args:
        ranks: type of fault by global rank.
    """

    ranks: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reset:
    """A reset of a device, by the user's hook.

    Args:
        device: its name.
        ranks: global ranks whose processes have ended for it.
        limit: seconds until the device has to be back.
        uuid: given by the Job, for `ResetEnded`.
    """

    device: str = ""
    ranks: tuple[int, ...] = ()
    limit: float = 0.0
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Replace:
    """A node loses its place, because of a device.

    Args:
        node: rank of the node.
        device: its name.
    """

    node: int
    device: str


@dataclass(frozen=True, slots=True)
class StepBegun:
    """The step of the answer to a device's fault that goes on now was commanded.

    Args:
        device: its name.
    """

    device: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The step of the answer to a device's fault that goes on now has come to its end.

    Args:
        device: its name.
        failed: the reason where it has failed; empty for success.
    """

    device: str
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Restarts:
    """A new count of the restarts that the job has left.

    Args:
        left: the count.
        everybody: every process is restarted; False where the healthy ones go on in place.
    """

    left: int
    everybody: bool = True


@dataclass(frozen=True, slots=True)
class Retried:
    """The present RetryTime needs no restart: one of everybody has come after it."""


@dataclass(frozen=True, slots=True)
class RunBegins:
    """All nodes are there: their Agents get the go for the first round of a run.

    Args:
        meets: they meet by way of the Manager before each start; False where one of them cannot.
    """

    meets: bool


@dataclass(frozen=True, slots=True)
class MeetsNoMore:
    """From the next round on the Agents meet as their framework does: one of them cannot meet otherwise."""


@dataclass(frozen=True, slots=True)
class NodesMissing:
    """All other nodes wait for these.

    Args:
        nodes: their ranks.
        until: the end of the wait.
    """

    nodes: frozenset[int]
    until: float


@dataclass(frozen=True, slots=True)
class NodesLost:
    """Nodes are lost, and all others wait for their return.

    Args:
        nodes: their ranks.
    """

    nodes: frozenset[int]


@dataclass(frozen=True, slots=True)
class AttemptBegins:
    """All processes of the job are there again: what fails now is a further failure."""


@dataclass(frozen=True, slots=True)
class RunEnds:
    """The run is over. An Agent that asks for a go now waits for the others of the next run.

    Args:
        reason: of the end; empty if all have succeeded.
    """

    reason: str = ""


Item = (
    Command
    | Call
    | Reply
    | ReportFaults
    | Restarts
    | Retried
    | Reset
    | Replace
    | StepBegun
    | StepEnded
    | RunBegins
    | MeetsNoMore
    | NodesMissing
    | NodesLost
    | AttemptBegins
    | RunEnds
)
"""A decision of a plugin."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the log: a change of state.

    Args:
        event: short verb phrase, such as `stream_taken`.
        fields: details.
    """

    event: str
    fields: Mapping[str, str | int]


@dataclass(slots=True)
class Outcome:
    """Consequences of one event: of a `Tick` its decisions, in the order of each list; of another event none.

    Attributes:
        taken: the event was taken in; see `Job.step`.
        refusal: the reason why its sender may not report it; empty for another reason, and for an event that was taken.
        commands: messages to send, once each; those with a uuid that was sent before are resends.
        calls: calls of the controller. They have no resends, because the controller ends with this process.
        replies: requests to ClusterD.
        reports: faulty ranks that ClusterD has to hear of. They are not repeated: the next stream brings them again.
        resets: resets of devices. They are not repeated: one whose end is unknown has failed.
        notices: lines for the log.
        decided: the new decisions of all kinds, each with the name of its plugin (empty for the Job's own), in order.
        withdrawn: uuids of commands that have lost their meaning since the last tick, or are given up.
        faults: decisions on faults of devices since the last tick, but for those that ask for nothing.
        fault_counts: number of all of them, by level and type.
        answered: times of arrival of the faults that the commands answer.
    """

    taken: bool = True
    refusal: str = ""
    commands: list[Command] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    reports: list[ReportFaults] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    decided: list[tuple[str, Item]] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list, compare=False)
    faults: list[Decision] = field(default_factory=list)
    fault_counts: Counter[str] = field(default_factory=Counter)
    answered: list[float] = field(default_factory=list)

    def note(self, event: str, **fields: str | int) -> None:
        """Add a line for the log."""
        self.notices.append(Notice(event, fields))


def read_count(text: str) -> int | None:
    """A count of restarts, which may be negative; None for another text."""
    number = natural(text.strip().removeprefix("-"), _COUNT_MOST)
    if number is None:
        return None
    return -number if text.strip().startswith("-") else number


def _read_texts(message: str) -> list[str] | None:
    """A JSON list of texts; None for another text."""
    try:
        value = json_value(message)
    except ValueError:
        return None
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


@lru_cache(maxsize=4096)
def _destination(to: str) -> Destination:
    try:
        return Destination.of(Position.parse(to))
    except Refusal as error:
        raise ArgumentError(str(error)) from None


def rank_texts(ranks: Iterable[int]) -> str:
    """Ranks as 209 and 213 have them in their message: a JSON list of texts."""
    return json.dumps([str(rank) for rank in sorted(ranks)])


def fault_ranks(ranks: Mapping[int, int]) -> dict[str, str]:
    """Ranks as 209 has them in its extension, which the original's Mgr sends alone."""
    return {FAULT_RANKS: json.dumps({str(rank): ranks[rank] for rank in sorted(ranks)})}
