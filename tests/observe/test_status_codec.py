"""The messages of the status service, there and back."""

from __future__ import annotations

import pytest

from taskd_net import Position
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.states import State
from taskd_net.net.wire import status_pb2
from taskd_net.observe import status_codec as wire
from taskd_net.observe.ledger import Record, Report
from taskd_net.observe.records import Direction, Mesh, NodeStatus, OwnFigures

WHOLE = NodeStatus(
    parent=Position.proxy(3),
    state=State.LOST,
    since=1_700_000_000.123,
    peer="taskd_net",
    version="1.2.3",
    link="batched",
    address="[::1]:4711",
    last_message=1_700_000_001.5,
    down=Direction(2**40, 2**50, 3, 4, 5, 0.000061, 3.25),
    up=Direction(6, 7, 0, 0, 0),
    reopened=8,
    own=OwnFigures(
        "127.0.0.1:9602", 1, 32, 2, 99, 3, 4, Direction(0, 0, 1, 2, 3, 0.5, 1.5), True, "w" * 300, "u" * 160, "j" * 64
    ),
    at=1_700_000_002.25,
    service=True,
    end_reason="e" * 300,
)
LEAST = NodeStatus(None, State.JOINED, 1.0, "")


@pytest.mark.parametrize("status", [WHOLE, LEAST])
def test_a_node_comes_out_as_it_went_in(status: NodeStatus) -> None:
    data = wire.write_node(status)
    assert wire.read_node(data) == status
    assert len(data) <= wire.RECORD_BYTES


def test_a_record_that_says_nothing_is_of_a_node_without_figures() -> None:
    data = status_pb2.Node(own=status_pb2.Own()).SerializeToString()
    state = wire.read_node(b"").state
    assert wire.read_node(data) == NodeStatus(None, state, 0.0, "", own=OwnFigures())


@pytest.mark.parametrize("state", [state for state in State if state is not State.CUT_OFF])
def test_every_state_that_is_told_comes_out(state: State) -> None:
    assert wire.read_node(wire.write_node(NodeStatus(None, state, 1.0, ""))).state is state


def test_a_state_of_a_later_version_is_no_joined_one() -> None:
    data = wire.write_node(LEAST)
    assert data.count(b"\x10\x01") == 1
    assert wire.read_node(data.replace(b"\x10\x01", b"\x10\x63")).state is State.LOST


def test_node_that_does_not_answer_has_joined_for_an_earlier_version() -> None:
    data = wire.write_node(LEAST._replace(state=State.NOT_ANSWERING))
    node = status_pb2.Node.FromString(data)
    node.ClearField("not_answering")
    assert wire.read_node(node.SerializeToString()) == LEAST


def test_a_report_comes_out_as_it_went_in() -> None:
    records = [Record("Worker/0/1", wire.write_node(WHOLE), away=True), Record("Proxy/0", b"")]
    records += [Record("Worker/0/2", b"x", True, State.FINISHED), Record("Proxy/3", b"", True, State.STOPPED)]
    for report in (Report(records, ["Agent/7"], True, True, True), Report()):
        read = wire.read_report(wire.write_report(report))
        assert (list(read.records), list(read.gone)) == (list(report.records), list(report.gone))
        assert (read.first, read.complete, read.urgent) == (report.first, report.complete, report.urgent)


@pytest.mark.parametrize("position", ["", "Worker/0", "Worker/All/0", "Boss/0", "Proxy/x", "Worker/0/0/0"])
def test_records_that_are_of_no_node_or_too_large_are_left_out(position: str) -> None:
    bad = [Record(position, b""), Record("Proxy/1", bytes(wire.RECORD_BYTES + 1))]
    good = Record("Proxy/0", bytes(wire.RECORD_BYTES))
    assert wire.read_report(wire.write_report(Report([bad[0], good, bad[1]]))).records == [good]


def test_a_mesh_comes_out_as_it_went_in_without_what_cannot_be_read() -> None:
    records = [Record("Proxy/3", wire.write_node(WHOLE)), Record("nobody", b""), Record("Proxy/4", b"\xff")]
    records.append(Record("Mgr/0", wire.write_node(LEAST)))
    mesh = wire.read_mesh(wire.write_mesh(Position.mgr(), 5.0, "4x8", records))
    assert mesh == Mesh(Position.mgr(), 5.0, "4x8", [(Position.proxy(3), WHOLE), (Position.mgr(), LEAST)])


def test_the_pace_comes_out_as_it_went_in() -> None:
    assert wire.read_pace(wire.write_pace(2.5)) == 2.5


def test_pace_of_a_parent_is_bounded() -> None:
    assert wire.read_pace(wire.write_pace(4e6)) == wire.PACE_MAX_S
    with pytest.raises(Refusal):
        wire.read_pace(wire.write_pace(2.5) + b"\x7a\x7f" * 1000)


@pytest.mark.parametrize("state", [State.LOST, State.JOINED])
def test_only_who_is_away_and_has_left_in_good_order_has_ended(state: State) -> None:
    bad = [Record("Worker/0/0", b"", True, state), Record("Worker/0/1", b"", False, State.FINISHED)]
    assert [record.ended for record in wire.read_report(wire.write_report(Report(bad))).records] == [None, None]


def test_a_request_to_forget_comes_out_as_an_identity() -> None:
    assert wire.read_forget(wire.write_forget(Position("Agent", "7", "1234"))) == Position.agent(7)
    with pytest.raises(Refusal, match="no single node"):
        wire.read_forget(wire.write_forget(Position("Worker", "All", "0")))


@pytest.mark.parametrize("state", [None, *State])
def test_what_a_forgotten_node_was_comes_out(state: State | None) -> None:
    assert wire.read_forgotten(wire.write_forgotten(state)) is state


def test_a_state_that_nobody_knows_is_no_answer() -> None:
    with pytest.raises(Refusal):
        wire.read_forgotten(b"\x0a\x04away")


@pytest.mark.parametrize(
    "read",
    [wire.read_node, wire.read_report, wire.read_pace, wire.read_mesh, wire.read_forget, wire.read_forgotten],
)
def test_bytes_that_are_something_else_are_refused(read: object) -> None:
    assert callable(read)
    with pytest.raises(Refusal) as refused:
        read(b"\xff\xff")
    assert refused.value.code is Code.CLIENT_ERR


@pytest.mark.parametrize("parent", ["x", "Worker/0", "Boss/1"])
def test_a_parent_that_is_no_node_is_refused(parent: str) -> None:
    data = wire.write_node(NodeStatus(Position("Proxy", "1"), State.JOINED, 1.0, ""))
    length = len(parent)
    bad = data.replace(b"\x0a\x07Proxy/1", bytes([0x0A, length]) + parent.encode())
    assert bad != data
    with pytest.raises(Refusal):
        wire.read_node(bad)
