"""Notifications to systemd: `sd_notify(3)`, lines in a datagram.

The libraries on PyPI are unmaintained, or bindings of libsystemd. The protocol is stable, and this is all of it.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Final

from taskd_net.base.untrusted import natural

_MOST_USEC: Final = 2**64 - 1


def notify(*lines: str) -> str | None:
    """Send the lines (`READY=1`) to the service manager; without one (`NOTIFY_SOCKET` is not set), do nothing.

    Returns:
        The reason for a failure, or None. A failure is no reason to end: the manager has timeouts of its own.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            # A leading @ stands for the zero byte of an abstract address. Non-blocking, as the manager may be stopped,
            # and the caller is an event loop.
            sender.setblocking(False)
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.send("\n".join(lines).encode())
    except (OSError, ValueError) as error:
        return f"NOTIFY_SOCKET is {address!r}: {error}"
    return None


def reloading() -> tuple[str, str]:
    """The lines that announce a reload; `READY=1` ends it."""
    return "RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def watchdog_period() -> float | None:
    """Seconds between two `WATCHDOG=1`, half of the manager's bound; None where it does not watch this process."""
    allowed, pid = natural(os.environ.get("WATCHDOG_USEC", ""), _MOST_USEC), os.environ.get("WATCHDOG_PID", "")
    if not allowed or (pid and pid != str(os.getpid())):
        return None
    return allowed / 2_000_000
