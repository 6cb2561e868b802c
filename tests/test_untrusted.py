"""Reading what comes from outside: a value or a ValueError, whatever it is, and nobody else reads it."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import taskd_net
from taskd_net.base.untrusted import (
    SHOWN_CHARS,
    json_line,
    json_pieces,
    json_value,
    natural,
    parsed,
    printable,
    printable_pieces,
    shown,
)

DEEP = "[" * 100_000
PACKAGE = Path(taskd_net.__file__).parent


@given(st.text(max_size=12), st.integers(0, 10**9))
@example("²", 9)
@example("٣", 9)
@example("9" * 5000, 65_535)
@example("0" * 5000 + "7", 9)
@example("-0", 9)
@example("1_0", 99)
def test_any_text_is_a_natural_number_or_not(text: str, most: int) -> None:
    number = natural(text, most)
    if number is None:
        digits = set(text) <= set("0123456789") and text != ""
        assert not digits or int(text[-4000:]) > most or len(text.lstrip("0")) > 10
    else:
        assert 0 <= number <= most and text.lstrip("0") == str(number).lstrip("0")


def test_numbers_that_are_natural() -> None:
    assert [natural(text, 65_535) for text in ("0", "007", "65535", "65536")] == [0, 7, 65_535, None]


@given(st.one_of(st.text(), st.text('[]{}",:0123456789.eE+-', max_size=80)))
@example(DEEP)
@example('{"a":' * 100_000)
@example("9" * 5000)
@example('"\\ud800"')
@example("NaN")
@example("\ud800")
def test_any_text_is_json_or_a_value_error(text: str) -> None:
    try:
        value = json_value(text)
    except ValueError:
        return
    assert len(shown(value)) < 2000


@pytest.mark.parametrize("value", [DEEP, "{a = " * 5000, "9" * 5000], ids=["list", "dict", "int"])
def test_toml_that_cannot_be_read(value: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed(tomllib.loads, f"a = {value}")


def nested() -> object:
    """Deeper than `repr` can follow; JSON and TOML can say such things."""
    value: object = 0
    for _ in range(sys.getrecursionlimit() * 2):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [nested(), {"a": nested()}, "x" * 10**6, 10**5000, {"k" * 10**6: 1}, [{"\U00018cd6" * 9: "\x1f" * 99}] * 3],
    ids=["list", "dict", "text", "int", "key", "escapes"],
)
def test_value_in_an_error_text_is_short(value: object) -> None:
    assert len(shown(value)) <= SHOWN_CHARS


def test_long_value_keeps_its_beginning_and_its_end() -> None:
    text = shown([f"item {number}" for number in range(5)] * 2)
    assert text.startswith("['item 0', 'item 1'") and "..." in text and text.endswith("]")


def test_values_are_shown_as_they_are_written() -> None:
    for value in ("1410", 5, None, {"a": 1}, [1, 2], 1.5, "it's"):
        assert shown(value) == repr(value)


HOSTILE = "a\r\n\x1b[2J\x07\x7f\x9b\u202eb\u2028\ud800\U000e0001"
"""A line end, a terminal's commands, a change of direction, a lone surrogate and an invisible tag."""


def test_characters_with_an_effect_stand_as_json_writes_them() -> None:
    assert printable(HOSTILE) == r"a\r\n\u001b[2J\u0007\u007f\u009b\u202eb\u2028\ud800\udb40\udc01"
    for text in ("", "two words", 'a "quoted" \\ text', "第 3 步 ✓"):
        assert printable(text) == text


@given(st.text(st.sampled_from('\x00\x1b\n\x7f"\\nu0 é\u202e\ud800'), max_size=12))
def test_text_is_escaped_character_by_character(text: str) -> None:
    expected = (char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    assert printable(text) == "".join(expected)


@given(st.text(st.characters(exclude_categories=())))
@example(HOSTILE)
def test_any_text_becomes_one_printable_line(text: str) -> None:
    line = printable(text)
    said = json_line({"body": text, text: [text]})
    for written in (line, said):
        assert written.isprintable() and written.encode().decode() == written
    assert printable(line) == line
    assert json.loads(said) == {"body": text} | {text: [text]}


@given(st.text(st.characters(exclude_categories=()), max_size=20), st.integers(1, 5))
@example(HOSTILE, 1)
def test_pieces_of_a_text_are_its_line(text: str, size: int) -> None:
    assert "".join(printable_pieces(text, size)) == printable(text)
    fields = {"sync": True, "body": text, "time": 1, "end": text}
    assert json.loads("".join(json_pieces(fields, size))) == fields
    assert "".join(json_pieces({"body": text[:size]}, size)) == json_line({"body": text[:size]})


# The pure core checks the numbers of positions, and may import nothing of this; the demo reads its own children.
ELSEWHERE = {
    "base/position.py": {"isdigit"},
    "demo/process.py": {"json.loads"},
    "demo/fleet.py": {"json.loads"},
    **{f"demo/mindspore/{name}.py": {"json.loads"} for name in ("manager", "stage")},
    **{f"demo/job/{name}.py": {"json.loads"} for name in ("manager", "stage", "trainee")},
    **{f"demo/recovery/{name}.py": {"json.loads"} for name in ("manager", "stage")},
    **{f"demo/training/{name}.py": {"json.loads"} for name in ("manager", "stage")},
    # The pipe between this package's own two processes, in one of which each module costs memory.
    "job/clusterd/mindio_process.py": {"json.loads"},
    # A record is a file of the node's own, and no node reads it: it is repeated by whoever looks into a fault.
    "core/replay.py": {"json.loads"},
}
PARSERS = {"json.loads", "json.load", "tomllib.load", "tomllib.loads", "ast.literal_eval", "pickle.loads"}


def test_nobody_else_reads_digits_json_or_toml() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name == "base/untrusted.py":
            continue
        called = {
            ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        }
        methods = {call.rpartition(".")[2] for call in called} & {"isdigit", "isdecimal", "isnumeric"}
        assert methods | (called & PARSERS) <= ELSEWHERE.get(name, set()), name


def test_json_of_ours_is_what_python_reads() -> None:
    value = {"a": [1, 2.5, None, True, "é"]}
    assert json_value(json.dumps(value)) == value
