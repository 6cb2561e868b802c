"""Duplicate suppression: the messages that an inbox has accepted (docs/contract.md, section 5).

The key of a message is its uuid and its sender, because peers may number their messages 1, 2, 3.

- Uuids of this package (`uuids`) are kept exactly, in pages with one bit for each number of a flow. A page is kept for
  at least `seconds` after its last message, which covers every retry.
- Of all other uuids, the last `window` of each sender are kept, in blocks.

Pages and blocks are charged to the link of their first message. Beyond the bound over all links, the link with the
most bytes loses its oldest entries. So a peer that invents senders or uuids evicts only entries of its own link.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from taskd_net.base.limits import SEEN_S
from taskd_net.base.position import Position
from taskd_net.core.routes import LinkId
from taskd_net.core.uuids import split

SEEN_BYTES: Final = 32 * 1024 * 1024
"""Bytes of all that a receiver remembers of messages. A sender of 30,000 messages a second takes 12 MiB in ten minutes,
10,000 senders of one a second take 7 MiB."""

_BITS: Final = 10
"""Binary logarithm of the numbers in one page: 1,024 numbers."""

_MASK: Final = (1 << _BITS) - 1

_FULL: Final = (1 << (1 << _BITS)) - 1
"""The bits of a full page. All full pages share this object."""

PAGE_BYTES: Final = 700
"""Bytes of a page with its key and its table entries, measured with tracemalloc and rounded up."""

BLOCK_BYTES: Final = 1400
"""Bytes of an empty block, measured in the same way."""

UUID_BYTES: Final = 120
"""Bytes of a stored uuid beyond its characters, measured in the same way."""

_TOUCH_S: Final = 10.0
"""Seconds between two updates of a page's place in the order of use, which need not be exact."""

_PageKey: TypeAlias = tuple[Position, str, int]


@dataclass(slots=True, eq=False)
class _Page:
    """The received numbers among 1,024 of a flow, one bit each."""

    key: _PageKey
    link: LinkId
    touched: float
    bits: int = 0


@dataclass(slots=True, eq=False)
class _Sender:
    """The uuids of one sender that are not of this package."""

    src: Position
    uuids: set[str] = field(default_factory=set)
    blocks: deque[_Block] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Block:
    """Consecutive uuids of one sender that came over one link."""

    sender: _Sender
    link: LinkId
    touched: float
    uuids: list[str] = field(default_factory=list)
    bytes: int = BLOCK_BYTES


@dataclass(slots=True, eq=False)
class _Charges:
    """The entries of one link, the least recently used first, and their bytes."""

    # OrderedDict, because a dict walks over all deleted entries to find its oldest key.
    pages: OrderedDict[_Page, None] = field(default_factory=OrderedDict)
    blocks: OrderedDict[_Block, None] = field(default_factory=OrderedDict)
    bytes: int = 0

    def oldest(self, newest: _Page | _Block) -> _Page | _Block | None:
        """The least recently used page or block except `newest`; None if there is no other."""
        page, block = next(iter(self.pages), None), next(iter(self.blocks), None)
        if page is None or page is newest:
            return None if block is newest else block
        return page if block is None or block is newest or page.touched < block.touched else block


