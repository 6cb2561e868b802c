"""Frames of a link over a plain socket ↔ bytes. Nothing here does I/O: bytes come in cut anywhere, frames come out.

A frame is four bytes of length, one byte of kind, and so many bytes of payload; numbers are little-endian. The first
frame of a child is a greeting, the first one of a parent `ACCEPTED` or `END`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from taskd_net.base.codes import TaskdNetError

READ_BYTES: Final = 128 * 1024
"""Bytes of the buffer that all direct links of an event loop read into, and so of one read: more small messages than
may be in flight to a leaf. A larger frame is put together in a buffer of its link; its first read is copied there."""

OWN_BYTES: Final = 4 * 1024
"""Least bytes of a link's own buffer, for the beginning of a frame. It ends with the frame."""

GROWN_BYTES: Final = 64 * 1024
"""Bytes of the buffer of a frame whose first OWN_BYTES have come. It is doubled when it is full, up to the
frame's length. Python clears a new buffer, so a length of 8 MiB alone would cost 8 MiB."""

FRAME_BYTES: Final = 1024 * 1024 + 64 * 1024
"""Bytes of a buffer that an event loop keeps for its next large frame: any batch (DIRECT_BATCH_BYTES), and a message
with a body of 1 MiB, come in without growth."""

SPARES: Final = 4
"""Such buffers at most: as many large frames as came at the same time. With one, eight senders of 1 MiB each cost a
tenth more."""

VIEWED_BYTES: Final = 16 * 1024
"""Bytes of a batch from which on it is read where it lies. Reading a view costs a microsecond more, copying 16 KiB as
much."""

TOKEN_BYTES: Final = 32
"""Bytes of the random token that a parent gives to a child for one direct link: nobody guesses it."""

HEAD: Final = struct.Struct("<IB")
"""The bytes before a payload: its length, and the kind of the frame."""
_MESSAGE: Final = struct.Struct("<QIB")
_MESSAGE_HEAD: Final = struct.Struct("<IBQIB")
_DELIVERED: Final = struct.Struct("<QB")
_DELIVERED_FRAME: Final = struct.Struct("<IBQB")
_MAGIC: Final = b"taskd-net direct"
VERSION: Final = 4
"""Of offers and greetings: a new frame, or a request of another kind, needs the next one. A parent and a child of
different versions do without direct links. Version 1 had no `MESSAGE` and no `DELIVERED`, version 2
no renewal over the link, version 3 smaller batches."""
_GREETING: Final = struct.Struct(f"<{len(_MAGIC)}sBB{TOKEN_BYTES}s")
_CONTINUES: Final = 1
_JOINED: Final = {None: b"\x00", True: b"\x01", False: b"\x02"}


class FrameKind(IntEnum):
    """The kinds of frame."""

    BATCH = 0
    """A `Batch` of `link.proto`."""
    GREETING = 1
    """The child's first frame."""
    ACCEPTED = 2
    """The parent's first frame: one byte, 1 or 2 where the parent has joined or has not, 0 where it does not tell."""
    PING = 3
    """A question for a sign of life, without payload."""
    PONG = 4
    """Its answer."""
    END = 5
    """The sender's last frame; the payload is the reason, empty for a link that goes on over another socket."""
    REQUEST = 6
    """A `Request` of `link.proto`, from the child."""
    REPLY = 7
    """The `Reply` of the parent."""
    MESSAGE = 8
    """A batch of one message: its number and patience, the batches taken in, and the message. As in `link.proto`."""
    DELIVERED = 9
    """A batch of one answer 0: the number of the message, and the batches taken in."""


class FrameError(TaskdNetError):
    """The bytes are not those of a link; the text says why."""


class Greeting(NamedTuple):
    """The child's first frame.

    Attributes:
        token: from the parent's answer to Register, which names the registration.
        continues: the link goes on where another one of the same child comes to rest.
    """

    token: bytes
    continues: bool


def write_frame(kind: FrameKind, payload: bytes = b"") -> bytes:
    """One frame."""
    return HEAD.pack(len(payload), kind) + payload


