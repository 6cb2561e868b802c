"""The times at which devices are looked at: ends of durations, of raised types, and of steps."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from taskd_net.job.faults.device import NEVER, Device, after
from taskd_net.job.faults.rules import DurationRule


class Looks:
    """The next look at each device that needs one, earliest first.

    Args:
        devices: by name; each that is planned for is in it, until it is forgotten.
    """

    def __init__(self, devices: Mapping[str, Device]) -> None:
        self._devices = devices
        self._looks: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._looks)

    @property
    def next(self) -> float:
        """The time of the earliest look, at the latest; infinity for none."""
        return self._looks[0][0] if self._looks else NEVER

    def due(self, now: float) -> Iterator[tuple[str, Device]]:
        """Take out the devices to look at, those that are planned meanwhile included."""
        while self._looks and self._looks[0][0] <= now:
            moment, name = heapq.heappop(self._looks)
            device = self._devices.get(name)
            if device is not None and device.wake == moment:
                device.wake = NEVER
                yield name, device

    def plan_all(self, rules: Mapping[str, DurationRule]) -> None:
        """Plan the next look at every device, after their times have changed."""
        self._looks.clear()
        for name, device in self._devices.items():
            device.wake = NEVER
            self.plan(name, device, rules)

    def plan(self, name: str, device: Device, rules: Mapping[str, DurationRule]) -> None:
        """Plan the next look at a device, by these rules of durations."""
        moment = min(_deadlines(device, rules), default=NEVER)
        if moment >= device.wake:
            return
        device.wake = moment
        heapq.heappush(self._looks, (moment, name))
        if len(self._looks) > 2 * len(self._devices) + 64:  # most are of devices that need no look any more
            self._looks = [(each.wake, name) for name, each in self._devices.items() if each.wake != NEVER]
            heapq.heapify(self._looks)


def _deadlines(device: Device, rules: Mapping[str, DurationRule]) -> Iterator[float]:
    for code, rule in rules.items():
        fault = device.faults.get(code)
        if fault is not None and fault.stands and fault.lasting is None:
            yield after(fault.counted_from + rule.timeout)
        elif fault is not None and not fault.stands:
            yield after(fault.gone + rule.recovery)
    for raised in device.raised.values():
        yield raised.until
    if device.plan is not None:
        yield device.plan.deadline
