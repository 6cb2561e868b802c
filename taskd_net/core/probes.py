"""Probes: routed like messages, and answered without inbox, duplicate suppression and application.

A `ping` goes to the destination. Its answer is 0, or the code that a message would get on the same route. A `trace`
sends probes that may cross 1, 2, 3 … links. Each ends at its last link or at the destination, and its answer names the
kind of that link.

Probes are exchanged only with neighbours that answer them. A probe from any other neighbour is refused with 4999. So no
foreign application receives a probe, and none can send one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import NOBODY, Awaited, Branch, FanOut, Pending, ReplyTo, Told
from taskd_net.core.frame import FOREIGN, Probe
from taskd_net.core.links import Link
from taskd_net.core.routes import LinkId, describe_missing
from taskd_net.core.topology import Plan, Topology


@dataclass(eq=False)
class Probes:
    """The probes of one node.

    Args:
        topology: the links and the routes.
        forward: queues a frame on a link, and returns the refusal if it cannot.
        fan_out: begins to await the answers of many; None if it has answered that there is no room.
        settle: records the answer to a probe.
    """

    topology: Topology
    forward: Callable[[float, Link, Probe, Awaited], Refusal | None]
    fan_out: Callable[[Probe, Plan, ReplyTo], FanOut | None]
    settle: Callable[[Awaited, int, Position, str, Told | None], None]

    def send(self, now: float, probe: Probe, came_from: LinkId, reply: ReplyTo, deadline: float) -> None:
        """Send this node's own probe.

        Raises:
            Refusal: 5002 if there is no route.
        """
        self._carry(now, probe, came_from, Code.OK, reply, deadline, deadline)

    def arrived(
        self, now: float, probe: Probe, came_from: LinkId, reply: ReplyTo | None, up: float, down: float
    ) -> None:
        """Answer or forward a neighbour's probe.

        Args:
            now: the time in seconds.
            probe: the probe.
            came_from: the neighbour's link.
            reply: the target of the answer.
            up, down: deadlines of the answer from the parent and from a child.

        Raises:
            Refusal: 4999 if this neighbour knows no probes; 5002 if there is no route.
        """
        link = self.topology.link(came_from)
        if link is None or link.probes is None or reply is None:
            raise Refusal(Code.CLIENT_ERR, "this mtype is kept for probes, and no probe can come from there")
        here = Code.OK if probe.hops is None else link.probes
        if probe.hops == 0:
            self.settle(_pending(probe, reply, down), here, self.topology.position, "", None)
        else:
            self._carry(now, probe, came_from, here, reply, up, down)

    def _carry(
        self, now: float, probe: Probe, came_from: LinkId, here: int, reply: ReplyTo, up: float, down: float
    ) -> None:
        topology, dst = self.topology, probe.dst
        if dst.unicast:
            hop = topology.next_hop(dst, came_from)
            pending = _pending(probe, reply, up if hop is topology.up else down)
            if hop is None:
                self.settle(pending, here, topology.position, "", None)
            else:
                self._pass_on(now, hop, probe, pending)
        else:
            self._fan_out(now, probe, topology.plan(probe.src.identity, dst, came_from), reply, up, down)

    def _fan_out(self, now: float, probe: Probe, plan: Plan, reply: ReplyTo, up: float, down: float) -> None:
        here = self.topology.position
        fan_out = self.fan_out(probe, plan, reply)
        if fan_out is None:
            return
        if plan.here or not (plan.links or plan.missing is not None):
            self.settle(Branch(fan_out, down), Code.OK, here, "", None if plan.here else NOBODY)
        if plan.missing is not None:
            part = Branch(fan_out, down, plan.missing)
            self.settle(part, Code.NO_ROUTE, here, describe_missing(plan.missing), None)
        for link in plan.links:
            deadline = up if link is self.topology.up else down
            self._pass_on(now, link, probe, Branch(fan_out, deadline, link.position, link.counts or link.is_leaf))

    def _pass_on(self, now: float, link: Link, probe: Probe, part: Awaited) -> None:
        if link.up and link.probes is None:
            self.settle(part, FOREIGN, link.position, "", None)
        elif (refusal := self.forward(now, link, probe, part)) is not None:
            self.settle(part, refusal.code, self.topology.position, refusal.detail, None)


def _pending(probe: Probe, reply: ReplyTo, deadline: float) -> Pending:
    return Pending(probe.uuid, reply, probe.src, True, probe.dst.position, deadline)
