"""The direct kind of link, and the way of a child to the port of its parent (`direct_acceptor`).

The child connects to the parent's socket on this machine, or else to the offered port. It greets with the token that
came with the offer, and the parent answers whether the link is accepted.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Final

from taskd_net.base import limits
from taskd_net.base.address import Address
from taskd_net.base.position import Role
from taskd_net.base.untrusted import natural
from taskd_net.core.links import UP
from taskd_net.net.links import direct_local
from taskd_net.net.links.direct import KEY, NAME, PROBED, session_of
from taskd_net.net.links.direct_address import connected, handed_over, resolve
from taskd_net.net.links.direct_requests import Asking
from taskd_net.net.links.direct_socket import DirectSocket
from taskd_net.net.links.kind import Acceptor, End, Failed, LinkKind, LinkLost, Opened, Parent, Unreachable, Way
from taskd_net.net.links.peer import Peer
from taskd_net.net.wire import socket_frames as frames
from taskd_net.net.wire.socket_frames import Greeting, write_frame

CONNECT_S: Final = 0.05
"""Seconds for a connection to the offered port: a firewall that drops packets costs no join more than this."""

_CLOSED: Final = b"closed by the child"


class _Line:
    """The child's end of a link."""

    def __init__(self, stream: DirectSocket) -> None:
        self._stream = stream

    def cancel(self) -> None:
        """End the link at once; what the kernel has still arrives."""
        self._stream.control(write_frame(frames.FrameKind.END, _CLOSED))
        self._stream.abort("ended by this node")

    async def finish(self) -> None:
        """Write no more."""
        self._stream.control(write_frame(frames.FrameKind.END))

    async def lost(self) -> LinkLost:
        """The reason for which the link has ended."""
        reason = self._stream.reason
        return LinkLost(f"the link ended: {reason}", reason == End.POSITION_TAKEN.value)


class Direct(LinkKind):
    """A plain socket between two nodes of ours."""

    name, probed = NAME, PROBED

    def offered(self, peer: Peer) -> bool:
        """True if a parent offers it in this version."""
        return _read_offer(peer) is not None

    async def answers(self, way: Way) -> bool:
        """True if somebody accepts connections at the port."""
        try:
            connection = await _connect(way, way.host.times.connect)
        except Unreachable:
            return False
        connection.close()
        return True

    async def open(self, way: Way) -> Opened:
        """Connect, greet, and wait for the answer."""
        peer, offer = way.peer, _read_offer(way.peer)
        assert offer is not None
        try:
            context = None if way.context is None else way.context()
        except OSError as error:
            raise Unreachable(f"TLS of direct links: {error}") from error
        connection = await _connect(way, CONNECT_S)
        loop, stream, asking = asyncio.get_running_loop(), DirectSocket(times=way.host.times), Asking(way.parent)
        try:
            async with asyncio.timeout(way.ack_timeout) as limit:
                name = None if context is None else way.server_name
                local = connection.family == socket.AF_UNIX
                make = loop.create_unix_connection if local else loop.create_connection
                with handed_over(connection):
                    await make(lambda: stream, sock=connection, ssl=context, server_hostname=name)
                greeting = frames.write_greeting(Greeting(offer[1], way.continues))
                identity = way.host.router.identity
                if Role(identity.role).is_leaf and not way.continues:
                    greeting += asking.greet(identity, way.ack_timeout)
                stream.control(greeting)
            # Without cancelling it: an answer that is there counts, however late this loop looks.
            await asyncio.wait([stream.first], timeout=(limit.when() or 0.0) - loop.time())
            if not stream.first.done():
                raise TimeoutError
            first = stream.first.result()
            if first is None:
                raise Unreachable(f"{_offered(way, offer[0])}: {stream.reason}")
            kind, payload = first
            if kind != frames.FrameKind.ACCEPTED:
                raise Failed(f"opening the link: {payload.decode(errors='replace')[: limits.LOG_VALUE_CHARS]}")
        except BaseException as error:
            stream.abort()
            if isinstance(error, OSError):  # also a timeout, and errors of TLS
                raise Unreachable(f"{_offered(way, offer[0])}: {str(error) or 'no answer in time'}") from error
            raise
        session = session_of(way.host, UP, way.parent, stream, way.peer, asking)

        async def renew(seconds: float) -> Peer:
            # Not of the way: it holds the channel, and so gRPC's threads.
            return replace(peer, said={**peer.said, KEY: await asking.renew(seconds)})

        return Opened(session, _Line(stream), frames.read_accepted(payload), asking, renew)

    def acceptor(self, parent: Parent) -> Acceptor:
        """The parent's end."""
        from taskd_net.net.links.direct_acceptor import DirectAcceptor  # a leaf has no children

        return DirectAcceptor(parent)


def _read_offer(peer: Peer) -> tuple[int, bytes] | None:
    """The port and the token that a parent offers; None where it offers none in this version."""
    version, _, rest = peer.said.get(KEY, "").partition(" ")
    port, _, token = rest.partition(" ")
    number = natural(port, 65535)
    if version != str(frames.VERSION) or not number or len(token) != 2 * frames.TOKEN_BYTES:
        return None
    try:
        return number, bytes.fromhex(token)
    except ValueError:
        return None


def _offered(way: Way, port: int) -> str:
    """The offered port, for people."""
    return f"port {Address(way.upstream.host, port)}"


async def _connect(way: Way, seconds: float) -> socket.socket:
    """A connection to the parent's socket on this machine, or else to the offered port.

    Raises:
        Unreachable: nobody answers in time.
    """
    offer = _read_offer(way.peer)
    assert offer is not None
    local = direct_local.connected(way.peer.said.get(direct_local.KEY, ""))
    if local is not None:
        return local
    try:
        where = await resolve(Address(way.upstream.host, offer[0]))
    except OSError as error:
        raise Unreachable(str(error)) from error
    try:
        return await connected(where, seconds)
    except OSError as error:
        reason = "does not answer" if error.errno is None else f"cannot be reached: {error.strerror}"
        raise Unreachable(f"{_offered(way, offer[0])} {reason}") from error


KIND: Final = Direct()
