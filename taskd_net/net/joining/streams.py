"""The links of a parent's children, of any kind: accepted, moved to a newer stream, ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import grpc

from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.core.frame import Frame
from taskd_net.core.identity import Violation
from taskd_net.core.links import UP, Link
from taskd_net.core.routes import LinkId
from taskd_net.net.joining.pending import PendingRegistrations
from taskd_net.net.joining.permissions import Permissions
from taskd_net.net.links.connections import Connections
from taskd_net.net.links.grpc_calls import Context
from taskd_net.net.links.kind import End, Incoming
from taskd_net.net.links.remote import Caller
from taskd_net.net.links.session import Host, Session


class ChildObserver(Protocol):
    """A listener to the changes among the children of a node."""

    connections: Connections

    def child_changed(self, link: Link, reason: str = "") -> None:
        """A child's stream has opened or, for this reason, ended."""

    def child_ends(self, link: Link, state: State) -> None:
        """A child is about to leave in good order, with this state."""

    def child_refused(self, position: Position, reason: str) -> None:
        """A registration for this position was refused."""

    def child_leads_to(self, link: Link, path: Sequence[Position]) -> None:
        """A child that does not report has announced nodes."""

    def child_forgotten(self, link: LinkId, position: Position) -> None:
        """The Router has forgotten a child."""


class Services(Protocol):
    """The services that a listening node offers beside those of its links."""

    @property
    def pace(self) -> float:
        """Seconds between two reports of one child."""

    def handlers(self, child: Callable[[Context, Caller], Link]) -> Sequence[grpc.GenericRpcHandler]:
        """The handlers for the node's server.

        Args:
            child: the child that makes a call, or raises a Refusal.
        """

    async def report(self, data: bytes, child: Callable[[], Link]) -> bytes:
        """Take in a child's report. Returns the answer.

        Args:
            data: the report.
            child: the child that reports, or raises a Refusal.

        Raises:
            Refusal: it is not taken.
        """

    def close(self) -> None:
        """End the calls that last, each after its next answer."""


