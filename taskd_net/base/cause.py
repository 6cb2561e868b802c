"""The cause of a training process's end: read from the file of its failure, compared, and put into words. Pure.

It is in this room because deciders, shells and commands of the job use it, and none of these rooms imports the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from taskd_net.base.untrusted import json_value, natural, printable, shown, whole

REASON_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a file that is read. Ours have less than 120 KiB; torch's `@record` writes texts of any length."""

HEAD_CHARS: Final = 4 * 1024
"""Characters that are kept of the beginning of a traceback: its outer frames."""

TAIL_CHARS: Final = 12 * 1024
"""Characters that are kept of its end: the inner frames, and the error."""

TEXT_CHARS: Final = 1024
"""Characters of any other text."""

MARK_CHARS: Final = 64
"""Characters by which a text may be longer: it has been cut before, and has the words for what was left out."""

LAST_CHARS: Final = 4 * 1024
"""Characters that are kept of the last lines of a process's standard error."""

TOLD_HEAD_CHARS: Final = 1024
"""The same of a traceback in a command: one goes to each node at the end of a job, and is stored until it is taken."""

TOLD_TAIL_CHARS: Final = 3 * 1024
"""Characters of its end."""

AS_TERMINATED: Final = 143
"""Exit status as after SIGTERM: the node was asked to leave, or has lost its Manager. For a scheduler 0 would be the
success of a job. Each of them starts a node again after a status from 128 on."""

NEVER_AGAIN: Final = 65
"""Exit code of a process that is not to be started again: the same input would fail again. It is EX_DATAERR of BSD."""

CANNOT_REJOIN: Final = "CannotRejoin"
"""The error of a rank that waits for an epoch, and whose Manager does not come back."""

