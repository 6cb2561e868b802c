"""ElasticTrainingPlugin, beyond the transcripts."""

from __future__ import annotations

from tests.jobs.scene import CLUSTERD, commands, owner, started


def test_an_overdue_fault_of_agent_0_ends_a_downgrade() -> None:
    scene = started(0, config=CLUSTERD)
    scene.signal("changeStrategy", strategy="downgrade")
    scene.settle()
    assert owner(scene) == "ElasticTrainingPlugin"
    scene.fault(0, 3)  # without a time: at once, as with the original
    assert commands(scene.tick()) == [("Agent/0", 203)]
    assert owner(scene) == ""
