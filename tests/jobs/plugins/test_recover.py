"""recoverPlugin, beyond the transcripts."""

from __future__ import annotations

from tests.jobs.scene import CLUSTERD, owner, started


def test_the_controller_recovers_without_a_node_that_cannot_be_reached() -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.away.add("Agent/1")
    scene.signal("changeStrategy", strategy="recover", nodes=(1,))
    scene.settle()
    calls = [call.name for _ in range(5) for call in scene.tick(3.0).calls]
    assert calls == ["change_strategy"] and owner(scene) == ""