class SeenMessages:
    """The memory of one inbox.

    Args:
        window: minimum of foreign uuids to keep for each sender.
        size: maximum bytes of all entries.
        seconds: minimum time to keep a page after its last message.
    """

    def __init__(self, window: int, size: int = SEEN_BYTES, seconds: float = SEEN_S) -> None:
        self._window = window
        self._block = max(1, min(512, window // 8))
        self._size = size
        self._seconds = seconds
        self._pages: dict[_PageKey, _Page] = {}
        self._others: dict[Position, _Sender] = {}
        self._charges: dict[LinkId, _Charges] = {}
        self.bytes = 0

    def knows(self, uuid: str, src: Position) -> bool:
        """True for a message that was added and is still remembered."""
        known = split(uuid)
        if known is None:
            sender = self._others.get(src)
            return sender is not None and uuid in sender.uuids
        flow, number = known
        page = self._pages.get((src, flow, number >> _BITS))
        return page is not None and bool(page.bits >> (number & _MASK) & 1)

    def add(self, now: float, link: LinkId, uuid: str, src: Position) -> bool:
        """Add a message from a link. Returns False, and changes nothing, for a known message."""
        known = split(uuid)
        if known is None:
            return self._add_other(now, link, uuid, src)
        flow, number = known
        key = (src, flow, number >> _BITS)
        page = self._pages.get(key) or self._open(now, link, key)
        bits, bit = page.bits, 1 << (number & _MASK)
        if bits & bit:
            return False
        bits |= bit
        page.bits = bits if bits != _FULL else _FULL
        if now - page.touched > _TOUCH_S:
            page.touched = now
            self._charges[page.link].pages.move_to_end(page)
        return True

    def add_all(self, now: float, link: LinkId, uuids: Sequence[str], src: Position) -> bool:
        """Add a run of new messages of one sender: consecutive numbers of a flow, in one page.

        Returns False, and changes nothing, for any other messages. Then `add` has to take them one by one.
        """
        known = split(uuids[0])
        if known is None:
            return False
        flow, first = known
        count = len(uuids)
        if (first & _MASK) + count > _MASK + 1:
            return False
        if [uuid[:-16] for uuid in uuids] != [f"{flow}-{number:x}-" for number in range(first, first + count)]:
            return False
        key = (src, flow, first >> _BITS)
        page = self._pages.get(key)
        mask = (1 << count) - 1 << (first & _MASK)
        if page is None:
            page = self._open(now, link, key)
        elif page.bits & mask:
            return False
        bits = page.bits | mask
        page.bits = bits if bits != _FULL else _FULL
        if now - page.touched > _TOUCH_S:
            page.touched = now
            self._charges[page.link].pages.move_to_end(page)
        return True

    def _open(self, now: float, link: LinkId, key: _PageKey) -> _Page:
        # Each new page frees up to two expired ones, so the expired pages of a busy link run out.
        for _ in range(2):
            oldest = next(iter(self._of(link).pages), None)
            if oldest is None or oldest.touched + _TOUCH_S + self._seconds >= now:
                break
            self._forget(oldest)
        page, charges = _Page(key, link, now), self._of(link)
        self._pages[key] = page
        charges.pages[page] = None
        self._charge(charges, PAGE_BYTES, page)
        return page

    def _add_other(self, now: float, link: LinkId, uuid: str, src: Position) -> bool:
        sender = self._others.get(src)
        if sender is None:
            sender = self._others[src] = _Sender(src)
        elif uuid in sender.uuids:
            return False
        block = sender.blocks[-1] if sender.blocks else None
        size = UUID_BYTES + len(uuid)
        if block is None or len(block.uuids) >= self._block or block.link != link:
            if sender.blocks and len(sender.uuids) - len(sender.blocks[0].uuids) + 1 >= self._window:
                self._forget(sender.blocks[0])
                self._others[src] = sender
            block = _Block(sender, link, now)
            sender.blocks.append(block)
            size += BLOCK_BYTES
        block.uuids.append(uuid)
        sender.uuids.add(uuid)
        block.touched = now
        block.bytes += UUID_BYTES + len(uuid)
        charges = self._of(link)
        charges.blocks[block] = None
        charges.blocks.move_to_end(block)
        self._charge(charges, size, block)
        return True

    def _of(self, link: LinkId) -> _Charges:
        charges = self._charges.get(link)
        if charges is None:
            charges = self._charges[link] = _Charges()
        return charges

    def _charge(self, charges: _Charges, size: int, newest: _Page | _Block) -> None:
        charges.bytes += size
        self.bytes += size
        if self.bytes > self._size:
            self._make_room(newest)

    def _make_room(self, newest: _Page | _Block) -> None:
        """Evict a sixteenth of the largest link's bytes or more, and never the newest entry."""
        most = max(self._charges.values(), key=lambda charges: charges.bytes)
        enough = most.bytes - most.bytes // 16
        while most.bytes > enough or self.bytes > self._size:
            oldest = most.oldest(newest)
            if oldest is None:
                return
            self._forget(oldest)

    def _forget(self, item: _Page | _Block) -> None:
        charges = self._charges[item.link]
        if isinstance(item, _Page):
            del self._pages[item.key], charges.pages[item]
            size = PAGE_BYTES
        else:
            sender = item.sender
            sender.blocks.remove(item)
            sender.uuids.difference_update(item.uuids)
            if not sender.blocks:
                del self._others[sender.src]
            del charges.blocks[item]
            size = item.bytes
        charges.bytes -= size
        self.bytes -= size
        if not charges.bytes:
            del self._charges[item.link]
