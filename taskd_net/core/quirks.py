"""A peer's deviations from the contract, as far as a Router has to know them.

Plain data that a link gets when it comes up; `core.adaptation` has what follows for a message on that link. A link
without quirks keeps the contract, and then nothing here is looked at.

Source: docs/interop.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.base import limits


@dataclass(frozen=True, slots=True)
class Quirks:
    """The behaviour of one neighbour.

    Attributes:
        largest: bytes of the largest serialized message that may be sent to it.
        reads_lists: it knows comma lists; any other peer takes a list for one node's rank.
        acks_broadcasts: it answers sync broadcasts; to any other peer they go with `sync=false`.
        acks_lists: the same for the messages that take the place of a list.
        turn: seconds that it may take for each message, as it handles them one by one; 0 for a peer that does not.
        announces_again: when it joins again it announces everything below it; the routes behind any other peer are
            also learnt from its messages.
        takes_any_answer: its nodes take every answer to a message for the Mgr for its delivery, and await it for ever;
            so this node tries for a while in their place.
        repeats: a broadcast comes from it once for each receiver.
        announce_positions: positions in one announcement to it.
    """

    largest: int = limits.MESSAGE_BYTES
    reads_lists: bool = True
    acks_broadcasts: bool = True
    acks_lists: bool = True
    turn: float = 0.0
    announces_again: bool = True
    takes_any_answer: bool = False
    repeats: bool = False
    announce_positions: int = limits.ANNOUNCE_POSITIONS
