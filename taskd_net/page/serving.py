"""uvicorn in the node's own event loop, with bounds on the cost of browsers.

The node keeps its signals: uvicorn installs no handlers here. A connection beyond the bound is closed at once, and one
that is silent, or does not take its answer, is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from taskd_net import limits
from taskd_net.page.app import PageApp


class Serving:
    """The server of a page.

    Args:
        app: what answers.
        listening: a bound socket; closed at the end.
    """

    def __init__(self, app: PageApp, listening: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http=_Bounded,
            ws="none",
            lifespan="off",
            # Errors of clients are not logged.
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=limits.PAGE_CONNECTIONS,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))

    async def close(self) -> None:
        """Stop at once, without waiting for browsers."""
        self._server.should_exit = True
        self._server.force_exit = True
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await self._task


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the node."""
        yield


class _Bounded(H11Protocol):
    """One connection, within the bounds on number and time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > limits.PAGE_CONNECTIONS:
            transport.abort()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(limits.PAGE_PATIENCE_S, self._cut)

    def _cut(self) -> None:
        self.transport.abort()
