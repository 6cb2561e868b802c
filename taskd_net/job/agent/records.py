"""The records of a node's ranks: pages of memory that the Agent makes before a start, and reads while the ranks run.

A page is a memfd of the Agent's, filled and sealed. Its size cannot change, so no access to it can fail. The Agent
reads it by `pread`, and maps nothing.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from taskd_net.base import fork, rank_record
from taskd_net.base.logger import late_logger
from taskd_net.base.progress import NodeProgress, Seen
from taskd_net.job.agent.evidence import Suspect
from taskd_net.job.agent.progress import NodeLedger, Sight

log: Final = late_logger()

STAT_BYTES: Final = 4096
"""Bytes of a `/proc/PID/stat` that are read; it has some 300."""

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_SEEN: Final = {"T": Seen.STOPPED, "t": Seen.TRACED, "D": Seen.DISK, "Z": Seen.ENDED, "X": Seen.ENDED}
_STATE, _START_TIME, _START_STACK = 0, 19, 25
"""Places after the name in `/proc/PID/stat`: fields 3, 22 and 28 of proc(5). Each exec takes another place for the
stack."""


@dataclass(slots=True)
class _Held:
    """The record of a process.

    Args:
        rank: its global rank.
        begun: nanoseconds of the steady clock before its start.
        descriptor: of the memfd; None without one.
        stacks: of the memfd that gets the stacks of the process; None without one.
        pid: the process; 0 before its start.
        started: its start time by the kernel's count, by which another process of this pid is told apart.
    """

    rank: int
    begun: int
    descriptor: int | None
    stacks: int | None
    pid: int = 0
    started: int = 0


class Records:
    """The records of the ranks of one node, by local rank, and the memory for their stacks. Any thread may use them."""

    def __init__(self) -> None:
        self._lock = fork.Lock()
        self._held: dict[int, _Held] = {}
        self._ledger = NodeLedger()
        self._highest = -1
        self._failed = False

    def note_highest(self, step: int) -> None:
        """Note the highest step that the job has done, for records from now on."""
        self._highest = step

    def begin_all(self, ranks: Mapping[int, int]) -> dict[int, dict[str, str]]:
        """Make the records of all ranks, before a start of all.

        Args:
            ranks: global ranks by local rank.

        Returns:
            The variables of each process by local rank, with the paths; empty ones without a record.
        """
        for local_rank in list(self._held):
            self._end(local_rank)  # the steps of all count, before the first record is made
        return {local_rank: self.begin(local_rank, rank) for local_rank, rank in ranks.items()}

    def begin(self, local_rank: int, rank: int) -> dict[str, str]:
        """Make the record of one rank, before a start of its process. Returns its variables, as `begin_all`."""
        self._end(local_rank)
        begun = time.monotonic_ns()
        descriptor: int | None = None
        stacks: int | None = None
        try:
            # The Mgr has not been told of the last second.
            descriptor = _made(begun, max(self._highest, self._ledger.highest))
            stacks = os.memfd_create("taskd_net_stacks", os.MFD_CLOEXEC)
        except (OSError, AttributeError) as error:  # a kernel or a C library without memfd
            if not self._failed:
                log.warning("ranks_not_watched", reason=str(error))
            self._failed = True
        with self._lock:
            self._held[local_rank] = _Held(rank, begun, descriptor, stacks)
        return {rank_record.VARIABLE: _path(descriptor), rank_record.STACKS_VARIABLE: _path(stacks)}

    def started(self, local_rank: int, pid: int) -> None:
        """The process of a rank has started."""
        _, started, _ = _stat(pid)
        with self._lock:
            held = self._held[local_rank]
            held.pid, held.started = pid, started

    def suspects(self, ranks: Collection[int] = ()) -> list[Suspect]:
        """The ranks to collect evidence about; all without a list. Each has a descriptor of its own, to be closed."""
        with self._lock:
            held = [each for each in self._held.values() if not ranks or each.rank in ranks]
            found = []
            for each in sorted(held, key=lambda each: each.rank):
                descriptor = None if each.stacks is None else os.dup(each.stacks)
                found.append(Suspect(each.rank, each.pid, _sight(each).seen, descriptor))
            return found

    def look(self) -> NodeProgress | None:
        """Read the records. Returns the progress of the node; None before the first start."""
        with self._lock:
            if not self._held:
                return None
            sights = [_sight(held) for held in self._held.values()]
            return self._ledger.look(sights, time.monotonic_ns())

    def close(self) -> None:
        """Close all records."""
        for local_rank in list(self._held):
            self._end(local_rank)

    def _end(self, local_rank: int) -> None:
        """Take in the last record of a process, and close it."""
        with self._lock:
            held = self._held.pop(local_rank, None)
            if held is not None and held.descriptor is not None:
                self._ledger.last(_sight(held), time.monotonic_ns())
                os.close(held.descriptor)
            if held is not None and held.stacks is not None:
                os.close(held.stacks)


def _path(descriptor: int | None) -> str:
    return "" if descriptor is None else f"/proc/{os.getpid()}/fd/{descriptor}"


def _made(begun: int, highest: int) -> int:
    """A new record. Its pages are there before anyone maps it: a process without memory fails here, and no rank."""
    descriptor = os.memfd_create("taskd_net_rank", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, rank_record.BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        head = rank_record.HEAD.pack(rank_record.MAGIC, rank_record.VERSION, rank_record.BYTES, begun, highest)
        os.pwrite(descriptor, head, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sight(held: _Held) -> Sight:
    seen, image = Seen.ABSENT, 0
    if held.pid:
        seen, started, image = _stat(held.pid)
        if started != held.started:
            seen = Seen.ENDED
    record = b"" if held.descriptor is None else os.pread(held.descriptor, rank_record.BYTES, 0)
    return Sight(held.rank, held.begun, held.pid, seen, record, image)


def _stat(pid: int) -> tuple[Seen, int, int]:
    """State of a process, its start time, and the place of its stack; zeros for one that is gone."""
    data = b""
    with suppress(OSError):
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, STAT_BYTES)
        finally:
            os.close(descriptor)
    # The name, in brackets, is the process's own choice.
    fields = data.rpartition(b")")[2].decode("ascii", "replace").split()
    if len(fields) <= _START_STACK:
        return Seen.ENDED, 0, 0
    return _SEEN.get(fields[_STATE], Seen.RUNS), int(fields[_START_TIME]), int(fields[_START_STACK])
