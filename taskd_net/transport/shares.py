"""What the messages cost that children have sent and that wait for their answers: each child's share, and all of it.

A message that is passed on soon leaves this node's memory; the entry that waits for its answer does not, and over the
four calls the message itself does not either. Beyond a bound a message is answered 5001 at once (contract, section 5:
back-pressure), and its sender still has it.
"""

from __future__ import annotations

from taskd_net.codes import Code, Refusal
from taskd_net.limits import Limits


class Share:
    """Messages and their bytes, of one child, or with `whole` None of all of them.

    Attributes:
        messages: that wait for an answer.
        size: their bytes, as far as they are counted.
    """

    __slots__ = ("_most_bytes", "_most_messages", "_whole", "messages", "size")

    def __init__(self, limits: Limits, whole: Share | None = None) -> None:
        self._whole = whole
        self._most_messages = limits.total_messages if whole is None else limits.child_messages
        self._most_bytes = limits.total_bytes if whole is None else limits.child_bytes
        self.messages = 0
        self.size = 0

    @property
    def room(self) -> int:
        """How many more messages may wait."""
        room = self._most_messages - self.messages
        return room if self._whole is None else min(room, self._whole.room)

    def fits(self, size: int) -> bool:
        """Whether so many more bytes may wait."""
        return self.size + size <= self._most_bytes and (self._whole is None or self._whole.fits(size))

    def add(self, messages: int, size: int) -> None:
        """Count messages that begin to wait, or with negative numbers such as have been answered."""
        self.messages += messages
        self.size += size
        if self._whole is not None:
            self._whole.add(messages, size)

    def claim(self, size: int) -> None:
        """Count one message more, of a child; written out, as every unary call pays for it.

        Raises:
            Refusal: 5001, there is no room for it.
        """
        whole = self._whole
        assert whole is not None, "only a child's share is claimed from"
        after, all_after = self.size + size, whole.size + size
        if (
            self.messages >= self._most_messages
            or whole.messages >= whole._most_messages
            or after > self._most_bytes
            or all_after > whole._most_bytes
        ):
            raise Refusal(Code.RECV_BUF_BUSY, "too many messages wait for their answers here")
        self.messages += 1
        whole.messages += 1
        self.size, whole.size = after, all_after
