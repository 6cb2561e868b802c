"""Requests of a child over its direct link, beside its messages: the child's end, which asks, and the parent's end.

Replies match by number. When a link goes on over another socket, what is under way goes along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Final, Protocol, TypeAlias
from uuid import uuid4

from taskd_net.base.codes import Code, Refusal, describe
from taskd_net.base.position import Position
from taskd_net.core.frame import Ack
from taskd_net.core.ready import Kind
from taskd_net.net.links.grpc_calls import CallFailed
from taskd_net.net.links.kind import Parent
from taskd_net.net.links.remote import Caller
from taskd_net.net.wire import link_requests as wire
from taskd_net.net.wire.link_requests import Announcing, Answer, Asked, LinkReply, Request
from taskd_net.net.wire.requests import write_announcement
from taskd_net.net.wire.socket_frames import FrameError, FrameKind, write_frame

REQUESTS: Final = 16
"""Requests of one child under way over its direct link, with their replies that wait there. A node of ours has an
announcement, a report and the word that it leaves; with more the link ends."""

Offering: TypeAlias = Callable[[Caller], str]
"""Returns the offer of a socket that takes the place of the one that a child asks over, or raises a Refusal."""


class RequestLink(Protocol):
    """The direct link, for its requests.

    Attributes:
        unsaid: the frames beside the batches that have not left.
    """

    unsaid: list[bytes]

    def say(self, frame: bytes) -> None:
        """Write a frame beside the batches, here or where the link goes on."""


class Asking:
    """The child's end.

    Args:
        parent: the parent's position.
    """

    def __init__(self, parent: Position) -> None:
        self._parent = parent
        self._link: RequestLink
        self._numbers = count(1)
        self._unanswered: dict[int, asyncio.Future[Answer | None]] = {}
        self._greeted: asyncio.Future[Answer | None] | None = None

    def attach(self, link: RequestLink) -> None:
        """The link stands."""
        self._link = link

    def greet(self, identity: Position, timeout: float) -> bytes:
        """The announcement of a leaf, as a frame that leaves with its greeting: the first that `announce` asks for."""
        data = write_announcement(str(uuid4()), identity, [identity])
        frame, self._greeted = self._request(Announcing(data, Kind.COMPLETE), timeout)
        return frame

    async def announce(self, announcing: Announcing, timeout: float) -> Ack:
        """Announce or withdraw positions. Returns the parent's answer, or the code of the failure in its place."""
        if announcing.kind is Kind.COMPLETE and self._greeted is not None:
            # A leaf has itself to announce, and no more.
            answer, self._greeted = self._greeted, None
        else:
            answer = self._ask(announcing, timeout)
        found = await self._answer(answer, timeout)
        return found if isinstance(found, Ack) else Ack("", Code.NETWORK_ACK_LOST, self._parent)

    async def report(self, report: bytes, timeout: float) -> bytes:
        """Report the state of the mesh. Returns the parent's answer.

        Raises:
            CallFailed: there is none.
        """
        found = await self._answer(self._ask(report, timeout), timeout)
        if isinstance(found, bytes):
            return found
        raise _failure(found)

    async def renew(self, timeout: float) -> str:
        """Ask for the offer of a socket that takes the place of this link's.

        Raises:
            CallFailed: there is none.
        """
        found = await self._answer(self._ask(None, timeout), timeout)
        if isinstance(found, str):
            return found
        raise _failure(found)

    def arrived(self, kind: int, payload: bytes) -> None:
        """Take in a reply.

        Raises:
            FrameError: it is none.
        """
        if kind != FrameKind.REPLY:
            raise FrameError("a request of the parent")
        try:
            reply = wire.read_reply(payload, self._parent)
        except Refusal as refusal:
            raise FrameError(str(refusal)) from refusal
        answer = self._unanswered.pop(reply.number, None)
        # None for one that came too late.
        if answer is not None and not answer.done():
            answer.set_result(reply.content)

    def follow(self, before: Asking) -> None:
        """Go on for another end, whose link goes on over this one's."""
        self._numbers, self._unanswered = before._numbers, before._unanswered

    def ended(self) -> None:
        """The link has ended: nothing is answered any more."""
        for answer in self._unanswered.values():
            if not answer.done():
                answer.set_result(None)
        self._unanswered.clear()

    def _request(self, content: Asked, timeout: float) -> tuple[bytes, asyncio.Future[Answer | None]]:
        number = next(self._numbers)
        answer = self._unanswered[number] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._unanswered.pop(number, None))
        return write_frame(FrameKind.REQUEST, wire.write_request(Request(number, content, timeout))), answer

    def _ask(self, content: Asked, timeout: float) -> asyncio.Future[Answer | None]:
        frame, answer = self._request(content, timeout)
        self._link.say(frame)
        return answer

    async def _answer(self, answer: asyncio.Future[Answer | None], timeout: float) -> Answer | None:
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            return None


