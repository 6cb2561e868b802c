"""The direct kind of link: a parent's offer, its listener, and the way of a child there.

A parent offers a port and a token in its answer to Register. The token is good for one link of that registration. The
child connects and greets with it, and the parent answers whether the link is accepted.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from taskd_net import limits, link_limits
from taskd_net.address import Address
from taskd_net.codes import Code, ConfigError, Refusal
from taskd_net.core.identity import Violation
from taskd_net.core.links import UP, Link
from taskd_net.core.routes import LinkId
from taskd_net.links.direct import NAME, PROBED, DirectLink, TracedDirectLink
from taskd_net.links.direct_address import connected, handed_over, listening, resolve
from taskd_net.links.direct_requests import Answering, Asking, Beside, Offering
from taskd_net.links.direct_socket import DirectSocket
from taskd_net.links.kind import Acceptor, End, Failed, Kind, Lost, Opened, Parent, Sockets, Unreachable, Way
from taskd_net.links.peer import Metadata, Peer
from taskd_net.links.remote import Caller, remote_of_socket
from taskd_net.links.session import Host
from taskd_net.position import Position, Role
from taskd_net.tls.contexts import names_of
from taskd_net.untrusted import natural
from taskd_net.wire import socket_frames as frames
from taskd_net.wire.socket_frames import FrameError, Greeting, write_frame

KEY: Final = "taskd-net-direct"
_CLOSED: Final = b"closed by the child"


class _Incoming:
    """A link that a child opens."""

    def __init__(
        self, parent: Parent, caller: Caller, link: Link, greeting: Greeting, stream: DirectSocket, renewal: Offering
    ) -> None:
        self._parent = parent
        self._renewal = renewal
        self._stream = stream
        self._session: DirectLink
        self.caller = caller
        self.remote = remote_of_socket(stream.info("peername"))
        self.position = link.position
        self.continues = greeting.continues

    def session(self, link: Link) -> DirectLink:
        """Make the session of the link."""
        parent = self._parent
        beside = Answering(parent, link.position, Caller(self.remote, self.caller.names), self._renewal)
        self._session = _session(
            parent.host, link.id, link.position, self._stream, parent.connections.peer(link.id), beside
        )
        return self._session

    async def accept(self, joined: bool | None) -> None:
        """Tell the child that the link stands."""
        accepted = frames.write_accepted(joined)
        if self.continues:
            # The child ends its older link when it sees this, and only then this one begins.
            self._stream.control(accepted)
        else:
            self._session.say(accepted)

    async def end(self, end: End) -> None:
        """End the link with a reason."""
        self._stream.control(write_frame(frames.Kind.END, end.value.encode()))


class DirectAcceptor(Acceptor):
    """The parent's end."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(parent)
        self._port = 0
        self._listener: socket.socket | None = None
        self._offers: dict[bytes, tuple[LinkId, Caller]] = {}
        self._token_of: dict[LinkId, bytes] = {}
        # Connections that have not greeted, by address, and those whose task has not begun.
        self._greeting: Counter[str] = Counter()
        self._accepted: set[socket.socket] = set()
        # The listener and the greetings, which end with `close`, and the links.
        self._waiting: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        # Addresses of connections that were refused and logged.
        self._refused: set[str] = set()

    async def start(self) -> None:
        """Listen. Sockets that were not asked for are done without, if they cannot be had."""
        sockets = self._parent.sockets
        if sockets is None:
            return
        try:
            self._listener = listener = await self._listen(sockets)
        except ConfigError as error:
            if sockets.asked_for:
                raise
            self._parent.host.log.warning("no_direct_links", reason=str(error))
            return
        self._port = listener.getsockname()[1]
        _spawn(self._waiting, self._accept(listener, sockets))

    async def _listen(self, sockets: Sockets) -> socket.socket:
        """A socket that listens.

        Raises:
            ConfigError: its address or the files of TLS cannot be used.
        """
        address = sockets.listen
        try:
            _context(sockets)
            where = await resolve(address)
        except OSError as error:
            raise ConfigError(f"direct_listen is {address}, which cannot be used: {error}") from error
        try:
            return listening(where)
        except OSError as error:
            raise ConfigError(f"direct_listen is {address}, which cannot be bound: {error.strerror}") from error

    def offer(self, link: LinkId, caller: Caller) -> Metadata:
        """The port, and a token for this registration."""
        sockets = self._parent.sockets
        if sockets is None or not self._port:
            return ()
        names = caller.names()
        if (names is None) != (sockets.context is None):
            # A child that came to the second address, in plain text, has no TLS for this one.
            return ()
        self.forget(link)
        self._token_of[link] = token = secrets.token_bytes(link_limits.DIRECT_TOKEN_BYTES)
        # The call of gRPC is over when the token comes.
        self._offers[token] = link, Caller(caller.remote, lambda: names)
        return ((KEY, f"{frames.VERSION} {self._port} {token.hex()}"),)

    def forget(self, link: LinkId) -> None:
        """The token is good no more."""
        token = self._token_of.pop(link, None)
        if token is not None:
            self._offers.pop(token, None)

    def close(self) -> None:
        """Accept no more."""
        self._port = 0
        for task in self._waiting:
            task.cancel()

    async def stop(self) -> None:
        """Wait for the links, which were ended."""
        tasks = self._waiting | self._serving
        if tasks:
            await asyncio.wait(tasks, timeout=2 * limits.CLOSE_GRACE_S)
        if self._listener is not None:
            self._listener.close()
        for connection in self._accepted:
            connection.close()

    async def _accept(self, listener: socket.socket, sockets: Sockets) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, (host, *_) = await loop.sock_accept(listener)
            except OSError as error:
                # No file descriptor is free, or the connection has gone.
                self._parent.host.log.warning("accept_failed", reason=str(error))
                await asyncio.sleep(link_limits.DIRECT_ACCEPT_PAUSE_S)
                continue
            greeting, most = self._greeting, link_limits.DIRECT_GREETINGS
            if greeting[host] < link_limits.DIRECT_GREETINGS_PER_ADDRESS and greeting.total() < most:
                greeting[host] += 1
                self._accepted.add(connection)
                _spawn(self._waiting, self._greeted(connection, host, sockets))
            else:
                connection.close()
                self._refuse(host, "too many connections that have not greeted")

    async def _greeted(self, connection: socket.socket, host: str, sockets: Sockets) -> None:
        """Wait for a greeting, and serve its link in a task of its own."""
        loop, stream = asyncio.get_running_loop(), DirectSocket()
        self._accepted.discard(connection)
        try:
            try:
                context = _context(sockets)
            except OSError:
                connection.close()
                raise
            async with asyncio.timeout(link_limits.DIRECT_GREETING_S):
                with handed_over(connection):
                    await loop.connect_accepted_socket(lambda: stream, connection, ssl=context)
                first = await stream.first
            if first is None:
                # Nobody has to say anything: port scans, and checks of health.
                raise FrameError(stream.fault) if stream.fault else ConnectionError
            incoming = self._incoming(frames.read_greeting(*first), stream)
        except BaseException as error:
            stream.abort()
            if isinstance(error, FrameError | TimeoutError | ssl.SSLError):
                self._refuse(host, str(error) or "no greeting in time")
            elif not isinstance(error, OSError):
                raise
        else:
            _spawn(self._serving, self._serve(incoming, stream))
        finally:
            self._greeting[host] -= 1
            if not self._greeting[host]:
                del self._greeting[host]

    def _incoming(self, greeting: Greeting, stream: DirectSocket) -> _Incoming:
        """The link of a greeting.

        Raises:
            FrameError: its token is not good, or the certificate is another one than at Register.
        """
        link_id, caller = self._offers.pop(greeting.token, (UP, None))
        link = self._parent.host.router.children.by_id.get(link_id)
        if caller is None or link is None:
            raise FrameError("the token is not that of a registration, or was used before")
        self._token_of.pop(link_id, None)
        connection = stream.info("ssl_object")
        if connection is not None and names_of(connection) != caller.names():
            raise FrameError("the certificate is not the one that was shown at Register")
        return _Incoming(self._parent, caller, link, greeting, stream, partial(self._renewed, link_id))

    def _renewed(self, link: LinkId, caller: Caller) -> str:
        """The offer of a socket that takes the place of a link's, or a Refusal: its child asks over that link."""
        for _, value in self.offer(link, caller):
            return value
        raise Refusal(Code.CLIENT_ERR, "direct links are accepted no more")

    async def _serve(self, incoming: _Incoming, stream: DirectSocket) -> None:
        try:
            await self._parent.serve(incoming)
        finally:
            stream.close()
            await stream.over.wait()

    def _refuse(self, host: str, reason: str) -> None:
        """Report a connection that was refused; one line for each address."""
        if host not in self._refused and len(self._refused) < limits.LOG_PEERS:
            self._refused.add(host)
            node = self._parent.host
            node.perform(node.router.report_violation(host, Violation(Code.NIL_POSITION, f"a direct link: {reason}")))


