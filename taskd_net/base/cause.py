"""The cause of a training process's end: read from the file of its failure, compared, and put into words. Pure.

It is in this room because deciders, shells and commands of the job use it, and none of these rooms imports the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from taskd_net.base.untrusted import json_value, natural, printable, shown

REASON_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a file that is read. Ours have less than 120 KiB; torch's `@record` writes texts of any length."""

HEAD_CHARS: Final = 4 * 1024
"""Characters that are kept of the beginning of a traceback: its outer frames."""

TAIL_CHARS: Final = 12 * 1024
"""Characters that are kept of its end: the inner frames, and the error."""

TEXT_CHARS: Final = 1024
"""Characters of any other text."""

_MOST: Final = 2**63 - 1
_LOST_PEER: Final = re.compile(
    r"^(torch\.distributed\.Dist\w*Error\b|Dist\w*Error\b|RuntimeError: .*/gloo/)", re.MULTILINE
)
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
    """

    kind: str = ""
    message: str = ""
    traceback: str = ""
    place: Place | None = None
    at_ns: int | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """The end of a training process that has failed.

    Args:
        rank: its global rank.
        node: rank of its node.
        host: name of its host.
        pid: its process.
        code: its exit code; 0 if a signal has ended it.
        signal: name of the signal that has ended it, such as `SIGKILL`; empty without one.
        at_ns: time of the failure, in ns since the epoch; without a reason, that of the Agent's look.
        asked: the Agent ended it; it has not failed before.
        reason: its own record of the failure; None if it left none.
        thread: its record of the first exception that ended a thread of it.
    """

    rank: int
    node: int
    host: str
    pid: int
    code: int
    signal: str
    at_ns: int
    asked: bool = False
    reason: Reason | None = None
    thread: Reason | None = None

    @property
    def lost_peer(self) -> bool:
        """True if the process failed because another one had gone."""
        return self.reason is not None and _LOST_PEER.search(self.reason.traceback) is not None

    @property
    def end(self) -> str:
        """The exit code or the signal, in words."""
        return f"ended by {self.signal}" if self.signal else f"exit code {self.code}"


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
        at_ns=_natural(ours.get("at_ns")) or _seconds(more.get("timestamp")),
        pid=_natural(ours.get("pid")),
    )


def read_stack(text: str) -> Reason | None:
    """Read the stack that Python's faulthandler wrote at a signal. None: it wrote nothing."""
    if not text.strip():
        return None
    found = _FRAME.search(text)
    place = None if found is None else Place(_cut(found[1], TEXT_CHARS), int(found[2]), _cut(found[3], TEXT_CHARS))
    return Reason(message=_cut(text.partition("\n")[0], TEXT_CHARS), traceback=_traceback(text), place=place)


def first(causes: Collection[Cause]) -> Cause | None:
    """The failure that the others followed from: the earliest one.

    A process that was ended by its Agent is never it, and one that has lost a peer is it only without others.
    """
    own = [cause for cause in causes if not cause.asked]
    return min(own, key=lambda cause: (cause.lost_peer, cause.at_ns, cause.rank), default=None)


def words(cause: Cause, others: Collection[int] = ()) -> list[str]:
    """The lines that tell a person of a failure.

    Args:
        cause: the first failure.
        others: global ranks that failed after it.
    """
    where = f"node {cause.node}, host {cause.host}, pid {cause.pid}"
    lines = [f"rank {cause.rank} failed{' first' if others else ''}: {cause.end} ({where})"]
    if others:
        lines.append(f"ranks that failed after it: {', '.join(map(str, sorted(others)))}")
    if cause.reason is not None:
        if (place := cause.reason.place) is not None:
            lines.append(f"at {place.file}, line {place.line}" + (f", in {place.function}" if place.function else ""))
        lines += (cause.reason.traceback or cause.reason.message).splitlines()
    elif not cause.signal:
        lines.append("it left no reason, such as after os._exit; see its standard error")
    if cause.thread is not None:
        lines.append("before that, an exception ended a thread of it:")
        lines += (cause.thread.traceback or cause.thread.message).splitlines()
    return [printable(line) for line in lines]


def _place(ours: Mapping[str, object]) -> Place | None:
    file, line = _text(ours.get("file")), _natural(ours.get("line"))
    return None if not file or line is None else Place(file, line, _text(ours.get("function")))


def _kind(said: str) -> str:
    """The type in `ValueError: boom`."""
    kind = said.partition(":")[0]
    return kind if kind.isidentifier() else ""


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return _cut(value, TEXT_CHARS) if isinstance(value, str) else ""


def _traceback(value: object) -> str:
    return _cut(value, HEAD_CHARS, TAIL_CHARS) if isinstance(value, str) else ""


def _cut(text: str, head: int, tail: int = 0) -> str:
    """A text with its first and last characters, which can be written as UTF-8."""
    left_out = len(text) - head - tail
    if left_out > 0:
        text = f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[len(text) - tail :]}"
    return text.encode(errors="backslashreplace").decode()


def _natural(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


def _seconds(value: object) -> int | None:
    """torch's time, in ns: a number, or its digits."""
    seconds = natural(value, _MOST) if isinstance(value, str) else value
    return _natural(seconds * 10**9) if isinstance(seconds, int) else None
