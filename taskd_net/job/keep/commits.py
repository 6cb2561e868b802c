"""Commits of any size, as transactions that etcd takes: pure.

Each commit has a token of its own, and the key `commit` has the token of the last one. A transaction compares that key
with what it has to follow, beside the leader's fencing number. So it is carried out once, however often it is sent and
however late it arrives, and the answer to a repeated one tells that it has been carried out.

etcd bounds a transaction. A small commit is one. A large one is staged first, and counts from the moment at which its
token stands in `commit`; then it is written out:

    stage 0 … stage n ── commit = TOKEN+n ── write 0 … write n ── commit = TOKEN, the stage is cleared

A Manager that dies before the token stands has committed nothing. After it, the next one writes it out (`write_out`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from taskd_net.base.untrusted import json_value
from taskd_net.job.keep.limits import EtcdLimits

Change: TypeAlias = "tuple[str, str | None]"
"""A name below the prefix and its new value; None removes the key. Of `STAGED`, it removes all keys below it."""

PART: Final = "part/"
STAGED: Final = "staged/"
_SLICE: Final = "\0"
_PIECES: Final = "+"


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of a commit.

    Args:
        follows: the value of `commit` before it; empty for no such key.
        becomes: the value after it.
        changes: keys that it writes or removes.
    """

    follows: str
    becomes: str
    changes: tuple[Change, ...]


class Slices:
    """The keys of parts that are longer than one value may be.

    Args:
        counts: number of values of each part that has more than one.
        limits: size of a value.
    """

    def __init__(self, counts: Mapping[str, int] = {}, limits: EtcdLimits = EtcdLimits()) -> None:
        self._counts = dict(counts)
        self._size = limits.value_chars

    def cut(self, parts: Mapping[str, str | None]) -> list[Change]:
        """The changes for these parts. Values that a shorter text leaves over are removed."""
        changes: list[Change] = []
        size = self._size
        for name, text in parts.items():
            values: list[str] = []
            if text is not None:
                values = [text[at : at + size] for at in range(0, len(text), size)] or [""]
            had = self._counts.pop(name, 1)
            if len(values) > 1:
                self._counts[name] = len(values)
            changes += [(_key(name, number), value) for number, value in enumerate(values)]
            changes += [(_key(name, number), None) for number in range(len(values), had)]
        return changes

    @classmethod
    def joined(cls, values: Mapping[str, str], limits: EtcdLimits = EtcdLimits()) -> tuple[dict[str, str], Slices]:
        """The parts in the values below `part/`, and their slices."""
        found: dict[str, dict[int, str]] = {}
        for key, value in values.items():
            name, _, number = key.removeprefix(PART).partition(_SLICE)
            found.setdefault(name, {})[int(number or 0)] = value
        parts = {name: "".join(texts[number] for number in sorted(texts)) for name, texts in found.items()}
        return parts, cls({name: len(texts) for name, texts in found.items() if len(texts) > 1}, limits)


def steps(changes: Iterable[Change], last: str, token: str, limits: EtcdLimits = EtcdLimits()) -> list[Transaction]:
    """The transactions of one commit.

    Args:
        changes: all of it.
        last: the value of `commit`, without pieces that are not written out.
        token: of this commit.
        limits: size of a transaction.
    """
    groups = _grouped(changes, limits)
    if len(groups) <= 1:
        return [Transaction(last, token, groups[0] if groups else ())]
    staged = f"{token}{_PIECES}{len(groups)}"
    stage = [
        Transaction(last, last, ((piece(token, number), json.dumps(group)),)) for number, group in enumerate(groups)
    ]
    return [*stage, Transaction(last, staged, ()), *_written_out(staged, groups)]


def piece(token: str, number: int) -> str:
    """The name of a piece of a staged commit."""
    return f"{STAGED}{token}/{number}"


def pieces(commit: str) -> list[str]:
    """The names of the pieces of a commit that may not be written out; none for one that is."""
    token, _, number = commit.partition(_PIECES)
    return [piece(token, each) for each in range(int(number or 0))]


def write_out(commit: str, texts: Iterable[str]) -> list[Transaction]:
    """The transactions that write a staged commit out, from its pieces."""
    return _written_out(commit, [_read_piece(text) for text in texts])


def _written_out(staged: str, groups: Iterable[tuple[Change, ...]]) -> list[Transaction]:
    token = staged.partition(_PIECES)[0]
    return [*(Transaction(staged, staged, group) for group in groups), Transaction(staged, token, ((STAGED, None),))]


def _read_piece(text: str) -> tuple[Change, ...]:
    read = cast("list[list[Any]]", json_value(text))
    return tuple(cast("Change", tuple(each)) for each in read)


def _grouped(changes: Iterable[Change], limits: EtcdLimits) -> list[tuple[Change, ...]]:
    groups: list[list[Change]] = []
    room = 0
    for change in changes:
        size = len(change[0]) + len(change[1] or "")
        if not groups or len(groups[-1]) >= limits.commit_keys or size > room:
            groups.append([])
            room = limits.commit_chars
        groups[-1].append(change)
        room -= size
    return [tuple(group) for group in groups]


def _key(name: str, number: int) -> str:
    return f"{PART}{name}{_SLICE}{number}" if number else f"{PART}{name}"
