"""The causes of the failures of one node: records that its training processes have written, and the way they ended.

torch reads the error file of each failed process, and raises if it is half written, empty or of another form. That
would end the launcher in place of a report. So torch gets only files that it can read.
"""

from __future__ import annotations

import locale
import os
import signal
import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from taskd_net.base.bounded_file import read_end, read_file
from taskd_net.base.cause import LAST_CHARS, REASON_BYTES, Cause, Reason, first, read_reason, read_stack, words
from taskd_net.base.logger import late_logger
from taskd_net.base.untrusted import json_value, natural, printable
from taskd_net.job.agent.messages import Exit

log: Final = late_logger()

READ_S: Final = 5.0
"""Seconds for the read of one file. It may be on a network's file system."""

LAST_LINES: Final = 10
"""Lines of a process's standard error that are kept of one that left no record."""

STACK_AT: Final = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""Signals at which faulthandler writes the stack. Forked children write into the same file, so it counts only if the
process itself ended by one of them."""


LAST_TIME: Final = 2**35
"""Seconds since the epoch, in the year 3058. Python refuses dates after the year 9999."""


class Records(NamedTuple):
    """The records of one process.

    Args:
        failure: of its failure.
        thread: of the first exception that ended a thread.
        for_torch: torch can read its error file, or there is none.
    """

    failure: Reason | None = None
    thread: Reason | None = None
    for_torch: bool = True


class Failures:
    """The failures of this node's ranks that no restart has followed.

    Attributes:
        ended: the Mgr's word for the end of the job, with its first failure on any node; None without one.
        left: the reason for which this node has ended by itself; empty for none.
    """

    def __init__(self) -> None:
        self._causes: dict[int, Cause] = {}
        self._host = socket.gethostname()
        self.ended: Exit | None = None
        self.left = ""

    def forget(self, ranks: Collection[int]) -> None:
        """These ranks start again."""
        for rank in ranks:
            self._causes.pop(rank, None)

    def has(self, rank: int, pid: int) -> bool:
        """True if the failure of this process is known."""
        cause = self._causes.get(rank)
        return cause is not None and cause.pid == pid

    def add(
        self,
        records: Records,
        *,
        rank: int,
        node: int,
        pid: int,
        status: int,
        error_file: str,
        stderr_file: str,
        noticed_ns: int,
        asked_ns: int | None,
        out_of_memory: bool = False,
    ) -> Cause:
        """Take in the end of a process that has failed.

        Args:
            records: its own records.
            rank: its global rank.
            node: rank of its node.
            pid: its process.
            status: its exit code, or the negative number of a signal.
            error_file: place of its records.
            stderr_file: file of its standard error; empty without one.
            noticed_ns: time of the Agent's look, in ns since the epoch.
            asked_ns: time of the Agent's SIGTERM to it, if that came before its end.
            out_of_memory: the kernel killed it for want of memory.
        """
        failure = records.failure
        if failure is None and -status in STACK_AT:
            failure = _stack(error_file)
        at = noticed_ns if failure is None or failure.at_ns is None else failure.at_ns
        asked = asked_ns is not None and at >= asked_ns
        if failure is not None and asked_ns is not None and not asked:
            status = failure.exit_code  # it died slowly when the Agent ended it
        cause = Cause(
            rank=rank,
            node=node,
            host=self._host,
            pid=pid,
            code=max(status, 0),
            signal=_name(-status) if status < 0 else "",
            at_ns=at,
            asked=asked,
            out_of_memory=out_of_memory,
            reason=failure,
            thread=records.thread,
            last_lines=_last_lines(stderr_file) if failure is None else "",
        )
        self._causes[rank] = cause
        return cause

    @property
    def first(self) -> Cause | None:
        """The first failure on this node; None without one."""
        return first(self._causes.values())

    def words(self, before_ns: int | None = None, number: str = "") -> list[str]:
        """The first failure in lines for a person: that of the job, where the Mgr says it. None without a failure.

        Args:
            before_ns: time of a signal that ends the launcher; a later failure follows from it.
            number: name of that signal. It may have ended the ranks before.
        """
        cause, ended = self.first, self.ended
        if cause is not None and before_ns is not None and (cause.at_ns >= before_ns or cause.signal == number):
            cause = None
        lines = [] if ended is None or not ended.reason else [printable(f"the job has ended: {ended.reason}")]
        if ended is not None and ended.cause is not None:
            of_job, others = ended.cause, ended.others
            own = cause is not None and (cause.rank, cause.pid) == (of_job.rank, of_job.pid)
            return lines + words(cause if cause is not None and own else of_job, others)
        left = [printable(f"this node has ended: {self.left}")] if self.left else []
        if cause is None:
            return lines + left
        others = tuple(each.rank for each in self._causes.values() if each is not cause and not each.asked)
        return [*lines, *words(cause, others), *left]


def take(error_file: str, pid: int) -> Records:
    """Read the records of a process that has ended.

    Args:
        error_file: place of its error file, as of torch: empty or `/dev/null` without one.
        pid: the process.
    """
    if not error_file or error_file == os.devnull:
        return Records()
    path = Path(error_file)
    text = _content(path)
    record = None if text is None else _record(text, pid)
    for_torch = not path.exists() or (text is not None and torch_reads(text))
    if not for_torch:
        log.warning("error_file_unreadable", path=error_file, pid=pid)
    if record is None or record.pid is None:
        record = _beside(path, ".own", pid) or record
    return Records(record, _beside(path, ".thread", pid), for_torch)


def torch_reads(text: str) -> bool:
    """True if torch takes this text as an error file, and can show it.

    Args:
        text: content of the file.
    """
    try:
        value = json_value(text)
    except ValueError:
        return False
    if not isinstance(value, dict):
        return False
    match value.get("message"):
        case str():
            return _is_time(value.get("timestamp", 0))
        case {"extraInfo": {"timestamp": timestamp, **more}, **message}:
            shown = more.get("py_callstack", message.get("message", ""))
            return isinstance(shown, str) and _is_time(timestamp)
    return False


def _is_time(value: object) -> bool:
    """True for seconds since the epoch that torch can write as a date."""
    seconds: object = natural(value, LAST_TIME) if isinstance(value, str) else value
    return isinstance(seconds, int | float) and 0 <= seconds <= LAST_TIME


def _content(path: Path) -> str | None:
    """A file's text as torch reads it; None if it cannot be read."""
    try:
        return read_file(path, REASON_BYTES, READ_S, regular=True).data.decode(locale.getpreferredencoding(False))
    except (OSError, ValueError):
        return None


def _record(text: str, pid: int) -> Reason | None:
    """The record in a text. A forked child of the process may have written another one."""
    with suppress(ValueError):
        record = read_reason(text)
        if record.pid in (None, pid):
            return record
    return None


def _beside(path: Path, end: str, pid: int) -> Reason | None:
    text = _content(path.with_name(path.name + end))
    return None if text is None else _record(text, pid)


def _stack(error_file: str) -> Reason | None:
    if not error_file or error_file == os.devnull:
        return None
    text = _content(Path(f"{error_file}.fault"))
    return None if text is None else read_stack(text)


def _last_lines(path: str) -> str:
    """The last lines of a log; empty without one. A longer first line of them has lost its beginning."""
    if not path:
        return ""
    try:
        text = read_end(path, LAST_CHARS).decode(errors="backslashreplace")
    except (OSError, ValueError):  # /dev/null, as torch has it for a stream without a file
        return ""
    return "\n".join(text.splitlines()[-LAST_LINES:])


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