_MOST: Final = 2**63 - 1
_LOST_PEER: Final = re.compile(
    r"^(torch\.distributed\.Dist\w*Error\b|Dist\w*Error\b|RuntimeError: .*/gloo/)", re.MULTILINE
)
_PORT_IN_USE: Final = re.compile(r"EADDRINUSE|Address already in use|address already in use")
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d{1,9}) in (.*)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a program.

    Args:
        file: its file.
        line: number of the line.
        function: the function around it.
    """

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Reason:
    """The content of a file of a failure.

    Args:
        kind: type of the exception; empty if the file does not say it.
        message: the exception's type and text.
        traceback: of the exception, or the stack at a signal.
        place: the deepest line of the script.
        at_ns: time of the failure, in ns since the epoch. torch's own files have whole seconds.
        pid: the process that wrote the file; None in torch's own files.
        exit_code: the one with which the process ends, unless something else ends it before.
    """

    kind: str = ""
    message: str = ""
    traceback: str = ""
    place: Place | None = None
    at_ns: int | None = None
    pid: int | None = None
    exit_code: int = 1


@dataclass(frozen=True, slots=True)
class Cause:
    """The end of a training process that has failed.

    Args:
        rank: its global rank.
        node: rank of its node.
        host: name of its host; empty if its Agent does not say the cause.
        pid: its process.
        code: its exit code; 0 if a signal has ended it.
        signal: name of the signal that has ended it, such as `SIGKILL`; empty without one.
        at_ns: time of the failure, in ns since the epoch; without a reason, that of the Agent's look.
        asked: the Agent ended it; it has not failed before.
        out_of_memory: the kernel killed it for want of memory.
        reason: its own record of the failure; None if it left none.
        thread: its record of the first exception that ended a thread of it.
        last_lines: of its standard error, where it left no record, and torch writes that into a file.
        hung: the reason why the Manager has it ended: it held up the others. Empty for a process that has ended.
    """

    rank: int = 0
    node: int = 0
    host: str = ""
    pid: int = 0
    code: int = 0
    signal: str = ""
    at_ns: int = 0
    asked: bool = False
    out_of_memory: bool = False
    reason: Reason | None = None
    thread: Reason | None = None
    last_lines: str = ""
    hung: str = ""

    @property
    def lost_peer(self) -> bool:
        """True if the process failed because another one had gone."""
        return self.reason is not None and _LOST_PEER.search(self.reason.traceback) is not None

    @property
    def lost_mgr(self) -> bool:
        """True if the process has waited for a Manager that was away for too long."""
        return self.reason is not None and self.reason.kind.rpartition(".")[2] == CANNOT_REJOIN

    @property
    def end(self) -> str:
        """The exit code or the signal, in words; of a process that had not ended, the reason to end it."""
        if self.hung:
            return f"hung: {self.hung}"
        if self.signal:
            return f"ended by {self.signal}" + (": out of memory, by its cgroup's count" if self.out_of_memory else "")
        return f"exit code {self.code}" if self.code else "its Agent does not say how"

    @property
    def likeness(self) -> str:
        """The mark by which a failure is recognised if it comes again; empty if it is never the same one.

        It is the exception and the script's deepest line, else the exit code. Signals, lost peers, errors of torch's
        store and ports in use are causes from outside, which may be gone at the next start.
        """
        reason = self.reason
        if self.signal or self.lost_peer or (reason is not None and _PORT_IN_USE.search(reason.traceback)):
            return ""
        if reason is not None and reason.place is not None and reason.kind not in ("", "SystemExit"):
            return f"{reason.kind} at {reason.place.file}, line {reason.place.line}"
        return f"exit code {self.code}" if self.code else ""

    @property
    def told(self) -> Cause:
        """The cause as commands carry it: with a shorter traceback, and without that of a thread."""
        reason = self.reason
        if reason is not None:
            reason = replace(reason, traceback=_cut(reason.traceback, TOLD_HEAD_CHARS, TOLD_TAIL_CHARS))
        return replace(self, reason=reason, thread=None)

    @property
    def brief(self) -> Cause:
        """The cause without tracebacks and last lines."""
        reason = self.reason
        return replace(self, reason=reason and replace(reason, traceback=""), thread=None, last_lines="")


def read_reason(text: str) -> Reason:
    """Read the file of a failure: ours, that of torch's `@record`, or another one in torch's form.

    Fields with a value of another type are left out.

    Args:
        text: content of the file.

    Raises:
        ValueError: it is no whole file of a failure.
    """
    value = json_value(text)
    if not isinstance(value, dict) or not isinstance(message := value.get("message"), str | dict):
        raise ValueError(f"it is {shown(value)}; expected an object with message")
    if isinstance(message, str):
        return Reason(
            message=_cut(message, TEXT_CHARS), traceback=_traceback(message), at_ns=_seconds(value.get("timestamp"))
        )
    more = _mapping(message.get("extraInfo"))
    said = _text(message.get("message"))
    ours = _mapping(value.get("taskd_net"))
    return Reason(
        kind=_text(ours.get("type")) or _kind(said),
        message=said,
        traceback=_traceback(more.get("py_callstack")),
        place=_place(ours),
        at_ns=whole(ours.get("at_ns"), _MOST) or _seconds(more.get("timestamp")),
        pid=whole(ours.get("pid"), _MOST),
        exit_code=whole(ours.get("exit_code"), _MOST) or 1,
    )


def read_stack(text: str) -> Reason | None:
    """Read the stack that Python's faulthandler wrote at a signal. None: it wrote nothing."""
    if not text.strip():
        return None
    found = _FRAME.search(text)
    place = None if found is None else Place(_cut(found[1], TEXT_CHARS), int(found[2]), _cut(found[3], TEXT_CHARS))
    return Reason(message=_cut(text.partition("\n")[0], TEXT_CHARS), traceback=_traceback(text), place=place)


def write_cause(cause: Cause) -> str:
    """A cause as a message carries it: a JSON text."""
    return json.dumps(asdict(cause), ensure_ascii=False, separators=(",", ":"))


