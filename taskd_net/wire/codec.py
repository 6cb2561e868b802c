"""Bytes on the wire ↔ the package's own types. The only place that knows the generated protobuf module.

What comes in is checked here once, in the contract's order (section 6), and trusted everywhere inside. A message keeps
its serialized form (`Frame.data`): a node that passes it on does not write it again.

Messages and answers are written by putting serialized fields together, and messages that were checked before are read
through a view that leaves the positions as bytes: at tens of thousands of messages a second, making and taking apart
protobuf objects was most of a node's work. Everything else goes through the generated classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.message import DecodeError

from taskd_net.codes import Code, Refusal
from taskd_net.core.frame import Ack, Frame
from taskd_net.limits import MESSAGE_BYTES
from taskd_net.position import Destination, Position, require_node
from taskd_net.wire import link_pb2
from taskd_net.wire import tasknet_pb2 as pb
from taskd_net.wire.fields import cached_varint, read_varint, text_field, varint


class Message(NamedTuple):
    """A message as the application gets it.

    Attributes:
        uuid: unique per message; a resend has the same.
        mtype: the sender's word for the kind of message.
        sync: whether the sender waits for the delivery.
        src: who sent it.
        dst: whom it was sent to, as the sender wrote it.
        create_time: milliseconds since the epoch by the sender's clock; 0 from senders that do not set it.
        body: the text.

    Source: contract, section 2.
    """

    uuid: str
    mtype: str
    sync: bool
    src: Position
    dst: Position
    create_time: int
    body: str


@dataclass(frozen=True, slots=True)
class Announcement:
    """A PathDiscovery request: `path` can be reached through `proxy`, a child of the receiver."""

    uuid: str
    proxy: Position
    path: list[Position]


@lru_cache(maxsize=65_536)
def _position(role: str, server_rank: str, process_rank: str) -> Position:
    return Position(role, server_rank, process_rank)


def _read_position(position: pb.Position) -> Position:
    return _position(position.role, position.serverRank, position.processRank)


def _write_position(position: Position) -> pb.Position:
    return pb.Position(role=position.role, serverRank=position.server_rank, processRank=position.process_rank)


def too_large(size: int) -> Refusal:
    """The refusal of a message beyond the limit."""
    return Refusal(Code.CLIENT_ERR, f"the message has {size} bytes serialized; the limit is {MESSAGE_BYTES}")


def write_message(message: Message) -> Frame:
    """Make a frame of a message that this node sends.

    Raises:
        Refusal: 4003-4006 for the destination, 4999 for a body that is not text or too large.
    """
    uuid, mtype, sync, src, dst_written, create_time, text = message
    dst = Destination.of(dst_written)
    try:
        uuid_field = text_field(b"\x0a", uuid)
        common = _common_fields(mtype, sync, src, dst.position)
        created = _time_field(create_time)
        body = text.encode()
    except UnicodeEncodeError as error:
        # A lone surrogate: a str that is not text. The error's own words quote the whole body.
        raise Refusal(Code.CLIENT_ERR, "body or mtype cannot be written as UTF-8") from error
    header = cached_varint(len(uuid_field) + len(common) + len(created))
    if body:
        data = b"".join((b"\x0a", header, uuid_field, common, created, b"\x12", cached_varint(len(body)), body))
    else:
        data = b"".join((b"\x0a", header, uuid_field, common, created))
    if len(data) > MESSAGE_BYTES:
        raise too_large(len(data))
    return Frame(uuid, sync, src, dst, data)


def read_frame(data: bytes) -> Frame:
    """Check a serialized Message and look at its header.

    Raises:
        Refusal: 4000-4006 in the contract's order, 4999 for one without uuid or too large; carries the uuid if there
            is one.
    """
    try:
        message = pb.Message.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a Message (or its text is not UTF-8)") from error
    if not message.HasField("header"):
        raise Refusal(Code.NIL_HEADER, "the message has no header")
    header = message.header
    uuid = header.uuid
    try:
        if not header.HasField("src") or not header.HasField("dst"):
            raise Refusal(Code.NIL_POSITION, "the message has no src or no dst")
        dst_written = _read_position(header.dst)
        dst = Destination.of(dst_written)
        src = _read_position(header.src)
        _require_sender(src)
        if not uuid:
            raise Refusal(Code.CLIENT_ERR, "the message has no uuid")
        if len(data) > MESSAGE_BYTES:
            raise too_large(len(data))
    except Refusal as refusal:
        refusal.uuid, refusal.sync = uuid, header.sync
        raise
    if dst.position != dst_written:
        header.dst.CopyFrom(_write_position(dst.position))
        data = message.SerializeToString()
    elif data[0] != 0x0A or message.ByteSize() != len(data):
        # Written in another order, or a field twice: from here on everybody shall read the same in it.
        data = message.SerializeToString()
    return Frame(uuid, header.sync, src, dst, data)


def read_known_frame(data: bytes) -> Frame:
    """Look at the header of a message that a node of ours has checked: `read_frame` at a quarter of the price.

    Raises:
        Refusal: what `read_frame` would raise if the header is not in order after all; never for the body.
    """
    try:
        header = _header(data)
        frame = Frame(header.uuid, header.sync, _source(header.src), _destination(header.dst), data)
    except (DecodeError, IndexError, ValueError, Refusal):
        return read_frame(data)
    return frame if frame.uuid and len(data) <= MESSAGE_BYTES else read_frame(data)


def _header(data: bytes) -> link_pb2.HeaderView:
    """The header of a message that begins with it, as all do that `read_frame` has seen; the body is not touched."""
    if data[0] != 0x0A:
        raise ValueError("the message does not begin with its header")
    size, start = read_varint(data, 1)
    return link_pb2.HeaderView.FromString(data[start : start + size])


@lru_cache(maxsize=65_536)
def _source(data: bytes) -> Position:
    position = _read_position(pb.Position.FromString(data))
    _require_sender(position)
    return position


@lru_cache(maxsize=16_384)
def _destination(data: bytes) -> Destination:
    position = _read_position(pb.Position.FromString(data))
    dst = Destination.of(position)
    if dst.position != position:
        raise Refusal(Code.DST_TYPE_ILLEGAL, "not in the form that the first hop gives it")
    return dst


def _require_sender(src: Position) -> None:
    try:
        require_node(src)
    except Refusal as refusal:
        raise Refusal(Code.NIL_POSITION, f"src does not name a node: {refusal}") from refusal


def read_message(frame: Frame) -> Message:
    """The message that a frame carries.

    Raises:
        Refusal: 4000, the bytes are not a Message after all; never for a frame that came through `read_frame`.
    """
    try:
        message = pb.Message.FromString(frame.data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a Message (or its text is not UTF-8)") from error
    header = message.header
    return Message(
        uuid=header.uuid,
        mtype=header.mtype,
        sync=header.sync,
        src=frame.src,
        dst=frame.dst.position,
        create_time=header.createTime,
        body=message.body,
    )


def read_uuid(data: bytes) -> str:
    """The uuid of a serialized Message; empty where there is none to be read."""
    try:
        return _header(data).uuid
    except (DecodeError, IndexError, ValueError):
        return ""


def write_ack(ack: Ack) -> bytes:
    """Serialize an answer. `detail` stays here: the wire has no place for it."""
    code = b"\x10" + cached_varint(ack.code) if ack.code else b""
    return text_field(b"\x0a", ack.uuid) + code + _position_field(b"\x1a", ack.src)


def read_ack(data: bytes, default_src: Position) -> Ack:
    """Read an answer; one without `src` gets the position of the peer that gave it.

    Raises:
        Refusal: 6999, the bytes are not an Ack.
    """
    try:
        ack = pb.Ack.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NET_ERR, f"{default_src} answered with bytes that are not an Ack") from error
    return Ack(ack.uuid, ack.code, _read_position(ack.src) if ack.HasField("src") else default_src)


def write_register(uuid: str, position: Position) -> bytes:
    """Serialize a RegisterReq."""
    return pb.RegisterReq(uuid=uuid, pos=_write_position(position)).SerializeToString()


def read_register(data: bytes) -> tuple[str, Position]:
    """The uuid and the position of a RegisterReq.

    Raises:
        Refusal: 4000 the bytes are not one, 4002 it has no position.
    """
    try:
        request = pb.RegisterReq.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a RegisterReq") from error
    if not request.HasField("pos"):
        raise Refusal(Code.NIL_POSITION, "the request has no pos", request.uuid)
    return request.uuid, _read_position(request.pos)


def write_announcement(uuid: str, proxy: Position, path: Iterable[Position]) -> bytes:
    """Serialize a PathDiscoveryReq."""
    written = [_write_position(position) for position in path]
    return pb.PathDiscoveryReq(uuid=uuid, proxyPos=_write_position(proxy), path=written).SerializeToString()


def read_announcement(data: bytes) -> Announcement:
    """Read a PathDiscoveryReq.

    Raises:
        Refusal: 4000 the bytes are not one, 4002 it has no proxyPos or an empty path.
    """
    try:
        request = pb.PathDiscoveryReq.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a PathDiscoveryReq") from error
    if not request.HasField("proxyPos") or not request.path:
        raise Refusal(Code.NIL_POSITION, "the request has no proxyPos or no path", request.uuid)
    return Announcement(request.uuid, _read_position(request.proxyPos), [_read_position(p) for p in request.path])


# ---- serialized fields that come again and again


@lru_cache(maxsize=4096)
def _common_fields(mtype: str, sync: bool, src: Position, dst: Position) -> bytes:
    """What the headers of a sender's messages to one destination have in common."""
    flag = b"\x18\x01" if sync else b""
    return text_field(b"\x12", mtype) + flag + _position_field(b"\x22", src) + _position_field(b"\x2a", dst)


@lru_cache(maxsize=16)
def _time_field(create_time: int) -> bytes:
    return b"\x30" + varint(create_time) if create_time else b""


@lru_cache(maxsize=65_536)
def _position_field(tag: bytes, position: Position) -> bytes:
    data = _write_position(position).SerializeToString()
    return tag + varint(len(data)) + data
