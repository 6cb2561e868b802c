"""Looking at the mesh for all browsers together, without holding up the node whose page it is."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from time import perf_counter
from types import MappingProxyType

from taskd_net.base.untrusted import json_line
from taskd_net.faces.page.feed import Feed
from taskd_net.faces.page.paces import PACES, Paces
from taskd_net.node.node import Node


class Looking:
    """The state of the mesh for browsers, hardly older than `Paces.look` when asked for.

    Nobody looks while nobody asks. However many ask, one look at a time is taken, and after one that took long there is
    a pause of so much longer.

    Args:
        node: a node that was started.
        strained: the nodes under a strain, kept up to date; each with its beginning in seconds since the epoch.
        paces: its times.

    Attributes:
        metrics: `host:port` of the node's metrics; None: nobody serves them.
        documents: address of the site of the documents; None: nobody has said one.
    """

    def __init__(self, node: Node, strained: Mapping[str, float] = MappingProxyType({}), paces: Paces = PACES) -> None:
        self.metrics: str | None = None
        self.documents: str | None = None
        self._strained = strained
        self._paces = paces
        self._node = node
        self._feed = Feed(node.position, node.config.expect or "", secrets.token_hex(4))
        self._look: asyncio.Task[None] | None = None
        self._next = float("-inf")
        self._pause = 0.0

    async def answer(self, since: str) -> str:
        """The update for a browser with the version `since`, as a JSON object.

        It holds what `Feed.answer` says, in `ask_again` the seconds after which the browser should ask again, in
        `metrics` the address of the node's metrics, and in `documents` that of the documents, null for none.
        """
        if self._look is None and self._node.driver.now() >= self._next:
            self._look = asyncio.create_task(self._take_look())
        if self._look is not None:
            await asyncio.shield(self._look)
        told = self._feed.answer(since)
        pause = max(self._paces.ask, self._pause)
        known = f'"metrics":{json_line(self.metrics)},"documents":{json_line(self.documents)}'
        return f'{{"ask_again":{pause:.3f},{known},{told[1:]}'

    async def close(self) -> None:
        """End a look that is under way."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])

    async def _take_look(self) -> None:
        busy, begun = 0.0, perf_counter()
        try:
            view, job_view = self._node.driver.view, self._node.driver.job_view
            view.look()
            entries = [(record.position, record.node) for record in view.records()]
            job = None if job_view is None else job_view()
            for _ in self._feed.look(view.wall(), entries, job, self._strained):
                busy += perf_counter() - begun
                await asyncio.sleep(0)
                begun = perf_counter()
            busy += perf_counter() - begun
        finally:
            self._look = None
            self._pause = max(self._paces.look, busy / self._paces.load)
            self._next = self._node.driver.now() + self._pause
