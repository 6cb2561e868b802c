"""Headers read by hand: the expected layout is split, every other one is left to the generated classes."""

from __future__ import annotations

import tracemalloc

import pytest

from taskd_net import Code, Message, Position
from taskd_net.base.codes import Refusal
from taskd_net.base.position import Destination
from taskd_net.core.frame import Flow
from taskd_net.net.wire import codec, headers
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.fields import varint

pytestmark = pytest.mark.oldest

NOW = 1_700_000_000_000
WORKER = Position.worker(0, 3)


def message(body: str = "body", *, mtype: str = "default", create_time: int = NOW) -> Message:
    """A valid message."""
    return Message("u", mtype, True, Position.mgr(), WORKER, create_time, body)


def data(body: str = "body", *, mtype: str = "default", create_time: int = NOW) -> bytes:
    """A valid message, serialized."""
    return codec.write_message(message(body, mtype=mtype, create_time=create_time)).data


def test_message_is_split_into_its_parts() -> None:
    whole = data()
    uuid, flow, end = headers.split_message(whole)
    assert (uuid, flow) == ("u", Flow("default", True, Position.mgr(), Destination.of(WORKER), None))
    assert headers.read_body(whole, flow) == (NOW, "body")
    assert headers.body_text(whole, end) == "body"
    assert end == len(data(""))


@pytest.mark.parametrize("create_time", [0, 1, 2**35 - 1, 2**42, -1])
def test_time_of_no_usual_length_is_in_the_flow(create_time: int) -> None:
    whole = data(create_time=create_time)
    _, flow, _ = headers.split_message(whole)
    assert flow.create_time == create_time and headers.read_body(whole, flow) == (create_time, "body")


def test_messages_of_a_flow_share_it() -> None:
    one, other = (headers.split_message(data(create_time=time))[1] for time in (NOW, NOW + 1))
    assert one is other


def test_long_headers_are_not_remembered() -> None:
    before = headers._remembered.cache_info().currsize
    for mtype in ("x" * 300, "y" * 1_000_000):
        assert codec.read_message(codec.read_frame(codec.write_message(message(mtype=mtype)).data)).mtype == mtype
    assert headers._remembered.cache_info().currsize == before


def test_other_layouts_are_not_split() -> None:
    header = pb.Message.FromString(data()).header
    without_uuid = pb.MessageHeader.FromString(header.SerializeToString())
    without_uuid.ClearField("uuid")
    without_source = pb.MessageHeader.FromString(header.SerializeToString())
    without_source.ClearField("src")
    rank_of_a_proxy = pb.MessageHeader.FromString(header.SerializeToString())
    rank_of_a_proxy.dst.CopyFrom(pb.Position(role="Proxy", serverRank="0", processRank="7"))
    probe = pb.MessageHeader.FromString(header.SerializeToString())
    probe.mtype = "taskd-net/probe"
    for other in (without_uuid, without_source, rank_of_a_proxy, probe):
        with pytest.raises(headers.NOT_AS_EXPECTED):
            headers.split_message(pb.Message(header=other).SerializeToString())
    for other_bytes in (b"", b"\x0a", data()[:20], pb.Message(body="a body alone").SerializeToString()):
        with pytest.raises(headers.NOT_AS_EXPECTED):
            headers.split_message(other_bytes)


def test_only_a_body_may_follow_the_header() -> None:
    end = len(data(""))
    assert headers.require_body(data(), end) == end + 2
    for behind in (b"\x12\x05body", b"\x12\x03body", b"\x0a\x04body", b"\x12"):
        with pytest.raises(headers.NOT_AS_EXPECTED):
            headers.require_body(data("") + behind, end)


def test_body_has_to_be_text() -> None:
    end = len(data(""))
    assert headers.body_text(data(""), end) == ""
    with pytest.raises(headers.NOT_AS_EXPECTED):
        headers.body_text(data("") + b"\x12\x01\xff", end)


@pytest.mark.parametrize(
    "src", [Position("Worker", "All", "0"), Position("Worker", "0", "1,2"), Position("x", "0", "0")]
)
def test_sender_is_one_node(src: Position) -> None:
    headers.require_sender(WORKER)
    with pytest.raises(Refusal) as refused:
        headers.require_sender(src)
    assert refused.value.code == Code.NIL_POSITION


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_001])
def test_text_is_checked_by_pieces(size: int) -> None:
    """Characters of several bytes lie across the ends of pieces."""
    end = len(data(""))
    for text in ("x" * size, "é" * size, "x" * (size % 3) + "語" * size, "x" + "𝄞" * size):
        whole = data(text)
        headers.require_text(whole, end)
        for broken in (b"\xff", "語".encode()[:2], b"\xed\xa0\x80"):
            bad = whole[:end] + b"\x12" + varint(len(text.encode()) + len(broken)) + text.encode() + broken
            with pytest.raises(headers.NOT_AS_EXPECTED):
                headers.require_text(bad, end)


def test_check_of_the_largest_body_needs_no_copy_of_it() -> None:
    whole = data("x" * (8 * 1024 * 1024 - 200))
    end = headers.header_end(whole)
    tracemalloc.start()
    try:
        headers.require_text(whole, end)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()
