"""Actions of signals."""

from __future__ import annotations

from taskd_net.jobs.traffic import Call
from tests.jobs.scene import CLUSTERD, started


def test_actions_are_carried_out_in_their_order_and_unknown_ones_left_alone() -> None:
    scene = started(0, config=CLUSTERD)
    scene.signal("globalFault", "no such", "save_and_exit", "pause_train", timeout=900)
    assert scene.tick().calls == [Call("dump"), Call("stop_train", {3: 1}, "pause", timeout=900)]
