"""The errors of a message that was not delivered; `codes` draws the tree of all errors."""

from __future__ import annotations

from taskd_net.base.codes import TaskdNetError, describe
from taskd_net.base.position import Position


class MeshError(TaskdNetError):
    """A message was not delivered.

    Attributes:
        code: the answer code, 4000-6999.
        src: the position of the node that reported it (for 6001: that did not answer).
        uuid: the message's uuid; a retry of a 5xxx or 6xxx keeps it.
        detail: words for people, or empty.
    """

    def __init__(self, code: int, src: Position, uuid: str, detail: str = "") -> None:
        super().__init__(f"{describe(code)} (from {src}, uuid {uuid}){': ' + detail if detail else ''}")
        self.code = code
        self.src = src
        self.uuid = uuid
        self.detail = detail


class SenderError(MeshError):
    """4xxx: the message itself is wrong."""


class ReceiverError(MeshError):
    """5xxx: the far side could not take the message."""


class NetworkError(MeshError):
    """6xxx: the message or its answer got lost."""


def error_for(code: int, src: Position, uuid: str, detail: str = "") -> MeshError:
    """The error of the tree above that fits a code."""
    kind = {4: SenderError, 5: ReceiverError, 6: NetworkError}.get(code // 1000, MeshError)
    return kind(code, src, uuid, detail)
