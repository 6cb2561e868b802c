"""Times of a status page: of the looks for its browsers, and of those for its history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskd_net.observe import history, shared_answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Times of one status page, in seconds, and shares of its node's time. They are no settings: tests shorten them.

    Args:
        look: between two looks at the mesh for all browsers together: half of what they wait between two questions.
        ask: that a browser waits between two questions: a change is seen within two.
        load: share of the node's time that looks for browsers may take: where many nodes have changed, the next look is
            that much later.
        history_look: between two looks for the history. A look costs as much as one for the page; changes of state are
            looked at as they come.
        history_load: as `load`, for the history.
        sample: as `history.SAMPLE_S`.
        history: as `history.HISTORY_S`.
    """

    look: float = 0.5
    ask: float = 1.0
    load: float = shared_answer.LOAD
    history_look: float = 5.0
    history_load: float = 0.02
    sample: float = history.SAMPLE_S
    history: float = history.HISTORY_S


PACES: Final = Paces()
"""Times of every status page outside of tests."""
