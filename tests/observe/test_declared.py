"""Files that follow from the declarations of views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import pytest

from taskd_net.base.position import Position
from taskd_net.observe.fields import HIDDEN, MICROSECONDS_OR_NONE, MILLISECONDS, TEXT, TIME, Face, Form, named, told
from tests.observe.declared import ROOT, meanings_of, table, with_fields, written

PROTO = """\
message Other {
  string name = 7;
}

message View {
  // A number.
  optional int64 number = 2;
  map<string, uint32> by_name = 9;
}
"""


class View(NamedTuple):
    """A view with a field of each type.

    Attributes:
        number, hidden: the first ones,
            and None without any.
        text: a text; empty for none.
        at: its time.
        wait: the seconds.
        size: of it.
        flag: a flag.
        maybe: a count that may be None.
        words: several.
        by_name: known there.
        by_text: numbers.
        parent: by hand.
    """

    number: int | None = None
    hidden: Annotated[int, HIDDEN] = 0
    text: Annotated[str, TEXT] = ""
    at: Annotated[float, named("time", TIME), MILLISECONDS] = 0.0
    wait: Annotated[float | None, HIDDEN, MICROSECONDS_OR_NONE] = None
    size: Annotated[int, Face("size", Form.BYTES)] = 0
    flag: bool = False
    maybe: int | None = None
    words: tuple[str, ...] = ()
    by_name: Mapping[str, int] = {}
    by_text: Mapping[str, int] = {}
    parent: Annotated[Position | None, HIDDEN] = None

    @property
    @told("follows")
    def more(self) -> int:
        """Size of it, again; None for nothing."""
        return self.size


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the documents are part of a checkout")
def test_files_have_every_declared_field() -> None:
    for path, text in written().items():
        assert text == path.read_text("utf-8"), f"{path.name}: make proto, make guide"


def test_message_keeps_its_fields_and_gets_new_ones_with_the_next_numbers() -> None:
    text = with_fields(PROTO, "View", View)
    assert text.startswith(PROTO[:-2])
    new = [line for line in text.removeprefix(PROTO[:-2]).splitlines() if not line.startswith("  //")]
    assert new == [
        "  int64 hidden = 10;",
        "  string text = 11;",
        "  int64 at_ms = 12;",
        "  uint32 wait_us = 13;",
        "  int64 size = 14;",
        "  bool flag = 15;",
        "  optional int64 maybe = 16;",
        "  repeated string words = 17;",
        "  map<string, int64> by_text = 18;",
        "}",
    ]
    assert "  // The first ones, and None without any.\n  int64 hidden = 10;" in text
    assert with_fields(text, "View", View) == text


def test_table_has_a_row_for_each_meaning() -> None:
    assert list(table(View)) == [
        "| Field | Unit | Meaning |",
        "|---|---|---|",
        "| `number` | | the first ones, and `null` without any |",
        "| `text` | | a text; `null` for none |",
        "| `time` | seconds since the epoch | its time |",
        "| `size` | bytes | of it |",
        "| `flag` | | a flag |",
        "| `maybe` | | a count that may be `null` |",
        "| `words` | | several |",
        "| `by_name` | | known there |",
        "| `by_text` | | numbers |",
        "| `follows` | | size of it, again; `null` for nothing |",
    ]
    assert meanings_of(View)["hidden"] == "the first ones, and None without any"
