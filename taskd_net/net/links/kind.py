"""A kind of link: one module behind one interface.

A parent offers the kinds that it has in its answer to Register (`Acceptor.offer`). The child takes the first of its own
that is offered (`LinkKind.offered`) and opens it (`LinkKind.open`). Both ends then have a `Session`. The Router, the
node, the joining and the state of the mesh use this interface and no kind's name. `registry` lists the kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import grpc

from taskd_net.base.address import Address
from taskd_net.base.codes import TaskdNetError
from taskd_net.base.position import Position
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import Link
from taskd_net.core.quota import Quota
from taskd_net.core.ready import Reason
from taskd_net.core.routes import LinkId
from taskd_net.net.links.connections import Connections
from taskd_net.net.links.grpc_calls import Failures, Handler
from taskd_net.net.links.peer import Metadata, Peer
from taskd_net.net.links.remote import Caller, Remote
from taskd_net.net.links.session import Host, Session
from taskd_net.net.links.unfinished import Receiver, Unfinished
from taskd_net.net.wire.link_requests import Announcing

if TYPE_CHECKING:
    import ssl


class Failed(TaskdNetError):
    """A step of joining failed; the text says why. The attempt ends."""


class Unreachable(Failed):
    """The offered way is not there, such as a port behind a firewall. The next kind that is offered is tried."""


class End(Enum):
    """The reasons for which a parent refuses or ends a link."""

    POSITION_TAKEN = Reason.POSITION_TAKEN.value
    CLOSING = "the parent is closing"
    ELSEWHERE = "the Manager at the parent may not be the one that leads: try the other addresses"
    VIOLATION = Reason.VIOLATION.value
    OTHER_JOB = Reason.OTHER_JOB.value
    BUSY = "the older link does not come to rest: try again"
    # The original's own words.
    UNKNOWN = "un registry error"


class LinkLost(NamedTuple):
    """The end of a child's link.

    Attributes:
        reason: for people.
        position_taken: the parent ended it because another node has the same position.
    """

    reason: str
    position_taken: bool = False


class Line(Protocol):
    """The child's end of a link, beneath its session."""

    def cancel(self) -> None:
        """End the link at once."""
        ...

    async def finish(self) -> None:
        """Write no more: the parent reads what was written, and then the end."""
        ...

    async def lost(self) -> LinkLost:
        """The reason for which the link has ended. Called after its end."""
        ...


class Requests(Protocol):
    """The requests of a child beside its messages."""

    async def announce(self, announcing: Announcing, timeout: float) -> Ack:
        """Announce or withdraw positions. Returns the parent's answer, or the code of the failure in its place."""
        ...

    async def report(self, report: bytes, timeout: float) -> bytes:
        """Report the state of the mesh. Returns the parent's answer.

        Raises:
            CallFailed: there is none.
        """
        ...


class Opened(NamedTuple):
    """A link that a child has opened.

    Attributes:
        session: its session.
        line: the connection beneath.
        told: whether the parent said that it has joined; None where it does not tell.
        requests: over the link itself, which then needs no channel of gRPC; None where they are calls.
        renew: asks over the link, within so many seconds, for another offer, and returns the parent's properties with
            it, or raises CallFailed; None where another link takes a Register.
    """

    session: Session[Any]
    line: Line
    told: bool | None = None
    requests: Requests | None = None
    renew: Callable[[float], Awaitable[Peer]] | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """The way of a registered child to its parent.

    Attributes:
        host: the child's node.
        parent: the parent's position.
        peer: the parent's properties, with its answer to Register.
        channel: the gRPC channel of the registration.
        ack_timeout: seconds for each answer of the parent.
        upstream: the address of the registration.
        context: returns the context of TLS for a socket to the parent, or raises OSError; None for plain text.
        server_name: the name in the parent's certificate.
        continues: the link goes on where another one of the same child comes to rest.
    """

    host: Host
    parent: Position
    peer: Peer
    channel: grpc.aio.Channel
    ack_timeout: float
    upstream: Address
    context: Callable[[], ssl.SSLContext] | None = None
    server_name: str = ""
    continues: bool = False


