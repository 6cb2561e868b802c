"""The states that nodes leave in."""

from __future__ import annotations

from taskd_net import Position
from taskd_net.states import State, end_of


def test_leaves_finish_and_proxies_stop() -> None:
    ends = {role: end_of(Position(role, "0", "0")) for role in ("Proxy", "Agent", "Worker")}
    assert ends == {"Proxy": State.STOPPED, "Agent": State.FINISHED, "Worker": State.FINISHED}
    assert {state for state in State if state.ended} == set(ends.values())
