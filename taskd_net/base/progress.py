"""Progress of training processes, as their Agent sees it from outside, and its text in a KEEP_ALIVE. Pure.

It is in this room because Agents write it, the Manager's decider reads it, and commands and the page show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from taskd_net.base.untrusted import json_line, json_value, whole

SLOWEST: Final = 4
"""Ranks of a node that its Agent describes one by one: those that are furthest behind. A hang has one or two guilty
ranks; the others wait for them."""

SECTION_CHARS: Final = 32
"""Characters of a section's name; longer ones are cut where they are written."""

STEP_MOST: Final = 10**15
"""Bound on steps and samples where they are written; JavaScript keeps such a number exactly."""

_TEXT_CHARS: Final = 16 * 1024
_MOST: Final = 2**63 - 1
_SECONDS_MOST: Final = 1e9
_CLASSES_MOST: Final = 16


class Seen(StrEnum):
    """State of a process, as /proc shows it."""

    RUNS = "runs"
    STOPPED = "stopped"
    DISK = "disk"
    TRACED = "traced"
    HOLDS = "holds"
    ENDED = "ended"
    ABSENT = "absent"


SEEN_WORDS: Final = {
    Seen.RUNS: "runs",
    Seen.STOPPED: "is stopped (SIGSTOP)",
    Seen.DISK: "waits for a disk or a driver (state D)",
    Seen.TRACED: "is under a debugger",
    Seen.HOLDS: "holds the interpreter: none of its threads can run Python",
    Seen.ENDED: "has ended",
    Seen.ABSENT: "was never started",
}
"""The states for people, after `rank 3`."""


class Spent(StrEnum):
    """Class of the wall time of a rank."""

    START = "start"
    STEPS = "steps"
    AGAIN = "again"
    DATA = "data"
    SAVE = "checkpoint"
    LOAD = "load"
    EVALUATION = "evaluation"
    WAITING = "waiting"
    OTHER = "other"


class Account(StrEnum):
    """Account of the wall time of a run, in the books of its Manager."""

    STEPS = "steps"
    AGAIN = "again"
    START = "start"
    NODES = "nodes"
    DATA = "data"
    SAVE = "checkpoint"
    LOAD = "load"
    EVALUATION = "evaluation"
    OTHER = "other"
    WAITING = "waiting"
    HANG = "hang"
    NOTICED = "noticed"
    DECIDED = "decided"
    RESTARTED = "restarted"
    JOINED = "joined"
    LOADED = "loaded"
    UNKNOWN = "unknown"


ACCOUNT_WORDS: Final = {
    Account.STEPS: "steps",
    Account.AGAIN: "steps done again",
    Account.START: "start-up",
    Account.NODES: "waiting for nodes",
    Account.DATA: "data",
    Account.SAVE: "checkpoint save",
    Account.LOAD: "checkpoint load",
    Account.EVALUATION: "evaluation",
    Account.OTHER: "other sections",
    Account.WAITING: "waiting()",
    Account.HANG: "hang",
    Account.NOTICED: "failures until noticed",
    Account.DECIDED: "until decided",
    Account.RESTARTED: "until the processes were there",
    Account.JOINED: "until they had joined",
    Account.LOADED: "until they trained again",
    Account.UNKNOWN: "unknown",
}
"""The accounts for people, in the order in which they are shown."""

RECOVERY_WORDS: Final = {
    Account.NOTICED: "noticed",
    Account.DECIDED: "decided",
    Account.NODES: "nodes waited for",
    Account.RESTARTED: "processes there",
    Account.JOINED: "joined",
    Account.LOADED: "in steps again",
}
"""The phases of a recovery for people, each by the event that ends it, in their usual order."""


@dataclass(frozen=True, slots=True)
class RankProgress:
    """Progress of one rank.

    Args:
        rank: its global rank.
        pid: its process; 0 without one.
        seen: state of that process.
        step: the last step that its script has marked; None: none.
        group: sequence number of the last collective of torch's default group; None: not known.
        section: name of the section that it is in; empty outside of any.
        waits: its script has said that it waits for something outside of the training.
        marked: seconds since its script marked something; None: it never has.
        moved: seconds since `group` rose; None: not known.
    """

    rank: int
    pid: int = 0
    seen: Seen = Seen.RUNS
    step: int | None = None
    group: int | None = None
    section: str = ""
    waits: bool = False
    marked: float | None = None
    moved: float | None = None


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """Progress of a node's ranks.

    Args:
        ranks: number of its ranks.
        watched: those that tell something: a step, a section, or torch's sequence number.
        marking: those that have marked a step.
        lowest, highest: least and greatest last step of those; None without one.
        low_group, high_group: the same of the sequence numbers.
        marked: seconds since the last mark of any of its ranks; None: there was none.
        slowest: the ranks that are furthest behind, at most `SLOWEST`, the slowest first.
        steps: steps that a rank has done since the Agent began, again or not: the greatest number of all ranks.
        again: those of them that the job had done before.
        samples: that all ranks have told since the Agent began.
        of: number of the last step of the training; None: no rank has told it.
        loss: of the lowest rank that has told one; None without one.
        spent: seconds of each class since the Agent began: of the rank with the most in it, look by look.
    """

    ranks: int
    watched: int = 0
    marking: int = 0
    lowest: int | None = None
    highest: int | None = None
    low_group: int | None = None
    high_group: int | None = None
    marked: float | None = None
    slowest: tuple[RankProgress, ...] = ()
    steps: int = 0
    again: int = 0
    samples: int = 0
    of: int | None = None
    loss: float | None = None
    spent: Mapping[Spent, float] = field(default_factory=dict)


