"""HTTP at a port beside the mesh, for the status page and for metrics: uvicorn in the node's own event loop.

Its cost is bounded, whoever connects. Beyond the bound on connections the one that has been silent for the longest is
closed, so that silent clients keep nobody out. One that stays silent, or does not take its answer, is cut off. Answers
wait for their turn.

Names in `Host` are checked: a page of another site could otherwise read the answers, by a name of its own that it lets
lead to this address (DNS rebinding). The node keeps its signals: uvicorn installs no handlers here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeAlias, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError

BYTES_PER_S: Final = 20_000_000
"""Bytes a second of a status page, to all its browsers together: sixteen whole trees of 2,000 nodes."""

Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
App: TypeAlias = Callable[[Event, Receive, Send], Awaitable[None]]
"""An ASGI application."""

_PORT: Final = re.compile(r":[0-9]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortBounds:
    """Bounds of one port. They are no settings: tests tighten them.

    Args:
        connections: to a node's status page, or to its metrics: some ten people with the page open. Beyond them the one
            that has been silent for the longest is closed.
        patience: seconds a browser may be silent, or take to read one answer: the page asks every second. Slower ones
            are cut off, so that silent clients do not keep connections from others.
        answers_per_s: answers a second to all browsers together: 1 to 2 % of one core. Further ones wait.
    """

    connections: int = 32
    patience: float = 15.0
    answers_per_s: float = 50


BOUNDS: Final = PortBounds()
"""Bounds of every port outside of tests."""


class SidePort:
    """The server of one port, from its making to `close`. It binds the address; `serve` begins to answer.

    Args:
        app: answers the requests.
        listen: the address; port 0 takes any free port.
        setting: its name, for errors.
        allowed: host names by which it may be reached; IP addresses and `localhost` always are.
        bounds: None for `BOUNDS`.

    Raises:
        ConfigError: the address cannot be bound.
    """

    def __init__(
        self,
        app: App,
        listen: Address,
        setting: str,
        allowed: Collection[str] = (),
        bounds: PortBounds | None = None,
    ) -> None:
        bounds = BOUNDS if bounds is None else bounds
        self._listening = _bind(listen, setting, bounds.connections)
        self.address = Address(*self._listening.getsockname()[:2])
        config = uvicorn.Config(
            cast("Any", _Gate(app, allowed, bounds)),
            http=cast("Any", partial(_Bounded, bounds)),
            ws="none",
            lifespan="off",
            # Errors of clients are not logged.
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=bounds.connections,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    def serve(self) -> Self:
        """Begin to answer. Whoever has connected before has waited until now."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        return self

    async def close(self) -> None:
        """Stop at once, without waiting for clients. Idempotent."""
        if self._task is None:
            self._listening.close()
            return
        self._server.should_exit = True
        self._server.force_exit = True
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await self._task


async def answer(send: Send, status: int, kind: str, body: bytes) -> None:
    """Give one whole answer, and close the connection after it."""
    headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Gate:
    """Checks the host of each request, and lets the answers wait for their turn: so many a second, however many ask."""

    def __init__(self, app: App, allowed: Collection[str], bounds: PortBounds = BOUNDS) -> None:
        self._app = app
        self._answers_per_s = bounds.answers_per_s
        self._allowed = {"localhost", *(name.lower() for name in allowed if name)}
        self._next = 0.0

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        now = asyncio.get_running_loop().time()
        due = max(now, self._next)
        self._next = due + 1 / self._answers_per_s
        await asyncio.sleep(due - now)

        async def send_counted(event: Event) -> None:
            # A long answer puts off those that come after it.
            self._next += len(event.get("body", b"")) / BYTES_PER_S
            await send(event)

        # Only HTTP/1.0 has no host, which no browser speaks.
        host = dict(scope["headers"]).get(b"host")
        if host is None or self._knows(host.decode("latin-1")):
            await self._app(scope, receive, send_counted)
        else:
            await answer(send, 421, "text/plain", b"this host name is not one of --allowed-host\n")

    def _knows(self, host: str) -> bool:
        name = _PORT.sub("", host.lower())
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
            return True
        return name in self._allowed


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the node."""
        yield


class _Bounded(H11Protocol):
    """One connection, within the bounds on number and time."""

    _timer: asyncio.TimerHandle | None = None
    _since = 0.0

    def __init__(self, bounds: PortBounds, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._bounds = bounds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self._bounds.connections:
            others = cast("set[_Bounded]", self.connections - {self})
            longest = min(others, key=lambda other: (other._answers, other._since))
            self.connections.discard(longest)
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    @property
    def _answers(self) -> bool:
        """True while an answer is under way."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _wait(self) -> None:
        self._since = self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self._bounds.patience, self._cut)

    def _cut(self) -> None:
        self.transport.abort()


def _bind(address: Address, setting: str, backlog: int) -> socket.socket:
    listening = None
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, name = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(name)
        # From here on nobody is refused, also before the server has its first turn.
        listening.listen(backlog)
    except (OSError, UnicodeError) as error:  # a UnicodeError for a name that DNS cannot have
        if listening is not None:
            listening.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{setting} is {address}; cannot listen there: {reason}") from None
    return listening
