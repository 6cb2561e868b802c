"""Reports of device watchers: a fault code of a device, as a message to the Mgr.

```
{"msg_type": "FAULT", "code": 1, "message": "8C0A4E00",
 "extension": {"Device": "host-a/Ascend910-3", "Node": "1", "Severity": "major", "At": "1700000000.25"}}
```

`code` is 1 where the fault has begun, 0 where it is over, and 2 for an event without an end. `Node` is the rank of the
device's node. It may be missing where an Agent's report or the mapping file says where the device is, and in a report
of a node of the job, which speaks of its own. A name without a `/` gets that rank before it: `1/Ascend910-3`.
`Severity`, `At` (seconds since the epoch) and `Network` (`true` for a fault of the network) may be missing. With `code`
3 a person gives the device in `message` free.

In a mesh with certificates a node is a peer with a name, so a report counts only about the nodes that its sender speaks
for (`Reporters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError
from taskd_net.base.position import ALL, Position, Role, tool_of
from taskd_net.base.untrusted import natural, shown
from taskd_net.base.vocabulary import (
    AT,
    DEVICE,
    DEVICE_FAULT,
    NETWORK,
    NODE,
    OCCURRED,
    ONCE,
    RECOVERED,
    RELEASE,
    SEVERITY,
)
from taskd_net.job.decide.device_state import devices_of
from taskd_net.job.decide.events import DeviceEvent, DeviceReleased
from taskd_net.job.decide.records import Records
from taskd_net.job.faults.events import FaultEvent, FaultKind, device_name, read_event

KINDS: Final = {FaultKind.OCCURRED: OCCURRED, FaultKind.RECOVERED: RECOVERED, FaultKind.ONCE: ONCE}
"""Code of a report by its kind."""

_KINDS_BY_CODE: Final = {code: kind for kind, code in KINDS.items()}

DEVICES_PER_NODE: Final = 1_024
"""Devices of one node that others may not report about: hosts have 8 to 64, and an index of all nodes has them."""

NODES_MOST: Final = 999_999_999
"""Greatest rank of a node that a device can be on; tools take random ranks beyond it."""

_SHOWN: Final = 4
"""Nodes in a refusal."""


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """A fault of a device, on its way to the Mgr.

    Args:
        event: the event; its device may have a name without a `/` where `node` is known.
        node: rank of the device's node; None where the reporter does not know it.
    """

    event: FaultEvent
    node: int | None = None

    @property
    def body(self) -> Body:
        """The message."""
        event = self.event
        extension = {DEVICE: event.device, AT: repr(event.at)}
        if self.node is not None:
            extension[NODE] = str(self.node)
        if event.severity is not None:
            extension[SEVERITY] = event.severity.value
        if event.network:
            extension[NETWORK] = "true"
        return Body(DEVICE_FAULT, KINDS[event.kind], event.code, extension)


def release_body(device: str) -> Body:
    """The message of a person who gives a device free."""
    return Body(DEVICE_FAULT, RELEASE, device_name(device))


def read_report(src: Position, body: Body, now: float) -> DeviceEvent | DeviceReleased:
    """Read a message of a device watcher, or of a person.

    Args:
        src: the sender.
        body: of msg_type `FAULT`.
        now: time of its arrival, in seconds since the epoch.

    Raises:
        ArgumentError: names the value, and the expected one.
    """
    if body.code == RELEASE:
        return DeviceReleased(device_name(body.message), src)
    kind = _KINDS_BY_CODE.get(body.code)
    if kind is None:
        known = ", ".join(f"{code} ({kind})" for kind, code in KINDS.items())
        raise ArgumentError(f"code of a {DEVICE_FAULT} is {body.code}; expected {known} or {RELEASE} (release)")
    extension = body.extension
    node = _node(src, extension)
    name = extension.get(DEVICE, "")
    if name and "/" not in name:
        if node is None:
            raise ArgumentError(f"{DEVICE} is {shown(name)} without a {NODE}; expected HOST/NAME, or the node's rank")
        name = f"{node}/{name}"
    value: dict[str, object] = {
        "code": body.message,
        "device": name,
        "kind": kind.value,
        "network": extension.get(NETWORK) == "true",
    }
    if severity := extension.get(SEVERITY):
        value["severity"] = severity.lower()
    if AT in extension:
        value["at"] = _time(extension[AT])
    return DeviceEvent(read_event(value, now), node, src)


def _node(src: Position, extension: Mapping[str, str]) -> int | None:
    """The rank of the device's node, as the report says, else that of its sender; None where neither says it."""
    said = extension.get(NODE)
    if said is None:
        own = node_of(src)
        return own if isinstance(own, int) else None
    node = natural(said, NODES_MOST)
    if node is None:
        raise ArgumentError(f"{NODE} is {shown(said)}; expected the rank of the device's node")
    return node


def _time(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"{AT} is {shown(text)}; expected seconds since the epoch") from None


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
