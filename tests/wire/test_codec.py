"""Bytes ↔ types: the very bytes of the generated classes, the contract's order of faults, and nothing but refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from taskd_net import Code, Message, Position
from taskd_net.base import limits
from taskd_net.base import position as position_module
from taskd_net.base.codes import Refusal
from taskd_net.base.position import Destination
from taskd_net.core.frame import Ack, Adapted, Frame
from taskd_net.net.wire import codec
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.fields import varint
from tests.wire.known import read_known_frame

pytestmark = pytest.mark.oldest

TEXT = st.text(max_size=20)
RANK = st.integers(0, 300).map(str)
RANKS = st.one_of(RANK, st.just("All"), st.lists(RANK, min_size=1, max_size=4).map(",".join))
NODES = st.one_of(
    st.builds(Position.worker, RANK, RANK),
    st.builds(Position.proxy, RANK),
    st.builds(lambda server, process: Position("Agent", server, process), RANK, TEXT),
    st.just(Position.mgr()),
)
DESTINATIONS = st.one_of(
    st.builds(lambda server, process: Position("Worker", server, process), RANKS, RANKS),
    st.builds(Position, st.sampled_from(["Mgr", "Proxy", "Agent"]), RANKS, TEXT),
)
# Times of real clocks, the bounds of a six-byte varint, and all other numbers.
TIMES = st.one_of(
    st.integers(1_700_000_000_000, 1_900_000_000_000),
    st.integers(2**35 - 2, 2**35 + 2),
    st.integers(2**42 - 2, 2**42 + 2),
    st.integers(-(2**63), 2**63 - 1),
)
MESSAGES = st.builds(
    Message,
    uuid=TEXT,
    mtype=TEXT.filter(lambda mtype: not mtype.startswith("taskd-net/probe")),  # kept for probes: see there
    sync=st.booleans(),
    src=NODES,
    dst=DESTINATIONS,
    create_time=TIMES,
    body=st.one_of(TEXT, st.integers(100, 20_000).map(lambda size: "ü" * size)),
)


def wire(position: Position) -> Any:
    """A position as the generated class has it."""
    return pb.Position(role=position.role, serverRank=position.server_rank, processRank=position.process_rank)


def position(written: Any) -> Position:
    """A position of the generated class, as ours."""
    return Position(written.role, written.serverRank, written.processRank)


def generated(message: Message) -> Any:
    """A message as the generated classes have it."""
    return pb.Message(
        header=pb.MessageHeader(
            uuid=message.uuid,
            mtype=message.mtype,
            sync=message.sync,
            src=wire(message.src),
            dst=wire(message.dst),
            createTime=message.create_time,
        ),
        body=message.body,
    )


def message(body: str = "body", to: Position | None = None, **fields: Any) -> Message:
    """A message that is in order."""
    dst = Position.worker(0, 3) if to is None else to
    return Message("u", "default", True, Position.mgr(), dst, 1_700_000_000_000, body)._replace(**fields)


def refusal_of(work: Callable[..., object], *arguments: object) -> Refusal:
    """The refusal of reading or writing."""
    with pytest.raises(Refusal) as refused:
        work(*arguments)
    return refused.value


def outcome(read: Callable[[bytes], Frame], data: bytes) -> tuple[Any, ...] | str:
    """The frame that is read, or why it is refused."""
    try:
        return seen(read(data))
    except Refusal as refusal:
        return f"{refusal.code} {refusal.detail} {refusal.uuid} {refusal.sync}"


def seen(frame: Frame) -> tuple[Any, ...]:
    """A frame in a form that can be compared."""
    return frame.uuid, frame.sync, frame.src, frame.dst, frame.data


@given(MESSAGES)
@example(message("", uuid="", mtype="", sync=False, create_time=0))
@example(message(create_time=-1))
@example(message("x" * 127))
@example(message("x" * 128))
@example(message("x" * 2**14))
def test_message_is_written_as_the_generated_classes_write_it(message: Message) -> None:
    dst = Destination.of(message.dst)
    expected = generated(message._replace(dst=dst.position)).SerializeToString(deterministic=True)
    assert seen(codec.write_message(message)) == (message.uuid, message.sync, message.src, dst, expected)


@given(st.builds(Ack, TEXT, st.one_of(st.sampled_from(Code), st.integers(0, 2**32 - 1)), NODES, TEXT))
def test_ack_is_written_as_the_generated_class_writes_it(ack: Ack) -> None:
    expected = pb.Ack(uuid=ack.uuid, code=ack.code, src=wire(ack.src)).SerializeToString(deterministic=True)
    assert codec.write_ack(ack) == expected


@pytest.mark.parametrize(
    ("dst", "code"),
    [
        (Position("Boss", "x", "x"), 4003),
        (Position("Worker", "x", "x"), 4004),
        (Position("Worker", "0", "x"), 4005),
        (Position("Proxy", ",".join(["0"] * 20_000)), 4006),
    ],
)
def test_destination_is_checked_when_a_message_is_written(dst: Position, code: int) -> None:
    body = "\ud800" * limits.MESSAGE_BYTES  # faults that would come later
    assert refusal_of(codec.write_message, message(body, dst)).code == code


@pytest.mark.parametrize("field", ["body", "mtype", "uuid"])
def test_text_with_a_lone_surrogate_cannot_be_sent(field: str) -> None:
    text: dict[str, Any] = {field: "x\ud83d" * 1000}
    refusal = refusal_of(codec.write_message, message()._replace(**text))
    assert refusal.code == Code.CLIENT_ERR
    assert len(refusal.detail) < 100
    assert refusal_of(codec.write_message, message()._replace(**text)).code == Code.CLIENT_ERR


def test_own_position_with_a_lone_surrogate_cannot_be_sent() -> None:
    src = Position("Agent", "0", "\ud800")
    assert refusal_of(codec.write_message, message(src=src)).code == Code.CLIENT_ERR


def test_largest_message_passes_and_one_byte_more_is_4999_with_size_and_limit() -> None:
    rest = len(codec.write_message(message("x" * 3_000_000)).data) - 3_000_000
    body = "x" * (limits.MESSAGE_BYTES - rest)
    largest = codec.write_message(message(body))
    assert len(largest.data) == limits.MESSAGE_BYTES == 8_388_608
    for read in (codec.read_frame, read_known_frame):
        assert read(largest.data).data == largest.data
    refusal = refusal_of(codec.write_message, message(body + "x"))
    assert (refusal.code, "8388609" in refusal.detail, "8388608" in refusal.detail) == (Code.CLIENT_ERR, True, True)
    too_large = generated(message(body + "x")).SerializeToString()
    for read in (codec.read_frame, read_known_frame):
        refusal = refusal_of(read, too_large)
        assert (refusal.code, refusal.uuid, refusal.sync) == (Code.CLIENT_ERR, "u", True)
        assert "8388609" in refusal.detail


@given(MESSAGES)
def test_message_comes_back(message: Message) -> None:
    assume(message.uuid)
    frame = codec.write_message(message)
    assert codec.read_message(frame) == message._replace(dst=Destination.of(message.dst).position)
    for read in (codec.read_frame, read_known_frame):
        assert seen(read(frame.data)) == seen(frame)
    assert codec.read_uuid(frame.data) == message.uuid


GOOD, NOBODY = Position.worker(0, 3), Position("", "", "")
BAD_ROLE, BAD_SERVER, BAD_PROCESS = Position("x", "x", "x"), Position("Worker", "x", "x"), Position("Worker", "0", "x")
LIST = Position("Proxy", ",".join(["0"] * 20_000), "")


def faulty(src: Position | None, dst: Position | None, uuid: str = "u", size: int = 0) -> bytes:
    """A message with faults."""
    header = pb.MessageHeader(uuid=uuid, sync=True)
    if src is not None:
        header.src.CopyFrom(wire(src))
    if dst is not None:
        header.dst.CopyFrom(wire(dst))
    data: bytes = pb.Message(header=header, body="x" * size).SerializeToString()
    return data


HUGE = limits.MESSAGE_BYTES


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"\xff\xff", 4000, id="garbage"),
        pytest.param(b"\x0a\x03\x0a\x01\xff", 4000, id="uuid is not UTF-8"),
        pytest.param(b"\x12\x01\xff", 4000, id="body is not UTF-8, and no header"),
        pytest.param(b"", 4001, id="nothing in it"),
        pytest.param(pb.Message(body="x" * HUGE).SerializeToString(), 4001, id="no header, too large"),
        pytest.param(b"\x0a\x00", 4002, id="an empty header"),
        pytest.param(faulty(None, BAD_ROLE), 4002, id="no src, bad dst"),
        pytest.param(faulty(BAD_ROLE, None, ""), 4002, id="no dst, bad src, no uuid"),
        pytest.param(faulty(BAD_ROLE, BAD_ROLE, ""), 4003, id="bad role in both, no uuid"),
        pytest.param(faulty(GOOD, NOBODY, size=HUGE), 4003, id="an empty dst, too large"),
        pytest.param(faulty(BAD_ROLE, BAD_SERVER), 4004, id="bad server and process, bad src"),
        pytest.param(faulty(BAD_SERVER, BAD_PROCESS, ""), 4005, id="bad process, bad src, no uuid"),
        pytest.param(faulty(BAD_ROLE, LIST), 4006, id="list too long, bad src"),
        pytest.param(faulty(BAD_PROCESS, GOOD, "", HUGE), 4002, id="src names no node, no uuid, too large"),
        pytest.param(faulty(NOBODY, GOOD), 4002, id="an empty src"),
        pytest.param(faulty(Position("Worker", "All", "0"), GOOD), 4002, id="src is a wildcard"),
        pytest.param(faulty(GOOD, GOOD, ""), 4999, id="no uuid"),
        pytest.param(faulty(GOOD, GOOD, "", HUGE), 4999, id="no uuid, too large"),
        pytest.param(faulty(GOOD, GOOD, "u", HUGE), 4999, id="too large"),
    ],
)
def test_of_several_faults_the_first_of_the_contracts_order_is_told(data: bytes, code: int) -> None:
    refusal = refusal_of(codec.read_frame, data)
    assert refusal.code == code
    assert len(refusal.detail) < 300
    header = code not in (4000, 4001)
    has_uuid = header and bool(pb.Message.FromString(data).header.uuid)
    assert (refusal.uuid, refusal.sync) == ("u" if has_uuid else "", header and data != b"\x0a\x00")
    again = refusal_of(read_known_frame, data) if code != 4000 or data == b"\xff\xff" else refusal
    assert (again.code, again.uuid, again.sync) == (refusal.code, refusal.uuid, refusal.sync)


@pytest.mark.parametrize("written", ["", "-1", "1700000000", "All", "0,3", "x"])
@pytest.mark.parametrize("role", ["Mgr", "Proxy", "Agent"])
def test_process_rank_of_a_destination_that_is_no_worker_becomes_minus_1(role: str, written: str) -> None:
    """On the wire too, as the next hop may be anybody's; every other field stays."""
    sent = message(to=Position(role, "0", written), body="ünïcode", create_time=-5)
    data = generated(sent).SerializeToString()
    for read in (codec.read_frame, read_known_frame):
        frame = read(data)
        assert frame.dst.position == Position(role, "0", "-1")
        assert pb.Message.FromString(frame.data) == generated(sent._replace(dst=Position(role, "0", "-1")))


