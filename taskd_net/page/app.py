"""The two answers of a status page, as an ASGI application: the page, and what has changed since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from taskd_net.page.shell import Shell

HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""The headers of every answer beside its policy."""


class PageApp:
    """The application.

    Args:
        ask: what a browser that has a version of the tree has to be told, as a JSON object.
    """

    def __init__(self, ask: Callable[[str], Awaitable[str]]) -> None:
        self._ask = ask
        self._shell = Shell()
        self._headers = [*HEADERS, (b"content-security-policy", self._shell.policy.encode())]
        self._router = Router([Route("/", self._page), Route("/tree", self._tree)], redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        await self._router(scope, receive, send_with_headers)

    async def _page(self, _: Request) -> Response:
        return Response(self._shell.document(await self._ask("")), media_type="text/html")

    async def _tree(self, request: Request) -> Response:
        since = request.query_params.get("since", "")
        return Response(await self._ask(since), media_type="application/json")