def furthest_behind(ranks: Iterable[RankProgress]) -> tuple[RankProgress, ...]:
    """The ranks of a node that its Agent describes one by one, the slowest first.

    Of equally slow ranks the first are those with a reason for it: an odd state of the process, a wait, a section. A
    rank that has told nothing yet has no place in this order, so the first of them takes the last place.
    """
    told, silent = list[RankProgress](), list[RankProgress]()
    for rank in ranks:
        (silent if rank.marked is None and rank.step is None and rank.group is None else told).append(rank)
    told.sort(key=_behind)
    silent.sort(key=_behind)
    most = SLOWEST - bool(silent)
    return (*told[:most], *silent[: SLOWEST - len(told[:most])])


def write_progress(progress: NodeProgress) -> str:
    """The text of a node's progress; what has its default is left out."""
    said: dict[str, object] = {"ranks": progress.ranks}
    for name in _COUNTS:
        if value := getattr(progress, name):
            said[name] = value
    for name in (*_NUMBERS, *_MEASURES):
        if (value := getattr(progress, name)) is not None:
            said[name] = round(value, 3) if isinstance(value, float) and name != "loss" else value
    if progress.slowest:
        said["slowest"] = [_written(each) for each in progress.slowest]
    if progress.spent:
        said["spent"] = {each.value: round(seconds, 3) for each, seconds in progress.spent.items()}
    return json_line(said, compact=True)


def read_progress(text: str) -> NodeProgress | None:
    """Read a node's progress; None: the text is empty or none. What is out of bounds counts as not said."""
    if not text or len(text) > _TEXT_CHARS:
        return None
    try:
        said = json_value(text)
    except ValueError:
        return None
    if not isinstance(said, dict) or (ranks := whole(said.get("ranks"), _MOST)) is None:
        return None
    spent, slowest = said.get("spent"), said.get("slowest")
    return NodeProgress(
        ranks=ranks,
        watched=whole(said.get("watched"), _MOST) or 0,
        marking=whole(said.get("marking"), _MOST) or 0,
        steps=whole(said.get("steps"), _MOST) or 0,
        again=whole(said.get("again"), _MOST) or 0,
        samples=whole(said.get("samples"), _MOST) or 0,
        lowest=whole(said.get("lowest"), _MOST),
        highest=whole(said.get("highest"), _MOST),
        low_group=whole(said.get("low_group"), _MOST),
        high_group=whole(said.get("high_group"), _MOST),
        marked=_seconds(said.get("marked")),
        of=whole(said.get("of"), _MOST),
        loss=_finite(said.get("loss")),
        slowest=tuple(_ranks(slowest)) if isinstance(slowest, list) else (),
        spent=_spent(spent) if isinstance(spent, dict) else {},
    )


def _behind(rank: RankProgress) -> tuple[float, float, bool, bool, float, int]:
    return (
        math.inf if rank.step is None else rank.step,
        math.inf if rank.group is None else rank.group,
        rank.seen is Seen.RUNS,
        not (rank.waits or rank.section),
        -(rank.marked or 0.0),
        rank.rank,
    )


_COUNTS: Final = ("watched", "marking", "steps", "again", "samples")
_NUMBERS: Final = ("lowest", "highest", "low_group", "high_group", "of")
_MEASURES: Final = ("marked", "loss")


def _written(rank: RankProgress) -> dict[str, object]:
    said: dict[str, object] = {"rank": rank.rank, "seen": rank.seen.value}
    if rank.pid:
        said["pid"] = rank.pid
    for name in ("step", "group"):
        if (value := getattr(rank, name)) is not None:
            said[name] = value
    for name in ("marked", "moved"):
        if (value := getattr(rank, name)) is not None:
            said[name] = round(value, 3)
    if rank.section:
        said["section"] = rank.section
    if rank.waits:
        said["waits"] = True
    return said


def _ranks(said: list[object]) -> list[RankProgress]:
    found = []
    for each in said[:SLOWEST]:
        if isinstance(each, dict) and (rank := whole(each.get("rank"), _MOST)) is not None:
            seen, section = each.get("seen"), each.get("section")
            found.append(
                RankProgress(
                    rank=rank,
                    pid=whole(each.get("pid"), _MOST) or 0,
                    seen=_SEEN.get(seen, Seen.RUNS) if isinstance(seen, str) else Seen.RUNS,
                    step=whole(each.get("step"), _MOST),
                    group=whole(each.get("group"), _MOST),
                    section=section[:SECTION_CHARS] if isinstance(section, str) else "",
                    waits=each.get("waits") is True,
                    marked=_seconds(each.get("marked")),
                    moved=_seconds(each.get("moved")),
                )
            )
    return found


_SEEN: Final = {each.value: each for each in Seen}
_SPENT: Final = {each.value: each for each in Spent}


def _spent(said: Mapping[object, object]) -> dict[Spent, float]:
    found = {}
    for name in list(said)[:_CLASSES_MOST]:
        seconds = _seconds(said[name])
        if isinstance(name, str) and name in _SPENT and seconds is not None:
            found[_SPENT[name]] = seconds
    return found


def _finite(value: object) -> float | None:
    """A number, if it is one and finite."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is not int:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _seconds(value: object) -> float | None:
    seconds = _finite(value)
    return seconds if seconds is not None and 0.0 <= seconds <= _SECONDS_MOST else None