def test_process_rank_of_a_source_stays_as_it_is() -> None:
    data = generated(message(src=Position("Agent", "0", "1700000000"))).SerializeToString()
    for read in (codec.read_frame, read_known_frame):
        assert read(data).src == Position("Agent", "0", "1700000000")
        assert read(data).data is data


def test_list_with_a_rank_twice_is_written_as_the_unicast_that_it_is() -> None:
    frame = codec.read_frame(generated(message(to=Position("Worker", "0,0", "3"))).SerializeToString())
    assert codec.read_message(frame).dst == Position.worker(0, 3)


ANY_POSITION = st.one_of(NODES, DESTINATIONS, st.builds(Position, TEXT, TEXT, TEXT))


def assemble(base: Message, src: Position | None, dst: Position | None, header: bool, extra: bytes) -> bytes:
    """A message of any peer: fields may be missing or wrong, and there may be one that is not known."""
    made = generated(base)
    for field, position in (("src", src), ("dst", dst)):
        made.header.ClearField(field)
        if position is not None:
            getattr(made.header, field).CopyFrom(wire(position))
    if not header:
        made.ClearField("header")
    unknown = b"\x7a" + bytes((len(extra),)) + extra if extra else b""
    data: bytes = made.SerializeToString()
    return data + unknown


