"""Sizes and names that the processes of the demo share."""

from __future__ import annotations

from typing import Final

NODES: Final = 2
LOCAL: Final = 2
"""Training processes of a node."""

SOCKET: Final = "TASKD_NET_DEMO_SOCKET"
"""Variable with the path of the controller's socket."""

PARENT: Final = "TASKD_NET_DEMO_PARENT"
"""Variable with the pid of the process that started this one."""

RESTARTS: Final = "TASKD_NET_DEMO_RESTARTS"
"""Variable with the restarts that were left when a training process was started."""

FAILS: Final = "TASKD_NET_DEMO_FAILS"
"""Variable with the rank whose switch of cards fails."""

SILENT: Final = "TASKD_NET_DEMO_SILENT"
"""Variable with the rank that never answers a stress test."""

BEGAN: Final = "began"
ENDED: Final = "ended"
COMMAND: Final = "command"
REPLY: Final = "reply"
REGISTERED: Final = "registered"
HUNG: Final = "hung"
