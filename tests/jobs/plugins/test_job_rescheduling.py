"""JobReschedulingPlugin, beyond the transcripts."""

from __future__ import annotations

from taskd_net.jobs.plugins.actions import RECOVERY
from tests.jobs.scene import CLUSTERD, started


def test_a_deadline_that_has_passed_makes_no_haste() -> None:
    scene = started(0, config=CLUSTERD)
    scene.job.state.streams[RECOVERY].barred.add("JobReschedulingPlugin")
    scene.fault(0, 3)
    scene.tick()
    scene.job.tick(scene.now)
    assert scene.job.wake == scene.now + CLUSTERD.interval