class ChildStreams:
    """The streams of one parent.

    Args:
        host: the node.
        observer: of the children.
        permissions: of its calls.
        pending: the registrations that wait for their streams.
    """

    def __init__(
        self, host: Host, observer: ChildObserver, permissions: Permissions, pending: PendingRegistrations
    ) -> None:
        self._host = host
        self._router = host.router
        self._observer = observer
        self._connections = observer.connections
        self._permissions = permissions
        self._pending = pending
        # The streams that this node ends, and why.
        self._ends: dict[Session[Any], End] = {}
        self._refusal: End | None = None

    def refuse(self, why: End | None) -> None:
        """Accept no stream, for this reason; None accepts them again. A node that closes accepts none for good."""
        if not self.closing:
            self._refusal = why

    @property
    def closing(self) -> bool:
        """True if no stream is accepted any more, because the node closes."""
        return self._refusal is End.CLOSING

    async def serve(self, incoming: Incoming) -> None:
        """Serve a link that a child opens, until its end."""
        host, router, connection = self._host, self._router, incoming.remote
        link, before, rests = await self._held_back(incoming), None, True
        if link is not None and incoming.continues and (before := host.links.get(link.id)) is not None:
            # A child that has given up goes on over its older link.
            rests = await _comes_to_rest(before, host.times.renewal) and not incoming.gone
            link = self._joining(incoming)
        if link is None or self._refusal is not None or not rests:
            if before is not None:
                before.resume()
            reason = self._refusal or (End.UNKNOWN if rests else End.BUSY)
            host.log.info("stream_refused", child=str(incoming.position), reason=reason.value)
            await incoming.end(reason)
            return
        self._connections.came_over(connection, link.id)
        self._connections.stream_stands(connection, link.id)
        self._pending.over(link.id)
        session = incoming.session(link)
        # Nothing is awaited between the look for the link and this: a link that is up cannot be forgotten.
        if before is not None and not self._move(before, session):
            before = None
        if before is None:
            self._begin(link, session)
        try:
            # A child of ours announces itself when it sees this: from now on messages reach it.
            await incoming.accept(router.joined if self._connections.peer(link.id).hears else None)
            if before is not None:
                # The messages that come in over the old stream are older. The child ends it; so wait a bounded time.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(host.times.renewal):
                        await before.over.wait()
                before.close()
            await session.run()
        finally:
            session.close()
            self._connections.stream_ended(connection, link.id)
            end = self._ends.pop(session, None)
            if session.successor is None:
                self._ended(link, session, incoming.position, session.lost if end is None else end.value)
        if end is not None:
            await incoming.end(end)

    def end(self, session: Session[Any], end: End) -> None:
        """End a stream."""
        self._ends.setdefault(session, end)
        if end is End.CLOSING:
            # The answers in the batch under way still leave.
            session.close()
        else:
            session.abort()

    def end_all(self, end: End) -> None:
        """End the streams of all children."""
        for link_id, session in list(self._host.links.items()):
            if link_id != UP:
                self.end(session, end)

    def tell(self, joined: bool) -> None:
        """Tell the children that hear it whether this node has joined."""
        for link_id, session in self._host.links.items():
            if link_id != UP and self._connections.peer(link_id).hears:
                session.tell(joined)

    def _joining(self, incoming: Incoming) -> Link | None:
        """The child that opens a stream; None for one that is not registered here, or that another peer registered."""
        position, caller = incoming.position, incoming.caller
        link = self._router.children.find(position)
        if link is None or self._permissions.speaks_for(caller, link):
            return link
        text = f"a stream for {position} is opened by another peer than the one that registered"
        violation = Violation(Code.NIL_POSITION, text)
        self._host.perform(self._router.report_violation(caller.remote.place, violation))
        return None

    async def _held_back(self, incoming: Incoming) -> Link | None:
        """`_joining`, after the pause of a child whose last stream has broken the bounds of its link."""
        link, host = self._joining(incoming), self._host
        if link is not None and (pause := link.stream_pause(host.now())):
            host.log.info("child_held", child=str(link.position), seconds=pause)
            await asyncio.sleep(pause)
            link = self._joining(incoming)
        return link

    def _begin(self, link: Link, session: Session[Any]) -> None:
        """Make a stream the one of its link, in place of any other."""
        host = self._host
        replaced = host.links.get(link.id)
        unwritten: list[tuple[Frame, int]] = []
        if replaced is not None:
            replaced.close()
            unwritten = replaced.unwritten()
        host.links[link.id] = session
        peer = self._connections.peer(link.id)
        terms = session.terms._replace(probes=session.probed if peer.probes else None)
        host.perform(self._router.link_up(host.now(), link.id, session, unwritten, terms))
        self._observer.child_changed(link)
        host.log.info("child_joined", child=str(link.position), peer=peer.profile.name, link=session.kind)

    def _move(self, before: Session[Any], session: Session[Any]) -> bool:
        """Let a stream go on where another one has come to rest. Returns whether that is possible."""
        links, link_id = self._host.links, before.link
        if links.get(link_id) is not before or not session.follows(before) or not before.alive:
            return False
        before.hand_over(session)
        links[link_id] = session
        self._router.renewed(link_id, session, session.probed)
        self._host.log.info("child_moved", child=str(session.peer), link=session.kind)
        return True

    def _ended(self, link: Link, session: Session[Any], position: Position, reason: str) -> None:
        host = self._host
        if host.links.get(link.id) is session:
            del host.links[link.id]
        host.perform(self._router.link_down(host.now(), link.id, session, session.unwritten()))
        self._observer.child_changed(link, reason)
        host.log.info("child_lost", child=str(position), reason=reason)


async def _comes_to_rest(session: Session[Any], seconds: float) -> bool:
    """Let a stream come to rest within these seconds, so that another one of the same child can go on with it."""
    try:
        async with asyncio.timeout(seconds):
            await session.pause()
    except BaseException as error:
        session.resume()
        if isinstance(error, TimeoutError):
            return False
        raise
    return True
