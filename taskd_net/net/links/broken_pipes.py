"""SIGPIPE in a thread with direct sockets: a write to a broken one is an error, whatever the application has set.

Loops write without MSG_NOSIGNAL. Python ignores SIGPIPE; an application that does not, such as a filter, has it blocked
in the loop's thread while a direct socket is open there.
"""

from __future__ import annotations

import signal
import threading
from typing import Final


class _Thread(threading.local):
    """The direct sockets of a thread, and whether SIGPIPE is blocked for them."""

    sockets = 0
    blocked = False


_thread: Final = _Thread()


def opened() -> None:
    """Note that this thread's loop has one more socket. Each call needs one `closed` there."""
    _thread.sockets += 1
    if not _thread.blocked and signal.getsignal(signal.SIGPIPE) is not signal.SIG_IGN:
        _thread.blocked = signal.SIGPIPE not in signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})


def closed() -> None:
    """Note that a socket is gone. With the last one the thread gets its mask back."""
    _thread.sockets = max(0, _thread.sockets - 1)  # a forked child's thread may have had none
    if _thread.blocked and _thread.sockets == 0:
        _thread.blocked = False
        signal.sigtimedwait({signal.SIGPIPE}, 0)  # one of a write to such a socket
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})
