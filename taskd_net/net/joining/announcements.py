"""Announcements of the children: a short one at once, a long one counted on its bytes and taken in by slices.

A slice is charged before it is read, also one that is refused later. A child that has announced more than it may waits.
So an honest child is delayed at most, and a hostile one costs the node a bounded share of its time. A short
announcement costs less than gRPC's part of its call. Nearly all of an honest child's are short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol
from weakref import WeakValueDictionary

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.core.admission import ACK_BUDGET_PER_HOP
from taskd_net.core.frame import Ack
from taskd_net.core.identity import Violation
from taskd_net.core.links import Link
from taskd_net.core.ready import Kind, Token
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import ROUTES_SLICE
from taskd_net.net.joining.permissions import Permissions
from taskd_net.net.links import peer as peers
from taskd_net.net.links.answers import awaited
from taskd_net.net.links.connections import Connections
from taskd_net.net.links.grpc_calls import Context
from taskd_net.net.links.remote import Caller
from taskd_net.net.links.session import Host
from taskd_net.net.links.turns import Turns
from taskd_net.net.wire import requests
from taskd_net.net.wire.link_requests import Announcing

COST: Final = 10
"""Positions that cost as much as an announcement by itself."""

COPIES: Final = 12
"""Times that the bytes of an announcement count towards its child's quota of bytes: gRPC holds copies, and a position
of 23 bytes becomes a route and a record of 550. With the default quota, one of the longest waits at a time."""

COUNTED_BYTES: Final = 1024
"""Bytes of an announcement from which on it counts towards the quotas of bytes: more than a short one has. A thousand
children with 16 requests of 16 KiB each took 250 MiB beside the quotas."""


class AnnouncementObserver(Protocol):
    """A listener to the announcements of a node's children."""

    connections: Connections

    def child_ends(self, link: Link, state: State) -> None:
        """A child is about to leave in good order, with this state."""

    def child_leads_to(self, link: Link, path: Sequence[Position]) -> None:
        """A child that does not report has announced nodes."""


class Announcements:
    """The announcements that one parent takes in.

    Args:
        host: the node.
        observer: of the children.
        permissions: of its calls.
    """

    def __init__(self, host: Host, observer: AnnouncementObserver, permissions: Permissions) -> None:
        self._host = host
        self._router = host.router
        self._observer = observer
        self._connections = observer.connections
        self._permissions = permissions
        self._turns = Turns(ROUTES_SLICE)
        # The announcement of each child that is taken in, and those behind it: their order is that of their effect.
        self._lines: WeakValueDictionary[LinkId, asyncio.Lock] = WeakValueDictionary()

    async def path_discovery(self, data: bytes, context: Context, caller: Caller) -> Ack:
        """Take in an announcement by gRPC."""
        said = peers.read_metadata(context.invocation_metadata())
        terms = peers.routes_kind(said), peers.end_of(said), context.time_remaining()
        return await self.take(Announcing(data, *terms), caller)

    async def take(self, announcing: Announcing, caller: Caller) -> Ack:
        """Take in an announcement. Returns the answer of every node above.

        Raises:
            Refusal: the codes of `read_announcement` and `Topology.learn`; 5001 while too much of the child waits.
            Violation: 4006, the connection is not the child's.
        """
        data, kind, end, left = announcing
        request = requests.read_announcement(data)
        link = self._router.children.find(request.proxy)
        if link is None:
            raise Refusal(Code.CLIENT_ERR, "the announcing child is not registered here", request.uuid)
        if not self._permissions.speaks_for(caller, link):
            text = f"{request.proxy} announces over its own connection, not over this one"
            raise Violation(Code.DST_TYPE_ILLEGAL, text, request.uuid)
        understands = self._connections.peer(link.id).profile.withdraws
        if not understands:
            kind, end = Kind.ADD, None
        if end is not None:
            # Another peer may have taken the place of this child meanwhile.
            if link.id in self._connections.streams(caller.remote):
                self._observer.child_ends(link, end)
            if kind is not Kind.WITHDRAW:
                return Ack(request.uuid, Code.OK, self._router.position)
        until = 0.0
        if understands and left is not None:
            until = self._host.now() + ACK_BUDGET_PER_HOP * left
        # Small ones are bounded by the calls of a connection, or the requests of a link.
        cost = 0
        if len(data) > COUNTED_BYTES:
            cost = min(COPIES * len(data), self._router.limits.child_bytes)
        quota = link.quota
        assert quota is not None
        if cost and not quota.fits(cost):
            text = f"too many announcements of {link.position} wait here"
            raise Refusal(Code.RECV_BUF_BUSY, text, request.uuid)
        quota.add(0, cost)
        observer = None if understands else self._observer
        intake = _Intake(self._host, observer, link, kind, request.uuid, until)
        try:
            if request.path is not None and self._charged_at_once(link, len(request.path)):
                intake.add(request.path, last=True)
            else:
                await self._take_in_slices(link, request, intake)
            return await intake.answer()
        except Refusal as refusal:
            refusal.uuid = request.uuid
            raise
        finally:
            intake.cancel()
            quota.add(0, -cost)

    def _charged_at_once(self, link: Link, positions: int) -> bool:
        """Charge a child for a short announcement, unless that has to wait: behind another one, or for the charge."""
        allowance = link.positions
        assert allowance is not None
        return link.id not in self._lines and allowance.spend(self._host.now(), positions + COST)

    async def _take_in_slices(self, link: Link, request: requests.Announcement, intake: _Intake) -> None:
        line = self._lines.get(link.id)
        if line is None:
            line = self._lines[link.id] = asyncio.Lock()
        extra = COST
        async with line:
            # A slice goes when the next one is there: the last one has another meaning.
            waiting: list[Position] = []
            for part in request.slices():
                await self._turn(link, part.cost, extra)
                path, extra = part.read(), 0
                if path and waiting and not intake.add(waiting):
                    break
                waiting = path or waiting
            else:
                intake.add(waiting, last=True)

    async def _turn(self, link: Link, cost: int, extra: int) -> None:
        """Charge a child for a slice, and wait until it may be read."""
        allowance = link.positions
        assert allowance is not None
        pause = allowance.borrow(self._host.now(), cost + extra)
        if pause:
            await asyncio.sleep(pause)
        await self._turns.take(cost)


