"""A link without a network: a stream that the test holds both ends of, and a node that only carries out decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

from taskd_net.base.logger import Logger, get_logger
from taskd_net.base.position import Position
from taskd_net.base.times import TIMES, LinkTimes
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.ready import EndStream, Joined, Lost, Ready, ReportViolation, SignsOfLife, Withdraw
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId
from taskd_net.net.links.large_writes import large_writes
from taskd_net.net.links.session import Session, Tracer
from taskd_net.net.wire import codec
from taskd_net.observe.view import View
from tests.core.invariants import check


def frame(body: str = "", *, uuid: str = "u", sync: bool = True, src: str = "Mgr", to: str = "Worker/0/0") -> Frame:
    """A message with its bytes."""
    message = codec.Message(uuid, "default", sync, Position.parse(src), Position.parse(to), 0, body)
    return codec.write_message(message)


class FakePipe:
    """A stream. Writes wait at the gate while it is shut, and fail once the stream is cut.

    Attributes:
        written: what has left.
        begun: counts the writes that have begun.
        finished: whether this end has said that it writes no more.
    """

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.begun: asyncio.Queue[bytes] = asyncio.Queue()
        self.finished = self.complete = False
        self.gate = asyncio.Event()
        self.gate.set()
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._is_cut = False
        self._reading = False

    async def read(self) -> bytes | None:
        """The next message; None when the stream has ended."""
        if self._reading:
            self._incoming.task_done()
        self._reading = True
        return await self._incoming.get()

    async def settled(self) -> None:
        """Until everything that has come in so far has been handled, and the writer has had its turn."""
        await self._incoming.join()
        for _ in range(3):
            await asyncio.sleep(0)

    async def write(self, data: bytes) -> bool:
        """Write a message. Returns False when the stream has ended."""
        self.begun.put_nowait(data)
        await self.gate.wait()
        if self._is_cut:
            return False
        self.written.append(data)
        return True

    async def finish(self) -> None:
        """Write no more."""
        self.finished = True

    def comes_in(self, data: bytes) -> None:
        """The other end has written something."""
        self._incoming.put_nowait(data)

    def fail_writes(self) -> None:
        """Let writes fail, also one that waits, before the reader sees that the stream has ended."""
        self._is_cut = True
        self.gate.set()

    def cut(self) -> None:
        """End the stream, also under a write that waits."""
        self._is_cut = True
        self._incoming.put_nowait(None)
        self.gate.set()


class FakeChannel:
    """Calls to a parent that answers 0."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[str] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()

    def unary_unary(self, method: str, *_: object, **__: object) -> Callable[..., Any]:
        """A call of `TransferMessage`."""
        assert method == "/TaskNet/TransferMessage"

        async def call(data: bytes, timeout: float) -> bytes:
            self.calls.put_nowait(codec.read_uuid(data))
            await self.gate.wait()
            return codec.write_ack(Ack(codec.read_uuid(data), 0, Position.mgr()))

        return call


class FakeNode:
    """The part of a node that a session needs.

    Attributes:
        delivered: the uuids that went into the inbox.
        lost: the uuids that were given up.
        accused: who has claimed what it may not, with the code that it was told.
        answered: set when somebody has been answered.
    """

    log: Logger

    def __init__(self, position: str, times: LinkTimes = TIMES) -> None:
        at = Position.parse(position)
        self.times = times
        self.router = Router(at, upstream=position != "Mgr")
        self.log = get_logger(node=position)
        self.links: MutableMapping[LinkId, Session[Any]] = {}
        self.large_writes = large_writes()
        self.view = View(self)
        self.tracer: Tracer | None = None
        self.delivered: list[str] = []
        self.lost: list[str] = []
        self.accused: list[tuple[str, int]] = []
        self.answered = asyncio.Event()
        self._requests: list[Callable[[Ack], None]] = []

    def now(self) -> float:
        """The time stands still."""
        return 0.0

    def request(self, reply: Callable[[Ack], None]) -> int:
        """A name for a request."""
        self._requests.append(reply)
        return len(self._requests)

    def perform(self, ready: Ready) -> None:
        """Carry out what the Router decided."""
        for link, writes in ready.writes.items():
            self.links[link].write(writes)
            if writes.accepted or writes.answers:
                self.answered.set()
        self.delivered += [message.uuid for message in ready.deliveries]
        for token, ack in ready.completed:
            self._requests[token - 1](ack)
            self.answered.set()
        for notice in ready.notices:
            match notice:
                case Lost(message):
                    self.lost.append(message.uuid)
                case Withdraw(link, message):
                    session = self.links[link]
                    if session.withdraw(message):
                        self.router.withdrawn(link, session, len(message.data))
                case Joined() | SignsOfLife():
                    pass
                case ReportViolation(peer, refusal):
                    self.accused.append((peer, int(refusal.code)))
                case EndStream(session, reason):
                    assert isinstance(session, Session), reason
                    session.abort()
                case _:
                    raise AssertionError(f"{notice} does not happen here")
        assert not ready.announcements, "no parent is told anything here"
        check(self.router)

    def send(self, message: Frame) -> list[Ack]:
        """The application sends a message; the answer will be in the list."""
        answers: list[Ack] = []
        self.perform(self.router.submit(0.0, message, self.request(answers.append), 3.0))
        return answers


def bodies(count: int, size: int = 0, *, sync: bool = True) -> list[Frame]:
    """So many messages, with uuids that count."""
    return [frame("x" * size, uuid=str(i), sync=sync) for i in range(count)]
