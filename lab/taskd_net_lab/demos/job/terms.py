"""Sizes and names that the processes of the demo share."""

from __future__ import annotations

from typing import Final

NODES: Final = 2
LOCAL: Final = 2
"""Training processes of a node."""

SOCKET: Final = "DEMO_JOB_SOCKET"
"""Variable with the path of the controller's socket."""

PARENT: Final = "DEMO_JOB_PARENT"
"""Variable with the pid of the process that started this one."""

RESTARTS: Final = "DEMO_JOB_RESTARTS"
"""Variable with the restarts that were left when a training process was started."""

FAILS: Final = "DEMO_JOB_FAILS"
"""Variable with the rank whose switch of cards fails."""

SILENT: Final = "DEMO_JOB_SILENT"
"""Variable with the rank that never answers a stress test."""

FAULTY: Final = "DEMO_JOB_FAULTY"
"""Variable with the rank in which a stress test finds a fault."""

BEGAN: Final = "began"
ENDED: Final = "ended"
COMMAND: Final = "command"
REPLY: Final = "reply"
ASKS: Final = "asks"
"""A process waits until it may go on."""

REGISTERED: Final = "registered"
"""Of the Mgr: so many nodes have joined and registered. Of a training process: the Mgr has stored its registration."""

HUNG: Final = "hung"
RESET: Final = "reset"
