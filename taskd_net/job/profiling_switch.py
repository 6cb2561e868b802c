"""The profiling switch of a job: a file that the platform mounts into every pod.

A Manager reads it where ClusterD does not say it, and a Worker until its Mgr has sent a switch.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from taskd_net.base import limits, threads
from taskd_net.base.bounded_file import read_file
from taskd_net.base.codes import ArgumentError
from taskd_net.base.logger import get_logger
from taskd_net.base.untrusted import json_value, shown
from taskd_net.base.waiting import EndFlag
from taskd_net.job.profiling_domains import ProfilingSwitch

LOOK_S: Final = 1.0
"""Seconds between two looks at the profiling switch, as TaskD's, and for reading it at most."""

REST_S: Final = 2.0
"""Seconds since the last change of the profiling switch after which it is read no more until its status changes: the
clock of a file system has ticks of 10 ms at most, and the clocks of two machines differ."""

SWITCH_BYTES: Final = 65_536
"""Bytes of the profiling switch at most; it has five short entries."""

PATH: Final = "TASKD_NET_PROFILING_SWITCH"
MOUNTED: Final = "/user/cluster-info/datatrace-config/profilingSwitch"

COMMUNICATION: Final = "CommunicationOperator"
DOMAINS: Final = (COMMUNICATION, "Step", "SaveCheckpoint", "FP", "DataLoader")


def read_switch(text: str) -> ProfilingSwitch:
    """Read the content of the file: a JSON object with `on` or `off` for each domain; a missing one is off.

    Returns:
        The default domain is on where any is, the communication domain where its own is.

    Raises:
        ArgumentError: it has another form.
    """
    try:
        value = json_value(text)
    except ValueError as error:
        raise ArgumentError(f"it is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentError(f"it is {shown(value)}; expected a JSON object")
    states = {domain: value.get(domain, "off") for domain in DOMAINS}
    for domain, state in states.items():
        if state not in ("on", "off"):
            raise ArgumentError(f"{domain} is {shown(state)}; expected on or off")
    return ProfilingSwitch("on" in states.values(), states[COMMUNICATION] == "on")


class SwitchFile:
    """The file, and what was read of it last.

    Args:
        path: of the file; by default `TASKD_NET_PROFILING_SWITCH`, else where TaskD's platform mounts it.
        patience: seconds for reading it.
    """

    def __init__(self, path: str | None = None, patience: float = LOOK_S) -> None:
        self._patience = patience
        self.path = path or os.environ.get(PATH) or MOUNTED
        self._log = get_logger(path=self.path)
        self._switch: ProfilingSwitch | None = None
        self._complaint = ""
        # Of the file that was read last: its device, number, time of change and size. None where that may change again
        # within a tick of its clock.
        self._mark: tuple[int, int, int, int] | None = None

    def look(self) -> ProfilingSwitch | None:
        """Read the file, unless it is the same as before. Returns the switch if it has changed.

        A file that is missing, or that cannot be read, is as if unchanged. Each reason is one line in the log.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116 - once a second in each Worker: a fifth of reading it
            mark = status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size
            if mark == self._mark:
                return None
            self._mark = mark if time.time() - status.st_ctime > REST_S else None
            content = read_file(self.path, SWITCH_BYTES, self._patience)
            switch = read_switch(content.data.decode())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                self._log.warning("profiling_switch_unreadable", reason=self._complaint)
            return None
        self._complaint = ""
        if switch == self._switch:
            return None
        self._switch = switch
        return switch


class SwitchWatch:
    """A thread that looks at the file again and again, until `close`.

    Args:
        take: is called with each switch that has changed, in this thread; it must not raise.
        path: as for `SwitchFile`.
        every: seconds between two looks.
    """

    def __init__(self, take: Callable[[ProfilingSwitch], None], path: str | None = None, every: float = LOOK_S) -> None:
        self._every = every
        self._take = take
        self._file = SwitchFile(path)
        self._ended = EndFlag()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, unless it has begun.

        Raises:
            NodeError: the thread cannot be started.
        """
        if self._thread is None:
            self._thread = threads.start(self._run, "taskd_net profiling switch", application=True)

    def end(self) -> None:
        """Stop looking, without waiting for the end of the thread."""
        self._ended.set()

    def close(self) -> None:
        """Stop looking, and wait for the end of the thread, for a bounded time."""
        self.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(limits.HANDLER_GRACE_S)

    def _run(self) -> None:
        while not self._ended.is_set():
            switch = self._file.look()
            if switch is not None and not self._ended.is_set():
                self._take(switch)
            self._ended.wait(self._every)
