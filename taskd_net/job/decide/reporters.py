"""Reporters of faults of devices: the nodes that each may report about.

In a mesh with certificates a node is a peer with a name, so a report counts only about the nodes that its sender speaks
for: an Agent, a Proxy and a Worker for their own, a tool for the node of its certificate's Agent, the Mgr and the
listed positions for every node. Without certificates anybody could take such a position, and every report counts.

A device is known on the nodes whose Agents have registered it, on that of the mapping file, and on that of the reports
before. A sender has to speak for all of them: else a report about the own node would move the device of another one, or
end its faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from taskd_net.base.position import ALL, Position, Role, tool_of
from taskd_net.base.untrusted import natural
from taskd_net.job.decide.device_state import devices_of
from taskd_net.job.decide.events import DeviceEvent, DeviceReleased
from taskd_net.job.decide.records import Records

DEVICES_PER_NODE: Final = 1_024
"""Devices of one node that others may not report about: hosts have 8 to 64, and an index of all nodes has them."""

NODES_MOST: Final = 999_999_999
"""Greatest rank of a node that a device can be on; tools take random ranks beyond it."""

_SHOWN: Final = 4
"""Nodes in a refusal."""


def node_of(reporter: Position) -> int | Literal["All"] | None:
    """The rank of the node that a sender speaks for, `All` for every node; None for a tool of no node."""
    if reporter.role == Role.MGR:
        return ALL
    tool = tool_of(reporter)
    if tool == ALL:
        return ALL
    return natural(reporter.server_rank if tool is None else tool, NODES_MOST)


@dataclass(frozen=True, slots=True)
class Reporters:
    """The rule of one job.

    Args:
        certified: nodes take their positions by certificates.
        listed: positions that may report about every node.
    """

    certified: bool = False
    listed: frozenset[Position] = frozenset()

    def refusal(self, event: DeviceEvent | DeviceReleased, known: Iterable[int | None]) -> str:
        """The reason not to take a report; empty for a good one.

        Args:
            event: the report.
            known: ranks of the nodes that its device is known on; None for a node that nobody has said.
        """
        reporter = event.reporter
        if not self.certified or reporter is None or reporter.identity in self.listed:
            return ""
        own = node_of(reporter)
        if own == ALL:
            return ""
        about = set(known)
        if isinstance(event, DeviceEvent):
            about.add(event.node)
        others = about - {own} if own is not None else about
        if not others:
            return ""
        nodes = ", ".join("unknown" if each is None else str(each) for each in sorted(others, key=str)[:_SHOWN])
        expected = "its Agent or Proxy, a tool whose certificate names its Agent, or a position in fault_reporters"
        return f"the device's node is {nodes}, the reporter {reporter}; expected {expected}"


@dataclass(slots=True)
class RegisteredDevices:
    """The nodes of each device, as Agents have registered it: an index over `Records`, which says whom to read again.

    Attributes:
        nodes: ranks of nodes, by name of the device.
    """

    nodes: dict[str, set[int]] = field(default_factory=dict)
    _names: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def of(self, device: str, records: Records) -> frozenset[int]:
        """Ranks of the nodes whose Agents have a device among their first `DEVICES_PER_NODE`."""
        for node in records.registered_again:
            for name in self._names.pop(node, ()):
                self.nodes[name].discard(node)
                if not self.nodes[name]:
                    del self.nodes[name]
            names = tuple(devices_of(node, records)[:DEVICES_PER_NODE])
            if names:
                self._names[node] = names
            for name in names:
                self.nodes.setdefault(name, set()).add(node)
        records.registered_again.clear()
        return frozenset(self.nodes.get(device, ()))
