"""Bytes on the wire ↔ the package's own types. The only place that knows the generated protobuf module.

What comes in is checked here once, in the contract's order (section 6), and trusted everywhere inside. A message keeps
its serialized form (`Frame.data`): a node that passes it on does not write it again.

Messages and answers are written by putting serialized fields together, and messages that were checked before are read
through a view that leaves the positions as bytes: at tens of thousands of messages a second, making and taking apart
protobuf objects was most of a node's work. Everything else goes through the generated classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.message import DecodeError

from taskd_net.codes import Code, Refusal
from taskd_net.core.frame import Ack, Adapted, Frame
from taskd_net.peer_limits import DEFAULT, Limits
from taskd_net.position import Destination, Position, require_node
from taskd_net.wire import tasknet_pb2 as pb
from taskd_net.wire.fields import cached_varint, read_varint, text_field, varint
from taskd_net.wire.positions import position_field, read_position, write_position
from taskd_net.wire.probe_frames import PREFIX as PROBE_PREFIX
from taskd_net.wire.probe_frames import read_probe


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


def too_large(size: int, limits: Limits) -> Refusal:
    """The refusal of a message beyond the limit."""
    return Refusal(Code.CLIENT_ERR, f"the message has {size} bytes serialized; the limit is {limits.message_bytes}")


def require_uuid(uuid: str, limits: Limits) -> None:
    """Check the length of a uuid.

    Raises:
        Refusal: 4999, it is too long.
    """
    if len(uuid) > limits.uuid_length:
        text = f"the uuid has {len(uuid)} characters; the limit is {limits.uuid_length}"
        raise Refusal(Code.CLIENT_ERR, text, uuid)


def write_message(message: Message, limits: Limits = DEFAULT) -> Frame:
    """Make a frame of a message that this node sends.

    Raises:
        Refusal: 4003-4006 for the destination, 4999 for a body that is not text, or a body or uuid that is too long.
    """
    uuid, mtype, sync, src, dst_written, create_time, text = message
    if len(uuid) > limits.uuid_length:
        require_uuid(uuid, limits)
    try:
        dst, common = _common_fields(mtype, sync, src, dst_written)
        uuid_field = text_field(b"\x0a", uuid)
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
    if len(data) > limits.message_bytes:
        raise too_large(len(data), limits)
    return Frame(uuid, sync, src, dst, data)


def read_frame(data: bytes, limits: Limits = DEFAULT) -> Frame:
    """Check a serialized Message and look at its header.

    Raises:
        Refusal: 4000-4006 in the contract's order, 4999 for one without uuid, with one that is too long, or too large;
            carries the uuid if there is one.
    """
    try:
        uuid, flow, _, end = _split(data)
        _text(data, end)
    except _NOT_AS_EXPECTED:
        return _read_any_frame(data, limits)
    if len(data) > limits.message_bytes:
        return _read_any_frame(data, limits)
    return Frame(uuid, flow.sync, flow.src, flow.dst, data)


def _read_any_frame(data: bytes, limits: Limits) -> Frame:
    """`read_frame` for whatever is not written as most messages are."""
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
        _require_sender(src)
        if not uuid:
            raise Refusal(Code.CLIENT_ERR, "the message has no uuid")
        require_uuid(uuid, limits)
        if len(data) > limits.message_bytes:
            raise too_large(len(data), limits)
    except Refusal as refusal:
        refusal.uuid, refusal.sync = uuid, header.sync
        raise
    if dst.position != dst_written:
        header.dst.CopyFrom(write_position(dst.position))
        data = message.SerializeToString()
    elif data[0] != 0x0A or message.ByteSize() != len(data):
        # Written in another order, or a field twice: from here on everybody shall read the same in it.
        data = message.SerializeToString()
    if header.mtype.startswith(PROBE_PREFIX):
        return read_probe(message, src, dst)
    return Frame(uuid, header.sync, src, dst, data)


def read_known_frame(data: bytes, limits: Limits = DEFAULT) -> Frame:
    """Read the header of a message that a node of ours has checked, at a tenth of the price of `read_frame`.

    Only a body may follow the header. A second header would be read by nodes that read the whole message, and they
    would take the message for another sender's.

    Raises:
        Refusal: the header is not in order; never for the body. The codes are those of `read_frame`.
    """
    frame = read_known_frames((data,), limits)[0]
    if isinstance(frame, Refusal):
        raise frame
    return frame


def read_known_frames(messages: Iterable[bytes], limits: Limits = DEFAULT) -> list[Frame | Refusal]:
    """Read the headers of several messages; see `read_known_frame`. A refusal takes the place of its message.

    The messages of a batch mostly belong to one flow. A header with the layout of the one before it, and with the same
    bytes between uuid and time, needs no second look.
    """
    frames: list[Frame | Refusal] = []
    flow: _Flow | None = None
    lead = common = b""
    uuid_at = middle = time_at = end = 0
    most = limits.message_bytes
    for data in messages:
        if (
            flow is None
            or not end <= len(data) <= most
            or data[:uuid_at] != lead
            or data[middle:time_at] != common
            or data[time_at] != 0x30
            or int.from_bytes(data[time_at + 1 : end]) & _SIX_BYTES != _SIX_BYTES - 0x80
        ):
            flow = None
            try:
                uuid, known, created, end = _split(data)
                _require_known_body(data, end, most)
            except _NOT_AS_EXPECTED:
                frames.append(_any_frame_or_refusal(data, limits))
                continue
            if created:
                uuid_at = 4 if data[1] < 0x80 else 5
                middle, time_at = uuid_at + data[uuid_at - 1], end - 7
                lead, common, flow = data[:uuid_at], data[middle:time_at], known
            frames.append(Frame(uuid, known.sync, known.src, known.dst, data))
            continue
        try:
            size = len(data) - end - 2
            if size != -2 and (data[end] != 0x12 or data[end + 1] != size or size >= 0x80):
                _require_body(data, end)
            frames.append(Frame(data[uuid_at:middle].decode(), flow.sync, flow.src, flow.dst, data))
        except _NOT_AS_EXPECTED:
            frames.append(_any_frame_or_refusal(data, limits))
    return frames


def _require_known_body(data: bytes, at: int, most: int) -> None:
    if at != len(data):
        _require_body(data, at)
    if len(data) > most:
        raise ValueError("too large")


def _any_frame_or_refusal(data: bytes, limits: Limits) -> Frame | Refusal:
    try:
        return _read_any_frame(data, limits)
    except Refusal as refusal:
        return refusal


def write_checked(frame: Frame) -> bytes:
    """The bytes of a message for a peer that does not look at what it gets as we do, or one that goes in another form.

    A node further away may have passed on bytes of which only the header was looked at; here it ends.

    Raises:
        Refusal: 4000, the bytes are not a Message after all.
    """
    if not isinstance(frame, Adapted):
        try:
            _text(frame.data, _split(frame.data)[3])
            return frame.data
        except _NOT_AS_EXPECTED:
            pass
    try:
        message = pb.Message.FromString(frame.data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a Message (or its text is not UTF-8)") from error
    header = message.header
    header.uuid, header.sync = frame.uuid, frame.sync
    header.src.CopyFrom(write_position(frame.src))
    header.dst.CopyFrom(write_position(frame.dst.position))
    return message.SerializeToString()


_NOT_AS_EXPECTED = (DecodeError, IndexError, ValueError, Refusal)
"""Errors of the hand-written readers. The generated classes then decide."""


class _Flow(NamedTuple):
    """The common part of the headers of a sender's messages to one destination."""

    mtype: str
    sync: bool
    src: Position
    dst: Destination
    create_time: int


