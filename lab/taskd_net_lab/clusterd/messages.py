"""Orders to the client, its reports, and the decisions of a job's machine: data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from taskd_net_lab.clusterd.table import Event, State


class Stream(StrEnum):
    """Streams to the client of one job."""

    SIGNALS = "SubscribeProcessManageSignal"
    SWITCH = "SubscribeNotifySwitch"
    STRESS = "SubscribeNotifyExecStressTest"


class Operation(StrEnum):
    """Operations that pause the training."""

    SWITCH = "switch nic"
    STRESS = "stress test"


class Queue(StrEnum):
    """Queues of reports, each for one report: named after the calls that fill them."""

    STOPPED = "ReportStopComplete"
    STRATEGIES = "ReportRecoverStrategy"
    STATUS = "ReportRecoverStatus"
    SWITCHED = "ReplySwitchNicResult"
    STRESSED = "ReplyStressTestResult"


@dataclass(frozen=True, slots=True)
class Signal:
    """An order in the stream of signals: ClusterD's ProcessManageSignal, without the job.

    Args:
        uuid: one for all orders of a round, except those that begin it anew. Orders of a hot switch have none.
        signal_type: `stopTrain`, `globalFault` and so on.
        actions: steps for the client.
        fault_ranks: type of fault by global rank.
        change_strategy: the decided strategy.
        timeout: seconds; 0 for the client's default.
        node_rank_ids: nodes that the actions are for.
        extra_params: parameters of the strategy.
    """

    uuid: str
    signal_type: str
    actions: tuple[str, ...] = ()
    fault_ranks: Mapping[int, int] = field(default_factory=dict)
    change_strategy: str = ""
    timeout: int = 0
    node_rank_ids: tuple[int, ...] = ()
    extra_params: str = ""


@dataclass(frozen=True, slots=True)
class SwitchOrder:
    """An order to switch network cards: global ranks, and for each whether it goes to the backup card."""

    ranks: tuple[int, ...]
    ops: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class StressOrder:
    """An order to test devices: operations by global rank."""

    ops: Mapping[int, tuple[int, ...]]


Order = Signal | SwitchOrder | StressOrder


@dataclass(frozen=True, slots=True)
class Report:
    """A report of the client.

    Args:
        queue: the queue that it goes into.
        code: status code, where it has one.
        strategies: offered by the client.
        isolate: ranks to leave out, of a status with code 201.
        done: the switch of cards has worked.
        tested: what the stress test found: codes of the operations by rank.
    """

    queue: Queue
    code: int = 0
    strategies: tuple[str, ...] = ()
    isolate: tuple[int, ...] = ()
    done: bool = True
    tested: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moved:
    """A transition."""

    state: State
    event: Event
    to: State


@dataclass(frozen=True, slots=True)
class Reset:
    """The stream of signals has begun or ended: the round is given up."""

    state: State


@dataclass(frozen=True, slots=True)
class Sent:
    """An order to write into a stream."""

    stream: Stream
    order: Order


@dataclass(frozen=True, slots=True)
class Unread:
    """An order that nobody takes: its stream is not there."""

    stream: Stream
    order: Order


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a report's call: its number, and a code."""

    call: int
    code: int


@dataclass(frozen=True, slots=True)
class Told:
    """The result of an operation, for the operator who asked for it."""

    operation: Operation
    text: str


@dataclass(frozen=True, slots=True)
class RestartAll:
    """RetryTime in the platform's reset file grows: all processes restart."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A stream ends with OK: the machine was reset."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class Crashed:
    """ClusterD ends with an error, and takes the rounds of all jobs with it."""

    cause: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The reset at the begin of the stream of signals is over: reports count from now on."""


Decision = Ready | Moved | Reset | Sent | Unread | Answered | Told | RestartAll | Ended | Crashed
