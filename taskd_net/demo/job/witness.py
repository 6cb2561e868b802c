"""Reports from inside a process of the demo to its controller, over a Unix socket.

The kernel tells the controller the process at the other end, and when it has ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from typing import Final

from taskd_net import fork
from taskd_net.demo.job.terms import PARENT, SOCKET

_PR_SET_PDEATHSIG: Final = 1


class Witness:
    """The connection of one process.

    Args:
        who: name of the process, such as `Worker/3`.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._saying = fork.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.environ[SOCKET])

    def say(self, what: str, code: int = 0, text: str = "", uuid: str = "") -> None:
        """Report an event; see `evidence.Seen`."""
        line = json.dumps({"who": self._who, "what": what, "code": code, "text": text, "uuid": uuid})
        with self._saying:
            self._socket.sendall(line.encode() + b"\n")


def end_with_parent() -> None:
    """Have the kernel end this process with its parent, even where it is frozen. Linux only."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ[PARENT]):
        sys.exit("the parent has ended")  # before the kernel was asked
