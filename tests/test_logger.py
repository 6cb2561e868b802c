"""The package's logger: logfmt for any handler, and no handler of its own."""

from __future__ import annotations

import logging
from typing import cast

import pytest
from structlog.processors import JSONRenderer
from structlog.stdlib import ProcessorFormatter

from taskd_net import Position
from taskd_net.base import limits, logger
from taskd_net.base.logger import Event, get_logger


def test_an_event_is_one_logfmt_line_for_a_handler_that_knows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "taskd_net"):
        get_logger(node="Mgr/0").info("joined", parent="Mgr/0", text="two words", flag=True)
    (record,) = caplog.records
    assert isinstance(record.msg, Event)
    line = record.getMessage()
    assert line.startswith("event=joined ") and 'text="two words"' in line and "node=Mgr/0" in line


def test_logfmt_has_the_event_first_and_quotes_where_a_reader_needs_them() -> None:
    fields = Event(node="Mgr/0", text='two "words"', path="a\\b", flag=True, none=None, seconds=1.5, event="joined")
    assert str(fields) == 'event=joined node=Mgr/0 text="two \\"words\\"" path=a\\b flag=true none= seconds=1.5'
    assert str(Event(event="x", off=False, lines="a\nb", both="a \\")) == 'event=x off=false lines=a\\nb both="a \\\\"'


def test_nothing_is_rendered_below_the_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "taskd_net"):
        get_logger().info("quiet")
    assert caplog.records == []


def test_application_that_formats_with_structlog_gets_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "taskd_net"):
        get_logger(node="Mgr/0").info("joined", parent="Mgr/0")
    formatter = ProcessorFormatter(processors=[ProcessorFormatter.remove_processors_meta, JSONRenderer(sort_keys=True)])
    text = formatter.format(caplog.records[0])
    assert text == '{"event": "joined", "level": "info", "node": "Mgr/0", "parent": "Mgr/0"}'


def test_the_line_of_a_record_is_the_callers(caplog: pytest.LogCaptureFixture) -> None:
    get_logger().warning("closed")
    assert (caplog.records[0].funcName, caplog.records[0].filename) == (
        "test_the_line_of_a_record_is_the_callers",
        "test_logger.py",
    )


def test_an_exception_is_a_field(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise LookupError("gone")
    except LookupError as error:
        get_logger().exception("failed")
        gone = error
    get_logger().error("failed", exc_info=gone)
    get_logger().error("failed", exc_info=None)
    get_logger().exception("nothing_is_handled")
    by_method, by_field, none, nothing = (record.getMessage() for record in caplog.records)
    assert (
        "LookupError: gone" in by_method and by_field == by_method and by_method.startswith("event=failed level=error")
    )
    assert none == "event=failed level=error" and nothing == "event=nothing_is_handled level=error"


FORGED = "a\n2026-11-22 [info] forged\x1b[2J"


def test_values_are_short_printable_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "taskd_net"):
        get_logger().info("command", msg_type="\x1b[2J" + "x" * 7_000_000, message=FORGED, code=10**5000)
        get_logger().info("plain", seconds=1.5, none=None, flag=False, count=2**64, where=Position.worker(0, 3))
    first, second = (cast("Event", record.msg) for record in caplog.records)
    assert first["msg_type"].startswith(r"\u001b[2Jxxx") and first["msg_type"].endswith("x… (7000004 characters)")
    assert first["message"] == r"a\n2026-11-22 [info] forged\u001b[2J" and first["code"] == "<int>"
    assert all(record.getMessage().isprintable() and len(record.getMessage()) < 2000 for record in caplog.records)
    assert (second["seconds"], second["none"], second["flag"], second["count"]) == (1.5, None, False, str(2**64))


def test_traceback_forges_no_line(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise LookupError(FORGED + "\n" * 10_000)
    except LookupError:
        get_logger().exception("failed")
    (record,) = caplog.records
    traceback = cast("Event", record.msg)["exception"]
    assert len(traceback) <= 3 * logger.TRACEBACK_CHARS and "test_logger.py" in traceback
    assert all(line.startswith("  ") and line.isprintable() for line in traceback.split("\n"))
    # The application's handlers, such as pytest's, get no second copy.
    assert record.exc_info is None and FORGED not in caplog.text


def test_repeated_line_is_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger(node="Mgr/0")
    for _ in range(834):
        log.warning("notify_failed", reason="no socket")
    log.warning("closed")
    assert len(caplog.records) == limits.LOG_PEER_LINES + 1
    assert 'left_out="notify_failed 824"' in caplog.records[-1].getMessage()
    # The budget is a node's own: the lines of another one in this process are not left out.
    get_logger(node="Proxy/0").warning("notify_failed", reason="no socket")
    assert "node=Proxy/0" in caplog.records[-1].getMessage()
