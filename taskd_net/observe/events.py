"""Events of nodes: bounded for each node, in all, and in bytes of their texts. The oldest make room."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Sequence
from typing import Annotated, NamedTuple

from taskd_net.observe.fields import TEXT, TIME


class NodeEvent(NamedTuple):
    """One event of a node.

    Attributes:
        time: seconds since the epoch; of the last one, where there are several.
        event: its kind, such as `lost`.
        text: the circumstances, for people.
        times: events of this kind, one right after the other.
    """

    time: Annotated[float, TIME]
    event: str
    text: Annotated[str, TEXT] = ""
    times: int = 1


class EventLog:
    """The events of all nodes.

    Args:
        each: events of one node at most.
        most: events of all nodes at most.
        text_bytes: bytes of one text at most; a longer one is cut.
        all_bytes: bytes of all texts at most.
    """

    def __init__(self, each: int, most: int, text_bytes: int, all_bytes: int) -> None:
        self._each = each
        self._most = most
        self._text_bytes = text_bytes
        self._all_bytes = all_bytes
        self._next = 0
        # By number, oldest first; and the numbers of each node's events, oldest first.
        self._events: OrderedDict[int, tuple[str, NodeEvent]] = OrderedDict()
        self._of: dict[str, deque[int]] = {}
        self.bytes = 0
        """Bytes of all texts."""
        self.dropped = 0
        """Events that have made room for others."""

    def __len__(self) -> int:
        return len(self._events)

    def add(self, name: str, event: NodeEvent) -> None:
        """Add an event of a node."""
        text = event.text.encode(errors="replace")[: self._text_bytes].decode(errors="ignore")
        self._put(name, self._next, event._replace(text=text))
        self._of.setdefault(name, deque()).append(self._next)
        self._next += 1
        if len(self._of[name]) > self._each:
            self._drop(self._of[name][0])
        while len(self._events) > self._most or self.bytes > self._all_bytes:
            self._drop(next(iter(self._events)))

    def move(self, by: float) -> None:
        """Move the times of all events by some seconds."""
        for number, (name, event) in self._events.items():
            self._events[number] = (name, event._replace(time=event.time + by))

    def repeat(self, name: str, event: NodeEvent) -> None:
        """Add an event of a node; one that follows another of its kind takes its place, and counts both."""
        numbers = self._of.get(name)
        last = self._events[numbers[-1]][1] if numbers else None
        if numbers and last is not None and last.event == event.event:
            event = event._replace(times=last.times + 1)
            self.bytes -= len(last.text.encode())
            del self._events[numbers.pop()]
        self.add(name, event)

    def of(self, name: str) -> Sequence[NodeEvent]:
        """The events of a node by their time, oldest first."""
        return sorted((self._events[number][1] for number in self._of.get(name, ())), key=lambda event: event.time)

    def forget(self, before: float, known: Container[str]) -> None:
        """Forget the events of nodes that are not known any more, and of which the last event is older than that."""
        for name, numbers in list(self._of.items()):
            if name not in known and self._events[numbers[-1]][1].time < before:
                for number in list(numbers):
                    self._take_out(number)

    def _put(self, name: str, number: int, event: NodeEvent) -> None:
        self._events[number] = (name, event)
        self.bytes += len(event.text.encode())

    def _drop(self, number: int) -> None:
        self._take_out(number)
        self.dropped += 1

    def _take_out(self, number: int) -> None:
        """Take out the oldest event of its node."""
        name, event = self._events.pop(number)
        self.bytes -= len(event.text.encode())
        numbers = self._of[name]
        numbers.popleft()
        if not numbers:
            del self._of[name]
