"""The effect of a fault on uninvolved nodes, by the ledger of their traffic."""

from __future__ import annotations

from collections.abc import Collection

from tests.faults.lab import Lab, Member
from tests.faults.ledger import Attempt, Letter


def sends_among(lab: Lab, members: Collection[Member], since: float, until: float) -> list[tuple[Letter, Attempt]]:
    """The sends among these nodes, between two times."""
    names, positions = {member.name for member in members}, {member.position for member in members}
    return [
        (letter, attempt)
        for letter, attempt in lab.ledger().attempts(since, until)
        if letter.sender.rpartition(".")[0] in names and letter.dst in positions
    ]


def failures_among(lab: Lab, members: Collection[Member], since: float, until: float) -> list[str]:
    """The failed ones of these sends. There must be sends at all."""
    sends = sends_among(lab, members, since, until)
    assert sends, "there was no traffic to be disturbed"
    return [
        f"{letter.sender} to {letter.dst}: {attempt.code} from {attempt.src} at {attempt.ended - since:.2f} s"
        for letter, attempt in sends
        if attempt.code
    ]


def slowest_among(lab: Lab, members: Collection[Member], since: float, until: float) -> float:
    """Seconds of the slowest of these sends."""
    return max(attempt.ended - attempt.began for _, attempt in sends_among(lab, members, since, until))