class _Line:
    """The child's end of a link."""

    def __init__(self, stream: DirectSocket) -> None:
        self._stream = stream

    def cancel(self) -> None:
        """End the link at once; what the kernel has still arrives."""
        self._stream.control(write_frame(frames.Kind.END, _CLOSED))
        self._stream.abort("ended by this node")

    async def finish(self) -> None:
        """Write no more."""
        self._stream.control(write_frame(frames.Kind.END))

    async def lost(self) -> Lost:
        """The reason for which the link has ended."""
        reason = self._stream.reason
        return Lost(f"the link ended: {reason}", reason == End.POSITION_TAKEN.value)


class Direct(Kind):
    """A plain socket between two nodes of ours."""

    name, probed = NAME, PROBED

    def offered(self, peer: Peer) -> bool:
        """True if a parent offers it in this version."""
        return _read_offer(peer) is not None

    async def answers(self, way: Way) -> bool:
        """True if somebody accepts connections at the port."""
        try:
            connection = await _connect(way, limits.CONNECT_S)
        except Unreachable:
            return False
        connection.close()
        return True

    async def open(self, way: Way) -> Opened:
        """Connect, greet, and wait for the answer."""
        peer, offer = way.peer, _read_offer(way.peer)
        assert offer is not None
        try:
            context = _context(way)
        except OSError as error:
            raise Unreachable(f"TLS of direct links: {error}") from error
        connection = await _connect(way, link_limits.DIRECT_CONNECT_S)
        stream, asking = DirectSocket(), Asking(way.parent)
        try:
            async with asyncio.timeout(way.ack_timeout):
                name = None if context is None else way.server_name
                loop = asyncio.get_running_loop()
                with handed_over(connection):
                    await loop.create_connection(lambda: stream, sock=connection, ssl=context, server_hostname=name)
                greeting = frames.write_greeting(Greeting(offer[1], way.continues))
                identity = way.host.router.identity
                if Role(identity.role).is_leaf and not way.continues:
                    greeting += asking.greet(identity, way.ack_timeout)
                stream.control(greeting)
                first = await stream.first
            if first is None:
                raise Unreachable(f"{_offered(way, offer[0])}: {stream.reason}")
            kind, payload = first
            if kind != frames.Kind.ACCEPTED:
                raise Failed(f"opening the link: {payload.decode(errors='replace')[: limits.LOG_VALUE_CHARS]}")
        except BaseException as error:
            stream.abort()
            if isinstance(error, OSError):  # also a timeout, and errors of TLS
                raise Unreachable(f"{_offered(way, offer[0])}: {str(error) or 'no answer in time'}") from error
            raise
        session = _session(way.host, UP, way.parent, stream, way.peer, asking)

        async def renew(seconds: float) -> Peer:
            # Not of the way: it holds the channel, and so gRPC's threads.
            return replace(peer, said={**peer.said, KEY: await asking.renew(seconds)})

        return Opened(session, _Line(stream), frames.read_accepted(payload), asking, renew)

    def acceptor(self, parent: Parent) -> Acceptor:
        """The parent's end."""
        return DirectAcceptor(parent)


