"""The status of one node, and of all nodes that one of them knows: views, whose fields `observe.fields` tells on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.observe.fields import (
    HIDDEN,
    MICROSECONDS_OR_NONE,
    MILLISECONDS,
    MILLISECONDS_OR_NONE,
    TEXT,
    TIME,
    Alarm,
    Face,
    Form,
    Json,
    named,
)

PARENT: Final = "parent"
"""Place of fields about the link to the parent: on the page in the rows after it, in the text of joined nodes."""
WHERE: Final = "where"
"""Place of fields that tell where a node is: the text has them in every state."""
INBOX: Final = "inbox"
"""Place of fields about the inbox, which has a table of its own on the page."""

_POSITION: Final = Json(lambda position: None if position is None else str(position))


class Direction(NamedTuple):
    """One direction of a link.

    Attributes:
        messages, bytes: carried since the child registered, counted by the parent. They restart at 0 when a forgotten
            child registers.
        failed: messages that were answered with a code other than 0, counted by the sender.
        in_flight: messages that were sent, and are not acknowledged yet.
        queued: messages that wait to be written.
        ack_p50, ack_p99: from sending to the answer, over all further hops; over the last 2 s or more, within a tenth.
            None: no answer in the last 10 s.
    """

    messages: Annotated[int, Face("messages", Form.COUNT)] = 0
    bytes: Annotated[int, Face("size", Form.BYTES)] = 0
    failed: Annotated[int, Face("not delivered", Form.COUNT, alarm=Alarm.SOME)] = 0
    in_flight: Annotated[int, Face("in flight", Form.COUNT, "{} in flight")] = 0
    queued: Annotated[int, Face("waiting to leave", Form.COUNT, alarm=Alarm.SOME)] = 0
    ack_p50: Annotated[float | None, MICROSECONDS_OR_NONE, Face("p50", Form.SECONDS)] = None
    ack_p99: Annotated[float | None, MICROSECONDS_OR_NONE, Face("p99", Form.SECONDS)] = None


class OwnFigures(NamedTuple):
    """A node's own figures.

    Attributes:
        listen: its address for children; empty for a leaf.
        inbox, inbox_room, inbox_line: messages in its inbox, the inbox's size, and messages in line before it.
        delivered: messages that came into its inbox since it was started.
        lost: `sync=false` messages that were given up after another node had taken them.
        reconnects: joins after a loss of its parent.
        up: its side of the link to its parent, which counts `messages` and `bytes` itself.
        link_reason: the reason for which its link to its parent is of no better kind, for people.
        upstream: with several addresses of a parent: the one in use, then those that it left, such as `10.0.0.8:9601;
            not 10.0.0.7:9601: nobody listens there`; empty with a single one, or where the node does not say it.
        inbox_closed: it has closed its inbox, because no reader is left or the node ends.
        job_id: the first 64 bytes of the id of the job whose nodes it takes for children ([two
            jobs](training.md#two-jobs-on-one-machine)); empty for a leaf, or where it knows none.
    """

    listen: Annotated[str, TEXT, Face("listens on", phrase="listens on {}", place=WHERE)] = ""
    inbox: Annotated[int, HIDDEN] = 0
    inbox_room: Annotated[int, HIDDEN] = 0
    inbox_line: Annotated[int, HIDDEN] = 0
    delivered: Annotated[int, Face("delivered", Form.COUNT, place=INBOX)] = 0
    lost: Annotated[int, Face("lost", Form.COUNT, alarm=Alarm.SOME, place=INBOX)] = 0
    reconnects: Annotated[int, HIDDEN, Face("reconnects", Form.COUNT, "reconnected {} times", place=PARENT)] = 0
    up: Annotated[Direction, HIDDEN] = Direction()
    inbox_closed: Annotated[bool, HIDDEN] = False
    link_reason: Annotated[str, HIDDEN] = ""
    upstream: Annotated[str, TEXT, Face("upstream", phrase="upstream {}", place=PARENT)] = ""
    job_id: Annotated[str, named("job", TEXT), Face("job", phrase="job {}", place=WHERE)] = ""


class NodeStatus(NamedTuple):
    """One node, as its parent sees it, with its own figures.

    Attributes:
        parent: the next hop upwards; None for the root, and for a Proxy that has never joined.
        state: its state towards the parent; never CUT_OFF, which takes a look at the whole tree.
        since: the beginning of the state, in seconds since the epoch; 0.0 where it is unknown.
        peer: `taskd_net`, `contract` (a foreign node that keeps to the four calls) or `original`; no text behind a
            foreign node.
        version: of this package; empty for foreign nodes.
        link: `direct`, `batched` or `tasknet`; empty without a stream.
        address: the source of its connection, as its parent sees it.
        last_message: the time of the last message or answer from it; None: never.
        down, up: the link from the parent to it, and from it to the parent.
        reopened: streams after the first one, as the parent has seen them.
        own: its own figures; None for a node that does not report.
        at: the time of its figures; they have not changed since. For a rate, divide the difference of two counters by
            that of two `at`.
        service: a tool or a service, which is no rank of the job.
        end_reason: the reason for which its stream has ended, as its parent saw it: `no sign of life for 60 s`, `closed
            by the child`; empty: it stands, it never stood, or nobody has said.
    """

    parent: Annotated[Position | None, _POSITION]
    state: Annotated[State, HIDDEN]
    since: Annotated[float, HIDDEN, MILLISECONDS]
    peer: str
    version: Annotated[str, TEXT, Face("version")] = ""
    link: Annotated[str, TEXT] = ""
    address: Annotated[str, TEXT, Face("comes from", phrase="{}", place=WHERE)] = ""
    last_message: Annotated[float | None, TIME, MILLISECONDS_OR_NONE, Face("last message", Form.AGO)] = None
    down: Annotated[Direction, HIDDEN] = Direction()
    up: Annotated[Direction, HIDDEN] = Direction()
    reopened: Annotated[int, HIDDEN] = 0
    own: Annotated[OwnFigures | None, HIDDEN] = None
    at: Annotated[float, TIME, MILLISECONDS] = 0.0
    service: bool = False
    end_reason: Annotated[str, TEXT] = ""


class RefusedRegistration(NamedTuple):
    """A registration that a node refused.

    Attributes:
        time: seconds since the epoch.
        position: the position that the other side claimed.
        reason: for people.
    """

    time: float
    position: Position
    reason: str


@dataclass(frozen=True, slots=True)
class Mesh:
    """The state of a node and of everything below it, as far as the node knows it.

    Attributes:
        root: the node that says so.
        now: the time, in seconds since the epoch.
        expected: the size of the job, as text; empty where it is unknown.
        nodes: the root and all others, in no order.
    """

    root: Position
    now: float
    expected: str
    nodes: Sequence[tuple[Position, NodeStatus]]
