"""Lines on a terminal."""

from __future__ import annotations

import pytest

from taskd_net.cli.screen import cut, fitted, speaks_ascii_alone, to_ascii, wrapped


def texts(text: str, width: int) -> list[str]:
    """The lines that a text becomes."""
    lines = list(wrapped([(text, "red")], width))
    assert {style for _, style in lines} == {"red"}
    return [line for line, _ in lines]


def test_rest_of_a_line_stands_beside_the_tree() -> None:
    assert texts("│  ├─ Worker/0/0  LOST  for 12 s", 24) == ["│  ├─ Worker/0/0  LOST", "│  │    for 12 s"]
    assert texts("│  └─ Worker/0/0  LOST  for 12 s", 24) == ["│  └─ Worker/0/0  LOST", "│       for 12 s"]
    assert texts("Mgr/0  joined  for 12 s", 24) == ["Mgr/0  joined  for 12 s"]


def test_no_line_is_longer_than_the_terminal_and_no_word_is_lost() -> None:
    text = "│  ├─ Worker/0/0  joined  for 1 h 0 min  batched: the parent offers no direct link  127.0.0.1:41178"
    for width in (20, 33, 60):
        lines = texts(text, width)
        assert all(len(line) <= width for line in lines)
        assert "".join(line.lstrip("│├└─ ").replace(" ", "") for line in lines) == text.lstrip("│├─ ").replace(" ", "")


def test_tree_as_deep_as_the_terminal_is_wide_is_cut() -> None:
    assert texts("│  " * 12 + "└─ Proxy/9  joined", 40) == ["│  " * 12 + "└─ …"]


def test_screen_keeps_the_first_lines_and_says_what_is_left_out() -> None:
    lines = [(f"line {number}", "") for number in range(10)]
    assert fitted(lines, 40, 11) == lines
    shown = fitted(lines, 40, 6)
    assert shown[:4] == lines[:4]
    assert shown[4:] == [("6 lines more: a taller terminal has them", "dim")]
    assert len(fitted(lines, 40, 1)) == 2
    assert fitted([("x" * 30, "red")], 20, 5) == [("x" * 19 + "…", "red")]


def test_a_cut_is_shown() -> None:
    assert [cut("abcdef", width) for width in (6, 5)] == ["abcdef", "abcd…"]


def test_tree_in_ascii() -> None:
    assert to_ascii("│  ├─ Proxy/0  50 µs…\n└─ é") == "|  |- Proxy/0  50 us~\n`- \\xe9"


@pytest.mark.parametrize(
    ("encoding", "environment", "expected"),
    [
        ("utf-8", {}, False),
        ("UTF8", {"LANG": "de_DE.UTF-8"}, False),
        ("utf-8", {"LANG": "C.UTF-8", "LC_ALL": ""}, False),
        ("utf-8", {"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, True),
        ("utf-8", {"LC_CTYPE": "POSIX", "LANG": "en_US.utf8"}, True),
        ("utf-8", {"LANG": "de_DE.ISO-8859-1@euro"}, True),
        ("utf-8", {"LANG": "de_DE"}, False),
        ("ascii", {}, True),
        ("latin-1", {}, True),
        ("no such", {}, True),
    ],
)
def test_terminal_that_has_ascii_alone(encoding: str, environment: dict[str, str], expected: bool) -> None:
    assert speaks_ascii_alone(encoding, environment) is expected
