"""Frames of a link over a plain socket ↔ bytes. Nothing here does I/O: bytes come in cut anywhere, frames come out.

A frame is four bytes of length, one byte of kind, and so many bytes of payload; numbers are little-endian. The first
frame of a child is a greeting, the first one of a parent `ACCEPTED` or `END`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from taskd_net import link_limits
from taskd_net.codes import TaskdNetError

HEAD: Final = struct.Struct("<IB")
"""The bytes before a payload: its length, and the kind of the frame."""
_MAGIC: Final = b"taskd-net direct"
_VERSION: Final = 1
_GREETING: Final = struct.Struct(f"<{len(_MAGIC)}sBB{link_limits.DIRECT_TOKEN_BYTES}s")
_CONTINUES: Final = 1
_JOINED: Final = {None: b"\x00", True: b"\x01", False: b"\x02"}


class Kind(IntEnum):
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


def write_frame(kind: Kind, payload: bytes = b"") -> bytes:
    """One frame."""
    return HEAD.pack(len(payload), kind) + payload


def write_greeting(greeting: Greeting) -> bytes:
    """A child's first frame."""
    flags = _CONTINUES if greeting.continues else 0
    return write_frame(Kind.GREETING, _GREETING.pack(_MAGIC, _VERSION, flags, greeting.token))


def read_greeting(kind: int, payload: bytes) -> Greeting:
    """Read a child's first frame.

    Raises:
        FrameError: it is no greeting, or one of another version.
    """
    if kind != Kind.GREETING or len(payload) != _GREETING.size:
        raise FrameError("the first frame is no greeting")
    magic, version, flags, token = _GREETING.unpack(payload)
    if magic != _MAGIC or version != _VERSION:
        raise FrameError("the greeting is of another protocol or version")
    return Greeting(token, bool(flags & _CONTINUES))


def write_accepted(joined: bool | None) -> bytes:
    """A parent's first frame. `joined`: whether it has joined; None: the child does not hear that."""
    return write_frame(Kind.ACCEPTED, _JOINED[joined])


def read_accepted(payload: bytes) -> bool | None:
    """Read whether the parent has joined; None where it does not tell."""
    return {value: joined for joined, value in _JOINED.items()}.get(payload)


class FrameReader:
    """The frames in a stream of bytes, which a transport writes into a buffer of this object.

    Most reads end with a whole frame, so all links of an event loop share one buffer. A link has one of its own only
    for bytes that wait: the beginning of a frame, whose bound is checked before, or frames that nobody takes yet.

    Args:
        most: bytes of a payload at most.
        shared: the buffer of the event loop, where nobody else writes between `space` and `keep`. None: one of its own.

    Attributes:
        most, shared: the same; `most` may change between frames.
        empty: no bytes are left.
    """

    __slots__ = ("_end", "_start", "_view", "empty", "most", "shared")

    def __init__(self, most: int, shared: memoryview | None = None) -> None:
        self.most = most
        self.shared = self._view = shared or memoryview(bytearray(link_limits.DIRECT_READ_BYTES))
        self._start = self._end = 0
        self.empty = True

    def space(self, _: int = -1) -> memoryview:
        """The part of the buffer for the next bytes. Never empty."""
        if self.empty:
            return self.shared
        if self._end == len(self._view):
            held = self._end - self._start
            self._make_room(max(held + link_limits.DIRECT_OWN_BYTES, min(2 * held, self.most)))
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
            # A length alone costs a bounded part of it. The buffer grows with the bytes that come.
            self._make_room(min(_HEAD_SIZE + size, max(end - self._start, link_limits.DIRECT_FRAME_BYTES)))
            return None
        if behind == end:
            self._view, self._start, self._end, self.empty = self.shared, 0, 0, True
        else:
            self._start = behind
        payload = view[start:behind]
        return kind, payload if size >= link_limits.DIRECT_VIEWED_BYTES and kind == _BATCH else bytes(payload)

    def keep(self) -> None:
        """Take what is left out of the shared buffer: somebody else reads next."""
        if not self.empty and self._view is self.shared:
            self._replace(max(self._end - self._start, link_limits.DIRECT_OWN_BYTES))

    def _make_room(self, needed: int) -> None:
        """Have room for so many bytes, of which the first ones are there."""
        if self._view is self.shared or needed > len(self._view):
            self._replace(max(needed, link_limits.DIRECT_OWN_BYTES))
        elif self._start + needed > len(self._view):
            held = bytes(self._view[self._start : self._end])
            self._view[: len(held)] = held
            self._start, self._end = 0, len(held)

    def drop(self) -> None:
        """Let go of what is left: nobody takes it any more."""
        self._view, self._start, self._end, self.empty = self.shared, 0, 0, True

    def _replace(self, size: int) -> None:
        held = self._view[self._start : self._end]
        self._view = memoryview(bytearray(size))
        self._view[: len(held)] = held
        self._start, self._end = 0, len(held)


_HEAD_SIZE: Final = HEAD.size
_unpack_head: Final = HEAD.unpack_from
_BATCH: Final = int(Kind.BATCH)
