"""A bounded memory of the last events, by which a doubled or a late one is known."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from taskd_net.job.faults import editions
from taskd_net.job.faults.events import FaultEvent, FaultKind

V = TypeVar("V")


class RecentEvents:
    """The last events, and the last recovery of each fault among them."""

    def __init__(self) -> None:
        self._seen: Recent[bool] = Recent(editions.EVENTS_SEEN)
        self._recovered: Recent[float] = Recent(editions.EVENTS_SEEN)

    def is_doubled(self, event: FaultEvent, at: float, began: float | None) -> bool:
        """True for an event that has come before; any other one is remembered.

        Some drivers tell the time in whole seconds. So where a fault recovers and occurs again at one time, both are
        taken in the order of their arrival.

        Args:
            event: the event.
            at: its time, or that of its arrival if it is from the future.
            began: time since which the fault stands; None if it does not.
        """
        kind = event.kind
        if kind is FaultKind.OCCURRED and began == at:
            return True
        key = (event.device, event.code, kind, event.at)
        if key not in self._seen:
            self._seen.add(key, True)
            return False
        if kind is FaultKind.RECOVERED:
            return began != at
        return kind is FaultKind.ONCE or began is not None or self.recovered(event.device, event.code) != at

    def recovers(self, device: str, code: str, at: float) -> None:
        """Remember a recovery."""
        self._recovered.add((device, code), at)

    def move(self, now: float) -> None:
        """Take note that the clock has moved: no recovery is in the future."""
        self._recovered.change(lambda at: min(at, now))

    def recovered(self, device: str, code: str) -> float:
        """Time of the last recovery that is remembered; -1 for none."""
        return self._recovered.get((device, code), -1.0)


class Recent(Generic[V]):
    """The values of the last keys: at least half of the bound, at most all of it.

    It is two dictionaries. When the newer one is half of the bound, the older one goes: a deletion at the front of one
    dictionary would look at all that were deleted before.

    Args:
        most: the bound.
    """

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._newer: dict[Hashable, V] = {}
        self._older: dict[Hashable, V] = {}

    def add(self, key: Hashable, value: V) -> None:
        """Remember a value, and forget an old one if need be."""
        if len(self._newer) >= self._half:
            self._older, self._newer = self._newer, {}
        self._newer[key] = value

    def __contains__(self, key: Hashable) -> bool:
        return key in self._newer or key in self._older

    def change(self, by: Callable[[V], V]) -> None:
        """Change every value."""
        for values in (self._newer, self._older):
            values.update({key: by(value) for key, value in values.items()})

    def get(self, key: Hashable, default: V) -> V:
        """The value of a key."""
        found = self._newer.get(key)
        return self._older.get(key, default) if found is None else found