ANY_MESSAGE = st.builds(
    assemble,
    MESSAGES,
    st.one_of(st.none(), ANY_POSITION),
    st.one_of(st.none(), ANY_POSITION),
    st.booleans(),
    st.binary(max_size=8),
)


@given(ANY_MESSAGE)
def test_known_frame_is_read_as_any_other(data: bytes) -> None:
    """`read_frame` and the reader of known frames accept and refuse alike."""
    frame = outcome(codec.read_frame, data)
    assert outcome(read_known_frame, data) == frame
    if isinstance(frame, tuple):
        # And what goes on to the next hop is read there as it was here.
        assert outcome(read_known_frame, frame[-1]) == frame


@given(ANY_MESSAGE, ANY_MESSAGE)
def test_message_with_fields_twice_is_read_alike_at_every_hop(one: bytes, other: bytes) -> None:
    """protobuf merges what comes twice; the first hop writes it so that nobody else has to."""
    frame = outcome(codec.read_frame, one + other)
    if isinstance(frame, tuple):
        for read in (codec.read_frame, read_known_frame):
            assert outcome(read, frame[-1]) == frame


def each(messages: Sequence[bytes], most: int = limits.MESSAGE_BYTES) -> list[tuple[Any, ...] | str]:
    """The outcomes of messages that are read together."""
    read = codec.read_known_frames(messages, most)
    assert len(read) == len(messages)

    def one(frame: Frame | Refusal) -> Frame:
        if isinstance(frame, Refusal):
            raise frame
        return frame

    return [outcome(lambda _, frame=frame: one(frame), b"") for frame in read]  # type: ignore[misc]


