"""The log lines of a daemon, as structlog renders them."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys

import pytest
import structlog

from taskd_net.base.logger import Event, get_logger
from taskd_net.cli.rendering import STRUCTLOG

AT = 1_795_716_000.25


def record(message: object, level: int = logging.INFO, **attributes: object) -> logging.LogRecord:
    """A record of the package's logger at `AT`."""
    made = logging.LogRecord("taskd_net", level, __file__, 1, message, (), None)
    made.created = AT
    vars(made).update(attributes)
    return made


@pytest.fixture
def joined(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """The record of one event of ours."""
    with caplog.at_level(logging.INFO, "taskd_net"):
        get_logger(node="Mgr/0").info("joined", parent="Mgr/0", text="two words", flag=True, none=None, seconds=1.5)
    (found,) = caplog.records
    found.created = AT
    return found


def test_a_line_of_a_file_is_json_with_the_time_first(joined: logging.LogRecord) -> None:
    line = STRUCTLOG.file().format(joined)
    assert line.startswith('{"timestamp": "2026-11-26T')
    assert json.loads(line) == {
        "timestamp": json.loads(line)["timestamp"],
        "node": "Mgr/0",
        "parent": "Mgr/0",
        "text": "two words",
        "flag": True,
        "none": None,
        "seconds": 1.5,
        "event": "joined",
        "level": "info",
    }


def test_a_line_of_a_console_has_columns_and_the_fields_by_name(joined: logging.LogRecord) -> None:
    line = STRUCTLOG.console(False).format(joined)
    assert re.fullmatch(r"2026-11-26T[0-9:.]+\+00:00 \[info     \] joined +flag=True node=Mgr/0 .*", line)
    assert "text='two words'" in line and "seconds=1.5" in line and "\x1b" not in line


def test_colors_change_no_text(joined: logging.LogRecord) -> None:
    colored = STRUCTLOG.console(True).format(joined)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == STRUCTLOG.console(False).format(joined)


def test_traceback_is_a_field_of_a_file_and_stands_below_a_line_of_a_console(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise LookupError("gone")
    except LookupError:
        get_logger().exception("failed")
    (found,) = caplog.records
    assert json.loads(STRUCTLOG.file().format(found))["exception"].endswith("LookupError: gone")
    first, *below = STRUCTLOG.console(False).format(found).splitlines()
    assert first.split()[1:] == ["[error", "]", "failed"] and below[0].startswith("  Traceback")
    assert below[-1] == "  LookupError: gone"


def test_lines_of_others_have_the_same_form() -> None:
    """Somebody may write to the logger `taskd_net` as to any other."""
    try:
        raise LookupError("gone")
    except LookupError:
        found = record("%s of %d", logging.WARNING, args=("one", 2), exc_info=sys.exc_info())
    fields = json.loads(STRUCTLOG.file().format(found))
    assert (fields["event"], fields["level"]) == ("one of 2", "warning")
    assert fields["exception"].endswith("LookupError: gone")
    assert "[warning  ] one of 2" in STRUCTLOG.console(False).format(found)


def test_a_value_that_json_cannot_have_is_a_text() -> None:
    line = STRUCTLOG.file().format(record(Event(event="x", other={1, 2}), _logger=None, _name="info"))
    assert json.loads(line)["other"] == "{1, 2}"


def test_the_configuration_of_structlog_is_the_applications(joined: logging.LogRecord) -> None:
    STRUCTLOG.file().format(joined)
    STRUCTLOG.console(True).format(joined)
    assert not structlog.is_configured()


def test_a_library_that_logs_imports_no_structlog() -> None:
    program = (
        "import sys; from taskd_net import api, logs; logs.start(None); logs.log.info('x', text='a b')\n"
        "print('structlog' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT[0-9:.]+\+00:00 \[info\] x text="a b"\nFalse\n', found.stdout)
