"""Stacks of training processes: read from faulthandler's text, grouped where they are equal, and put into words. Pure.

It is in this room because an Agent writes them, the Manager puts those of all nodes together, and commands show them.
Only file, line and function are kept: values of a script are its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from taskd_net.base.cause import Place
from taskd_net.base.progress import SEEN_WORDS, Seen
from taskd_net.base.untrusted import json_line, json_value, natural, printable, whole

STACK_BYTES: Final = 64 * 1024
"""Bytes of one process's text that are read: 100 frames of each of ten threads."""

NODE_CHARS: Final = 64 * 1024
"""Characters of a node's stacks in a message. Those of 1,000 nodes take 64 MB at the Manager, for some seconds."""

WHOLE_CHARS: Final = 8 * 1024 * 1024
"""Characters of the stacks of all nodes in an answer; what a caller of the Manager receives at most is 10 MiB."""

_FRAMES_MOST: Final = 100
_THREADS_MOST: Final = 64
_GROUPS_MOST: Final = 1_024
_RANKS_MOST: Final = 65_536
_TEXT_CHARS: Final = 512
_NUMBER_MOST: Final = 2**31 - 1

_THREAD: Final = re.compile(r"^(?:Thread|Current thread) 0x[0-9a-f]+ .*\(most recent call first\):$")
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d{1,9}) in (.*)$')

Stack = tuple[Place, ...]
"""The frames of a thread, the most recent call first."""


