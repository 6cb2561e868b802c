"""Quotas of the children: the messages of each, and of all of them, that wait for their answers.

A message that is passed on soon leaves this node's memory; the entry that waits for its answer does not, and over the
four calls the message itself does not either. Beyond a bound a message is answered 5001 at once
(docs/contract.md, section 5), and its sender still has it.
"""

from __future__ import annotations

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.peer_limits import Limits


class Quota:
    """Messages and their bytes, of one child, or with `whole` None of all of them.

    A child may have as many bytes as are left for all: one alone half, two a third each. So the next one has room.

    Attributes:
        messages: that wait for an answer.
        size: their bytes, as far as they are counted.
    """

    __slots__ = ("_most_bytes", "_most_messages", "_whole", "messages", "size")

    def __init__(self, limits: Limits, whole: Quota | None = None) -> None:
        self._whole = whole
        self._most_messages = limits.total_messages if whole is None else limits.child_messages
        self._most_bytes = limits.total_bytes if whole is None else limits.child_bytes
        self.messages = 0
        self.size = 0

    @property
    def room(self) -> int:
        """The number of further messages that may wait."""
        room, whole = self._most_messages - self.messages, self._whole
        return room if whole is None else min(room, whole._most_messages - whole.messages)

    def fits(self, size: int) -> bool:
        """True if `size` more bytes may wait."""
        fits, whole = self.size + size <= self._most_bytes, self._whole
        return fits if whole is None else fits and whole.fits(self.size + 2 * size)

    def add(self, messages: int, size: int) -> None:
        """Count messages that begin to wait, or with negative numbers such as have been answered."""
        self.messages += messages
        self.size += size
        if (whole := self._whole) is not None:
            whole.messages += messages
            whole.size += size

    def require(self, size: int) -> None:
        """Check that there is room for one message more.

        Raises:
            Refusal: 5001, there is none.
        """
        if self.room < 1 or not self.fits(size):
            raise Refusal(Code.RECV_BUF_BUSY, "too many messages wait for their answers here")
