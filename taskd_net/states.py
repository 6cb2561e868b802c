"""The states of a node."""

from __future__ import annotations

from enum import StrEnum

from taskd_net.position import Position, Role


class State(StrEnum):
    """How a node stands with its parent."""

    JOINED = "joined"
    """Its stream stands."""
    LOST = "lost"
    """Its stream is gone, or was never opened; its place is still kept."""
    GONE = "gone"
    """It has been gone for longer than the grace time, and has not said goodbye."""
    CUT_OFF = "cut_off"
    """Its parent's stream, or that of somebody further up, is gone: what is known of it is old."""
    FINISHED = "finished"
    """A leaf that has left in good order: its part of the job is done."""
    STOPPED = "stopped"
    """A Proxy that has left in good order. Whoever is still below it is cut off."""

    @property
    def ended(self) -> bool:
        """True for a node that has left in good order."""
        return self in (State.FINISHED, State.STOPPED)


def end_of(position: Position) -> State:
    """The state of a node after it has left in good order."""
    return State.FINISHED if Role(position.role).is_leaf else State.STOPPED
