from __future__ import annotations

import pytest

from taskd_net.base.logger import get_logger
from taskd_net.job.decide.traffic import Notice
from taskd_net.job.manager.notices import log_notice

FAILED = Notice("plugin_barred", {"stream": "s", "plugin": "P", "reason": "KeyError"})


@pytest.mark.parametrize(
    ("notice", "line"),
    [
        (Notice("stream_taken", {"stream": "s", "plugin": "P"}), "stream_taken stream=s plugin=P"),
        (Notice("stream_released", {"stream": "s", "plugin": "P"}), "stream_released stream=s plugin=P"),
        (Notice("pause_overdue", {"seconds": 3600}), "pause_overdue seconds=3600"),
        (Notice("stop_forgotten", {"strategy": "continue"}), "stop_forgotten strategy=continue"),
        (Notice("meets_by_framework", {"nodes": "1"}), "meets_by_framework nodes=1"),
        (Notice("hang_suspected", {"seconds": 12}), "hang_suspected seconds=12"),
        (Notice("hang_found", {"ranks": "2"}), "hang_found ranks=2"),
        (Notice("hang_over", {"seconds": 0}), "hang_over seconds=0"),
        (Notice("message_lost", {"uuid": "u", "goes_on": 1}), "command_not_taken uuid=u goes_on=1"),
    ],
)
def test_a_notice_is_a_line(notice: Notice, line: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert log_notice(get_logger(), notice, ()) is None
    assert line in caplog.text


def test_a_failed_plugin_is_named_unless_its_guard_has_said_so(caplog: pytest.LogCaptureFixture) -> None:
    assert log_notice(get_logger(), FAILED, ("P",)) is None
    assert "plugin_failed" not in caplog.text
    assert log_notice(get_logger(), FAILED, ()) == "P"
    assert caplog.text.count("plugin_failed") == 1
