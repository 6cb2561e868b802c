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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError
from taskd_net.base.position import Position
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
from taskd_net.job.decide.events import DeviceEvent, DeviceReleased
from taskd_net.job.decide.reporters import NODES_MOST, node_of
from taskd_net.job.faults.events import FaultEvent, FaultKind, device_name, read_event

KINDS: Final = {FaultKind.OCCURRED: OCCURRED, FaultKind.RECOVERED: RECOVERED, FaultKind.ONCE: ONCE}
"""Code of a report by its kind."""

_KINDS_BY_CODE: Final = {code: kind for kind, code in KINDS.items()}


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
