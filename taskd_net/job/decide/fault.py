"""An Agent's report of failed ranks (202), and its order among the restarts of that Agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base import vocabulary
from taskd_net.base.untrusted import json_value, natural
from taskd_net.job.decide.times import Moment

_UNIX_MOST: Final = 2**40
_NUMBER_MOST: Final = 2**63


@dataclass(slots=True)
class Fault:
    """A fault that no command has answered.

    Args:
        ranks: global ranks (MindSpore's Agents of the original give local ones); empty if the report cannot be read.
        at: time of arrival, in seconds since the epoch.
        reported: the Agent's own time of it; None if it is missing or no number.
        after: uuid of the last restart that the Agent had taken before; empty for none, and for an original's Agent.
    """

    ranks: list[int] = field(default_factory=list)
    at: Moment = 0.0
    reported: float | None = None
    after: str = ""

    def is_newer(self, restart: str, sent: float | None) -> bool:
        """True for a fault that is newer than a restart whose acknowledgement has come after the report.

        Messages of one Agent keep their order: what arrives before the acknowledgement is older than the restart. A
        late acknowledgement says less, because an earlier one may be lost. An Agent of this package names the restart
        that its fault has followed. The fault of an original's Agent counts as newer if it is of a later second than
        the restart: a node that is replaced for nothing costs less than a job that waits for ever.

        Args:
            restart: uuid of the 208 or 209.
            sent: time of its first try, if its acknowledgement is late and the Agent is an original's; else None.
        """
        if self.after == restart:
            return True
        return sent is not None and (self.reported is None or self.reported > sent)

    def is_answered_by(self, restart: str) -> bool:
        """True for a fault of an Agent of this package that comes after the restart that has answered it was taken.

        A report may wait for its turn, or take another way than the acknowledgement. The restart that it names, or its
        naming none, tells that it is the older one.

        Args:
            restart: uuid of the last 208 or 209 that the Agent has acknowledged; empty for none.
        """
        if not restart:
            return False
        before = number_of(self.after) if self.after else 0
        return before is not None and before < (number_of(restart) or 0)


def number_of(uuid: str) -> int | None:
    """The number of a Manager's command, which grows with each decision; None for another text."""
    return natural(uuid.rpartition("-")[2], _NUMBER_MOST)


def read_fault(now: float, message: str, extension: Mapping[str, str]) -> Fault | None:
    """Read a 202.

    Returns:
        None for no fault: an empty message or an empty list. A message that cannot be read is a fault of unknown ranks,
        as the original takes it.
    """
    ranks = _ranks(message)
    if ranks is None:
        return None
    reported = natural(extension.get(vocabulary.FAULT_TIME, ""), _UNIX_MOST)
    after = extension.get(vocabulary.AFTER, "")
    return Fault(ranks, now, None if reported is None else float(reported), after)


def _ranks(message: str) -> list[int] | None:
    if not message:
        return None
    try:
        value = json_value(message)
    except ValueError:
        return []
    ranks = value.get("fault_ranks", ()) if isinstance(value, dict) else ()
    if not isinstance(ranks, list):
        return []
    return [rank for rank in ranks if type(rank) is int] if ranks else None