class _Intake:
    """An announcement that is taken in: each slice is one for the Router, and the first failure is the answer.

    Args:
        host: the node.
        observer: told of the nodes of a child that does not report; None for one that does.
        link: the child.
        kind: of the announcement.
        uuid: of the announcement.
        until: the time until which the child can wait for this node to have a parent.
    """

    def __init__(
        self, host: Host, observer: AnnouncementObserver | None, link: Link, kind: Kind, uuid: str, until: float
    ) -> None:
        self._host = host
        self._observer = observer
        self._link = link
        self._epoch = link.epoch
        self._kind = kind
        self._uuid = uuid
        self._until = until
        self._answers: list[tuple[Token, asyncio.Future[Ack]]] = []

    def add(self, path: list[Position], *, last: bool = False) -> bool:
        """Take in a slice. Returns whether another one makes sense.

        Raises:
            Refusal: 4002 the slice is empty, 4999 the child has registered again meanwhile.
        """
        host, link = self._host, self._link
        if not path:
            raise Refusal(Code.NIL_POSITION, "the request has no path")
        if link.epoch != self._epoch:
            raise Refusal(Code.CLIENT_ERR, f"{link.position} has registered again meanwhile")
        kind = self._kind if last or self._kind is not Kind.COMPLETE else Kind.ADD
        now, continues = host.now(), bool(self._answers)
        token, answer = awaited(host)
        self._answers.append((token, answer))
        patience = max(0.0, self._until - now)
        host.perform(host.router.announced(now, link.id, kind, path, token, self._uuid, patience, continues))
        if self._observer is not None:
            self._observer.child_leads_to(link, path)
        return not answer.done() or answer.result().ok

    async def answer(self) -> Ack:
        """The first failure, or the last answer."""
        ack = None
        for _, answer in self._answers:
            ack = await answer
            if not ack.ok:
                break
        assert ack is not None
        return ack

    def cancel(self) -> None:
        """Have the Router forget what nobody awaits any more."""
        for token, answer in self._answers:
            if answer.cancelled() or not answer.done():
                self._host.perform(self._host.router.cancel(token))
