"""Messages that wait for the node to join."""

from taskd_net.core.held import Held
from tests.core.routers import Caller, frame


def test_bounds_and_order() -> None:
    held = Held(3, 100)
    assert held.next_deadline() == float("inf")
    first, second = frame("Mgr", size=60), frame("Mgr", size=40)
    assert held.add(first, Caller(), 2.0) and held.add(second, Caller(), 1.0)
    assert not held.add(frame("Mgr", size=1), Caller(), 1.0)
    assert held.add(frame("Mgr", size=0), Caller(), 3.0)
    assert not held.add(frame("Mgr", size=0), Caller(), 1.0)
    assert (len(held), held.next_deadline()) == (3, 1.0)
    assert held.take_due(0.9) == []
    assert [waiter.frame for waiter in held.take_due(1.0)] == [second]
    assert held.add(frame("Mgr", size=40), Caller(), 9.0)
    assert [waiter.deadline for waiter in held.take_all()] == [2.0, 3.0, 9.0]
    assert (len(held), held.take_all()) == (0, [])
    assert held.add(frame("Mgr", size=100), Caller(), 1.0)
