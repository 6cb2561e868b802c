"""The course of one recovery, from what the training's processes and their launcher wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

RANKS: Final = 4
"""Training processes."""

SEGMENTS: Final = ("noticed", "decided", "process there", "torch imported", "joined", "loaded", "first step of all")
"""The parts of a recovery, in order. Each ends with the last rank."""


class Incomplete(Exception):
    """A part of a recovery is not there, or not yet; the text says which."""


class Event(NamedTuple):
    """A line of a training process. `at` is of `time.monotonic`, as all times here."""

    event: str
    rank: int
    pid: int
    at: float


class Line(NamedTuple):
    """A line of a launcher, and the time at which it was read."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Patterns:
    """The lines in which a launcher says something, as regular expressions.

    Args:
        noticed: a training process has failed.
        decided: the others' fate is decided.
    """

    noticed: str
    decided: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """One recovery.

    Args:
        seconds: of each part (`SEGMENTS`).
        restarted: number of training processes that are new.
        survivors: seconds from the call of the new process until the last of the others was in the process group; None
            where there are none.
    """

    seconds: dict[str, float]
    restarted: int
    survivors: float | None

    @property
    def total(self) -> float:
        """Seconds from the kill to the first step of all ranks."""
        return sum(self.seconds.values())


def events(texts: Iterable[str]) -> list[Event]:
    """The events of files, without a last line that is still being written."""
    lines = [line for text in texts for line in text.splitlines(keepends=True)]
    return [Event(**json.loads(line)) for line in lines if line.endswith("\n")]


def recovery(seen: Sequence[Event], said: Sequence[Line], patterns: Patterns, ranks: int, killed: float) -> Recovery:
    """Read a recovery.

    Args:
        seen: the events of all ranks.
        said: the lines of the launcher.
        patterns: those of the launcher.
        ranks: number of ranks.
        killed: the time of the kill.

    Raises:
        Incomplete: a part of it is not there yet.
    """
    before = {each.pid for each in seen if each.at <= killed}
    after = [each for each in seen if each.at > killed]
    new = {each.pid: each.rank for each in after if each.pid not in before}
    if not new:
        raise Incomplete("no training process is new")
    begun = _firsts(after, "process", dict.fromkeys(new.values(), killed))
    called = _firsts(after, "called", begun)
    joined = _firsts(after, "joined", dict.fromkeys(range(ranks), killed))
    loaded = _firsts(after, "loaded", joined)
    stepped = _firsts(after, "step", loaded)
    says = (_said(said, pattern, killed) for pattern in (patterns.noticed, patterns.decided))
    ends = (*says, *(max(each.values()) for each in (begun, called, joined, loaded, stepped)))
    # A rank that is early, or a line that is read late, takes no time back.
    times = list(accumulate(ends, max, initial=killed))
    seconds = dict(zip(SEGMENTS, (later - earlier for earlier, later in pairwise(times)), strict=True))
    waiting = [at for rank, at in joined.items() if rank not in called]
    survivors = max(waiting) - max(called.values()) if waiting else None
    return Recovery(seconds, len(new), survivors)


def _firsts(seen: Sequence[Event], event: str, since: Mapping[int, float]) -> dict[int, float]:
    """The time of the first such event of each rank, from a time of its own on."""
    first: dict[int, float] = {}
    for each in seen:
        if each.event == event and each.rank in since and each.at >= since[each.rank]:
            first.setdefault(each.rank, each.at)
    if first.keys() != since.keys():
        raise Incomplete(f"ranks {sorted(since.keys() - first.keys())} have not {event}")
    return first


def _said(said: Sequence[Line], pattern: str, since: float) -> float:
    """The time of the first such line."""
    found = re.compile(pattern)
    for line in said:
        if line.at > since and found.search(line.text):
            return line.at
    raise Incomplete(f"the launcher has not said {pattern}")
