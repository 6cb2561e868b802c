"""Keeping the history of the mesh while a status page is open for questions, whether anybody looks at it or not."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterator, Mapping
from time import perf_counter

from taskd_net.base.codes import Refusal
from taskd_net.base.position import Position
from taskd_net.base.untrusted import json_line
from taskd_net.faces.page.paces import PACES, Paces
from taskd_net.node.node import Node
from taskd_net.observe import history
from taskd_net.observe.history import History
from taskd_net.observe.records import NodeStatus
from taskd_net.observe.status_codec import read_node, read_position


class Recorder:
    """The history of one mesh. It looks at regular times, and when a node has come or gone.

    Args:
        node: a node that was started before `start`.
        paces: its times.
    """

    def __init__(self, node: Node, paces: Paces = PACES) -> None:
        self._node = node
        self._paces = paces
        self._history = History(node.position, secrets.token_hex(4), paces.history, paces.sample)
        self._read: dict[str, tuple[bytes, Position, NodeStatus]] = {}
        self._task: asyncio.Task[None] | None = None
        self._failed = False

    @property
    def strained(self) -> Mapping[str, float]:
        """The nodes under a strain, as of the last look; each with its beginning in seconds since the epoch."""
        return self._history.strained

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run(), name=f"history of {self._node.position}")

    async def close(self) -> None:
        """Look no more. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def answer(self, position: Position | None) -> str:
        """The last hour as a JSON object.

        Args:
            position: the node; None for all links together.
        """
        return json_line(self._history.document(self._now(), position), compact=True)

    def _now(self) -> float:
        """The time of the history, which has followed the host's clock to it."""
        view = self._node.driver.view
        now = view.wall()
        self._history.follow(view.stepped)
        return now

    async def _run(self) -> None:
        news, heard = self._node.driver.view.news, asyncio.Event()
        news.listeners.add(heard)
        try:
            while True:
                heard.clear()
                busy = await self._look_or_log()
                pause = max(self._paces.look, busy / self._paces.history_load)
                await asyncio.sleep(pause)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, self._paces.history_look - pause)):
                        await heard.wait()
        finally:
            news.listeners.discard(heard)

    async def _look_or_log(self) -> float:
        """`_look`, whose failure leaves a gap in the history, and the page as it is."""
        try:
            busy = await self._look()
        except Exception as error:
            if not self._failed:
                self._node.driver.log.error("history_failed", reason=repr(error), exc_info=error)
            self._failed = True
            return 0.0
        self._failed = False
        return busy

    async def _look(self) -> float:
        """Take a look. Returns the seconds for which it held the loop."""
        busy, begun = 0.0, perf_counter()
        for _ in self._slices():
            busy += perf_counter() - begun
            await asyncio.sleep(0)
            begun = perf_counter()
        return busy + perf_counter() - begun

    def _slices(self) -> Iterator[None]:
        view = self._node.driver.view
        yield from view.look_slices()
        read: dict[str, tuple[bytes, Position, NodeStatus]] = {}
        for number, record in enumerate(view.records(), 1):
            if number % history.SLICE == 0:
                yield
            old = self._read.get(record.position)
            if old is not None and old[0] == record.node:
                read[record.position] = old
                continue
            position = read_position(record.position)
            # A name that is no position is left out: no hop has checked it.
            if position is not None:
                with contextlib.suppress(Refusal):
                    read[record.position] = (record.node, position, read_node(record.node))
        self._read = read
        refused = list(view.news.refused)
        view.news.refused.clear()
        found = {position: status for _, position, status in read.values()}
        yield from self._history.look(self._now(), found, refused)
