"""Positions and destinations: what a text means, what is refused with which code, and who is among the receivers."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base import limits
from taskd_net.base import position as position_module
from taskd_net.base.codes import ArgumentError, ArgumentTypeError, Code, Refusal
from taskd_net.base.position import (
    ALL,
    TOOL_NODES,
    Destination,
    Position,
    Role,
    _checked,
    destination,
    is_rank,
    read_nodes,
    require_node,
    tool_of,
    tool_ranks,
)


def code_of(position: Position) -> int:
    """The code that a destination is refused with, 0 for a good one."""
    try:
        Destination.of(position)
    except Refusal as refusal:
        return refusal.code
    return 0


def test_roles_are_spelled_as_on_the_wire() -> None:
    assert [str(role) for role in Role] == ["Mgr", "Proxy", "Agent", "Worker"]
    assert [role for role in Role if role.is_leaf] == [Role.AGENT, Role.WORKER]


def test_positions_of_each_role() -> None:
    assert Position.mgr() == ("Mgr", "0", "-1")
    assert Position.proxy(3) == Position.proxy("3") == ("Proxy", "3", "-1")
    assert Position.agent(3) == ("Agent", "3", "-1")
    assert Position.worker(1, 9) == Position.worker("1", "9") == ("Worker", "1", "9")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("Mgr", Position("Mgr", "0", "-1")),
        ("Mgr/0", Position("Mgr", "0", "-1")),
        (" Proxy/1 ", Position("Proxy", "1", "-1")),
        ("Agent/2/1700000000", Position("Agent", "2", "1700000000")),
        ("Worker/0/3", Position("Worker", "0", "3")),
        ("Worker/All/0,3,7", Position("Worker", "All", "0,3,7")),
    ],
)
def test_text_is_read(text: str, position: Position) -> None:
    assert Position.parse(text) == position


@pytest.mark.parametrize("text", ["", "Worker", "Proxy/", "/0", "Worker//3", "Worker/0/3/1", "Mgr/"])
def test_text_that_is_no_position(text: str) -> None:
    with pytest.raises(ValueError, match="is not a position"):
        Position.parse(text)


@pytest.mark.parametrize("value", [None, 3, b"Worker/0/3", Position.mgr()])
def test_value_that_is_no_text_is_no_position(value: object) -> None:
    with pytest.raises(ArgumentTypeError, match=r"^the position is .*; expected a text, e\.g\. Worker/0/3$"):
        Position.parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (("Worker", 0, 3), "server_rank is 0; expected a text"),
        (("Worker", "0", 3), "process_rank is 3; expected a text"),
        ((None, "0"), "role is None; expected a text"),
    ],
)
def test_rank_that_is_no_text(fields: tuple[str, str], reason: str) -> None:
    """It would never equal what comes over the wire."""
    with pytest.raises(ArgumentTypeError, match=reason + r".*Position\.worker\(0, 3\)"):
        Position(*fields)


def test_position_is_the_tuple_that_it_was() -> None:
    position = Position.worker(0, 3)
    assert position == ("Worker", "0", "3") and hash(position) == hash(("Worker", "0", "3"))
    assert repr(position) == "Position(role='Worker', server_rank='0', process_rank='3')"
    assert pickle.loads(pickle.dumps(position)) == position  # noqa: S301
    assert position._replace(process_rank="4") == Position.worker(0, 4)
    assert not hasattr(position, "__dict__")


def test_destination_that_a_caller_names() -> None:
    assert destination("Worker/0/3") == destination(Position.worker(0, 3)) == Position.worker(0, 3)
    with pytest.raises(ArgumentError, match="'Worker' is not a position; expected"):
        destination("Worker")
    for wrong in (3, None, ("Worker", "0", "3"), b"Mgr"):
        with pytest.raises(ArgumentTypeError, match=re.escape(f"to is {wrong!r}; expected a Position, or a text such")):
            destination(wrong)


@given(st.sampled_from(["Mgr", "Proxy", "Agent"]), st.text("0123456789", min_size=1), st.text())
def test_only_a_worker_is_told_apart_by_its_process_rank(role: str, server: str, process: str) -> None:
    assert Position(role, server, process).identity == Position(role, server).identity == Position(role, server, "-1")
    worker = Position("Worker", server, process)
    assert worker.identity == worker


def test_position_is_written_as_it_is_read() -> None:
    for text in ("Mgr/0", "Proxy/1", "Agent/2", "Worker/0/3", "Worker/All/0,3"):
        assert str(Position.parse(text)) == text
    assert str(Position("Agent", "2", "1700000000")) == "Agent/2"


@pytest.mark.parametrize("text", ["0", "7", "007", "123456789012345678901234567890"])
def test_natural_numbers_are_ranks(text: str) -> None:
    assert is_rank(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "1 ", "x", "All", "٣", "²", "1,2", "1_000", "0x1"])
def test_nothing_else_is_a_rank(text: str) -> None:
    assert not is_rank(text)


@pytest.mark.parametrize(
    ("position", "code"),
    [
        (Position("Boss", "x", "x"), 4003),
        (Position("worker", "0", "0"), 4003),
        (Position("Worker", "All", "All"), 4004),
        (Position("Worker", "0,1", "0"), 4004),
        (Position("Proxy", "-1"), 4004),
        (Position("Worker", "0", "All"), 4005),
        (Position("Worker", "0", "-1"), 4005),
    ],
)
def test_position_that_does_not_name_one_node(position: Position, code: int) -> None:
    with pytest.raises(Refusal) as refused:
        require_node(position)
    assert refused.value.code == code


@pytest.mark.parametrize("process", ["-1", "", "1700000000", "anything"])
def test_process_rank_of_other_roles_is_nobodys_business(process: str) -> None:
    require_node(Position("Proxy", "0", process))
    assert Destination.of(Position("Proxy", "0", process)).position == Position("Proxy", "0", "-1")
    assert Destination.of(Position("Agent", "All", process)).position == Position("Agent", "All", "-1")


@pytest.mark.parametrize(
    ("role", "server", "process", "code"),
    [
        ("Boss", "x", "x", 4003),
        ("", "", "", 4003),
        ("MGR", "0", "0", 4003),
        ("Worker", "x", "x", 4004),
        ("Worker", "", "x", 4004),
        ("Worker", "0,", "x", 4004),
        ("Worker", ",0", "0", 4004),
        ("Worker", "0, 1", "0", 4004),
        ("Worker", "All,0", "0", 4004),
        ("Worker", "all", "0", 4004),
        ("Worker", "-1", "0", 4004),
        ("Proxy", "-1", "-1", 4004),
        ("Worker", "0", "x", 4005),
        ("Worker", "All", "", 4005),
        ("Worker", "0,1", "-1", 4005),
        ("Worker", "0", "0,,1", 4005),
        ("Worker", "0", "All,All", 4005),
        ("Worker", "0", "0", 0),
        ("Worker", "All", "All", 0),
        ("Worker", "0,1,2", "7,8", 0),
        ("Proxy", "All", "x", 0),
        ("Mgr", "0", "", 0),
    ],
)
def test_role_is_checked_before_server_rank_before_process_rank(
    role: str, server: str, process: str, code: int
) -> None:
    assert code_of(Position(role, server, process)) == code


@pytest.mark.parametrize("role", ["Worker", "Proxy"])
def test_list_of_too_many_ranks_is_4006(role: str) -> None:
    ranks = ",".join(map(str, range(limits.RANKS_PER_LIST)))
    assert code_of(Position(role, ranks, "0")) == 0
    assert code_of(Position(role, ranks + ",1", "0")) == Code.DST_TYPE_ILLEGAL
    assert code_of(Position("Worker", "0", ranks + ",1")) == Code.DST_TYPE_ILLEGAL
    # and what is not a rank is still 4004 and 4005
    assert code_of(Position(role, ranks + ",x", "0")) == Code.DST_SRV_RANK_ILLEGAL
    assert code_of(Position("Worker", ranks + ",x", ranks + ",1")) == Code.DST_SRV_RANK_ILLEGAL


def test_refusal_does_not_quote_without_end() -> None:
    for position in (Position("x" * 10_000, "0"), Position("Proxy", "x" * 10_000), Position("Worker", "0", "x" * 9999)):
        with pytest.raises(Refusal) as refused:
            Destination.of(position)
        assert len(refused.value.detail) < 300


@given(st.builds(Position, st.text(), st.text(), st.text()))
def test_no_text_is_more_than_a_refusal(position: Position) -> None:
    assert code_of(position) in (0, 4003, 4004, 4005)


@pytest.mark.parametrize(
    ("text", "unicast", "is_list"),
    [
        ("Worker/0/0", True, False),
        ("Proxy/1", True, False),
        ("Mgr", True, False),
        ("Worker/0/0,1", False, True),
        ("Worker/0,1/0", False, True),
        ("Worker/All/0", False, True),
        ("Worker/0/All", False, True),
        ("Proxy/0,1", False, True),
        ("Worker/All/All", False, False),
        ("Proxy/All", False, False),
    ],
)
def test_unicast_multicast_broadcast(text: str, unicast: bool, is_list: bool) -> None:
    dst = Destination.of(Position.parse(text))
    assert (dst.unicast, dst.is_list, str(dst)) == (unicast, is_list, str(Position.parse(text)))


@pytest.mark.parametrize("text", ["Worker/0/3,3", "Worker/0,0/3", "Worker/0,0/3,3,3"])
def test_list_of_one_rank_is_a_unicast_to_it(text: str) -> None:
    dst = Destination.of(Position.parse(text))
    assert (dst.unicast, dst.position) == (True, Position.worker(0, 3))
    assert Destination.of(Position("Proxy", "2,2", "x")).position == Position.proxy(2)


RANKS = st.integers(0, 3).map(str)
WANTED = st.one_of(st.just(ALL), st.lists(RANKS, min_size=1, max_size=4).map(",".join))


def wants(wanted: str, rank: str) -> bool:
    """True if a rank is meant by what a sender wrote."""
    return wanted == ALL or rank in wanted.split(",")


@given(st.sampled_from(Role), WANTED, WANTED, st.sampled_from(Role), RANKS, RANKS)
def test_receivers_are_those_whose_role_and_ranks_are_meant(
    role: Role, servers: str, processes: str, node_role: Role, server: str, process: str
) -> None:
    node = Position(node_role.value, server, process).identity
    dst = Destination.of(Position(role.value, servers, processes))
    meant = role is node_role and wants(servers, server) and (role is not Role.WORKER or wants(processes, process))
    assert dst.matches(node) == meant
    if dst.unicast:
        assert (dst.position == node) == meant


@pytest.mark.parametrize("role", ["Worker", "Agent", "Proxy"])
def test_ranks_have_a_length(role: str) -> None:
    longest = "9" * position_module.RANK_CHARS
    require_node(Position(role, longest, longest))
    with pytest.raises(Refusal) as refused:
        require_node(Position(role, longest + "9", "0"))
    assert refused.value.code == Code.DST_SRV_RANK_ILLEGAL
    with pytest.raises(Refusal) as refused:
        require_node(Position(role, "0", longest + "9"))
    assert refused.value.code == Code.DST_PROCESS_RANK_ILLEGAL
    assert len(str(refused.value)) < 250
    assert code_of(Position("Proxy", longest + "9", "0")) == Code.DST_SRV_RANK_ILLEGAL


def test_long_destinations_are_not_remembered() -> None:
    """A sender of ever new destinations must not fill the memory of every node on the way."""
    ranks = ",".join(map(str, range(200)))
    known = _checked.cache_info().currsize
    assert Destination.of(Position("Worker", "All", ranks)).ranks == 200
    assert _checked.cache_info().currsize == known


def test_tools_of_nodes_have_ranks_of_their_own() -> None:
    for node in (0, 1, TOOL_NODES[-1]):
        ranks = tool_ranks(node)
        assert {tool_of(Position.agent(rank)) for rank in (ranks[0], ranks[-1])} == {str(node)}
    every = tool_ranks(None)
    assert tool_of(Position.agent(every[0])) == tool_of(Position.agent(every[-1])) == ALL
    assert tool_ranks(TOOL_NODES[-1])[-1] + 1 == every[0] and every[-1] == 2**31 - 1
    others = ("Agent/1999999999", "Agent/2147483648", "Agent/0", "Agent/x", "Proxy/2000001000", "Worker/2000001000/0")
    assert [tool_of(Position.parse(text)) for text in others] == [None] * 6


def test_several_positions_are_read() -> None:
    assert read_nodes("Agent/7, Worker/0/3") == {Position.agent(7), Position.worker(0, 3)}
    for wrong in ("", "Agent/7,", "Agent"):
        with pytest.raises(ArgumentError, match="is not a position"):
            read_nodes(wrong)
    for text in ("Boss/1", "Worker/All/All"):
        with pytest.raises(Refusal):
            read_nodes(text)
