"""The scheduler that msrun starts on its first node, and that nobody else ends when the launcher leaves."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from taskd_net.base import limits
from taskd_net.job.member import log

GRACE_S: Final = 5.0
"""Seconds that msrun's scheduler has to end after SIGTERM. It has nothing to store."""

PROCESSES: Final = Path("/proc")
ROLE: Final = b"MS_ROLE=MS_SCHED"


def end_scheduler(grace: float = GRACE_S) -> None:
    """End the children of this process that are msrun's schedulers: SIGTERM, and SIGKILL after `grace` seconds."""
    until = time.monotonic() + grace
    opened = [(pid, descriptor) for pid in _schedulers() if (descriptor := _open(pid)) is not None]
    for pid, descriptor in opened:
        log.info("scheduler_ended", pid=pid)
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    for _, descriptor in opened:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            poll.poll(limits.KILLED_S * 1000)  # a driver may hold it
        os.close(descriptor)


def _open(pid: int) -> int | None:
    """A descriptor of a process that runs."""
    with suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None


def _schedulers() -> Iterator[int]:
    for folder in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            _, _, status = (folder / "stat").read_text(errors="replace").rpartition(")")
            state, parent = status.split()[:2]
            if int(parent) == os.getpid() and state != "Z" and ROLE in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
