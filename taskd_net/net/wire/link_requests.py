"""Requests of a child over a direct link, and their replies: bytes ↔ the package's own types, checked once."""

from __future__ import annotations

import collections
from typing import Final, NamedTuple, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.core.frame import Ack
from taskd_net.core.ready import Kind
from taskd_net.net.wire import codec, link_pb2
from taskd_net.net.wire.fields import field_sizes

FIELDS: Final = 32
"""Fields of such a request or reply; there are five, and others of a later version."""

_M = TypeVar("_M", bound=Message)

_UINT32: Final = 0xFFFF_FFFF


class Announcing(NamedTuple):
    """An announcement with its terms, which gRPC has in the metadata and the deadline of the call.

    Attributes:
        data: a serialized PathDiscoveryReq.
        kind: its meaning for the positions.
        end: the state with which the child leaves in good order; None if it stays.
        patience: seconds for which the child waits for the answer; None where it does not tell.
    """

    data: bytes
    kind: Kind = Kind.ADD
    end: State | None = None
    patience: float | None = None


Asked: TypeAlias = Announcing | bytes | None
"""An announcement, a serialized report of the state of the mesh, or None: a renewal."""

Answer: TypeAlias = Ack | bytes | str
"""The answer to an announcement, and to any request that was refused; that to a report, serialized; the offer for a
renewal."""


class Request(NamedTuple):
    """A request of a child beside its messages.

    Attributes:
        number: names it on its link.
        content: what it asks for.
        patience: seconds for which the child waits for the reply.
    """

    number: int
    content: Asked
    patience: float


class LinkReply(NamedTuple):
    """The reply to a request.

    Attributes:
        number: that of the request.
        content: the answer.
    """

    number: int
    content: Answer


def read_kind(text: str) -> Kind:
    """Read the kind of an announcement; an addition where it is unknown."""
    try:
        return Kind(text or Kind.ADD.value)
    except ValueError:
        return Kind.ADD


def read_end(text: str) -> State | None:
    """Read the state with which a child leaves in good order; None if it stays."""
    try:
        state = State(text)
    except ValueError:
        return None
    return state if state.ended else None


def write_request(request: Request) -> bytes:
    """Serialize a request."""
    number, content, patience = request
    whole = link_pb2.Request(number=number, patience=min(_UINT32, round(1000.0 * patience)))
    if content is None:
        whole.renewal = True
    elif isinstance(content, bytes):
        whole.report = content
    else:
        whole.announcement = content.data
        if content.kind is not Kind.ADD:
            whole.routes = content.kind.value
        if content.end is not None:
            whole.end = content.end.value
    return bytes(whole.SerializeToString())


def read_request(data: bytes) -> Request:
    """Read a request.

    Raises:
        Refusal: 6999, the bytes are not a request, or nothing is asked that this node knows.
    """
    whole = _read(link_pb2.Request, data, "a request")
    asked, patience = whole.WhichOneof("content"), whole.patience / 1000.0
    if asked == "report":
        return Request(whole.number, whole.report, patience)
    if asked == "renewal":
        return Request(whole.number, None, patience)
    if asked != "announcement":
        raise Refusal(Code.NET_ERR, "a request for nothing that is known")
    terms = read_kind(whole.routes), read_end(whole.end), patience
    return Request(whole.number, Announcing(whole.announcement, *terms), patience)


def write_reply(reply: LinkReply) -> bytes:
    """Serialize a reply."""
    number, content = reply
    if isinstance(content, bytes):
        whole = link_pb2.Reply(number=number, pace=content)
    elif isinstance(content, str):
        whole = link_pb2.Reply(number=number, offer=content)
    else:
        whole = link_pb2.Reply(number=number, ack=codec.write_ack(content))
    return bytes(whole.SerializeToString())


def read_reply(data: bytes, parent: Position) -> LinkReply:
    """Read a reply of the parent.

    Raises:
        Refusal: 6999 the bytes are not a reply, 4000 the Ack in it is none.
    """
    whole = _read(link_pb2.Reply, data, "a reply")
    return LinkReply(whole.number, codec.read_ack(whole.ack, parent) if whole.ack else whole.offer or whole.pace)


def _read(kind: type[_M], data: bytes, what: str) -> _M:
    try:
        # Millions of empty fields would take many times their bytes.
        collections.deque(field_sizes(data, FIELDS), maxlen=0)
        return kind.FromString(data)
    except (DecodeError, IndexError, ValueError) as error:
        raise Refusal(Code.NET_ERR, f"the bytes are not {what}: {error}") from error