def read_cause(text: str) -> Cause | None:
    """Read what `write_cause` wrote. None: it is no cause. Fields with a value of another type are left out."""
    try:
        value = json_value(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or (rank := whole(value.get("rank"), _MOST)) is None:
        return None
    return Cause(
        rank=rank,
        node=whole(value.get("node"), _MOST) or 0,
        host=_text(value.get("host")),
        pid=whole(value.get("pid"), _MOST) or 0,
        code=whole(value.get("code"), _MOST) or 0,
        signal=_text(value.get("signal")),
        at_ns=whole(value.get("at_ns"), _MOST) or 0,
        asked=value.get("asked") is True,
        out_of_memory=value.get("out_of_memory") is True,
        reason=_reason(value.get("reason")),
        thread=_reason(value.get("thread")),
        last_lines=_text(value.get("last_lines"), LAST_CHARS),
        hung=_text(value.get("hung")),
    )


def first(causes: Collection[Cause]) -> Cause | None:
    """The failure that the others followed from: the earliest one.

    A process that was ended by its Agent is never it, and one that has lost a peer is it only without others.
    """
    own = [cause for cause in causes if not cause.asked]
    return min(own, key=order, default=None)


def order(cause: Cause) -> tuple[bool, int, int]:
    """The place of a cause among others: the least one is the first failure."""
    return cause.lost_peer, cause.at_ns, cause.rank


def words(cause: Cause, others: Collection[int] = ()) -> list[str]:
    """The lines that tell a person of a failure.

    Args:
        cause: the first failure.
        others: global ranks that failed after it.
    """
    where = f"node {cause.node}"
    if cause.host:
        where += f", host {cause.host}, pid {cause.pid}"
    lines = [f"rank {cause.rank} failed{' first' if others else ''}: {cause.end} ({where})"]
    if others:
        lines.append(f"ranks that failed after it: {', '.join(map(str, sorted(others)))}")
    if cause.reason is not None:
        if (place := cause.reason.place) is not None:
            lines.append(f"at {place.file}, line {place.line}" + (f", in {place.function}" if place.function else ""))
        lines += (cause.reason.traceback or cause.reason.message).splitlines()
    elif cause.last_lines:
        lines += ["the last lines of its standard error:", *cause.last_lines.splitlines()]
    elif cause.code:
        lines.append("it left no reason, such as after os._exit; see its standard error")
    if cause.thread is not None:
        lines.append("before that, an exception ended a thread of it:")
        lines += (cause.thread.traceback or cause.thread.message).splitlines()
    return [printable(line) for line in lines]


def summary(cause: Cause) -> str:
    """A cause in one line."""
    said = f"rank {cause.rank} of node {cause.node}: {cause.end}"
    reason = cause.reason
    if reason is None:
        return printable(said)
    message, place = (reason.message or reason.kind).partition("\n")[0], reason.place
    return printable(f"{said}: {message}" + ("" if place is None else f" at {place.file}, line {place.line}"))


def _reason(value: object) -> Reason | None:
    if not isinstance(value, dict):
        return None
    return Reason(
        kind=_text(value.get("kind")),
        message=_text(value.get("message")),
        traceback=_traceback(value.get("traceback")),
        place=_place(_mapping(value.get("place"))),
        at_ns=whole(value.get("at_ns"), _MOST),
        pid=whole(value.get("pid"), _MOST),
        exit_code=whole(value.get("exit_code"), _MOST) or 1,
    )


def _place(ours: Mapping[str, object]) -> Place | None:
    file, line = _text(ours.get("file")), whole(ours.get("line"), _MOST)
    return None if not file or line is None else Place(file, line, _text(ours.get("function")))


def _kind(said: str) -> str:
    """The type in `ValueError: boom`."""
    kind = said.partition(":")[0]
    return kind if kind.isidentifier() else ""


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object, most: int = TEXT_CHARS) -> str:
    return _cut(value, most) if isinstance(value, str) else ""


def _traceback(value: object) -> str:
    return _cut(value, HEAD_CHARS, TAIL_CHARS) if isinstance(value, str) else ""


def _cut(text: str, head: int, tail: int = 0) -> str:
    """A text with its first and last characters, which can be written as UTF-8."""
    text = text.encode(errors="backslashreplace").decode()
    left_out = len(text) - head - tail
    if left_out > MARK_CHARS:
        text = f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[len(text) - tail :]}"
    return text


def _seconds(value: object) -> int | None:
    """torch's time, in ns: a number, or its digits."""
    seconds = natural(value, _MOST) if isinstance(value, str) else value
    return whole(seconds * 10**9, _MOST) if isinstance(seconds, int) else None
