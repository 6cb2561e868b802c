"""Values in words, and the parts of a line that fields declare."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from taskd_net.cli.phrases import duration, milliseconds, phrases
from taskd_net.observe.fields import TIME, Face, Form, document_of, faces_of, named, told


@dataclass
class View:
    """A view with a field of each form."""

    text: Annotated[str, Face("", phrase="at {}", place="where")] = "h:1"
    count: Annotated[int | None, Face("", Form.COUNT, "{} times", null="not said")] = 2
    always: Annotated[int, Face("", Form.COUNT, "{} rounds", zero=True)] = 0
    size: Annotated[int, Face("", Form.BYTES, "{}")] = 1536
    wait: Annotated[float | None, Face("", Form.SECONDS, "in {}")] = 0.25
    at: Annotated[float, named("time", TIME), Face("", Form.TIME, "since {}")] = 7.0
    last: Annotated[float, Face("", Form.AGO, "last {}")] = 40.0
    flag: Annotated[bool, Face("", Form.FLAG, "PAUSED")] = True
    row: Annotated[int, Face("only a row", Form.COUNT)] = 1

    @property
    @told("follows", Face("", phrase="then {}"))
    def more(self) -> str:
        """A value that follows."""
        return self.text


def said(**values: object) -> list[str]:
    """The phrases of a view with these values, at second 100."""
    return list(phrases(View, document_of(View()) | values, 100.0))


def test_each_form_has_its_words_in_the_order_of_the_declaration() -> None:
    since = time.strftime("%H:%M:%S", time.localtime(7.0))
    assert said() == [
        *("at h:1", "2 times", "0 rounds", "1.5 KiB", "in 250 ms", f"since {since}", "last 1 min ago", "PAUSED"),
        "then h:1",
    ]
    assert list(faces_of(View)) == ["text", "count", "always", "size", "wait", "time", "last", "flag", "row", "follows"]
    assert list(phrases(View, document_of(View()), 100.0, places=frozenset({"where"}))) == ["at h:1"]


@pytest.mark.parametrize(
    ("values", "there", "absent"),
    [
        ({"text": ""}, "2 times", "at "),
        ({"text": None}, "2 times", "at None"),
        ({"count": 0}, "0 rounds", "0 times"),
        ({"count": None}, "not said times", "None times"),
        ({"flag": False}, "at h:1", "PAUSED"),
        ({"wait": None}, "at h:1", "in None"),
        ({"wait": 75.0}, "in 1 min", "in 75000 ms"),
        ({"size": 5}, "5 B", "5 KiB"),
        ({"size": 3 << 40}, "3072 GiB", "3 TiB"),
        ({"text": "{}"}, "at {}", "at "),
    ],
)
def test_values_that_say_nothing_are_left_out(values: Mapping[str, Any], there: str, absent: str) -> None:
    assert there in said(**values) and absent not in said(**values)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (59.4, "59 s"), (60, "1 min"), (3599, "59 min"), (7500, "2 h 5 min"), (97_300, "1 d 3 h")],
)
def test_durations_are_short(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_time_that_nobody_has_measured_is_a_dash() -> None:
    assert milliseconds(None) == "-"
