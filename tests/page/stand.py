"""The page of a mesh that never was: everything of the real one but the node."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from taskd_net.page.app import PageApp
from taskd_net.page.feed import Feed
from taskd_net.page.serving import Serving
from taskd_net.position import Position
from tests.page.meshes import Made


class Stand:
    """A page that is served. As a context it is closed at the end.

    Args:
        made: what it shows; a test may change it.
        expected: the size of the job, as text.
        pace: seconds that pass in the mesh with each question; 0: nothing happens there.
    """

    def __init__(self, made: Made, expected: str = "", pace: float = 0.0) -> None:
        self.made = made
        self._pace = pace
        self._feed = Feed(Position.mgr(), expected, "test")
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self.asked = 0

    async def __aenter__(self) -> Self:
        self._serving = Serving(PageApp(self.answer), self._socket)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._serving.close()

    async def answer(self, since: str) -> str:
        """What a browser is told."""
        self.asked += 1
        if self._pace:
            self.made.go_on(self._pace)
        for _ in self._feed.look(self.made.now, self.made.entries()):
            pass
        return '{"ask_again":0.25,' + self._feed.answer(since)[1:]