@given(st.lists(ANY_MESSAGE, max_size=4), st.integers(20, 120))
def test_messages_together_are_read_as_each_alone(messages: list[bytes], most: int) -> None:
    alone = [outcome(lambda data: read_known_frame(data, most), data) for data in messages]
    assert each(messages, most) == alone
    # Behind themselves as well, where the second look at a header of the same flow is a short one.
    assert each([data for data in messages for _ in range(2)], most) == [one for one in alone for _ in range(2)]


@given(MESSAGES, st.integers(0), st.binary(max_size=3), st.integers(0, 3))
def test_damage_is_seen_behind_a_message_of_the_same_flow(
    message: Message, where: int, change: bytes, gone: int
) -> None:
    whole = codec.write_message(message._replace(uuid=message.uuid or "u")).data
    where %= len(whole)
    damaged = whole[:where] + change + whole[where + gone :]
    for data in (damaged, whole[:where]):
        assert each([whole, data, whole]) == [outcome(read_known_frame, one) for one in (whole, data, whole)]


def test_known_frame_is_read_without_its_body() -> None:
    """The first hop has checked it; a fault in it harms nothing here."""
    header = pb.Message(header=generated(message()).header).SerializeToString()
    assert read_known_frame(header + b"\x12\x01\xff").uuid == "u"


@given(MESSAGES, st.integers(0), st.binary(max_size=4), st.booleans())
def test_header_is_never_read_otherwise_than_the_generated_class_reads_it(
    message: Message, where: int, change: bytes, grow: bool
) -> None:
    """A header with `src` twice must name the same sender on every hop."""
    message = message._replace(uuid=message.uuid or "u", body="")
    header = bytearray(generated(message).header.SerializeToString())
    where %= len(header)
    header[where : where + (0 if grow else len(change))] = change
    data = pb.Message(header=pb.MessageHeader()).SerializeToString()[:1] + varint(len(header)) + header
    view = outcome(read_known_frame, data)
    if isinstance(view, tuple):
        read = pb.Message.FromString(data).header
        frame = read_known_frame(data)
        assert (frame.uuid, frame.sync) == (read.uuid, read.sync)
        assert (frame.src, frame.dst) == (position(read.src), Destination.of(position(read.dst)))
        assert codec.read_message(frame)[:6] == (
            read.uuid,
            read.mtype,
            read.sync,
            frame.src,
            frame.dst.position,
            read.createTime,
        )


def test_uuid_that_comes_twice_is_read_as_the_generated_class_reads_it() -> None:
    parts = [pb.MessageHeader(uuid="u"), pb.MessageHeader(uuid="v"), generated(message()).header]
    parts[2].ClearField("uuid")
    header = b"".join(part.SerializeToString() for part in parts)
    data = b"\x0a" + varint(len(header)) + header
    assert read_known_frame(data).uuid == pb.Message.FromString(data).header.uuid == "v"


@given(MESSAGES, st.binary(max_size=8))
def test_message_with_something_behind_its_body_is_read_all_the_same(message: Message, extra: bytes) -> None:
    frame = codec.write_message(message)
    unknown = b"\x7a" + bytes((len(extra),)) + extra
    assert codec.read_message(Frame(frame.uuid, frame.sync, frame.src, frame.dst, frame.data + unknown)) == (
        codec.read_message(frame)
    )


