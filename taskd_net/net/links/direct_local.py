"""Direct links within one machine: a Unix socket takes the place of a TCP one, and costs less.

Its name is random and abstract, as Linux calls it: it belongs to the network namespace, and no file stays behind a
parent that was killed. A child in another namespace finds nobody there at once, and connects to the offered port.

Both ends ask the kernel for the other's user, and a link stands between processes of one user alone. An impostor who
has taken the name of a dead parent gets no token. A stranger's connection is closed before a byte of it is read.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys
from typing import Final

from taskd_net.base import limits

NAME_BYTES: Final = 16
"""Random bytes of the name of a Unix socket: no two are the same, also after a restart."""

BUFFER_BYTES: Final = 1024 * 1024
"""Bytes that a Unix socket holds for its reader (the kernel doubles them, and allows at most `net.core.wmem_max`). With
the system's 208 KiB each batch of large bodies waits for the reader several times (docs/performance.md)."""

KEY: Final = "taskd-net-local"
"""In the metadata of the answer to Register: the socket's name, without the zero byte that makes it abstract."""

_PREFIX: Final = "taskd-net-"

# Linux's `struct ucred`: process, user, group.
_CREDENTIALS: Final = struct.Struct("3i")


def listening() -> tuple[str, socket.socket] | None:
    """A socket that listens, and its name; None where the system has no abstract names, or allows none."""
    if sys.platform != "linux":
        return None
    name = _PREFIX + secrets.token_hex(NAME_BYTES)
    try:
        listener = _socket()
    except OSError:
        return None
    listener.bind("\0" + name)
    listener.listen(limits.MAX_CHILDREN)
    return name, listener


def connected(name: str) -> socket.socket | None:
    """A connection to a parent of the same user on this machine; None if none listens under the name.

    Args:
        name: the parent's offer, which is not trusted.
    """
    if sys.platform != "linux" or not name.startswith(_PREFIX):
        return None
    connection = _socket()
    try:
        # The kernel answers at once: a full queue of connections is an error, too.
        connection.connect("\0" + name)
    except (OSError, ValueError):
        connection.close()
        return None
    if admit(connection):
        return connection
    connection.close()
    return None


def admit(connection: socket.socket) -> bool:
    """Prepare a connection for a link. Returns False if the process at the other end has another user than this one."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    # The kernel then holds a batch of large bodies, and two processes copy at the same time.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return bool(user == os.geteuid())


def process(connection: socket.socket) -> str:
    """The process at the other end of a Unix socket; empty where it has no number here, from another namespace."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    number, _, _ = _CREDENTIALS.unpack(credentials)
    return f"process {number}" if number else ""


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    return made
