"""What is known of one node, and of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskd_net.position import Position
from taskd_net.states import State


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of a link.

    Attributes:
        messages, bytes: that went over it since the child registered.
        failed: messages with another outcome than 0, as far as who sends learns of it.
        in_flight: messages whose answer is awaited.
        queued: messages that wait to be written.
        ack_p50, ack_p99: seconds from sending to the answer, lately; None where nothing was measured.
    """

    messages: int = 0
    bytes: int = 0
    failed: int = 0
    in_flight: int = 0
    queued: int = 0
    ack_p50: float | None = None
    ack_p99: float | None = None


@dataclass(frozen=True, slots=True)
class Own:
    """What a node says of itself.

    Attributes:
        listen: where it listens; empty for a leaf.
        inbox, inbox_room, inbox_line: messages in its inbox, that fit in, and that wait in line before it.
        delivered: messages that came into its inbox.
        lost: `sync=false` messages that it had to give up after another node had taken them.
        reconnects: times that it has joined again after a loss of its parent.
        up: its side of the link to its parent; `messages` and `bytes` are counted by the parent.
        inbox_closed: it had an inbox and has closed it: nobody reads it any more, or the node ends.
    """

    listen: str = ""
    inbox: int = 0
    inbox_room: int = 0
    inbox_line: int = 0
    delivered: int = 0
    lost: int = 0
    reconnects: int = 0
    up: Flow = Flow()
    inbox_closed: bool = False


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node, as its parent sees it, and as it says of itself.

    Attributes:
        parent: the node that it is a child of; None for the root.
        state: how it stands with that one; never CUT_OFF, which only who sees the whole tree can say.
        since: since when, in seconds since the epoch; 0.0 where that is not known.
        peer: the kind of node: `taskd_net`, `contract` or `original`.
        version: of this package; empty for another kind of node.
        link: `batched`, `tasknet`, or empty while there is no stream.
        address: where its connection comes from.
        last_message: when the last message or answer came from it, in seconds since the epoch; None: never.
        down, up: the link from the parent to it, and from it to the parent.
        reopened: streams that it has opened after the first one, as the parent has seen it.
        own: None for a node that does not report.
        at: when its figures were taken, in seconds since the epoch; they have not changed since.
        service: it is a tool or a service, and no rank of the job.
    """

    parent: Position | None
    state: State
    since: float
    peer: str
    version: str = ""
    link: str = ""
    address: str = ""
    last_message: float | None = None
    down: Flow = Flow()
    up: Flow = Flow()
    reopened: int = 0
    own: Own | None = None
    at: float = 0.0
    service: bool = False


@dataclass(frozen=True, slots=True)
class Mesh:
    """What one node knows of itself and of everything below it.

    Attributes:
        root: who says so.
        now: when, in seconds since the epoch.
        expected: the size of the job, as text; empty where it is not known.
        nodes: the root and all others, in no order.
    """

    root: Position
    now: float
    expected: str
    nodes: Sequence[tuple[Position, NodeStatus]]
