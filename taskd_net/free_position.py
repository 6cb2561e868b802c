"""A position for a tool, which no job has."""

from __future__ import annotations

import random
from typing import Final

from taskd_net.position import Position

_FREE_RANKS: Final = range(1_000_000_000, 2_000_000_000)


def free_position() -> Position:
    """An Agent of a node that no job has.

    A position in use would be taken over (docs/contract.md, section 3: the newcomer wins). The rank is random, so that
    tools do not cut each other off, and fits 32 bits, as some code keeps ranks in those.
    """
    return Position.agent(random.choice(_FREE_RANKS))
