"""The screen of `taskd-net top`: rows, columns, keys."""

from __future__ import annotations

import pytest

from taskd_net.base.states import State
from taskd_net.cli.top import HELP, ORDERS, TopView
from taskd_net.observe.document import Document, document
from taskd_net.observe.rates import Rate
from tests.cli.clients import mesh

FOUND = document(mesh(State.JOINED, State.LOST))
MANY = document(mesh(*[State.JOINED] * 40))
HEADINGS = "NODE STATE OUT/s IN/s KB/s FAIL/s FLIGHT QUEUE INBOX p50 p99 own p50 own p99 REJOIN"


def shown(view: TopView, found: Document = MANY, width: int = 200, height: int = 10) -> list[str]:
    """The lines of a screen."""
    lines = view.screen(found, {}, width, height)
    assert len(lines) < height and all(len(text) <= width for text, _ in lines)
    return [text for text, _ in lines]


def nodes(lines: list[str]) -> list[str]:
    """The nodes of a screen."""
    return [line.split()[0] for line in lines[2:-1]]


def pressed(*keys: str) -> TopView:
    """A view in which these keys were pressed."""
    view = TopView("node", None)
    shown(view)
    assert [view.press(key) for key in keys] == [False] * len(keys)
    return view


def test_rows_are_sorted_and_trouble_is_red() -> None:
    rates = {"Worker/0/0": Rate(down_messages=1.0), "Worker/0/1": Rate(up_messages=5.0, up_bytes=2000.0)}
    lines = TopView("rate", "Worker").table(FOUND, rates)
    assert lines[0][0].startswith("Mgr/0: 3 nodes, 1 in trouble") and lines[0][0].endswith("by rate")
    assert lines[1][0].split() == HEADINGS.split()
    assert [line.split()[0] for line, _ in lines[2:]] == ["Worker/0/1", "Worker/0/0"]
    assert [style for _, style in lines[2:]] == ["red", ""]
    assert lines[2][0].split()[2:5] == ["0", "5", "2.0"]


@pytest.mark.parametrize("by", list(ORDERS))
def test_every_order_takes_every_node(by: str) -> None:
    assert len(TopView(by, None).table(document(mesh(State.JOINED, State.GONE)), {})) == 2 + 3


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (200, HEADINGS),
        (132, HEADINGS),
        (131, "NODE STATE OUT/s IN/s KB/s FAIL/s FLIGHT QUEUE INBOX p50 p99 own p50 own p99"),
        (120, "NODE STATE OUT/s IN/s KB/s FAIL/s FLIGHT QUEUE INBOX p50 p99 own p99"),
        (80, "NODE STATE OUT/s IN/s FAIL/s INBOX p99"),
        (50, "NODE STATE OUT/s IN/s"),
        (20, "NODE"),
        (5, "NODE"),
    ],
)
def test_columns_that_matter_most_stay_and_the_others_are_named(width: int, headings: str) -> None:
    lines = shown(TopView("rate", None), width=width)
    assert lines[1].split() == headings.split()


def test_columns_that_are_left_out_are_named() -> None:
    footer = "1-6 of 41; ? keys"
    assert shown(TopView("rate", None))[-1] == footer
    hidden = "KB/s, FLIGHT, QUEUE, p50, own p50, own p99, REJOIN"
    assert shown(TopView("rate", None), width=80)[-1] == f"{footer}; no room: {hidden}"
    assert shown(TopView("rate", None), width=40)[-1] == f"{footer}; no room: IN/s, KB/s,…"


def test_columns_make_room_for_a_long_name() -> None:
    long = document(mesh(State.JOINED))
    long["nodes"][1]["position"] = "Worker/1234567890/123456"
    lines = shown(TopView("rate", None), long, width=60)
    assert lines[1].split() == ["NODE", "STATE", "OUT/s", "IN/s"]
    assert len({line.rindex(word) + len(word) for line, word in zip(lines[1:4], ["IN/s", "0", "0"], strict=True)}) == 1


def test_rows_are_scrolled_by_line_by_screen_and_to_the_ends() -> None:
    first = nodes(shown(pressed()))
    assert first == ["Mgr/0", *(f"Worker/0/{rank}" for rank in range(5))]
    assert shown(pressed())[-1].startswith("1-6 of 41; ? keys")
    for down in ("j", "\x1b[B", "\x1bOB"):
        assert nodes(shown(pressed(down)))[0] == "Worker/0/0"
    for up in ("k", "\x1b[A", "\x1bOA"):
        assert nodes(shown(pressed("j", "j", up)))[0] == "Worker/0/0"
    for screen in (" ", "\x1b[6~"):
        assert nodes(shown(pressed(screen)))[0] == "Worker/0/5"
    assert nodes(shown(pressed(" ", " ", "\x1b[5~")))[0] == "Worker/0/5"
    assert nodes(shown(pressed("k"))) == first
    for end in ("G", "\x1b[F"):
        assert nodes(shown(pressed(end)))[-1] == "Worker/0/39"
        assert shown(pressed(end))[-1].startswith("36-41 of 41")
        assert nodes(shown(pressed(end, "g"))) == first


def test_filter_looks_at_position_state_and_address() -> None:
    view = pressed("/", *"0/39")
    assert shown(view)[-1] == "/0/39"
    assert nodes(shown(view)) == ["Worker/0/39"]
    assert not view.press("\r")
    assert shown(view)[-1].startswith("1-1 of 1; with '0/39'; ? keys")
    assert len(nodes(shown(pressed(" ", "/", *"WORKER", "\n"), height=60))) == 40
    assert nodes(shown(pressed("/", *"lost", "\r"), FOUND)) == ["Worker/0/1"]
    assert nodes(shown(pressed("/", *"nobodx", "\x7f", *"y", "\r"))) == []
    assert len(nodes(shown(pressed("/", *"x", "\x1b"), FOUND))) == 3
    assert len(nodes(shown(pressed("/", *"x", "\r", "\x1b"), FOUND))) == 3


def test_q_ends_it_unless_it_belongs_to_the_filter() -> None:
    assert TopView("rate", None).press("q")
    assert shown(pressed("/", "q"))[-1] == "/q"


def test_letters_sort_and_others_change_nothing() -> None:
    for name in ORDERS:
        assert shown(pressed(name[0]))[0].endswith(f"by {name}")
    assert shown(pressed("l", "x", "\t"))[0].endswith("by latency")


def test_keys_are_explained() -> None:
    assert shown(pressed("?"), height=30)[1:-1] == list(HELP)
    assert nodes(shown(pressed("?", "?"))) == nodes(shown(pressed()))
    assert nodes(shown(pressed("?", "\x1b"))) == nodes(shown(pressed()))
