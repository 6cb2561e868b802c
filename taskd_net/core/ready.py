"""`Ready`: everything that follows from one event, for the node to carry out before the next one.

All of it is data, so that a run can be written down and repeated (`core.replay`). The order inside each list is the
order of the decisions. A frame and an answer for one link go into the same batch if the link has batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple, TypeAlias

from taskd_net.base.codes import Refusal
from taskd_net.base.position import Position
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.routes import LinkId

Key: TypeAlias = str | int
"""The name of a message in its answer: its uuid; on a link that numbers its messages, the number."""

Token: TypeAlias = int
"""The node's own name for a request whose answer it awaits: a send, a call, an announcement."""


class Answered(NamedTuple):
    """An answer that needs more than its key.

    Attributes:
        key: the message that it answers.
        ack: the answer.
        in_full: the message was a `sync=false` one, whose 0 must not look like a delivery.
    """

    key: Key
    ack: Ack
    in_full: bool


class Writes:
    """Messages and answers for one link.

    Attributes:
        frames: the messages.
        patience: for each message, the seconds within which its answer is awaited; 0 where nobody waits for one.
        numbers: for each message, its number; 0 where it is answered by its uuid, or by nothing.
        accepted: keys of sync messages that are delivered to one receiver; code 0 is all that there is to say.
        answers: all other answers.
    """

    __slots__ = ("accepted", "answers", "frames", "numbers", "patience")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.patience: list[float] = []
        self.numbers: list[int] = []
        self.accepted: list[Key] = []
        self.answers: list[Answered] = []


class Kind(Enum):
    """The meaning of an announcement for its positions."""

    ADD = "add"
    """They can be reached through the sender."""
    COMPLETE = "complete"
    """They too, and nothing that has not been announced since the sender joined."""
    WITHDRAW = "withdraw"
    """They can no longer be reached through the sender."""


@dataclass(slots=True)
class Announce:
    """Tell the parent which positions can be reached through this node, and report its answer."""

    kind: Kind
    positions: list[Position]


class Reason(StrEnum):
    """Reasons for which this node ends a stream."""

    POSITION_TAKEN = "position taken by a newer stream"
    VIOLATION = "beyond the bounds of the link"
    OTHER_JOB = "the parent has joined another job"


@dataclass(slots=True)
class EndStream:
    """End a stream; `session` is the name that `link_up` or `upstream_up` gave it."""

    session: object
    reason: Reason


@dataclass(slots=True)
class Forgot:
    """A child was forgotten, with everything behind it: `routes` nodes in all."""

    link: LinkId
    position: Position
    routes: int


@dataclass(slots=True)
class Diverted:
    """A child of the same host has announced a connected node, whose messages go to that child from now on."""

    node: Position
    child: Position


@dataclass(slots=True)
class Lost:
    """A `sync=false` message had to be given up after its first hop. To be counted and logged, never silent."""

    frame: Frame
    code: int
    src: Position
    detail: str


@dataclass(slots=True)
class Withdraw:
    """Take a message that nobody awaits any more out of the queue of a link, if it has not begun to be written."""

    link: LinkId
    frame: Frame


@dataclass(slots=True)
class Joined:
    """The Mgr knows the way to this node from now on, or does so no more. The children are to be told."""

    joined: bool


@dataclass(slots=True)
class SignsOfLife:
    """A neighbour whose stream stands gives no sign of life, or gives one again: `seen`."""

    link: LinkId
    position: Position
    seen: bool


@dataclass(slots=True)
class ReportViolation:
    """A peer has claimed a position or a sender that is not its own. To be logged.

    Attributes:
        peer: the peer.
        refusal: the answer that it got.
    """

    peer: str
    refusal: Refusal


Notice: TypeAlias = Diverted | EndStream | Forgot | Lost | ReportViolation | SignsOfLife | Withdraw | Joined
"""A change that happens once in a while."""


class Ready:
    """The outcome of one event.

    Attributes:
        writes: messages and answers, by link.
        deliveries: messages for the application.
        completed: answers to this node's own requests.
        announcements: requests to the parent.
        notices: everything rare.
        link, refusal: the outcome of `Router.register`.
        wake: when `tick` is due at the latest, or infinity.
    """

    __slots__ = ("announcements", "completed", "deliveries", "link", "notices", "refusal", "wake", "writes")

    def __init__(self) -> None:
        self.writes: dict[LinkId, Writes] = {}
        self.deliveries: list[Frame] = []
        self.completed: list[tuple[Token, Ack]] = []
        self.announcements: list[Announce] = []
        self.notices: list[Notice] = []
        self.link: LinkId | None = None
        self.refusal: Refusal | None = None
        self.wake = float("inf")

    def __bool__(self) -> bool:
        return bool(self.writes or self.completed or self.deliveries or self.notices or self.announcements)

    def to(self, link: LinkId) -> Writes:
        """The writes of one link."""
        writes = self.writes.get(link)
        if writes is None:
            writes = self.writes[link] = Writes()
        return writes
