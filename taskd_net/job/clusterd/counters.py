"""Counters of a client of ClusterD."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from taskd_net.observe.job_view import ClusterdView


@dataclass(slots=True)
class Counters:
    """Events of a client since it began.

    Args:
        orders: messages that were handed on.
        repeated: those of them that had come before.
        dropped: messages that were not handed on, by reason: `keep-alive`, `foreign`, `unreadable`.
        unknown_actions: actions of signals that this release does not know.
        failed_actions: actions whose controller or handler has raised, or does not exist.
        reports: attempts at reports and results, by outcome: `sent`, `refused`, `unanswered`; `void` ones are not sent.
        streams: streams of signals that were opened.
        rounds: those of them that were opened at the end of a round.
    """

    orders: int = 0
    repeated: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    unknown_actions: int = 0
    failed_actions: int = 0
    reports: Counter[str] = field(default_factory=Counter)
    streams: int = 0
    rounds: int = 0

    def view(self, address: str, state: str, refused: str) -> ClusterdView:
        """The counters at this moment.

        Args:
            address: of ClusterD.
            state, refused: of the client, as in `ClusterdView`.
        """
        return ClusterdView(
            address=address,
            state=state,
            refused=refused,
            taken=self.orders - self.repeated,
            repeated=self.repeated,
            foreign=self.dropped["foreign"],
            unreadable=self.dropped["unreadable"],
            keep_alives=self.dropped["keep-alive"],
            unknown_actions=self.unknown_actions,
            failed_actions=self.failed_actions,
            reports_sent=self.reports["sent"],
            reports_refused=self.reports["refused"],
            reports_unanswered=self.reports["unanswered"],
            reports_void=self.reports["void"],
            reconnects=max(self.streams - 1 - self.rounds, 0),
            rounds=self.rounds,
        )