def test_message_whose_body_is_not_text_is_refused() -> None:
    header = generated(message()).header
    frame = read_known_frame(pb.Message(header=header).SerializeToString() + b"\x12\x01\xff")
    assert refusal_of(codec.read_message, frame).code == Code.NIL_MESSAGE


READERS: list[Callable[[bytes], object]] = [
    codec.read_frame,
    read_known_frame,
    lambda data: codec.read_ack(data, Position.mgr()),
    codec.read_uuid,
]


@given(st.binary(max_size=60), st.sampled_from(READERS))
def test_garbage_is_refused_and_never_more(data: bytes, read: Callable[[bytes], object]) -> None:
    with contextlib.suppress(Refusal):
        read(data)


@given(MESSAGES, st.integers(0), st.integers(0, 255), st.sampled_from(READERS))
def test_damaged_message_is_refused_and_never_more(
    message: Message, where: int, byte: int, read: Callable[[bytes], object]
) -> None:
    data = bytearray(codec.write_message(message).data)
    data[where % len(data)] = byte
    for damaged in (bytes(data), bytes(data[: where % len(data)])):
        with contextlib.suppress(Refusal):
            read(damaged)


def test_uuid_is_read_where_there_is_one() -> None:
    assert codec.read_uuid(codec.write_message(message()).data) == "u"
    assert codec.read_uuid(b"") == codec.read_uuid(b"\xff\xff") == ""


@given(st.builds(Ack, TEXT, st.integers(0, 2**32 - 1), NODES, st.just(""), st.none(), st.just(())))
def test_ack_comes_back(ack: Ack) -> None:
    assert codec.read_ack(codec.write_ack(ack), Position("Proxy", "9")) == ack


def test_ack_without_a_source_is_its_peers() -> None:
    data = pb.Ack(uuid="u", code=5001).SerializeToString()
    assert codec.read_ack(data, Position.proxy(9)) == Ack("u", 5001, Position.proxy(9))
    refusal = refusal_of(lambda data: codec.read_ack(data, Position.proxy(9)), b"\xff")
    assert (refusal.code, "Proxy/9" in refusal.detail) == (Code.NET_ERR, True)


@pytest.mark.parametrize("length", [position_module.REMEMBERED_CHARS, position_module.REMEMBERED_CHARS + 1, 1_000_000])
def test_source_of_an_ack_that_names_no_node_is_its_peers(length: int) -> None:
    """Answers wait by their number: one of 1 MiB must not be passed on."""
    far = Position("x" * length, "", "")
    read = codec.read_ack(codec.write_ack(Ack("u", 5001, far)), Position.proxy(9))
    assert read.src == (far if length <= position_module.REMEMBERED_CHARS else Position.proxy(9))


def _written(frame: Frame) -> pb.Message:
    return pb.Message.FromString(codec.write_checked(frame))


def test_checked_message_that_is_in_order_stays_as_it_is() -> None:
    message = codec.Message("u", "m", True, Position.mgr(), Position.parse("Worker/All/0,1"), 5, "body")
    frame = codec.write_message(message)
    assert codec.write_checked(frame) is frame.data


def test_adapted_message_says_what_its_frame_says() -> None:
    message = codec.Message("u", "m", True, Position.mgr(), Position.parse("Agent/All"), 5, "body")
    frame = codec.write_message(message)
    dst = Destination.of(Position.parse("Agent/0"))
    spelled = replace(dst, position=Position("Agent", "0", "77"))
    written = _written(Adapted(frame.uuid, False, frame.src, spelled, frame.data))
    header = written.header
    assert (header.uuid, header.mtype, header.sync, header.createTime, written.body) == ("u", "m", False, 5, "body")
    assert (header.dst.role, header.dst.serverRank, header.dst.processRank) == ("Agent", "0", "77")
    assert header.HasField("src")


def test_checked_message_with_bytes_that_nobody_looked_at() -> None:
    """A node of ours looks at the header of what another one of ours has checked; garbage behind it ends here."""
    frame = codec.write_message(codec.Message("u", "m", True, Position.mgr(), Position.mgr(), 5, "body"))
    frame.data = frame.data.replace(b"body", b"bo\xff\xfe")
    with pytest.raises(Refusal, match="not a Message"):
        codec.write_checked(frame)
    frame.data += b"\x0a\x00"
    with pytest.raises(Refusal, match="not a Message"):
        codec.write_checked(frame)
    # Twice the same field can be read; after this everybody reads the same in it.
    frame.data = frame.data[:-2].replace(b"bo\xff\xfe", b"body") + b"\x12\x01x"
    assert _written(frame).body == "x"