def _split(data: bytes) -> tuple[str, _Flow, bytes, int]:
    """A message's uuid, flow, creation time (serialized) and the index behind its header, where they stand in order.

    A header as the generated classes and `write_message` write it: the uuid first, the time last, and in between the
    same bytes for every message of a flow, which are taken apart once. The body is not touched.

    Raises:
        _NOT_AS_EXPECTED: the header is written differently, or not in order.
    """
    size, start = data[1], 2
    if size >= 0x80:
        size, start = read_varint(data, 1)
    end = start + size
    length = data[start + 1]
    middle = start + 2 + length
    if data[0] != 0x0A or data[start] != 0x0A or not 0 < length < 0x80 or end > len(data):
        raise ValueError("the message does not begin with a header that begins with a short uuid")
    created = data[end - 7 : end]
    in_six = created[0] == 0x30 and int.from_bytes(created[1:]) & _SIX_BYTES == _SIX_BYTES - 0x80
    if in_six and end - middle <= _FLOW_BYTES:
        flow = _flow(data[middle : end - 7])
    else:
        # Another time than one in milliseconds of this century, or something long; each message may have its own, so it
        # is not remembered.
        created, flow = b"", _flow.__wrapped__(data[middle:end])
    return data[start + 2 : middle].decode(), flow, created, end


