"""The effect of a fault: its detection by a neighbour, and that on uninvolved nodes, by the ledger of their traffic."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from taskd_net import Code
from tests.faults.lab import Lab, Member
from tests.faults.ledger import Attempt, Letter

DETECTED_S: Final = 8.5
"""The promise: 8 s without a sign of life, and the answer. A test waits longer, because the machine is busy."""

PATIENCE_S: Final = 40.0


class Look:
    """A message from one member to a neighbour, which is answered when the neighbour counts as silent or lost.

    Args:
        by: the sender.
        to: its destination, behind the neighbour or the neighbour itself.
    """

    def __init__(self, by: Member, to: Member) -> None:
        self._by = by
        self._number = by.process.begin("send", to=to.position, timeout=PATIENCE_S)

    def detected(self) -> float:
        """The time of the answer, before the message's own timeout."""
        told = self._by.process.answer(self._number, 2.0 * PATIENCE_S)
        # 6000 for a message that waited behind four batches without an answer.
        assert told["code"] in (Code.NETWORK_ACK_LOST, Code.NET_STREAM_NOT_INITED, Code.NETWORK_SEND_LOST), told
        assert told["seconds"] < PATIENCE_S, told
        return float(told["at"])


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