class Incoming(Protocol):
    """A link that a child opens, at the parent.

    Attributes:
        caller: the far end of the connection that it is authorized by.
        remote: the far end of its own connection.
        position: the child's.
        continues: as in `Way`.
    """

    caller: Caller
    remote: Remote
    position: Position
    continues: bool

    @property
    def gone(self) -> bool:
        """True if the child has closed the connection."""
        ...

    def session(self, link: Link) -> Session[Any]:
        """Make the session of the link."""
        ...

    async def accept(self, joined: bool | None) -> None:
        """Tell the child that the link stands, and whether this node has joined; None: it does not hear that."""
        ...

    async def end(self, end: End) -> None:
        """Refuse the link or end it, as the last thing on it. May raise, where the caller has to leave by that."""
        ...


class Sockets(NamedTuple):
    """The sockets that a parent accepts beside gRPC's.

    Attributes:
        listen: the address; port 0 takes any free port.
        context: returns the context of TLS for the next connection, or raises OSError; None for plain text.
        asked_for: the node does not start without them.
    """

    listen: Address
    context: Callable[[], ssl.SSLContext] | None
    asked_for: bool = True


class Parent(Protocol):
    """The parent that an acceptor serves.

    Attributes:
        host: its node.
        sockets: None where it accepts gRPC's alone.
        connections: of its children.
        failures: answers calls of gRPC that have failed.
        unfinished: the account of messages that have not come whole.
    """

    host: Host
    sockets: Sockets | None
    connections: Connections
    failures: Failures
    unfinished: Unfinished[Receiver]

    def bringer(self, frame: Frame, caller: Caller) -> LinkId:
        """The child that brings a message over a connection.

        Raises:
            Violation: 4002, nobody who may bring messages of this sender uses the connection.
        """
        ...

    def quota(self, link: LinkId) -> Quota:
        """The quota of a child."""
        ...

    async def serve(self, incoming: Incoming) -> None:
        """Serve a link that a child opens, until its end."""
        ...

    async def announced(self, announcing: Announcing, caller: Caller) -> Ack:
        """Take in an announcement.

        Raises:
            Refusal: the code of its answer.
        """
        ...

    async def reported(self, report: bytes, position: Position, caller: Caller) -> bytes:
        """Take in a child's report of the state of the mesh. Returns the answer.

        Raises:
            Refusal: it is not taken.
        """
        ...


class Acceptor:
    """One kind of link at one parent. The defaults suit a kind that needs nothing of it.

    Args:
        parent: whom it serves.

    Attributes:
        catching_up: the node has begun to drain, and messages that come in now count as having come before that.
    """

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self.catching_up = False

    def offer(self, link: LinkId, caller: Caller) -> Metadata:
        """The offer to a child, for the answer to its Register."""
        return ()

    def handlers(self) -> Mapping[str, Handler]:
        """The calls that gRPC serves for this kind, by their full names."""
        return {}

    async def start(self) -> None:
        """Listen, where the kind has an address of its own.

        Raises:
            ConfigError: it cannot be bound.
        """

    async def stop(self) -> None:
        """After `close`, and after the links have ended: wait until nothing of the kind is left."""

    def forget(self, link: LinkId) -> None:
        """Drop what was kept of a child that is forgotten."""

    @property
    def busy(self) -> bool:
        """True while received messages are not decided on."""
        return False

    def close(self) -> None:
        """Decide on what has come in, and accept no more."""


class LinkKind(ABC):
    """A kind of link.

    Attributes:
        name: for settings, logs, traces and the state of the mesh.
        probed: the answer to a probe that ends here after it came over such a link. No other kind has the same, and
            none the code of a refusal.
    """

    name: str
    probed: int

    def offered(self, peer: Peer) -> bool:
        """True if a parent offers this kind."""
        return True

    async def answers(self, way: Way) -> bool:
        """True if a way that was `Unreachable` can be reached now."""
        return False

    @abstractmethod
    async def open(self, way: Way) -> Opened:
        """Open the child's end.

        Raises:
            Unreachable: the offered way is not there; another kind may be.
            Failed: the parent refuses, or does not accept in time.
        """

    def acceptor(self, parent: Parent) -> Acceptor:
        """The parent's end."""
        return Acceptor(parent)