def write_greeting(greeting: Greeting) -> bytes:
    """A child's first frame."""
    flags = _CONTINUES if greeting.continues else 0
    return write_frame(FrameKind.GREETING, _GREETING.pack(_MAGIC, VERSION, flags, greeting.token))


def read_greeting(kind: int, payload: bytes) -> Greeting:
    """Read a child's first frame.

    Raises:
        FrameError: it is no greeting, or one of another version.
    """
    if kind != FrameKind.GREETING or len(payload) != _GREETING.size:
        raise FrameError("the first frame is no greeting")
    magic, version, flags, token = _GREETING.unpack(payload)
    if magic != _MAGIC:
        raise FrameError("the greeting is of another protocol")
    if version != VERSION:
        raise FrameError(f"the greeting is of version {version}, not {VERSION}")
    return Greeting(token, bool(flags & _CONTINUES))


def write_accepted(joined: bool | None) -> bytes:
    """A parent's first frame. `joined`: whether it has joined; None: the child does not hear that."""
    return write_frame(FrameKind.ACCEPTED, _JOINED[joined])


def read_accepted(payload: bytes) -> bool | None:
    """Read whether the parent has joined; None where it does not tell."""
    return {value: joined for joined, value in _JOINED.items()}.get(payload)


def write_message(number: int, patience: int, taken: int, message: bytes) -> bytes:
    """A batch of one message. `patience` is in milliseconds, and `taken` at most 255."""
    return _MESSAGE_HEAD.pack(_MESSAGE.size + len(message), FrameKind.MESSAGE, number, patience, taken) + message


def read_message(payload: bytes | memoryview) -> tuple[int, int, int, bytes]:
    """Read a batch of one message: its number, its patience, the batches taken in, and the message.

    Raises:
        FrameError: it is too short.
    """
    if len(payload) < _MESSAGE.size:
        raise FrameError(f"a message of {len(payload)} bytes")
    number, patience, taken = _MESSAGE.unpack_from(payload)
    return number, patience, taken, bytes(payload[_MESSAGE.size :])


def write_delivered(number: int, taken: int) -> bytes:
    """A batch of one answer 0. `taken` is at most 255."""
    return _DELIVERED_FRAME.pack(_DELIVERED.size, FrameKind.DELIVERED, number, taken)


def read_delivered(payload: bytes | memoryview) -> tuple[int, int]:
    """Read a batch of one answer 0: the number of the message, and the batches taken in.

    Raises:
        FrameError: it has another size.
    """
    if len(payload) != _DELIVERED.size:
        raise FrameError(f"an answer of {len(payload)} bytes")
    return _DELIVERED.unpack(payload)


class Buffers:
    """The buffers that all direct links of one event loop read into.

    Most reads end with a whole frame, so one buffer serves every link. Spare ones are for large frames that come in
    several reads: a new buffer would be cleared first and grow, which costs more than reading into it.

    Attributes:
        shared: nobody else writes into it between `FrameReader.space` and `FrameReader.keep`.
    """

    __slots__ = ("_spares", "shared")

    def __init__(self, size: int = READ_BYTES) -> None:
        self.shared = memoryview(bytearray(size))
        self._spares: list[memoryview] = []

    def take(self, size: int, frame: int) -> memoryview:
        """A buffer of at least `size` bytes, for a frame of `frame` bytes. A large frame gets a spare one."""
        if frame >= READ_BYTES and size <= FRAME_BYTES:
            if self._spares:
                return self._spares.pop()
            if 2 * size > FRAME_BYTES:
                size = FRAME_BYTES
        return memoryview(bytearray(size))

    def give_back(self, buffer: memoryview) -> None:
        """Keep a large buffer, which is free again, for the next large frame of any link."""
        if len(buffer) == FRAME_BYTES and len(self._spares) < SPARES:
            self._spares.append(buffer)


