"""Events of a job: all that a Manager's decisions depend on, besides the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base.position import Position
from taskd_net.job.faults.events import FaultEvent
from taskd_net.job.profiling_domains import ProfilingSwitch as ProfilingSwitch  # noqa: PLC0414 - one of the events

STOP_TRAIN: Final = "stopTrain"
PRE_EXIT: Final = "preExitProcess"
GLOBAL_FAULT: Final = "globalFault"
CHANGE_STRATEGY: Final = "changeStrategy"
SAVE_AND_EXIT: Final = "saveAndExit"
KILL_MASTER: Final = "killMaster"
FAULT_NODES_EXIT: Final = "faultNodesExit"
HOT_SWITCH: Final = "hot-switch"
PAUSE_AGENTS: Final = "pauseStartAgent"
CONTINUE_AGENTS: Final = "continueStartAgent"
KEEP_ALIVE: Final = "keep-alive"


@dataclass(frozen=True, slots=True)
class Reported:
    """A message of an Agent or a Worker.

    Args:
        src: the sender.
        msg_type, code, message, extension: its body.
        uuid: of the message.
        mtype: of the message's header; a 210 gets that of its 201.
    """

    src: Position
    msg_type: str
    code: int
    message: str = ""
    extension: dict[str, str] = field(default_factory=dict)
    uuid: str = ""
    mtype: str = "default"


@dataclass(frozen=True, slots=True)
class RankWanted:
    """A launcher asks for the rank of its node, or says which one it has.

    Args:
        src: its place in the mesh.
        key: a text of its own.
        host: name of its host.
        pid: of the launcher.
        rank: that it has; None where it has none.
        nodes: number of nodes that it was started for; 0 where it does not say it.
        held: places of launchers that are in the mesh, and answer.
    """

    src: Position
    key: str
    host: str
    pid: int = 0
    rank: int | None = None
    nodes: int = 0
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The receiver of a command, or ClusterD, has taken it.

    Args:
        uuid: of the command or reply.
        receivers: of a broadcast the nodes that have it, each counted once; None for all.
        late: the receiver may have had it for a long time, because an earlier acknowledgement may be lost.
    """

    uuid: str
    receivers: int | None = None
    late: bool = False


@dataclass(frozen=True, slots=True)
class ReceiverGone:
    """The receiver of a command has left the mesh after a send that it may have taken, so its acknowledgement is lost.

    Args:
        uuid: of the command.
    """

    uuid: str


@dataclass(frozen=True, slots=True)
class Signal:
    """ClusterD's ProcessManageSignal.

    Args:
        uuid: of the signal.
        signal_type: `stopTrain`, `changeStrategy` and so on.
        actions: steps for the Manager.
        fault_ranks: type of fault by global rank.
        change_strategy: the decided strategy.
        timeout: in seconds; 0 for the default.
        node_rank_ids: nodes that the actions are for.
        extra_params: parameters of the strategy, as a JSON text.
    """

    uuid: str = ""
    signal_type: str = ""
    actions: tuple[str, ...] = ()
    fault_ranks: dict[int, int] = field(default_factory=dict)
    change_strategy: str = ""
    timeout: int = 0
    node_rank_ids: tuple[int, ...] = ()
    extra_params: str = ""

    @property
    def strategy(self) -> str:
        """The strategy that it orders; empty for another type of signal."""
        return self.change_strategy if self.signal_type == CHANGE_STRATEGY else ""

    @property
    def begins_round(self) -> bool:
        """True for the first signal of a round, for a fault or a switch to a spare node."""
        return self.signal_type in (STOP_TRAIN, PRE_EXIT, HOT_SWITCH)

    @property
    def is_ghost(self) -> bool:
        """True for the globalFault of a round that ClusterD has reset: it has no uuid."""
        return self.signal_type == GLOBAL_FAULT and not self.uuid

    @property
    def order(self) -> str:
        """A key of what it orders: signals of one fault may share a uuid."""
        return f"{self.uuid} {self.signal_type} {self.strategy} {' '.join(self.actions)}"


