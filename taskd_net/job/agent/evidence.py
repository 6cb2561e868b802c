"""Evidence about the ranks of a node, in a fixed order: the kernel's state of each, then the stacks of its threads.

Stacks come from the process itself. The start program has a handler of faulthandler's for a signal (`torch/start.py`),
which answers also while another thread holds the interpreter. The text goes into a memfd of the Agent's. Nothing is
sent to a process that does not catch that signal: it would end it. Nothing is sent to one that is stopped, either.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskd_net.base.progress import Seen
from taskd_net.base.stacks import STACK_BYTES, RankStack, read_threads

STACKS_SIGNAL: Final = signal.SIGRTMAX - 3
"""The signal at which a rank writes its stacks. Users and Slurm have SIGUSR1 and SIGUSR2; the first real-time signals
are those of C libraries and debuggers."""

ANSWER_S: Final = 1.0
"""Seconds for the stacks of a process: it takes some milliseconds, and none in a driver that does not return."""

_START: Final = str(Path(__file__).parents[2] / "torch" / "start.py")
"""The start program, whose frames are below those of each script."""

_LOOK_S: Final = 0.01
_SMALL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank to look at.

    Args:
        rank: its global rank.
        pid: its process; 0 without one.
        seen: state of that process.
        descriptor: of the memfd that gets its stacks, this one's own; None without one.
    """

    rank: int
    pid: int
    seen: Seen
    descriptor: int | None = None


async def collected(suspects: Iterable[Suspect]) -> list[RankStack]:
    """Collect the evidence about ranks, of all at the same time: `ANSWER_S` in all. Closes their descriptors."""
    asked = list(suspects)
    try:
        return list(await asyncio.gather(*map(_about, asked)))
    finally:
        for each in asked:
            if each.descriptor is not None:
                os.close(each.descriptor)


async def _about(suspect: Suspect) -> RankStack:
    pid, seen = suspect.pid, suspect.seen
    wchan = _small(pid, "wchan").strip("\0\n")
    known = RankStack(suspect.rank, pid, seen, "" if wchan == "0" else wchan)
    if seen in (Seen.ENDED, Seen.ABSENT):
        return RankStack(suspect.rank, pid, seen, why="there is no process")
    if seen in (Seen.STOPPED, Seen.TRACED):
        return _without(known, "a process that does not run writes no stack")
    if suspect.descriptor is None or not catches(_small(pid, "status"), STACKS_SIGNAL):
        return _without(known, "its process has no handler for that: it runs without the start program")
    try:
        text = await _stacks(pid, suspect.descriptor)
    except OSError as error:
        return _without(known, f"it could not be asked: {error.strerror}")
    threads = tuple(tuple(place for place in each if place.file != _START) for each in read_threads(text))
    if not threads:
        return _without(known, f"it has not answered within {ANSWER_S:g} s")
    return RankStack(suspect.rank, pid, seen, known.wchan, threads)


def _without(known: RankStack, why: str) -> RankStack:
    return RankStack(known.rank, known.pid, known.seen, known.wchan, why=why)


async def _stacks(pid: int, descriptor: int) -> str:
    """Have a process write its stacks. Returns the text; empty if it does not in time."""
    loop = asyncio.get_running_loop()
    os.ftruncate(descriptor, 0)  # the process appends
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, STACKS_SIGNAL)
    finally:
        os.close(process)
    give_up_at, size = loop.time() + ANSWER_S, 0
    while loop.time() < give_up_at:
        await asyncio.sleep(_LOOK_S)
        before, size = size, os.fstat(descriptor).st_size
        if size and size == before:
            break
    data = os.pread(descriptor, STACK_BYTES, 0)
    os.ftruncate(descriptor, 0)
    return data.decode("utf-8", "backslashreplace")


def catches(status: str, number: int) -> bool:
    """True where `/proc/PID/status` says that a process has a handler for a signal."""
    for line in status.splitlines():
        name, _, mask = line.partition(":")
        if name == "SigCgt":
            with suppress(ValueError):
                return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def _small(pid: int, name: str) -> str:
    """A small file of `/proc/PID`; empty where it cannot be read."""
    with suppress(OSError):
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _SMALL_BYTES).decode("ascii", "replace")
        finally:
            os.close(descriptor)
    return ""
