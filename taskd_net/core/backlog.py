"""The bound on what waits on all links together, with a fair share for each sender.

Each link has a few bytes of its own. Beyond them it takes bytes out of one pool, in the name of the sender whose
message needs them, and gives them back as its queue becomes shorter. So the bound costs a message nothing until its
link has a queue. A broadcast that awaits its answers takes bytes for each link, until the last answer.

A sender may have as many bytes as are left in the pool. One sender alone so gets half of it, two a third each: there is
always room for the next one (Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches,
1998). The application of this node may use all of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from taskd_net.core.links import Link
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import LOCAL

LINK_GRANT_BYTES: Final = 32 * 1024
"""Bytes that a link takes out of the pool of all links at least, where that has them: dozens of small messages, so that
few of a full queue look at the pool. More would use the pool up for a few hundred links of a thousand."""


class Backlog:
    """The pool of one node.

    Args:
        most: bytes of all links together, beside the few that each has of its own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = 0
        self.of: Counter[LinkId] = Counter()

    def grant(self, link: Link, sender: LinkId, size: int) -> bool:
        """Let the queue of a link grow by so many bytes. Returns False where the pool, or its share, has no room."""
        need, room = link.queued_bytes + size - link.granted, self._room(sender)
        if need > room:
            return False
        need = max(need, min(LINK_GRANT_BYTES, room))
        link.grant(sender, need)
        self.size += need
        self.of[sender] += need
        return True

    def reserve(self, sender: LinkId, size: int) -> bool:
        """Take bytes for a broadcast that awaits its answers. Returns False where there is no room for them."""
        if size > self._room(sender):
            return False
        self.size += size
        self.of[sender] += size
        return True

    def release(self, sender: LinkId, size: int) -> None:
        """Give back what `reserve` took."""
        self.size -= size
        self.of[sender] -= size
        if not self.of[sender]:
            del self.of[sender]

    def give_back(self, link: Link) -> None:
        """The queue of a link is shorter: the bytes that it had taken first go back."""
        for sender, size in link.take_grants():
            self.release(sender, size)

    def _room(self, sender: LinkId) -> int:
        room = self._most - self.size
        return room if sender == LOCAL else (room - self.of[sender]) // 2