@dataclass(frozen=True, slots=True)
class PluginRequest:
    """An order for one plugin, which declares this class as what it `takes`, and keeps the last one in its state.

    Args:
        uuid: given by the Job.
    """

    uuid: str = field(default="", kw_only=True)

    @property
    def words(self) -> str:
        """The request in the history of decisions."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call of the controller has come to its end: ClusterD has its report, or waits for none.

    Args:
        names: of the calls that the report stands for.
    """

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """A fault of a device has occurred, or is over.

    Args:
        event: what has happened.
        node: rank of the device's node, as the report says; None where it does not.
        reporter: the sender of the report; None for a test or a simulation.
    """

    event: FaultEvent
    node: int | None = None
    reporter: Position | None = None


@dataclass(frozen=True, slots=True)
class DeviceReleased:
    """A person gives a separated device free.

    Args:
        device: its name.
        reporter: the sender; None for a name that a person has removed from the list.
    """

    device: str
    reporter: Position | None = None


@dataclass(frozen=True, slots=True)
class FaultFiles:
    """The files with the rules for faults of devices have changed, and are good.

    Args:
        files: their texts, by name (`devices.as_texts`).
    """

    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeviceRanks:
    """The mapping file has changed.

    Args:
        ranks: global rank by device.
    """

    ranks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SeparatedNames:
    """The list of separated devices was read or written.

    Args:
        names: those in it.
    """

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class ResetEnded:
    """A reset of a device has ended.

    Args:
        uuid: of the reset.
        done: the device is back.
        reason: the reason why it is not.
    """

    uuid: str
    done: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RetryTime:
    """`RetryTime` of reset.json."""

    value: int


@dataclass(frozen=True, slots=True)
class DecidesAgain:
    """ClusterD is told that a retry has failed (405). Its next globalFault has the uuid of the one before."""


@dataclass(frozen=True, slots=True)
class MachineReset:
    """ClusterD's machine of the job is in its first state, because the stream of its signals has ended.

    ClusterD forgets its operations and a pause of starts with it.
    """


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A stream of ClusterD's signals has begun. ClusterD knows nothing of a round before it."""


@dataclass(frozen=True, slots=True)
class FaultsReported:
    """ClusterD is told of faulty ranks.

    Args:
        ranks: type of fault by global rank.
    """

    ranks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The training framework has carried a strategy out, and the training goes on."""


@dataclass(frozen=True, slots=True)
class Continued:
    """The training framework has answered the order to continue after a pause.

    Args:
        done: the training goes on.
    """

    done: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """It is time to decide on all that came since the last tick, and on what is due by time; see `Job.wake`."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A Manager begins with a stored state: commands on their way are sent again at once, with their uuids.

    The clock has moved since the last time in the state, and no time of the gap counts.

    Args:
        seed: head of the uuids from now on. The state may be older than the last commands, after a full disk or a loss
            of power; a uuid given twice would make receivers drop the second command as a resend.
    """

    seed: str


@dataclass(frozen=True, slots=True)
class ClockMoved:
    """The clock has moved to the present, by a step or a gap; see `decide.times`.

    Nothing was heard in a gap, so no Agent or Worker has been silent for longer than since now.

    Args:
        then: the time before.
        stopped: seconds of it that have passed, while this Manager was stopped.
    """

    then: float
    stopped: float = 0.0


@dataclass(frozen=True, slots=True)
class Unbarred:
    """A plugin may have its streams again.

    Args:
        plugin: its name.
        alone: only those streams that no other plugin may have.
    """

    plugin: str
    alone: bool


OfManager = Tick | Resumed | ClockMoved | Unbarred
"""Events of the Manager itself."""

Underway = (
    Acknowledged
    | ReceiverGone
    | CallEnded
    | DecidesAgain
    | MachineReset
    | Subscribed
    | FaultsReported
    | Recovered
    | Continued
)
"""Events of orders that are under way."""

OfDevices = DeviceEvent | DeviceReleased | FaultFiles | DeviceRanks | SeparatedNames | ResetEnded
"""Events of devices, and of the rules for their faults."""

Event = OfManager | Reported | RankWanted | Underway | Signal | PluginRequest | ProfilingSwitch | RetryTime | OfDevices
