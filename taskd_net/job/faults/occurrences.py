"""Counters of occurrences: which rule of frequency a further one reaches."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping

from taskd_net.job.faults import editions
from taskd_net.job.faults.device import Device
from taskd_net.job.faults.rules import FrequencyRule


class Occurrences:
    """The counters of all devices. Each stands with its device; this class has their order and their number.

    Args:
        devices: by name; each that counts is in it.
        most: bound on the counters.

    Attributes:
        number: of counters.
        forgotten: counters that gave their place to newer ones.
    """

    def __init__(self, devices: Mapping[str, Device], most: int = editions.COUNTERS) -> None:
        self.number = 0
        self.forgotten = 0
        self._devices = devices
        self._most = most
        self._rules: Mapping[str, FrequencyRule] = {}
        self._longest = 0
        self._order: OrderedDict[str, None] = OrderedDict()

    def use(self, rules: Mapping[str, FrequencyRule]) -> set[str]:
        """Change the rules. Counters of codes whose rule is the same go on; others are forgotten.

        Returns:
            The devices that have lost counters.
        """
        before, self._rules = self._rules, rules
        self._longest = max((rule.window for rule in rules.values()), default=0)
        gone = {code for code, rule in before.items() if rules.get(code) != rule}
        lost = set()
        for name in list(self._order) if gone else ():
            device = self._devices[name]
            for code in gone.intersection(device.occurrences):
                self._drop(name, device, code)
                lost.add(name)
        return lost

    def add(self, name: str, device: Device, code: str, at: float, now: float) -> FrequencyRule | None:
        """Count an occurrence.

        Args:
            at: its time; before the window of its rule, and at the time of another one, it does not count.
            now: the end of the window.

        Returns:
            The rule that it reaches. Its counter begins again then.
        """
        rule = self._rules.get(code)
        if rule is None:
            return None
        begin = now - rule.window
        if at < begin:
            return None
        times = device.occurrences.get(code)
        if times is None:
            self._make_room(now)
            times = device.occurrences[code] = array("d")
            self.number += 1
        elif times[0] < begin:
            del times[: bisect_left(times, begin)]
        place = bisect_left(times, at)
        if place < len(times) and times[place] == at:
            return None
        times.insert(place, at)
        device.counted = now
        self._order[name] = None
        self._order.move_to_end(name)
        if len(times) < rule.times:
            return None
        self._drop(name, device, code)
        return rule

    def loaded(self, name: str, device: Device) -> None:
        """Take in a device with counters that were saved."""
        if self.number + len(device.occurrences) > self._most:
            self.forgotten += len(device.occurrences)
            device.occurrences.clear()
        if device.occurrences:
            self.number += len(device.occurrences)
            self._order[name] = None

    def _drop(self, name: str, device: Device, code: str) -> None:
        del device.occurrences[code]
        self.number -= 1
        if not device.occurrences:
            del self._order[name]

    def stale(self, now: float) -> str | None:
        """Forget the counters of the device that has counted nothing for the longest time, if none of them counts.

        Returns:
            The name of that device.
        """
        if not self._order:
            return None
        name = next(iter(self._order))
        if self._devices[name].counted + self._longest >= now:
            return None
        self._forget(name)
        return name

    def _make_room(self, now: float) -> None:
        while self.number >= self._most and self.stale(now) is None:
            self.forgotten += self._forget(next(iter(self._order)))

    def _forget(self, name: str) -> int:
        """Forget the counters of a device. Returns their number."""
        del self._order[name]
        occurrences = self._devices[name].occurrences
        lost = len(occurrences)
        self.number -= lost
        occurrences.clear()
        return lost