class FrameReader:
    """The frames in a stream of bytes, which a transport writes into a buffer of this object.

    Most reads end with a whole frame, so all links of an event loop share one buffer. A link has one of its own only
    for bytes that wait: the beginning of a frame, whose bound is checked before, or frames that nobody takes yet.

    Args:
        most: bytes of a payload at most.
        buffers: of the event loop.

    Attributes:
        most: the same; it may change between frames.
        empty: no bytes are left.
        size: bytes of the link's own buffer; 0 without one.
    """

    __slots__ = ("_buffers", "_end", "_frame", "_shared", "_start", "_view", "empty", "most", "size")

    def __init__(self, most: int, buffers: Buffers) -> None:
        self.most = most
        self._buffers = buffers
        self._shared = self._view = buffers.shared
        # The bytes of the frame that has begun, as far as they are known.
        self._start = self._end = self._frame = self.size = 0
        self.empty = True

    @property
    def held(self) -> int:
        """Bytes that are left."""
        return self._end - self._start

    def space(self, _: int = -1) -> memoryview:
        """The part of the buffer for the next bytes. Never empty."""
        if self.empty:
            return self._shared
        if self._end == len(self._view):
            held = self._end - self._start
            if held < self._frame:
                self._make_room(self._grown(held))
            else:
                self._make_room(max(held + OWN_BYTES, min(2 * held, self.most)))
        return self._view[self._end :]

    def received(self, count: int) -> None:
        """So many bytes were written to the beginning of `space`."""
        self._end += count
        self.empty = False

    def next(self) -> tuple[int, bytes | memoryview] | None:
        """The kind and payload of the next frame; None until more bytes are there.

        A large batch is a view, which is good until the next call.

        Raises:
            FrameError: the frame is larger than it may be.
        """
        start, end = self._start, self._end
        if end - start < _HEAD_SIZE:
            if not self.empty:
                self._make_room(_HEAD_SIZE)
            return None
        view = self._view
        size, kind = _unpack_head(view, start)
        if size > self.most:
            raise FrameError(f"a frame of {size} bytes; the limit is {self.most}")
        start += _HEAD_SIZE
        behind = start + size
        if behind > end:
            self._frame = _HEAD_SIZE + size
            if view is self._shared:
                self._make_room(self._grown(end - self._start))
            return None
        self._frame = 0
        if behind == end:
            self._start = self._end = 0
            self.empty = True
            if view is not self._shared:
                self.drop()
        else:
            self._start = behind
        payload = view[start:behind]
        return kind, payload if size >= VIEWED_BYTES and kind in _VIEWED else bytes(payload)

    def keep(self) -> None:
        """Take what is left out of the shared buffer: somebody else reads next."""
        if not self.empty and self._view is self._shared:
            self._replace(max(self._end - self._start, OWN_BYTES))

    def drop(self) -> None:
        """Let go of what is left: it is taken, or nobody takes it any more."""
        if self._view is not self._shared:
            self._buffers.give_back(self._view)
            self._view = self._shared
        self._start = self._end = self._frame = self.size = 0
        self.empty = True

    def _grown(self, held: int) -> int:
        """Bytes of the buffer for a frame of which so many have come: its length alone takes no memory."""
        if held < OWN_BYTES:
            return min(self._frame, OWN_BYTES)
        return min(self._frame, max(2 * held, GROWN_BYTES))

    def _make_room(self, needed: int) -> None:
        """Have room for so many bytes, of which the first ones are there."""
        if self._view is self._shared or needed > len(self._view):
            self._replace(max(needed, OWN_BYTES))
        elif self._start + needed > len(self._view):
            held = bytes(self._view[self._start : self._end])
            self._view[: len(held)] = held
            self._start, self._end = 0, len(held)

    def _replace(self, size: int) -> None:
        before, held = self._view, self._view[self._start : self._end]
        self._view = self._buffers.take(size, self._frame)
        self._view[: len(held)] = held
        self.size = len(self._view)
        self._start, self._end = 0, len(held)
        if before is not self._shared:
            self._buffers.give_back(before)


_HEAD_SIZE: Final = HEAD.size
_unpack_head: Final = HEAD.unpack_from
_VIEWED: Final = (int(FrameKind.BATCH), int(FrameKind.MESSAGE))
