"""Quarantine: the line of messages whose sender is not announced yet, within its bounds."""

from __future__ import annotations

from taskd_net.core.links import Link
from taskd_net.core.quarantine import Quarantine, Quarantined
from tests.core.routers import at, frame


def test_line_is_bounded_in_bytes() -> None:
    doubts = Quarantine(10, 100)
    link = Link(1, at("Proxy/0"))
    waits = [Quarantined(link, frame("Mgr", size=60, uuid=str(i)), None, None, 0.0, 1.0) for i in range(2)]
    assert [doubts.add(one) for one in waits] == [True, False]
    assert doubts.take_due(0.9) == []
    assert doubts.take_due(1.0) == waits[:1]
    assert doubts.add(waits[1])
    rest = [Quarantined(link, frame("Mgr", size=size, uuid="r"), None, None, 0.0, 1.0) for size in (41, 40, 1)]
    assert [doubts.add(one) for one in rest] == [False, True, False], "the last byte is there for use"
