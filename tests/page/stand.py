"""The page of a mesh that never was: everything of the real one but the node."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from taskd_net.base.address import Address
from taskd_net.base.position import Position
from taskd_net.base.untrusted import json_line
from taskd_net.faces.page.app import PageApp
from taskd_net.faces.page.feed import Feed
from taskd_net.faces.side_port import SidePort
from taskd_net.observe.history import History
from taskd_net.observe.job_view import JobView
from tests.page.meshes import Made


class Stand:
    """A page that is served. As a context it is closed at the end.

    Args:
        made: what it shows; a test may change it.
        expected: the size of the job, as text.
        pace: seconds that pass in the mesh with each question; 0: nothing happens there.
        nap: seconds after which a browser asks again.
        port: where; 0: any free one.
        life: tells it from an earlier one at the same port.
        job: the state of the job; None: there is no Manager.
        metrics: where the node serves its metrics.
        documents: the address of the documents.
    """

    def __init__(
        self,
        made: Made,
        expected: str = "",
        *,
        pace: float = 0.0,
        nap: float = 0.25,
        port: int = 0,
        life: str = "one",
        job: JobView | None = None,
        metrics: str | None = None,
        documents: str | None = None,
    ) -> None:
        self.made = made
        self.job = job
        self._pace = pace
        self._nap = nap
        self._addresses = {"metrics": metrics, "documents": documents}
        self._feed = Feed(Position.mgr(), expected, life)
        self.history = History(Position.mgr(), life)
        self.port = port
        self.asked = 0

    async def __aenter__(self) -> Self:
        self._served = SidePort(PageApp(self.answer, self.past), Address("127.0.0.1", self.port), "http_port").serve()
        self.port = self._served.address.port
        self.url = f"http://{self._served.address}/"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._served.close()

    async def answer(self, since: str) -> str:
        """The answer for a browser."""
        self.asked += 1
        if self._pace:
            self.made.go_on(self._pace)
        self.record()
        for _ in self._feed.look(self.made.now, self.made.entries(), self.job, self.history.strained):
            pass
        return json_line({"ask_again": self._nap, **self._addresses})[:-1] + "," + self._feed.answer(since)[1:]

    def record(self) -> None:
        """Let the history take a look."""
        for _ in self.history.look(self.made.now, self.made.nodes):
            pass

    async def past(self, position: Position | None) -> str:
        """The last hour, for a browser."""
        return json_line(self.history.document(self.made.now, position))
