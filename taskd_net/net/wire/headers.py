"""The header of a serialized message, and the place of its body, read by hand.

The readers expect the layout that `write_message` and the generated classes write. For any other layout they raise one
of `NOT_AS_EXPECTED`, and `codec` reads the message with the generated classes.
"""

from __future__ import annotations

from codecs import utf_8_decode
from functools import lru_cache
from typing import Final

from google.protobuf.message import DecodeError

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Destination, Position, require_node
from taskd_net.core.frame import Flow
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.fields import read_varint
from taskd_net.net.wire.positions import read_position
from taskd_net.net.wire.probe_frames import PREFIX as PROBE_PREFIX

NOT_AS_EXPECTED: Final = (DecodeError, IndexError, ValueError, Refusal)
"""Errors of the hand-written readers. The generated classes then decide."""


def split_message(data: bytes) -> tuple[str, Flow, int]:
    """Split a message into its uuid, its flow, and the index behind its header.

    The uuid stands first in the header and the time last. The bytes between them are the same for every message of a
    flow, and are parsed once. The body is not read.

    Raises:
        NOT_AS_EXPECTED: the header has another layout, or is not valid.
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
    in_six = created[0] == 0x30 and int.from_bytes(created[1:]) & SIX_BYTES == SIX_BYTES - 0x80
    # Without a time in milliseconds of this century, or with a long header, each message may have its own flow.
    common = in_six and end - middle <= _FLOW_BYTES
    flow = _remembered(data[middle : end - 7]) if common else _flow(data[middle:end])
    return data[start + 2 : middle].decode(), flow, end


_FLOW_BYTES: Final = 256
"""Longest header, without its uuid, that is remembered. Most have some 60 bytes."""

SIX_BYTES: Final = 0x8080_8080_8080
"""The continuation bits of a varint of six bytes. In a whole one all are set but the last."""


@lru_cache(maxsize=16_384)
def _remembered(data: bytes) -> Flow:
    return _flow(data)._replace(create_time=None)


def _flow(data: bytes) -> Flow:
    header = pb.MessageHeader.FromString(data)
    # Another length when serialized again means a field that is there twice, such as an empty second uuid.
    if header.uuid or header.ByteSize() != len(data) or not header.HasField("src") or not header.HasField("dst"):
        raise ValueError("not what stands between uuid and time")
    src, dst_written = read_position(header.src), read_position(header.dst)
    dst = Destination.of(dst_written)
    if dst.position != dst_written or header.mtype.startswith(PROBE_PREFIX):
        raise ValueError("the destination is not in the form that the first hop gives it, or this is a probe")
    require_sender(src)
    return Flow(header.mtype, header.sync, src, dst, header.createTime)


def require_sender(src: Position) -> None:
    """Check that a message's source names one node.

    Raises:
        Refusal: 4002, it does not.
    """
    try:
        require_node(src)
    except Refusal as refusal:
        raise Refusal(Code.NIL_POSITION, f"src does not name a node: {refusal}") from refusal


def header_end(data: bytes) -> int:
    """The index behind the header of a message that was split before."""
    size, start = read_varint(data, 1)
    return start + size


def require_body(data: bytes, at: int) -> int:
    """Check that only a body stands behind the header. Returns the index of its text, which is not read.

    Raises:
        NOT_AS_EXPECTED: there is something else.
    """
    size, start = read_varint(data, at + 1)
    if data[at] != 0x12 or start + size != len(data):
        raise ValueError("not a body alone")
    return start


def require_text(data: bytes, at: int) -> None:
    """Check the body behind the header that ends at `at`, by pieces: a large one is neither copied nor kept.

    Raises:
        NOT_AS_EXPECTED: as `body_text`.
    """
    end = len(data)
    if at == end:
        return
    start = require_body(data, at)
    while start < end:
        behind = start + _PIECE
        # A piece may end in the middle of a character, which then begins the next one.
        start += utf_8_decode(data[start:behind], "strict", behind >= end)[1]


_PIECE: Final = 64 * 1024
"""Bytes of a body that are decoded at once: small enough for memory that is at hand."""


def body_text(data: bytes, at: int) -> str:
    """The body behind the header that ends at `at`.

    Raises:
        NOT_AS_EXPECTED: there is something else, or the body is not UTF-8.
    """
    if at == len(data):
        return ""
    start = require_body(data, at)
    if len(data) < _PIECE:
        return data[start:].decode()
    return str(memoryview(data)[start:], "utf-8")  # without a copy in between


def read_body(data: bytes, flow: Flow) -> tuple[int, str]:
    """The creation time and the body of a message that was split before.

    Raises:
        NOT_AS_EXPECTED: as `body_text`.
    """
    end = header_end(data)
    created = _time(data[end - 6 : end]) if flow.create_time is None else flow.create_time
    return created, body_text(data, end)


@lru_cache(maxsize=16)
def _time(data: bytes) -> int:
    return read_varint(data, 0)[0]
