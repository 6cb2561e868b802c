"""What the Router tells its node to do. The node carries the actions out in order, then feeds the next event."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeAlias

from taskd_net.codes import Refusal
from taskd_net.core.acks import Reply
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.routes import LinkId
from taskd_net.position import Position


@dataclass(slots=True)
class Forward:
    """Write a frame on a link.

    Attributes:
        link: the link.
        frame: the message.
        patience: seconds within which the far side's answer is awaited; 0 where nobody waits for it.
        number: what the far side answers it by, on a link that numbers its messages; else 0.
    """

    link: LinkId
    frame: Frame
    patience: float
    number: int = 0


@dataclass(slots=True)
class Deliver:
    """Put a frame into the inbox."""

    frame: Frame


@dataclass(slots=True)
class Answer:
    """Give an answer to whoever made the request (`reply` came with it)."""

    reply: Reply
    ack: Ack


class Kind(Enum):
    """What an announcement says of its positions."""

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
    """Why a child's stream is ended."""

    POSITION_TAKEN = "position taken by a newer stream"


@dataclass(slots=True)
class EndStream:
    """End a child's stream; `session` is what `link_up` was told."""

    session: object
    reason: Reason


@dataclass(slots=True)
class Forgot:
    """A child was forgotten, with everything behind it: `routes` nodes in all."""

    link: LinkId
    position: Position
    routes: int


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
class ReportViolation:
    """Somebody has claimed what it may not. To be logged, at most once a minute for each peer.

    Attributes:
        peer: who.
        refusal: what it was told.
    """

    peer: str
    refusal: Refusal


Action: TypeAlias = (
    Forward | Deliver | Answer | Announce | EndStream | Forgot | Lost | ReportViolation | Withdraw | Joined
)
