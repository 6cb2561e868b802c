"""The ledger: each message that was sent, its sender's answer, and the inboxes that got it.

Every process of the laboratory records its observations in a file of its own, a JSON list a line. Each line is one
system call, so it survives `kill -9`. The audit reads all files together and checks the promises.

A killed receiver forgets what it has received, so "delivered exactly once" holds for *lives*. No life of a receiver has
a message in its inbox twice. A second life may get a message again only if the first one was killed before the sender
had its answer (docs/reliability.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from taskd_net import Code

MARK = "L-"
"""Prefix of the uuids of recorded messages."""


class Recorder:
    """One life's file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, what: str, *fields: object) -> None:
        """Write one line with one system call."""
        os.write(self._file, json.dumps([what, *fields]).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One `send` of a message: its begin and end, and its answer."""

    began: float
    ended: float
    code: int
    src: str


@dataclass(slots=True)
class Arrival:
    """A message in an inbox. `taken`: the application has received it."""

    life: str
    at: float
    taken: bool = False


@dataclass(slots=True)
class Letter:
    """One message under one uuid, all attempts together.

    Attributes:
        uuid: its name.
        sender: the life that sent it.
        dst: the destination.
        begun: its first attempt (seconds of the monotonic clock, which all processes of a machine share).
        kind: `sent`, `retried` (its node resent it, so only the last answer is known) or `posted`.
        code: its final code; None so far.
    """

    uuid: str
    sender: str = ""
    dst: str = ""
    begun: float = 0.0
    kind: str = "sent"
    code: int | None = None
    attempts: list[Attempt] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)


@dataclass(slots=True)
class Audit:
    """The result of an audit. Lists name messages by uuid.

    Attributes:
        sent: sync messages.
        acked: of them acknowledged with 0.
        delivered: of them in the inbox of at least one life of the receiver.
        lost: acknowledged with 0, and in no inbox; or in the inbox of a life that goes on, and never received.
        duplicated: twice in the inbox of one life, or in that of a second life while the first one went on, or after it
            was acknowledged.
        vanished: without any code, though the sender lives.
        out_of_order: overtook an earlier message from the same sender to the same destination.
        in_killed_inbox: acknowledged with 0, and in the inbox of a receiver when it was killed.
        in_two_lives: in the inboxes of two lives of a receiver that was killed before the sender had its answer.
        delivered_though_refused: in an inbox, though every attempt up to then was refused (neither 0 nor 6001).
        stray: in an inbox, without a send in this ledger: given up, and delivered long after.
        orphaned: without a code, because the sender was killed.
        codes: final codes of sync messages, with their counts.
        posted, arrived: `sync=false` messages taken by their first hop, and those of them that arrived.
    """

    sent: int = 0
    acked: int = 0
    delivered: int = 0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    delivered_though_refused: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)
    in_killed_inbox: list[str] = field(default_factory=list)
    in_two_lives: list[str] = field(default_factory=list)
    orphaned: list[str] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)
    posted: int = 0
    arrived: int = 0

    @property
    def broken(self) -> dict[str, list[str]]:
        """The broken promises, with the messages."""
        found = {
            "lost": self.lost,
            "duplicated": self.duplicated,
            "vanished": self.vanished,
            "out_of_order": self.out_of_order,
            "delivered_though_refused": self.delivered_though_refused,
            "stray": self.stray,
        }
        return {promise: uuids for promise, uuids in found.items() if uuids}


class Ledger:
    """All records.

    Args:
        killed: the lives ended by `kill -9`, with the times.
    """

    def __init__(self, killed: Mapping[str, float] | None = None) -> None:
        self.letters: dict[str, Letter] = {}
        self._killed = killed or {}

    @classmethod
    def read(cls, folder: Path, killed: Mapping[str, float]) -> Ledger:
        """Read the files of a laboratory; a file's name is the life's."""
        ledger = cls(killed)
        for path in sorted(folder.glob("*.records")):
            with path.open() as lines:
                # The last line of a killed life is complete, because one system call wrote it.
                ledger.add(path.stem, (json.loads(line) for line in lines))
        return ledger

    def add(self, life: str, records: Iterable[list[Any]]) -> None:
        """Add the records of one life, in order."""
        for record in records:
            match record:
                case ["begin", uuid, dst, at, kind]:
                    letter = self._letter(uuid)
                    letter.sender, letter.dst, letter.begun, letter.kind = life, dst, at, kind
                case ["tried", uuid, code, src, began, ended]:
                    self._letter(uuid).attempts.append(Attempt(began, ended, code, src))
                case ["end" | "handed", uuid, code]:
                    self._letter(uuid).code = code
                case ["in", uuid, at]:
                    self._letter(uuid).arrivals.append(Arrival(life, at))
                case ["took", uuid]:
                    next(a for a in self._letter(uuid).arrivals if a.life == life and not a.taken).taken = True
                case _:
                    raise ValueError(f"no record of the ledger: {record}")

    def _letter(self, uuid: str) -> Letter:
        return self.letters.setdefault(uuid, Letter(uuid))

    def audit(self) -> Audit:
        """Check all promises."""
        audit = Audit()
        for letter in self.letters.values():
            self._judge(letter, audit)
        audit.out_of_order = list(self._overtaking())
        return audit

    def attempts(self, since: float, until: float) -> Iterator[tuple[Letter, Attempt]]:
        """The sends under way at any time between the two."""
        for letter in self.letters.values():
            for attempt in letter.attempts:
                if attempt.ended >= since and attempt.began <= until:
                    yield letter, attempt

    def _judge(self, letter: Letter, audit: Audit) -> None:
        uuid, arrivals = letter.uuid, letter.arrivals
        if not letter.sender:
            audit.stray.append(uuid)
            return
        if len(arrivals) > 1:
            self._judge_copies(letter, audit)
        if letter.kind == "posted":
            taken = letter.code == Code.OK
            audit.posted += taken
            audit.arrived += taken and bool(arrivals)
            return
        audit.sent += 1
        audit.delivered += bool(arrivals)
        if letter.code is None:
            (audit.orphaned if letter.sender in self._killed else audit.vanished).append(uuid)
        else:
            audit.codes[letter.code] = audit.codes.get(letter.code, 0) + 1
        acked = letter.code == 0
        audit.acked += acked
        forgotten = any(not arrival.taken and arrival.life not in self._killed for arrival in arrivals)
        if forgotten or (acked and not arrivals):
            audit.lost.append(uuid)
        elif acked and not any(arrival.taken for arrival in arrivals):
            audit.in_killed_inbox.append(uuid)
        if arrivals and letter.code is not None and letter.kind == "sent" and _was_refused(letter):
            audit.delivered_though_refused.append(uuid)

    def _judge_copies(self, letter: Letter, audit: Audit) -> None:
        arrivals = sorted(letter.arrivals, key=lambda arrival: arrival.at)
        answered = min((attempt.ended for attempt in letter.attempts if attempt.code == 0), default=float("inf"))
        for before, after in pairwise(arrivals):
            died = self._killed.get(before.life)
            if before.life == after.life or died is None or died > after.at or answered < died:
                audit.duplicated.append(letter.uuid)
                return
        audit.in_two_lives.append(letter.uuid)

    def _overtaking(self) -> Iterator[str]:
        # By life of the sender, kind, destination and life of the receiver: compare the order of sending with that of
        # arrival. Posts and sends to the same destination are under way together.
        flows: dict[tuple[str, str, str, str], list[tuple[float, float, str]]] = {}
        for letter in self.letters.values():
            # After 6001 a message may arrive at any time, until it is resent.
            if letter.code != Code.OK:
                continue
            first: dict[str, float] = {}
            for arrival in letter.arrivals:
                first.setdefault(arrival.life, arrival.at)
            for life, at in first.items():
                flows.setdefault((letter.sender, letter.kind, letter.dst, life), []).append(
                    (letter.begun, at, letter.uuid)
                )
        for flow in flows.values():
            latest = float("-inf")
            for _, at, uuid in sorted(flow):
                if at < latest:
                    yield uuid
                latest = max(latest, at)


def _was_refused(letter: Letter) -> bool:
    """True if it arrived before any attempt began whose answer permits a delivery."""
    arrived = min(arrival.at for arrival in letter.arrivals)
    codes = {attempt.code for attempt in letter.attempts if attempt.began <= arrived}
    return not codes & {Code.OK, Code.NETWORK_ACK_LOST}
