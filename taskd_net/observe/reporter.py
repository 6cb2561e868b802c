"""Reports of a child to its parent.

A report is a short request on the connection that the child has anyway, one at a time, so a slow parent gets fewer.
Changes during a call go into the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from taskd_net.base.chance import chance
from taskd_net.base.codes import Refusal
from taskd_net.base.position import Role
from taskd_net.base.timers import on_grid
from taskd_net.net.links import peer as peers
from taskd_net.net.links.grpc_calls import CallFailed
from taskd_net.net.links.kind import Requests
from taskd_net.net.links.session import Host
from taskd_net.observe import status_codec as wire
from taskd_net.observe.view import View

IDLE: Final = 4
"""Pauses between two looks of a node where nothing changes, in those between two reports of figures: the pause doubles
with each look that finds nothing, up to this. With one the looks were most of what an idle Worker did. Changes of state
are seen at once."""

GRID_S: Final = 0.5
"""Seconds between the times at which nodes of a machine look at their figures: those of one process wake it once."""

URGENT_S: Final = 0.1
"""Seconds that a change of state waits for others, to be told together; at each level of the tree."""

_URGENT_SHARE: Final = 20
"""Part of the pause between figures for which changes of state are gathered, where a parent asks for long pauses."""


class StatusReporter:
    """The reports of one node.

    Args:
        host: the node.
        view: the source of the reports.
        timeout: seconds for the parent's answer.
    """

    def __init__(self, host: Host, view: View, timeout: float) -> None:
        self._host = host
        self._view = view
        self._timeout = timeout
        self._sending = asyncio.Lock()

    async def rest(self, requests: Requests, parent: peers.Peer) -> None:
        """Report what the parent does not know yet, before this node leaves: otherwise it never hears who left before.

        Args:
            requests: carries the reports.
            parent: the kind of peer.
        """
        if Role(self._host.router.position.role).is_leaf:
            return  # the parent sees by itself that leaves have left
        async with self._sending:
            for _ in range(self._view.ledger.reports):
                await self._report(requests, parent, urgent=True)

    async def run(self, requests: Callable[[], Requests], parent: peers.Peer) -> None:
        """Report for one stay with a parent, until cancelled.

        Args:
            requests: returns the requests of the moment.
            parent: the kind of peer.
        """
        view, ledger, news = self._view, self._view.ledger, self._view.news
        loop = asyncio.get_running_loop()
        if Role(self._host.router.position.role).is_leaf:
            # The parent sees by itself that leaves have joined. First reports of thousands at once would delay them.
            await asyncio.sleep(chance.uniform(0.0, parent.pace))
        news.clear()
        ledger.begin(ends=parent.ends)
        pace = idle = self._host.times.figures
        figures_at = loop.time()
        try:
            while True:
                urgent = news.is_set()
                news.clear()
                if loop.time() >= figures_at:
                    await view.look_in_parts()
                    most = IDLE * self._host.times.figures
                    idle = pace if ledger.reports else min(2 * idle, max(pace, most))
                    figures_at = on_grid(loop.time() + max(pace, idle), GRID_S)
                # Not until nothing is left: reports that come from children meanwhile wait for the next round.
                async with self._sending:
                    for _ in range(ledger.reports):
                        pace = await self._report(requests(), parent, urgent=urgent)
                await self._wait(figures_at, max(URGENT_S, pace / _URGENT_SHARE))
        finally:
            ledger.end()

    async def _wait(self, until: float, gather: float) -> None:
        """Wait for the time of the next figures, or for news and those that come right after it."""
        try:
            async with asyncio.timeout_at(until):
                await self._view.news.wait()
            await asyncio.sleep(gather)
        except TimeoutError:
            pass

    async def _report(self, requests: Requests, parent: peers.Peer, *, urgent: bool) -> float:
        """Send the next report. Returns the pace that the parent asks for, in seconds."""
        ledger = self._view.ledger
        report = ledger.next_report(urgent=urgent)
        try:
            answer = await requests.report(wire.write_report(report), self._timeout)
            return max(self._host.times.figures, wire.read_pace(answer))
        except (CallFailed, Refusal) as error:
            # The parent may have taken it or not: after a while it is told everything.
            self._host.log.warning("status_not_taken", reason=str(error))
            ledger.begin(ends=parent.ends)
            await asyncio.sleep(self._host.times.figures)
            return self._host.times.figures