def _context(end: Sockets | Way) -> ssl.SSLContext | None:
    return None if end.context is None else end.context()


def _session(
    host: Host, link: LinkId, position: Position, stream: DirectSocket, peer: Peer, beside: Beside
) -> DirectLink:
    tracer, numbered, counts = host.tracer, peer.numbers, peer.counts
    if tracer is None:
        session = DirectLink(host, link, position, stream, numbered=numbered, counts=counts)
    else:
        # The socket is written by the link itself, and is no pipe.
        pipe = cast(Any, stream)
        session = TracedDirectLink(host, link, position, pipe, tracer, numbered=numbered, counts=counts)
    session.attend(beside)
    return session


def _read_offer(peer: Peer) -> tuple[int, bytes] | None:
    """The port and the token that a parent offers; None where it offers none in this version."""
    version, _, rest = peer.said.get(KEY, "").partition(" ")
    port, _, token = rest.partition(" ")
    number = natural(port, 65535)
    if version != str(frames.VERSION) or not number or len(token) != 2 * link_limits.DIRECT_TOKEN_BYTES:
        return None
    try:
        return number, bytes.fromhex(token)
    except ValueError:
        return None


def _offered(way: Way, port: int) -> str:
    """The offered port, for people."""
    return f"port {Address(way.upstream.host, port)}"


async def _connect(way: Way, seconds: float) -> socket.socket:
    """A connection to the offered port.

    Raises:
        Unreachable: nobody answers in time.
    """
    offer = _read_offer(way.peer)
    assert offer is not None
    try:
        where = await resolve(Address(way.upstream.host, offer[0]))
    except OSError as error:
        raise Unreachable(str(error)) from error
    try:
        return await connected(where, seconds)
    except OSError as error:
        reason = "does not answer" if error.errno is None else f"cannot be reached: {error.strerror}"
        raise Unreachable(f"{_offered(way, offer[0])} {reason}") from error


def _spawn(tasks: set[asyncio.Task[None]], work: Coroutine[object, object, None]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


KIND: Final = Direct()
