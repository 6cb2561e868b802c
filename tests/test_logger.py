"""The package's logger: logfmt for any handler, and no handler of its own."""

from __future__ import annotations

import logging

import pytest

from taskd_net.logger import Event, get_logger, late_logger


def test_an_event_is_one_logfmt_line_for_a_handler_that_knows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "taskd_net"):
        get_logger(node="Mgr/0").info("joined", parent="Mgr/0", text="two words", flag=True)
    (record,) = caplog.records
    assert isinstance(record.msg, Event)
    line = record.getMessage()
    assert line.startswith("event=joined ") and 'text="two words"' in line and "node=Mgr/0" in line


def test_nothing_is_rendered_below_the_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "taskd_net"):
        get_logger().info("quiet")
    assert caplog.records == []


def test_a_late_logger_is_made_with_its_first_line(caplog: pytest.LogCaptureFixture) -> None:
    log = late_logger()
    assert not vars(log)
    with caplog.at_level(logging.INFO, "taskd_net"):
        log.info("first")
        log.warning("second")
    assert [str(record.msg).split()[0] for record in caplog.records] == ["event=first", "event=second"]
    assert {"debug", "info", "warning", "error", "exception"} == set(vars(log))


def test_an_exception_is_a_field(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise LookupError("gone")
    except LookupError:
        get_logger().exception("failed")
    assert "LookupError: gone" in caplog.records[0].getMessage()
