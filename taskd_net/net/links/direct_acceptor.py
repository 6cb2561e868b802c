"""The parent's end of direct links: its offers, its listener, and the greetings of its children.

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
from functools import partial
from typing import Final

from taskd_net.base import limits, log_budget
from taskd_net.base.codes import Code, ConfigError, Refusal
from taskd_net.core.identity import Violation
from taskd_net.core.links import UP, Link
from taskd_net.core.routes import LinkId
from taskd_net.net.links import direct_local
from taskd_net.net.links.direct import KEY, DirectLink, session_of
from taskd_net.net.links.direct_address import handed_over, listening, resolve
from taskd_net.net.links.direct_requests import Answering, Offering
from taskd_net.net.links.direct_socket import DirectSocket
from taskd_net.net.links.kind import Acceptor, End, Parent, Sockets
from taskd_net.net.links.peer import Metadata
from taskd_net.net.links.remote import Caller, remote_of_socket
from taskd_net.net.tls.contexts import names_of
from taskd_net.net.wire import socket_frames as frames
from taskd_net.net.wire.socket_frames import FrameError, Greeting, write_frame

GREETINGS: Final = 1024
"""Connections to the port of direct links that have not greeted; the next one is closed at once."""

GREETINGS_PER_ADDRESS: Final = 256
"""The same of one address: as many as its registrations without a stream (`joining.pending`)."""

ACCEPT_PAUSE_S: Final = 0.1
"""Seconds before the next connection is accepted where none could be, mostly for want of file descriptors."""

# In the place of an address, for connections over the Unix socket that have not greeted.
_LOCAL: Final = "this machine"


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
        peer = stream.info("peername")
        # A Unix socket has none. Limits for each address count it as the connection of its Register.
        self.remote = remote_of_socket(peer) if peer else caller.remote.beside()
        stream.place = stream.place or self.remote.place
        self.position = link.position
        self.continues = greeting.continues

    @property
    def gone(self) -> bool:
        """True if the child has closed the connection."""
        return self._stream.closing()

    def session(self, link: Link) -> DirectLink:
        """Make the session of the link."""
        parent = self._parent
        beside = Answering(parent, link.position, Caller(self.remote, self.caller.names), self._renewal)
        self._session = session_of(
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
        self._stream.control(write_frame(frames.FrameKind.END, end.value.encode()))


class DirectAcceptor(Acceptor):
    """The parent's end."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(parent)
        self._port = 0
        self._local = ""
        self._listeners: list[socket.socket] = []
        # The pauses of listeners, after connections that could not be accepted.
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._offers: dict[bytes, tuple[LinkId, Caller]] = {}
        self._token_of: dict[LinkId, bytes] = {}
        # Connections that have not greeted, by address, and those whose task has not begun.
        self._greeting: Counter[str] = Counter()
        self._accepted: set[socket.socket] = set()
        # The greetings, which end with `close`, and the links.
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
            listener = await self._listen(sockets)
        except ConfigError as error:
            if sockets.asked_for:
                raise
            self._parent.host.log.warning("no_direct_links", reason=str(error))
            return
        self._port = listener.getsockname()[1]
        self._listeners = [listener]
        local = direct_local.listening()
        if local is not None:
            self._local, listener = local
            self._listeners.append(listener)
        for listener in self._listeners:
            self._await_from(listener, sockets)

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
        """The port, the name within this machine, and a token for this registration."""
        sockets = self._parent.sockets
        if sockets is None or not self._port:
            return ()
        names = caller.names()
        if (names is None) != (sockets.context is None):
            # A child that came to the second address, in plain text, has no TLS for this one.
            return ()
        self.forget(link)
        self._token_of[link] = token = secrets.token_bytes(frames.TOKEN_BYTES)
        # The call of gRPC is over when the token comes.
        self._offers[token] = link, Caller(caller.remote, lambda: names)
        offered = (KEY, f"{frames.VERSION} {self._port} {token.hex()}")
        return (offered, (direct_local.KEY, self._local)) if self._local else (offered,)

    def forget(self, link: LinkId) -> None:
        """The token is good no more."""
        token = self._token_of.pop(link, None)
        if token is not None:
            self._offers.pop(token, None)

    def close(self) -> None:
        """Accept no more."""
        self._port = 0
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener.fileno())
        for pause in self._pauses.values():
            pause.cancel()
        for task in self._waiting:
            task.cancel()

    async def stop(self) -> None:
        """Wait for the links, which were ended."""
        tasks = self._waiting | self._serving
        if tasks:
            await asyncio.wait(tasks, timeout=2 * limits.CLOSE_GRACE_S)
        for listener in self._listeners:
            listener.close()
        for connection in self._accepted:
            connection.close()

    def _await_from(self, listener: socket.socket, sockets: Sockets) -> None:
        # Without a task: a cancelled `sock_accept` may lose a connection that it has accepted.
        self._pauses.pop(listener, None)
        asyncio.get_running_loop().add_reader(listener.fileno(), self._accept, listener, sockets)

    def _accept(self, listener: socket.socket, sockets: Sockets) -> None:
        """Accept a connection, and wait for its greeting in a task of its own."""
        local = listener.family == socket.AF_UNIX
        try:
            connection, address = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # No file descriptor is free.
            self._parent.host.log.warning("accept_failed", reason=str(error))
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener.fileno())
            self._pauses[listener] = loop.call_later(ACCEPT_PAUSE_S, self._await_from, listener, sockets)
            return
        connection.setblocking(False)
        if local and not direct_local.admit(connection):
            # No rule is broken: children of other users come here to find that out, and take the port.
            connection.close()
            return
        host = _LOCAL if local else address[0]
        greeting, most = self._greeting, GREETINGS
        if greeting[host] < GREETINGS_PER_ADDRESS and greeting.total() < most:
            greeting[host] += 1
            self._accepted.add(connection)
            _spawn(self._waiting, self._greeted(connection, host, sockets))
        else:
            connection.close()
            self._refuse(host, "too many connections that have not greeted")

    async def _greeted(self, connection: socket.socket, host: str, sockets: Sockets) -> None:
        """Wait for a greeting, and serve its link in a task of its own."""
        loop, parent = asyncio.get_running_loop(), self._parent
        stream = DirectSocket(parent.unfinished, parent.host.times)
        self._accepted.discard(connection)
        if host == _LOCAL:
            stream.place = direct_local.process(connection)
        try:
            try:
                context = _context(sockets)
            except OSError:
                connection.close()
                raise
            async with asyncio.timeout(parent.host.times.greeting):
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
        if host not in self._refused and len(self._refused) < log_budget.PEERS:
            self._refused.add(host)
            node = self._parent.host
            node.perform(node.router.report_violation(host, Violation(Code.NIL_POSITION, f"a direct link: {reason}")))


def _context(sockets: Sockets) -> ssl.SSLContext | None:
    return None if sockets.context is None else sockets.context()


def _spawn(tasks: set[asyncio.Task[None]], work: Coroutine[object, object, None]) -> None:
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
