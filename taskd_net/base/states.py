"""The states of a node."""

from __future__ import annotations

from enum import StrEnum

from taskd_net.base.position import Position, Role


class State(StrEnum):
    """The state of a node towards its parent, as docs/status.md has it."""

    JOINED = "joined"
    """its stream stands"""
    NOT_ANSWERING = "not_answering"
    """its stream stands, and it has given no sign of life for 8 s; messages to it are answered 6001"""
    LOST = "lost"
    """its stream is gone, or was never opened after Register; the parent keeps its place for the grace time (30 s)"""
    GONE = "gone"
    """it was lost for longer than that, and did not leave in good order; it is shown for one hour"""
    CUT_OFF = "cut_off"
    """a node above it is `not_answering`, `lost`, `gone` or `stopped`; the entry shows the last known values"""
    FINISHED = "finished"
    """a Worker or an Agent that left in good order"""
    STOPPED = "stopped"
    """a Proxy that left in good order: its process was told to end"""

    @property
    def ended(self) -> bool:
        """True for a node that has left in good order."""
        return self in (State.FINISHED, State.STOPPED)


def end_of(position: Position) -> State:
    """The state of a node after it has left in good order."""
    return State.FINISHED if Role(position.role).is_leaf else State.STOPPED
