"""Acks for a parent that takes the next one on the stream for the answer to what it sent last (docs/interop.md).

It sends one sync message and waits 3 s. An Ack too many, or one that comes too late, is taken for the next message's,
and so is every Ack after it. So each message gets exactly one, in order; where it is too late for that, the stream has
to be opened anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from taskd_net.base import limits
from taskd_net.core.frame import Ack

ORIGINAL_LATE_S: Final = 0.97 * limits.ORIGINAL_WAIT_S
"""Seconds after which an Ack for a parent of the original's does more harm than none: it would be taken for the next
message's."""

PULSE_S: Final = 0.2
"""Seconds between two looks at whether the event loop stood still, on a link to a parent of the original's."""

_NAMES: Final = count(1)
"""Names of messages; those of one stream mean nothing to the next."""


@dataclass(slots=True, eq=False)
class _Turn:
    """One message that is to be answered."""

    since: float
    ack: Ack | None = None


class OrderedAcks:
    """The Acks of one stream.

    Args:
        now: the clock.
        write: puts an Ack on the stream.
        too_late: called instead when the parent no longer waits for it.

    Attributes:
        late: seconds after which it does not, as `ORIGINAL_LATE_S`.
    """

    late = ORIGINAL_LATE_S

    def __init__(self, now: Callable[[], float], write: Callable[[Ack], None], too_late: Callable[[], None]) -> None:
        self._now = now
        self._write = write
        self._too_late = too_late
        self._line: deque[_Turn] = deque()
        self._turns: dict[int, _Turn] = {}
        self._emptied = asyncio.Event()
        self._emptied.set()

    async def empty(self) -> None:
        """Wait until nothing waits for its Ack."""
        await self._emptied.wait()

    def expect(self, waited: float = 0.0) -> int:
        """Note a message that came in `waited` seconds ago. Returns its name for `answer`."""
        turn = _Turn(self._now() - waited)
        name = next(_NAMES)
        self._turns[name] = turn
        self._line.append(turn)
        self._emptied.clear()
        return name

    def answer(self, name: int, ack: Ack) -> None:
        """Answer a message. Only its first answer counts."""
        turn = self._turns.pop(name, None)
        if turn is not None:
            turn.ack = ack
            while self._line and (head := self._line[0]).ack is not None:
                self._line.popleft()
                if self._now() - head.since > self.late:
                    self._line.clear()
                    self._too_late()
                else:
                    self._write(head.ack)
            if not self._line:
                self._emptied.set()


class Pulse:
    """Notices that the event loop stood still: what is read right after may have come in long before.

    (A GIL that somebody holds, a process that was stopped.)
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = loop.time()
        self._stood = 0.0
        self._timer = loop.call_later(PULSE_S, self._beat)

    def waited(self) -> float:
        """Seconds that a message which is read now may have waited."""
        stood = self._loop.time() - self._last - PULSE_S
        return max(0.0, stood, self._stood)

    def stop(self) -> None:
        """Notice nothing any more."""
        self._timer.cancel()

    def _beat(self) -> None:
        now = self._loop.time()
        # Until the next beat: by then everything that has come in meanwhile is read.
        self._stood = now - self._last - PULSE_S
        self._last = now
        self._timer = self._loop.call_later(PULSE_S, self._beat)
