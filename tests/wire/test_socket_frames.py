"""Frames of a link over a socket: bytes cut anywhere, and bytes that are no frames."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base import limits
from taskd_net.net.links import direct_socket
from taskd_net.net.wire import socket_frames
from taskd_net.net.wire.socket_frames import (
    HEAD,
    Buffers,
    FrameError,
    FrameKind,
    FrameReader,
    Greeting,
    read_accepted,
    read_delivered,
    read_greeting,
    read_message,
    write_accepted,
    write_delivered,
    write_frame,
    write_greeting,
    write_message,
)

TOKEN = bytes(range(32))


class Reader(FrameReader):
    """A reader whose buffers the test looks at."""

    def __init__(self, most: int, buffers: Buffers) -> None:
        super().__init__(most, buffers)
        self.buffers = buffers

    @property
    def shared(self) -> memoryview:
        """The buffer of all."""
        return self.buffers.shared


def reader_of(most: int, size: int = socket_frames.READ_BYTES) -> Reader:
    """A reader with a shared buffer of so many bytes."""
    return Reader(most, Buffers(size))


def fed(reader: Reader, data: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    """The frames of a stream that arrives in pieces of these sizes, in turn, at most as large as the space."""
    got, at, turn = [], 0, 0
    while at < len(data):
        space = reader.space()
        assert len(space) > 0
        piece = data[at : at + max(1, min(len(space), cuts[turn % len(cuts)]))]
        space[: len(piece)] = piece
        reader.received(len(piece))
        at, turn = at + len(piece), turn + 1
        while (frame := reader.next()) is not None:
            got.append((frame[0], bytes(frame[1])))
        reader.keep()
        # Somebody else reads.
        reader.shared[:] = bytes(len(reader.shared))
    return got


@given(
    st.lists(
        st.tuples(
            st.sampled_from(FrameKind), st.integers(0, 300) | st.sampled_from([4000, 4091, 4092, 70_000, 200_000])
        ),
        max_size=12,
    ),
    st.lists(st.integers(1, 5000) | st.just(1_000_000), min_size=1, max_size=5),
)
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(
    frames: list[tuple[FrameKind, int]], cuts: list[int]
) -> None:
    payloads = [(kind, bytes([index]) * size) for index, (kind, size) in enumerate(frames)]
    stream = b"".join(write_frame(kind, payload) for kind, payload in payloads)
    # A stream of megabytes, byte by byte, took minutes.
    cuts = [max(cut, len(stream) // 2_000) for cut in cuts]
    assert fed(reader_of(limits.RECEIVE_BYTES), stream, cuts) == payloads
    assert fed(reader_of(limits.RECEIVE_BYTES, 100), stream, cuts) == payloads


def test_one_byte_at_a_time() -> None:
    payloads = [(FrameKind.BATCH, b"x" * size) for size in (0, 1, 5000)]
    stream = b"".join(write_frame(kind, payload) for kind, payload in payloads)
    assert fed(reader_of(limits.RECEIVE_BYTES), stream, [1]) == payloads


def test_length_of_4_gib_is_refused_before_any_memory_is_taken() -> None:
    reader = reader_of(limits.RECEIVE_BYTES)
    with pytest.raises(FrameError, match="a frame of 4294967295 bytes; the limit is"):
        fed(reader, struct.pack("<IB", 0xFFFF_FFFF, FrameKind.BATCH), [5])
    reader.keep()
    assert len(reader.space()) <= socket_frames.OWN_BYTES


@pytest.mark.parametrize(("size", "taken"), [(1000, True), (1001, False)])
def test_bound_is_exact(size: int, taken: bool) -> None:
    reader = reader_of(1000)
    if taken:
        assert fed(reader, write_frame(FrameKind.BATCH, b"x" * size), [2000]) == [(FrameKind.BATCH, b"x" * size)]
    else:
        with pytest.raises(FrameError):
            fed(reader, write_frame(FrameKind.BATCH, b"x" * size), [2000])


def test_link_has_a_buffer_of_its_own_only_for_bytes_that_wait() -> None:
    reader = reader_of(limits.RECEIVE_BYTES)
    stream = write_frame(FrameKind.BATCH, b"x" * 1_000_000)
    assert fed(reader, stream[:100], [100]) == []
    assert reader.space().obj is not reader.shared.obj
    assert reader.size == socket_frames.OWN_BYTES
    assert fed(reader, stream[100:], [1_000_000]) == [(FrameKind.BATCH, b"x" * 1_000_000)]
    assert reader.space().obj is reader.shared.obj


def test_large_frames_take_turns_in_one_spare_buffer() -> None:
    """Two at a time have two; the next one finds one of them at its full length, and a small one never takes it."""
    buffers = Buffers()
    first, second = Reader(limits.RECEIVE_BYTES, buffers), Reader(limits.RECEIVE_BYTES, buffers)
    stream = write_frame(FrameKind.BATCH, b"x" * 1_000_000)
    seen: list[object] = []
    for reader in (first, second):
        fed(reader, stream[:999_999], [1_000_000])
        seen.append(reader.space().obj)
    assert seen[0] is not seen[1]
    for reader in (first, second):
        assert fed(reader, stream[999_999:], [1_000_000]) == [(FrameKind.BATCH, b"x" * 1_000_000)]
    small = write_frame(FrameKind.BATCH, b"x" * 1000)
    fed(second, small[:100], [100])
    assert len(second.space()) < socket_frames.READ_BYTES
    fed(first, stream[:100], [100])
    assert first.space().obj in seen and first.size > 1_000_000


def test_buffer_grows_with_the_bytes_of_a_frame_and_not_with_its_length() -> None:
    reader = reader_of(limits.RECEIVE_BYTES)
    stream = write_frame(FrameKind.BATCH, b"x" * limits.MESSAGE_BYTES)
    assert fed(reader, stream[:1000], [1000]) == []
    held, sizes, frame = 1000, set(), None
    while held < len(stream):
        space = reader.space()
        size = len(bytes(space.obj))
        sizes.add(size)
        # Buffers that may become spare ones have one size.
        assert size == reader.size <= max(socket_frames.GROWN_BYTES, 4 * held)
        piece = stream[held : held + min(len(space), 100_000)]
        space[: len(piece)] = piece
        reader.received(len(piece))
        held += len(piece)
        frame = reader.next()
        assert (frame is None) == (held < len(stream))
    assert frame is not None and frame[1] == stream[5:]
    assert len(sizes) < 12, "each growth copies what is there"


def test_frames_that_nobody_takes_wait_in_a_buffer_of_the_link() -> None:
    reader = reader_of(limits.RECEIVE_BYTES)
    stream = b"".join(write_frame(FrameKind.BATCH, bytes([number]) * 3000) for number in range(3))
    reader.space()[: len(stream)] = stream
    reader.received(len(stream))
    assert reader.next() == (FrameKind.BATCH, b"\x00" * 3000)
    reader.keep()
    reader.shared[:] = bytes(len(reader.shared))
    assert fed(reader, write_frame(FrameKind.PING), [100]) == [
        (FrameKind.BATCH, b"\x01" * 3000),
        (FrameKind.BATCH, b"\x02" * 3000),
        (FrameKind.PING, b""),
    ]


def test_reader_that_has_dropped_its_bytes_has_no_buffer_of_its_own() -> None:
    reader = reader_of(limits.RECEIVE_BYTES)
    fed(reader, write_frame(FrameKind.BATCH, b"x" * 1000)[:100], [100])
    reader.drop()
    assert reader.empty and reader.space().obj is reader.shared.obj


def test_large_batch_is_read_where_it_lies() -> None:
    reader = reader_of(limits.RECEIVE_BYTES)
    data = write_frame(FrameKind.BATCH, b"x" * socket_frames.VIEWED_BYTES)
    reader.space()[: len(data)] = data
    reader.received(len(data))
    frame = reader.next()
    assert frame is not None and isinstance(frame[1], memoryview) and frame[1].obj is reader.shared.obj


def test_head_is_that_of_the_frame() -> None:
    assert HEAD.pack(3, FrameKind.BATCH) + b"abc" == write_frame(FrameKind.BATCH, b"abc")


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=100))
def test_batch_of_one_message(number: int, patience: int, taken: int, message: bytes) -> None:
    data = write_message(number, patience, taken, message)
    ((kind, payload),) = fed(reader_of(1000), data, [1000])
    assert (kind, read_message(payload)) == (FrameKind.MESSAGE, (number, patience, taken, message))
    assert read_message(memoryview(payload)) == (number, patience, taken, message)


@given(st.integers(0, 2**64 - 1), st.integers(0, 255))
def test_batch_of_one_answer(number: int, taken: int) -> None:
    ((kind, payload),) = fed(reader_of(1000), write_delivered(number, taken), [1000])
    assert (kind, read_delivered(payload)) == (FrameKind.DELIVERED, (number, taken))


@pytest.mark.parametrize("size", [0, 8, 10])
def test_batch_of_one_that_has_another_size_is_refused(size: int) -> None:
    for read in (read_message, read_delivered):
        with pytest.raises(FrameError, match=f"of {size} bytes"):
            read(bytes(size))


@pytest.mark.parametrize("continues", [True, False])
def test_greeting(continues: bool) -> None:
    data = write_greeting(Greeting(TOKEN, continues))
    assert len(data) < direct_socket.GREETING_BYTES
    ((kind, payload),) = fed(reader_of(direct_socket.GREETING_BYTES), data, [7])
    assert read_greeting(kind, payload) == Greeting(TOKEN, continues)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (FrameKind.BATCH, write_greeting(Greeting(TOKEN, False))[5:]),
        (FrameKind.GREETING, b""),
        (FrameKind.GREETING, write_greeting(Greeting(TOKEN, False))[5:] + b"x"),
        (FrameKind.GREETING, b"GET / HTTP/1.1 4"[:16] + write_greeting(Greeting(TOKEN, False))[21:]),
        (FrameKind.GREETING, write_greeting(Greeting(TOKEN, False))[5:21] + b"\x02" + b"\x00" + TOKEN),
    ],
)
def test_first_frame_of_somebody_else_is_no_greeting(kind: FrameKind, payload: bytes) -> None:
    with pytest.raises(FrameError):
        read_greeting(kind, payload)


@pytest.mark.parametrize("joined", [True, False, None])
def test_acceptance_tells_whether_the_parent_has_joined(joined: bool | None) -> None:
    ((kind, payload),) = fed(reader_of(1000), write_accepted(joined), [100])
    assert (kind, read_accepted(payload)) == (FrameKind.ACCEPTED, joined)


def test_acceptance_of_a_later_version_tells_nothing() -> None:
    assert read_accepted(b"\x07") is None