_FLOW_BYTES = 256
"""Longest header, without its uuid, that is remembered: most have some 60 bytes."""

_SIX_BYTES = 0x8080_8080_8080
"""In a varint of six bytes, the bits that say whether another byte follows: all are set but the last."""


@lru_cache(maxsize=16_384)
def _flow(data: bytes) -> _Flow:
    header = pb.MessageHeader.FromString(data)
    # Of another length when written again, it says something twice, such as an empty uuid in place of the first one.
    if header.uuid or header.ByteSize() != len(data) or not header.HasField("src") or not header.HasField("dst"):
        raise ValueError("not what stands between uuid and time")
    src, dst_written = read_position(header.src), read_position(header.dst)
    dst = Destination.of(dst_written)
    if dst.position != dst_written or header.mtype.startswith(PROBE_PREFIX):
        raise ValueError("the destination is not in the form that the first hop gives it, or this is a probe")
    _require_sender(src)
    return _Flow(header.mtype, header.sync, src, dst, header.createTime)


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
    data = frame.data
    try:
        uuid, flow, created, end = _split(data)
        text = _text(data, end)
        when = _read_time(created) if created else flow.create_time
        return Message(uuid, flow.mtype, flow.sync, flow.src, flow.dst.position, when, text)
    except _NOT_AS_EXPECTED:
        pass
    try:
        message = pb.Message.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a Message (or its text is not UTF-8)") from error
    header, dst = message.header, frame.dst.position
    return Message(frame.uuid, header.mtype, frame.sync, frame.src, dst, header.createTime, message.body)


def _require_body(data: bytes, at: int) -> int:
    """The index of the body, which is all that stands behind the header; its bytes are not looked at.

    Raises:
        _NOT_AS_EXPECTED: something else stands there too.
    """
    size, start = read_varint(data, at + 1)
    if data[at] != 0x12 or start + size != len(data):
        raise ValueError("not a body alone")
    return start


def _text(data: bytes, at: int) -> str:
    """The body.

    Raises:
        _NOT_AS_EXPECTED: something else stands there too, or the body is not UTF-8.
    """
    return "" if at == len(data) else data[_require_body(data, at) :].decode()


@lru_cache(maxsize=16)
def _read_time(data: bytes) -> int:
    return read_varint(data, 1)[0]


def read_uuid(data: bytes) -> str:
    """The uuid of a serialized Message; empty where there is none to be read."""
    try:
        return pb.Message.FromString(data).header.uuid
    except DecodeError:
        return ""


def write_ack(ack: Ack) -> bytes:
    """Serialize an answer. `detail` stays here: the wire has no place for it."""
    code = b"\x10" + cached_varint(ack.code) if ack.code else b""
    return text_field(b"\x0a", ack.uuid) + code + position_field(b"\x1a", ack.src)


def read_ack(data: bytes, default_src: Position) -> Ack:
    """Read an answer; one without `src` gets the position of the peer that gave it.

    Raises:
        Refusal: 6999, the bytes are not an Ack.
    """
    try:
        ack = pb.Ack.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NET_ERR, f"{default_src} answered with bytes that are not an Ack") from error
    return Ack(ack.uuid, ack.code, read_position(ack.src) if ack.HasField("src") else default_src)


# ---- serialized fields that come again and again


@lru_cache(maxsize=4096)
def _common_fields(mtype: str, sync: bool, src: Position, dst_written: Position) -> tuple[Destination, bytes]:
    """The destination, and what the headers of a sender's messages to it have in common."""
    dst = Destination.of(dst_written)
    if mtype.startswith(PROBE_PREFIX):
        raise Refusal(
            Code.CLIENT_ERR, f"mtype {mtype[:80]!r} is kept for probes: it must not begin with {PROBE_PREFIX!r}"
        )
    flag = b"\x18\x01" if sync else b""
    positions = position_field(b"\x22", src) + position_field(b"\x2a", dst.position)
    return dst, text_field(b"\x12", mtype) + flag + positions


@lru_cache(maxsize=16)
def _time_field(create_time: int) -> bytes:
    return b"\x30" + varint(create_time) if create_time else b""
