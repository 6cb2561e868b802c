"""HotSwitchPlugin, beyond the transcripts."""

from __future__ import annotations

from taskd_net.job.decide.events import Signal
from tests.jobs.scene import CLUSTERD, started


def test_a_hot_switch_that_begins_again_is_carried_out() -> None:
    """ClusterD gives its signals no uuid, so the second round's is the same as the first one's."""
    scene = started(0, 1, config=CLUSTERD)
    for _ in range(2):
        scene.take(Signal("", "hot-switch", ("hot switch",), {3: 1}))
        calls = [call.name for outcome in scene.settle() for call in outcome.calls]
        assert calls == ["prepare_action"]


def test_a_global_fault_without_a_uuid_is_that_of_a_round_that_was_given_up() -> None:
    scene = started(0, 1, config=CLUSTERD)
    assert scene.take(Signal("", "globalFault", ("on_global_rank", "fault_nodes_exit"), {3: 1}, "", 0, (1,))) is False
    assert not any(outcome.commands or outcome.calls for outcome in scene.settle())
