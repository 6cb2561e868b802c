"""The forms of a log line."""

from __future__ import annotations

import json
import re

from taskd_net.log_lines import columns, json_object, logfmt

FIELDS = {
    "timestamp": "2026-11-25T18:00:00.000+00:00",
    "node": "Worker/0/3",
    "text": 'two "words"',
    "path": "a\\b",
    "flag": True,
    "none": None,
    "seconds": 1.5,
    "event": "joined",
    "level": "info",
}


def test_logfmt_has_the_event_first_and_quotes_where_a_reader_needs_them() -> None:
    expected = (
        "event=joined timestamp=2026-11-25T18:00:00.000+00:00 node=Worker/0/3 "
        'text="two \\"words\\"" path=a\\b flag=true none= seconds=1.5 level=info'
    )
    assert logfmt(FIELDS) == expected
    assert logfmt({"event": "x", "off": False, "lines": "a\nb", "both": "a \\"}) == (
        'event=x off=false lines=a\\nb both="a \\\\"'
    )


def test_json_has_the_values_as_they_are() -> None:
    assert json.loads(json_object(FIELDS)) == FIELDS
    assert json_object({"event": "ä", "other": set}) == '{"event": "ä", "other": "<class \'set\'>"}'


def test_columns_have_the_fields_by_name() -> None:
    assert columns(FIELDS, colored=False) == (
        "2026-11-25T18:00:00.000+00:00 [info     ] joined                         flag=True node=Worker/0/3 none=None "
        "path=a\\b seconds=1.5 text='two \"words\"'"
    )


def test_columns_without_fields_end_with_the_event() -> None:
    assert columns({"timestamp": "T", "level": "debug", "event": "x"}, colored=False) == "T [debug    ] x"


def test_traceback_stands_below_the_columns() -> None:
    line = columns({"timestamp": "T", "level": "error", "event": "x", "exception": "  a\n  b"}, colored=False)
    assert line == "T [error    ] x\n  a\n  b"


def test_colors_change_no_text() -> None:
    colored = columns(FIELDS, colored=True)
    assert "\x1b[32m\x1b[1minfo" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == columns(FIELDS, colored=False)