@dataclass(frozen=True, slots=True)
class RankStack:
    """Evidence about one rank.

    Args:
        rank: its global rank.
        pid: its process; 0 without one.
        seen: state of that process.
        wchan: the function of the kernel in which its main thread waits; empty for none.
        threads: stacks of its threads, that of the main thread last; empty where there are none.
        why: the reason why there are none; empty otherwise.
    """

    rank: int
    pid: int = 0
    seen: Seen = Seen.RUNS
    wchan: str = ""
    threads: tuple[Stack, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Ranks with the same stack of the main thread, or with the same reason why there is none.

    Args:
        pids: process of each of them, by global rank.
        seen: their state.
        wchan: the function of the kernel in which the first one waits.
        stack: of the main thread.
        others: of the other threads of the first one.
        why: the reason why there is no stack; empty otherwise.
    """

    pids: Mapping[int, int]
    seen: Seen = Seen.RUNS
    wchan: str = ""
    stack: Stack = ()
    others: tuple[Stack, ...] = ()
    why: str = ""

    @property
    def ranks(self) -> list[int]:
        """The ranks, in order."""
        return sorted(self.pids)


def read_threads(text: str) -> tuple[Stack, ...]:
    """Read what faulthandler writes about all threads of a process. Lines of another form are left out."""
    threads: list[list[Place]] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            threads.append([])
        elif threads and len(threads[-1]) < _FRAMES_MOST and (found := _FRAME.match(line)):
            threads[-1].append(Place(found[1][:_TEXT_CHARS], int(found[2]), found[3][:_TEXT_CHARS]))
    return tuple(map(tuple, threads[-_THREADS_MOST:]))


def grouped(ranks: Iterable[RankStack]) -> list[StackGroup]:
    """The groups of ranks, small ones first: who differs from all others is who one looks for."""
    groups = (
        StackGroup(
            {each.rank: each.pid},
            each.seen,
            each.wchan,
            each.threads[-1] if each.threads else (),
            each.threads[:-1],
            each.why,
        )
        for each in ranks
    )
    return joined(groups)


def joined(groups: Iterable[StackGroup]) -> list[StackGroup]:
    """Groups of several nodes, put together."""
    found: dict[tuple[object, ...], StackGroup] = {}
    for each in groups:
        key = (each.seen, each.why, each.stack)
        known = found.get(key)
        found[key] = each if known is None else replace(known, pids={**known.pids, **each.pids})
    return sorted(found.values(), key=lambda each: (len(each.pids), each.ranks))


def documents(groups: Iterable[StackGroup]) -> list[dict[str, object]]:
    """Groups as JSON values, with what they have alone."""
    return [_written(each) for each in groups]


def write_stacks(groups: Iterable[StackGroup]) -> str:
    """The text of groups, for a message. Other threads are left out where there is no room for them."""
    listed = list(groups)
    text = json_line(documents(listed), compact=True)
    if len(text) > NODE_CHARS:
        text = json_line([_written(replace(each, others=())) for each in listed], compact=True)
    while len(text) > NODE_CHARS:
        cut = [replace(each, others=(), stack=each.stack[: len(each.stack) // 2]) for each in listed]
        listed = cut if cut != listed else listed[: len(listed) // 2]
        text = json_line([_written(replace(each, others=())) for each in listed], compact=True)
    return text


def read_stacks(text: str, most: int = NODE_CHARS) -> list[StackGroup] | None:
    """Read the text of groups; None: it is none. What is out of bounds is left out.

    Args:
        text: of `write_stacks`.
        most: characters that it may have.
    """
    if len(text) > most:
        return None
    try:
        said = json_value(text)
    except ValueError:
        return None
    if not isinstance(said, list):
        return None
    read = (_group(each) for each in said[:_GROUPS_MOST])
    return [group for group in read if group is not None]


def words(groups: Iterable[StackGroup]) -> list[str]:
    """The lines that show groups to a person, the most recent call of each stack first."""
    lines = []
    for group in groups:
        head = named(group.ranks)
        if group.seen is not Seen.RUNS:
            said = SEEN_WORDS[group.seen]
            head += f" {said if len(group.pids) == 1 else _PLURAL[said.split()[0]] + said[said.index(' ') :]}"
        if group.wchan:
            head += f", in the kernel's {group.wchan}"
        lines.append(f"{head}: {group.why}" if group.why else f"{head}, the most recent call first:")
        lines += [f"  {place.file}, line {place.line}, in {place.function}" for place in group.stack]
    return [printable(line) for line in lines]


_PLURAL: Final = {"is": "are", "was": "were", "has": "have", "waits": "wait", "holds": "hold"}


def named(ranks: list[int]) -> str:
    """Ranks in words: `rank 3`, `ranks 0-2,5`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    said = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"rank{'s' if len(ranks) > 1 else ''} {said}"


def _written(group: StackGroup) -> dict[str, object]:
    said: dict[str, object] = {"pids": {str(rank): pid for rank, pid in group.pids.items()}, "seen": group.seen.value}
    for name in ("wchan", "why"):
        if value := getattr(group, name):
            said[name] = value
    if group.stack:
        said["stack"] = _frames(group.stack)
    if group.others:
        said["others"] = [_frames(each) for each in group.others]
    return said


def _frames(stack: Stack) -> list[list[object]]:
    return [[place.file, place.line, place.function] for place in stack]


def _group(said: object) -> StackGroup | None:
    if not isinstance(said, dict) or not isinstance(said.get("pids"), dict):
        return None
    pids = {}
    for text, pid in list(said["pids"].items())[:_RANKS_MOST]:
        if (rank := natural(text, _NUMBER_MOST)) is not None and whole(pid, _NUMBER_MOST) is not None:
            pids[rank] = pid
    if not pids:
        return None
    seen, others = said.get("seen"), said.get("others")
    return StackGroup(
        pids,
        Seen(seen) if seen in _SEEN else Seen.RUNS,
        _text(said.get("wchan")),
        _stack(said.get("stack")),
        tuple(map(_stack, others[:_THREADS_MOST])) if isinstance(others, list) else (),
        _text(said.get("why")),
    )


_SEEN: Final = frozenset(each.value for each in Seen)


def _stack(said: object) -> Stack:
    frames = said[:_FRAMES_MOST] if isinstance(said, list) else []
    return tuple(
        Place(_text(each[0]), each[1], _text(each[2]))
        for each in frames
        if isinstance(each, list) and len(each) == 3 and whole(each[1], _NUMBER_MOST) is not None
    )


def _text(value: object) -> str:
    return value[:_TEXT_CHARS] if isinstance(value, str) else ""
