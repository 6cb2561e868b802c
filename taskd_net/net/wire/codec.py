"""Messages and answers: bytes on the wire ↔ the package's own types.

A received message is checked here once, in the order of docs/contract.md, section 6, and trusted everywhere inside. It
keeps its serialized form (`Frame.data`), so a node forwards it without writing it again.

Messages and answers are written as joined serialized fields. Messages with the usual layout are read by `headers`.
Building and parsing protobuf objects was most of a node's work at tens of thousands of messages a second. All other
layouts go through the generated classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.limits import MESSAGE_BYTES
from taskd_net.base.position import REMEMBERED_CHARS, Destination, Position
from taskd_net.core.frame import Ack, Flow, Frame
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.fields import cached_varint, text_field, varint
from taskd_net.net.wire.headers import (
    NOT_AS_EXPECTED,
    SIX_BYTES,
    header_end,
    read_body,
    require_body,
    require_sender,
    require_text,
    split_message,
)
from taskd_net.net.wire.positions import position_field, read_position, write_position
from taskd_net.net.wire.probe_frames import PREFIX as PROBE_PREFIX
from taskd_net.net.wire.probe_frames import read_probe

UUID_CHARS: Final = 256
"""Characters of a uuid; 4999 beyond."""


class Message(NamedTuple):
    """A message for the application.

    Attributes:
        uuid: unique per message; a resend has the same.
        mtype: the sender's word for the kind of message.
        sync: whether the sender waits for the delivery.
        src: the sender.
        dst: the destination, as the sender wrote it.
        create_time: milliseconds since the epoch by the sender's clock; 0 from senders that do not set it.
        body: the text.

    Source: docs/contract.md, section 2.
    """

    uuid: str
    mtype: str
    sync: bool
    src: Position
    dst: Position
    create_time: int
    body: str


def too_large(size: int, most: int = MESSAGE_BYTES) -> Refusal:
    """The refusal of a message beyond the limit."""
    return Refusal(Code.CLIENT_ERR, f"the message has {size} bytes serialized; the limit is {most}")


def require_uuid(uuid: str) -> None:
    """Check the length of a uuid.

    Raises:
        Refusal: 4999, it is too long.
    """
    if len(uuid) > UUID_CHARS:
        text = f"the uuid has {len(uuid)} characters; the limit is {UUID_CHARS}"
        raise Refusal(Code.CLIENT_ERR, text, uuid)


def write_message(message: Message) -> Frame:
    """Make a frame of a message that this node sends.

    Raises:
        Refusal: 4003-4006 for the destination, 4999 for a body that is not text, or a body or uuid that is too long.
    """
    uuid, mtype, sync, src, dst_written, create_time, text = message
    if len(uuid) > UUID_CHARS:
        require_uuid(uuid)
    try:
        flow, common = _common_fields(mtype, sync, src, dst_written)
        uuid_field = text_field(b"\x0a", uuid)
        created = _time_field(create_time)
        body = text.encode()
    except UnicodeEncodeError as error:
        # A lone surrogate: a str that is not text. The error's own text quotes the whole body.
        raise Refusal(Code.CLIENT_ERR, "body or mtype cannot be written as UTF-8") from error
    header = cached_varint(len(uuid_field) + len(common) + len(created))
    if body:
        data = b"".join((b"\x0a", header, uuid_field, common, created, b"\x12", cached_varint(len(body)), body))
    else:
        data = b"".join((b"\x0a", header, uuid_field, common, created))
    if len(data) > MESSAGE_BYTES:
        raise too_large(len(data))
    frame = Frame(uuid, sync, src, flow.dst, data)
    frame.flow = flow if len(created) == 7 else flow._replace(create_time=create_time)
    return frame


def read_frame(data: bytes, most: int = MESSAGE_BYTES) -> Frame:
    """Check a serialized Message and read its header.

    Raises:
        Refusal: 4000-4006 in the contract's order, 4999 for one without uuid, with one that is too long, or too large;
            carries the uuid if there is one.
    """
    try:
        uuid, flow, end = split_message(data)
        require_text(data, end)
    except NOT_AS_EXPECTED:
        return _read_any_frame(data, most)
    if len(data) > most:
        return _read_any_frame(data, most)
    frame = Frame(uuid, flow.sync, flow.src, flow.dst, data)
    frame.flow = flow
    return frame


def _read_any_frame(data: bytes, most: int) -> Frame:
    """`read_frame` for a message with any layout."""
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
        dst_written = read_position(header.dst)
        dst = Destination.of(dst_written)
        src = read_position(header.src)
        require_sender(src)
        if not uuid:
            raise Refusal(Code.CLIENT_ERR, "the message has no uuid")
        require_uuid(uuid)
        if len(data) > most:
            raise too_large(len(data), most)
    except Refusal as refusal:
        refusal.uuid, refusal.sync = uuid, header.sync
        raise
    if dst.position != dst_written:
        header.dst.CopyFrom(write_position(dst.position))
        data = message.SerializeToString()
    elif data[0] != 0x0A or message.ByteSize() != len(data):
        # Fields in another order, or twice: every later hop must read the same in it.
        data = message.SerializeToString()
    if header.mtype.startswith(PROBE_PREFIX):
        return read_probe(message, src, dst)
    return Frame(uuid, header.sync, src, dst, data)


def read_known_frames(messages: Iterable[bytes], most: int = MESSAGE_BYTES) -> list[Frame | Refusal]:
    """Read the headers of messages that a node of ours has checked, at a tenth of the cost of `read_frame`.

    A refusal takes the place of its message, with the codes of `read_frame`; it is never for the body. Only a body may
    follow the header. Nodes that read the whole message would believe a second header, and take the message for another
    sender's.

    The messages of a batch mostly belong to one flow. A header with the layout of the one before it, and with the same
    bytes between uuid and time, is not split again.
    """
    frames: list[Frame | Refusal] = []
    before: Flow | None = None
    lead = common = b""
    uuid_at = middle = time_at = end = 0
    for data in messages:
        try:
            if (
                before is not None
                and end <= len(data) <= most
                and data[:uuid_at] == lead
                and data[middle:time_at] == common
                and data[time_at] == 0x30
                and int.from_bytes(data[time_at + 1 : end]) & SIX_BYTES == SIX_BYTES - 0x80
            ):
                size = len(data) - end - 2
                if size != -2 and (data[end] != 0x12 or data[end + 1] != size or size >= 0x80):
                    require_body(data, end)
                uuid, flow = data[uuid_at:middle].decode(), before
            else:
                before = None
                uuid, flow, end = split_message(data)
                if end != len(data):
                    require_body(data, end)
                if len(data) > most:
                    raise ValueError("too large")
                if flow.create_time is None:
                    before = flow
                    uuid_at = 4 if data[1] < 0x80 else 5
                    middle, time_at = uuid_at + data[uuid_at - 1], end - 7
                    lead, common = data[:uuid_at], data[middle:time_at]
        except NOT_AS_EXPECTED:
            frames.append(_any_frame_or_refusal(data, most))
            continue
        frame = Frame(uuid, flow.sync, flow.src, flow.dst, data)
        frame.flow = flow
        frames.append(frame)
    return frames


def read_known_frame(data: bytes, most: int = MESSAGE_BYTES) -> Frame | Refusal:
    """`read_known_frames` for one message."""
    try:
        uuid, flow, end = split_message(data)
        size = len(data) - end - 2
        if size != -2 and (size >= 0x80 or data[end] != 0x12 or data[end + 1] != size):
            require_body(data, end)
        if len(data) > most:
            raise ValueError("too large")
    except NOT_AS_EXPECTED:
        return _any_frame_or_refusal(data, most)
    frame = Frame(uuid, flow.sync, flow.src, flow.dst, data)
    frame.flow = flow
    return frame


def _any_frame_or_refusal(data: bytes, most: int) -> Frame | Refusal:
    try:
        return _read_any_frame(data, most)
    except Refusal as refusal:
        return refusal


def write_checked(frame: Frame) -> bytes:
    """The bytes of a message for a peer that does not check it, or of a message in another form.

    An earlier hop may have checked the header alone. Unchecked bytes go no further than this.

    Raises:
        Refusal: 4000, the bytes are not a Message.
    """
    if frame.flow is not None:
        with suppress(*NOT_AS_EXPECTED):
            require_text(frame.data, header_end(frame.data))
            return frame.data
    try:
        message = pb.Message.FromString(frame.data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a Message (or its text is not UTF-8)") from error
    header = message.header
    header.uuid, header.sync = frame.uuid, frame.sync
    header.src.CopyFrom(write_position(frame.src))
    header.dst.CopyFrom(write_position(frame.dst.position))
    return message.SerializeToString()


def read_message(frame: Frame) -> Message:
    """The message of a frame.

    Raises:
        Refusal: 4000, the bytes are not a Message; never for a frame from `read_frame`.
    """
    flow, dst = frame.flow, frame.dst.position
    if flow is not None:
        try:
            created, text = read_body(frame.data, flow)
            return Message(frame.uuid, flow.mtype, frame.sync, frame.src, dst, created, text)
        except NOT_AS_EXPECTED:
            pass
    try:
        message = pb.Message.FromString(frame.data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a Message (or its text is not UTF-8)") from error
    header = message.header
    return Message(frame.uuid, header.mtype, frame.sync, frame.src, dst, header.createTime, message.body)


def read_uuid(data: bytes) -> str:
    """The uuid of a serialized Message; empty where it has none, or is not a Message."""
    try:
        return pb.Message.FromString(data).header.uuid
    except DecodeError:
        return ""


def write_ack(ack: Ack) -> bytes:
    """Serialize an answer, without its `detail`, for which the wire has no field."""
    code = b"\x10" + cached_varint(ack.code) if ack.code else b""
    return text_field(b"\x0a", ack.uuid) + code + position_field(b"\x1a", ack.src)


def read_ack(data: bytes, default_src: Position) -> Ack:
    """Read an answer. One without a `src`, or with one too long for a node, gets `default_src`, the peer's position.

    Raises:
        Refusal: 6999, the bytes are not an Ack.
    """
    try:
        ack = pb.Ack.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NET_ERR, f"{default_src} answered with bytes that are not an Ack") from error
    src = read_position(ack.src) if ack.HasField("src") else default_src
    if len(data) > REMEMBERED_CHARS and sum(map(len, src)) > REMEMBERED_CHARS:
        # Answers wait by their number, and are passed on to the sender.
        src = default_src
    return Ack(ack.uuid, ack.code, src)


@lru_cache(maxsize=4096)
def _common_fields(mtype: str, sync: bool, src: Position, dst_written: Position) -> tuple[Flow, bytes]:
    """The flow, and the common fields of the headers of a sender's messages to it."""
    dst = Destination.of(dst_written)
    if mtype.startswith(PROBE_PREFIX):
        raise Refusal(
            Code.CLIENT_ERR, f"mtype {mtype[:80]!r} is kept for probes: it must not begin with {PROBE_PREFIX!r}"
        )
    flag = b"\x18\x01" if sync else b""
    positions = position_field(b"\x22", src) + position_field(b"\x2a", dst.position)
    return Flow(mtype, sync, src, dst, None), text_field(b"\x12", mtype) + flag + positions


@lru_cache(maxsize=16)
def _time_field(create_time: int) -> bytes:
    return b"\x30" + varint(create_time) if create_time else b""