class Answering:
    """The parent's end. The requests of one child are bounded; with more under way the link ends.

    Args:
        parent: serves the requests.
        position: the child's.
        caller: the far end of the socket.
        renewal: makes the offers for renewals.
    """

    def __init__(self, parent: Parent, position: Position, caller: Caller, renewal: Offering) -> None:
        self._parent = parent
        self._position = position
        self._caller = caller
        self._renewal = renewal
        self._link: RequestLink
        self._under_way: set[asyncio.Task[None]] = set()

    def attach(self, link: RequestLink) -> None:
        """The link stands."""
        self._link = link

    def arrived(self, kind: int, payload: bytes) -> None:
        """Take in a request.

        Raises:
            FrameError: it is none, or one too many.
        """
        if kind != FrameKind.REQUEST:
            raise FrameError("a reply of the child")
        if len(self._under_way) + len(self._link.unsaid) >= REQUESTS:
            raise FrameError(f"more than {REQUESTS} requests under way")
        try:
            request = wire.read_request(payload)
        except Refusal as refusal:
            raise FrameError(str(refusal)) from refusal
        task = asyncio.create_task(self._answer(request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def follow(self, before: Answering) -> None:
        """Go on for another end, whose link goes on over this one's."""
        for task in before._under_way:
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    def ended(self) -> None:
        """The link has ended: nobody awaits the replies."""
        for task in self._under_way:
            task.cancel()

    async def _answer(self, request: Request) -> None:
        number, content, patience = request
        parent = self._parent
        reply: Coroutine[Any, Any, Answer]
        if content is None:
            name, reply = "Renewal", self._renewed()
        elif isinstance(content, bytes):
            name, reply = "Tell", parent.reported(content, self._position, self._caller)
        else:
            name, reply = "PathDiscovery", parent.announced(content, self._caller)
        try:
            async with asyncio.timeout(patience):
                answer = await reply
        except TimeoutError:
            # The child has given up, as at the deadline of a call.
            return
        except Exception as error:  # noqa: BLE001 - a fault is answered and logged there
            answer = parent.failures.answer(name, error, self._caller.remote)
        self._link.say(write_frame(FrameKind.REPLY, wire.write_reply(LinkReply(number, answer))))

    async def _renewed(self) -> str:
        return self._renewal(self._caller)


def _failure(found: Answer | None) -> CallFailed:
    """The error of a request without its answer."""
    return CallFailed(f"{describe(found.code)} (from {found.src})" if isinstance(found, Ack) else "no answer")


class Beside(Protocol):
    """Either end, for its link."""

    def attach(self, link: RequestLink) -> None:
        """The link stands."""

    def arrived(self, kind: int, payload: bytes) -> None:
        """Take in a frame.

        Raises:
            FrameError: it breaks the rules of the link.
        """

    def follow(self, before: Any) -> None:
        """Go on for the same end of another socket, whose link goes on over this one's."""

    def ended(self) -> None:
        """The link has ended."""
