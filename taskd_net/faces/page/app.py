"""The answers of a status page, as an ASGI application: the page, the changes since an answer, and the last hour."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from taskd_net.base.position import Position
from taskd_net.base.progress import ACCOUNT_WORDS, RECOVERY_WORDS
from taskd_net.base.untrusted import json_line, shown
from taskd_net.observe.fields import faces_of
from taskd_net.observe.job_view import (
    AGENT_WORDS,
    COMMAND_WORDS,
    AgentView,
    ClusterdView,
    DeviceView,
    JobCounters,
    JobView,
    LeaderView,
)
from taskd_net.observe.records import Direction, NodeStatus, OwnFigures
from taskd_net.observe.series import COLUMNS
from taskd_net.observe.status_codec import read_position

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
        ask_past: the last hour of a node, or of all links together for None, as a JSON object.
    """

    def __init__(
        self, ask: Callable[[str], Awaitable[str]], ask_past: Callable[[Position | None], Awaitable[str]]
    ) -> None:
        self._ask = ask
        self._ask_past = ask_past
        self._shell = Shell()
        self._headers = [*HEADERS, (b"content-security-policy", self._shell.policy.encode())]
        routes = [Route("/", self._page), Route("/tree", self._tree), Route("/history", self._history)]
        self._router = Router(routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        await self._router(scope, receive, send_with_headers)

    async def _page(self, _: Request) -> Response:
        return Response(self._shell.document(await self._ask(""), await self._ask_past(None)), media_type="text/html")

    async def _tree(self, request: Request) -> Response:
        since = request.query_params.get("since", "")
        return Response(await self._ask(since), media_type="application/json")

    async def _history(self, request: Request) -> Response:
        name = request.query_params.get("node")
        position = None if name is None else read_position(name)
        if name is not None and position is None:
            text = f"node is {shown(name)}; expected is a position of one node, such as Worker/1/9\n"
            return Response(text, status_code=400, media_type="text/plain")
        return Response(await self._ask_past(position), media_type="application/json")


# In the order in which they build on each other.
SCRIPTS: Final = (
    "mesh",
    "history",
    "past",
    "layout",
    "picture",
    "plots",
    "fields",
    "job",
    "details",
    "top",
    "moving",
    "find",
    "legend",
    "live",
)


_VIEWS: Final = (
    *(NodeStatus, OwnFigures, Direction),
    *(JobView, JobCounters, AgentView, DeviceView, ClusterdView, LeaderView),
)


class Shell:
    """The document without the state of the mesh; the files are read once."""

    def __init__(self) -> None:
        style = _read("page.css")
        parts = (_declarations(), *(_read(f"{name}.js") for name in SCRIPTS))
        script = "(() => {\n" + "\n".join(parts) + "\n})();\n"
        page = _read("page.html").replace("/* style */", style).replace("/* script */", script)
        self._before, _, rest = page.partition("/* tree */")
        self._between, _, self._after = rest.partition("/* past */")
        self.policy = "; ".join(
            (
                "default-src 'none'",
                f"script-src '{_hash(script)}'",
                f"style-src '{_hash(style)}'",
                "connect-src 'self'",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            )
        )
        """The value of the header Content-Security-Policy."""

    def document(self, tree: str, past: str) -> str:
        """The whole page.

        Args:
            tree: the state of the mesh, as a JSON object.
            past: the last hour of all links together, as a JSON object.
        """
        # Inside a script element only a `<` could end it or change its meaning.
        told = [text.replace("<", "\\u003c") for text in (tree, past)]
        return self._before + told[0] + self._between + told[1] + self._after


def _declarations() -> str:
    """The declarations of fields and columns, and commands and states in words, as constants of the scripts."""
    faces = {view.__name__: [(key, face._asdict()) for key, face in faces_of(view).items()] for view in _VIEWS}
    named: dict[str, object] = {"VIEWS": faces, "COLUMNS": [column._asdict() for column in COLUMNS]}
    named["COMMANDS"] = {str(code): words for code, words in COMMAND_WORDS.items()}
    named["AGENTS"] = AGENT_WORDS
    named |= {"ACCOUNTS": ACCOUNT_WORDS, "RECOVERY": RECOVERY_WORDS}
    lines = (f"const {name} = {json_line(value, compact=True)};" for name, value in named.items())
    return "\n".join(lines).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (resources.files("taskd_net.faces.page") / "face" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
