"""Reports from inside a process of the demo to its controller, over a Unix socket.

The kernel tells the controller the process at the other end, and when it has ended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Final

from taskd_net.base import fork
from taskd_net_lab.demos.job.terms import ASKS, PARENT, SOCKET

_TIED: Final = f"""\
import ctypes, os, runpy, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(os.environ["{PARENT}"]):
    sys.exit("the parent has ended")  # before the kernel was asked
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


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

    def ask(self, text: str) -> None:
        """Wait until the controller lets this process go on with something, or ends."""
        self.say(ASKS, text=text)
        self._socket.recv(1)


def program(module: str, *arguments: str) -> list[str]:
    """The command line of a process of the demo, which ends with its parent, even where it is frozen. Linux only.

    The kernel is asked before anything of this package is imported: that takes seconds on a busy machine.

    Args:
        module: its full name.
        arguments: of the module.
    """
    return [sys.executable, "-c", _TIED, module, *arguments]
