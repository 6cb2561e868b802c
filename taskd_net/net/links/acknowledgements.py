"""Acknowledgements of the other machine's kernel: without them, a network is cut, whatever the process there does.

A kernel acknowledges also for a process that is stopped or holds its interpreter. `TCP_USER_TIMEOUT` would end the link
of such a process all the same as soon as its window is closed. So the kernel is asked (`TCP_INFO`), several times a
second, and only about connections that have something outstanding.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable
from typing import Any, Final, Protocol

from taskd_net.base import limits

LOOK_S: Final = 0.25
"""Seconds between two looks at what the other machine's kernel has acknowledged. A shorter time finds a cut
sooner after its 2 s (KEEPALIVE_TIMEOUT_S); a look costs 2 µs for each link that has something outstanding. Looks at
silent links are at its multiples: 1,250 children at rest wake their parent 4 times a second instead of 600 times."""

# Of Linux's `struct tcp_info`: unanswered probes, segments that are not acknowledged, milliseconds since the last
# acknowledgement, and bytes of the other machine's window.
_TCP_INFO: Final = struct.Struct("=3xB20xI28xI168xI")
_BYTES: Final = struct.Struct("=i")

# Of `struct tcp_info`, too: bytes that the other machine has acknowledged since the connection began.
_TCP_TAKEN: Final = struct.Struct("=120xQ")


class WatchedConnection(Protocol):
    """A connection that has written something.

    Attributes:
        closing: true when nothing can be written any more.
    """

    closing: Callable[[], bool]

    def info(self, name: str) -> Any:
        """A property of the transport, such as `socket`."""

    def acknowledged(self) -> None:
        """The other machine has all that was written: nothing is looked at until the next write."""

    def cut(self) -> None:
        """The other machine has acknowledged nothing for `KEEPALIVE_TIMEOUT_S`."""


class Acknowledgements:
    """The connections of one event loop that have something outstanding.

    Args:
        loop: the event loop.
        pause: seconds between two looks.
        patience: seconds without an acknowledgement until a link counts as cut.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pause: float = LOOK_S, patience: float = limits.KEEPALIVE_TIMEOUT_S
    ) -> None:
        self._loop = loop
        self.pause = pause
        self.patience = patience
        # The looks in a row at which each one had no answer to its last transmission.
        self._unanswered: dict[WatchedConnection, int] = {}
        self._looking = False

    def await_from(self, connection: WatchedConnection) -> None:
        """Look at a connection until the other machine has acknowledged all that was written."""
        self._unanswered[connection] = 0
        if not self._looking:
            self._looking = True
            self._loop.call_later(self.pause, self._look)

    def _look(self) -> None:
        # A look that comes late, because this loop stood still, counts as one.
        most = self.patience / self.pause
        for connection, looks in list(self._unanswered.items()):
            connected = connection.info("socket")
            # A transport of TLS that is gone has no socket, and does not say that it closes.
            if connected is None or connection.closing():
                del self._unanswered[connection]
                continue
            if not _outstanding(connected.fileno()):
                del self._unanswered[connection]
                connection.acknowledged()
                continue
            silent = _silent(connected)
            self._unanswered[connection] = looks + 1 if silent else 0
            if looks + 1 >= most and silent >= self.patience:
                del self._unanswered[connection]
                connection.cut()
        self._looking = bool(self._unanswered)
        if self._looking:
            self._loop.call_later(self.pause, self._look)


def acknowledges(connected: socket.socket | None) -> bool:
    """True where the kernel tells about the acknowledgements of a connection; None: its transport has no socket."""
    return sys.platform == "linux" and connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6)


def progress(connected: socket.socket | None, unsent: int) -> tuple[int, int]:
    """Bytes that were written and that the other end lacks, and a number that grows with each that it gets.

    The kernel there takes bytes for a process that is stopped, too, but no more than its buffer holds.

    Args:
        connected: the connection; None: its transport has no socket.
        unsent: bytes that this kernel has not got.
    """
    if sys.platform != "linux" or connected is None:
        return unsent, -unsent
    lacking = unsent + _outstanding(connected.fileno())
    if not acknowledges(connected):
        # Both ends of a Unix socket have one kernel, and nothing is lost in between.
        return lacking, -lacking
    info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_TAKEN.size)
    return lacking, _TCP_TAKEN.unpack(info.ljust(_TCP_TAKEN.size, b"\0"))[0]


def _outstanding(descriptor: int) -> int:
    """Bytes that were written and not acknowledged."""
    found: int = _BYTES.unpack(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(_BYTES.size)))[0]
    return found


def _silent(connected: socket.socket) -> float:
    """Seconds since the last acknowledgement, where one is due; else 0.

    One is due for a segment in flight, and for bytes that the window would take and that do not leave this machine. A
    closed window is probed in growing pauses, and a living kernel answers each probe.
    """
    info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    # Kernels before 5.4 do not tell the window: it counts as closed.
    probes, unacknowledged, acknowledged, window = _TCP_INFO.unpack(info.ljust(_TCP_INFO.size, b"\0"))
    return float(acknowledged) / 1000.0 if unacknowledged or window or probes > 1 else 0.0
