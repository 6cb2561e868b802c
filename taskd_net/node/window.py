"""A window over many sends, which shrinks while a receiver has no room."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from taskd_net.base.codes import ArgumentError, ArgumentTypeError, Code
from taskd_net.base.position import Position
from taskd_net.base.untrusted import shown
from taskd_net.core.frame import Ack
from taskd_net.net.retry import Retry, require_retry

_MOST: Final = 65_536
"""Messages in flight at most, whatever a caller asks for: each has a task, and links hold fewer."""


class SendCall(Protocol):
    """`Node.send`, with the arguments that all messages share."""

    async def __call__(
        self, body: str, *, to: Position | str, uuid: str | None = None, retry: Retry | None = None
    ) -> Ack:
        """Send one message."""


class Window:
    """A bound on the messages in flight: halved by each 5001, raised by one with each round of answers.

    Args:
        width: messages in flight at most, at least 1.

    Raises:
        ArgumentError: `width` is not a whole number, or less than 1.
    """

    def __init__(self, width: object) -> None:
        if not isinstance(width, int) or isinstance(width, bool) or width < 1:
            raise ArgumentError(f"in_flight is {width!r}; expected a whole number, at least 1")
        self.width = min(width, _MOST)
        self._room = float(self.width)
        self._in_flight = 0
        self._parked: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for room."""
        while self._in_flight >= int(self._room):
            parked = asyncio.get_running_loop().create_future()
            self._parked.append(parked)
            await parked
        self._in_flight += 1

    def answered(self, ack: Ack) -> None:
        """Adapt to the first answer to a message."""
        if ack.code == Code.RECV_BUF_BUSY:
            self._room = max(1.0, self._room / 2)
        elif ack.ok:
            self._room = min(float(self.width), self._room + 1 / self._room)

    def leave(self) -> None:
        """Note the last answer to a message."""
        self._in_flight -= 1
        for _ in range(min(len(self._parked), int(self._room) - self._in_flight)):
            self._parked.popleft().set_result(None)


async def send_all(
    send: SendCall, messages: Iterable[tuple[Position | str, str]], retry: Retry | None, window: Window
) -> list[Ack]:
    """Send messages within a window. Returns the Ack of each, in their order.

    The first send that raises ends it: those under way are cancelled, the rest are not sent.

    Args:
        send: the call for one message.
        messages: taken one by one, as the window has room.
        retry: for each message that is answered with 5xxx or 6xxx.
        window: the bound.
    """
    if retry is not None:
        require_retry(retry)
    if not isinstance(messages, Iterable):
        raise ArgumentTypeError(f"messages is {shown(messages)}; expected pairs of destination and body")
    acks: dict[int, Ack] = {}
    left = enumerate(messages)

    async def work() -> None:
        while True:
            await window.enter()
            try:
                try:
                    number, pair = next(left)
                except StopIteration:
                    return
                to, body = _pair(pair)
                ack = await send(body, to=to)
                window.answered(ack)
                if ack.code >= 5000 and retry is not None:
                    ack = await send(body, to=to, uuid=ack.uuid, retry=retry)
                acks[number] = ack
            finally:
                window.leave()

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(window.width):
                tasks.create_task(work())
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return [acks[number] for number in sorted(acks)]


def _pair(message: object) -> tuple[Position | str, str]:
    if not isinstance(message, tuple | list) or len(message) != 2:
        raise ArgumentTypeError(f"a message is {shown(message)}; expected a pair of destination and body")
    to, body = message
    return to, body
