"""Withdrawals of many routes, a slice at each wake-up, so that messages pass between two of them.

A stale route is harmless until its turn comes: it leads where the node was a moment ago.
"""

from __future__ import annotations

from taskd_net.base.position import Position
from taskd_net.core.links import Link
from taskd_net.core.routes import LinkId
from taskd_net.core.schedule import INFINITY, Schedule
from taskd_net.core.topology import Topology


class Sweep:
    """The children that have claims of an earlier life, which their snapshots did not renew.

    Args:
        topology: the routes.
        schedule: takes the time of the next slice.
    """

    def __init__(self, topology: Topology, schedule: Schedule) -> None:
        self._topology = topology
        self._schedule = schedule
        self._links: dict[LinkId, float] = {}

    def begin(self, now: float, link: Link) -> list[Position]:
        """Sweep a child that has announced everything. Returns what a first slice has withdrawn."""
        self._links[link.id] = now
        gone = self.take_slice()
        self._schedule.look(self, self.next_deadline())
        return gone

    def take_slice(self) -> list[Position]:
        """Withdraw a slice. Returns the nodes that have no route any more."""
        gone: list[Position] = []
        left = self._topology.routes_slice
        for link_id in list(self._links):
            link = self._topology.link(link_id)
            if link is not None and left > 0:
                stale = self._topology.stale(link, left)
                left -= len(stale)
                gone += self._topology.drop(link, stale)
            if link is None or not self._topology.has_stale(link):
                del self._links[link_id]
        return gone

    def next_deadline(self) -> float:
        """The time of the next slice: at once, while some is left."""
        return min(self._links.values(), default=INFINITY)
