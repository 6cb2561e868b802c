"""Codec of the messages of `proto/status.proto`."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from taskd_net.base.codes import Code, ConfigError, Refusal
from taskd_net.base.expect import Expected
from taskd_net.base.position import REMEMBERED_CHARS, Position, require_node
from taskd_net.base.states import State
from taskd_net.base.untrusted import shown
from taskd_net.net.wire import status_pb2
from taskd_net.net.wire.fields import field_sizes
from taskd_net.observe.fields import from_wire, to_wire
from taskd_net.observe.ledger import Record, Report
from taskd_net.observe.records import Direction, Mesh, NodeStatus, OwnFigures

PACE_MAX_S: Final = 999.0
"""Seconds between two reports that a parent can ask for: as many as it can say at Register."""

PACE_BYTES: Final = 1024
"""Bytes of the answer to a report, which has one number, and those of later versions."""

REPORT_NODES: Final = 500
"""Nodes in one report: some 75 KB, which the parent reads in a few milliseconds."""

REPORT_BYTES: Final = 256 * 1024
"""Bytes of one report: three times those of a full one."""

_M = TypeVar("_M", bound=Message)

USUAL_BYTES: Final = 150
"""Bytes of a record of this package."""

RECORD_BYTES: Final = 1024
"""Bytes of one record at most."""

_STATES = {
    State.JOINED: status_pb2.JOINED,
    State.NOT_ANSWERING: status_pb2.JOINED,
    State.LOST: status_pb2.LOST,
    State.GONE: status_pb2.GONE,
    State.FINISHED: status_pb2.FINISHED,
    State.STOPPED: status_pb2.STOPPED,
}
_READ_STATES = {number: state for state, number in _STATES.items() if state is not State.NOT_ANSWERING}


def write_node(status: NodeStatus) -> bytes:
    """Serialize the status of one node."""
    own = status.own
    whole = status_pb2.Node(
        parent="" if status.parent is None else str(status.parent),
        state=_STATES[status.state],
        not_answering=status.state is State.NOT_ANSWERING,
        down=_write_flow(status.down),
        up=_write_flow(status.up),
        own=None if own is None else status_pb2.Own(up=_write_flow(own.up), **to_wire(own)),
        **to_wire(status),
    )
    return whole.SerializeToString()


def read_node(data: bytes) -> NodeStatus:
    """Read the status of one node.

    Raises:
        Refusal: 4999, the bytes are not the status of a node.
    """
    node = _parsed(status_pb2.Node, data, "the record of a node")
    parent = read_position(node.parent) if node.parent else None
    if node.parent and parent is None:
        raise Refusal(Code.CLIENT_ERR, "the parent of a node is no single node")
    own = OwnFigures(up=_read_flow(node.own.up), **from_wire(OwnFigures, node.own)) if node.HasField("own") else None
    state = _READ_STATES.get(node.state, State.LOST)
    return NodeStatus(
        parent=parent,
        state=State.NOT_ANSWERING if node.not_answering and state is State.JOINED else state,
        down=_read_flow(node.down),
        up=_read_flow(node.up),
        own=own,
        **from_wire(NodeStatus, node),
    )


def write_report(report: Report) -> bytes:
    """Serialize a report."""
    return status_pb2.Report(
        entries=map(_write_record, report.records),
        gone=report.gone,
        first=report.first,
        complete=report.complete,
        urgent=report.urgent,
    ).SerializeToString()


def read_report(data: bytes) -> Report:
    """Read a report, without the entries that name no single node or are too large.

    Raises:
        Refusal: 4999, the bytes are not a report, or are more bytes or nodes than a report may have.
    """
    if len(data) > REPORT_BYTES:
        text = f"a report of {len(data)} bytes; {REPORT_BYTES} are allowed"
        raise Refusal(Code.CLIENT_ERR, text)
    try:
        # Four more: the flags. Millions of empty entries would take many times their bytes.
        collections.deque(field_sizes(data, REPORT_NODES + 4), maxlen=0)
    except (IndexError, ValueError) as error:
        raise Refusal(Code.CLIENT_ERR, f"the bytes are not a report of a bounded number of nodes: {error}") from error
    whole = _parsed(status_pb2.Report, data, "a report")
    nodes = len(whole.entries) + len(whole.gone)
    if nodes > REPORT_NODES:
        raise Refusal(Code.CLIENT_ERR, f"a report of {nodes} nodes; {REPORT_NODES} are allowed")
    records = [
        Record(entry.position, entry.node, entry.away, _read_end(entry))
        for entry in whole.entries
        if len(entry.node) <= RECORD_BYTES and read_position(entry.position) is not None
    ]
    return Report(records, list(whole.gone), whole.first, whole.complete, whole.urgent)


def write_pace(seconds: float) -> bytes:
    """Serialize the answer to a report: seconds between two reports of figures."""
    return status_pb2.Pace(figures_ms=_ms(seconds)).SerializeToString()


def read_pace(data: bytes) -> float:
    """Read the answer to a report: seconds between two reports of figures.

    Raises:
        Refusal: 4999, the bytes are not such an answer.
    """
    if len(data) > PACE_BYTES:
        raise Refusal(Code.CLIENT_ERR, f"an answer of {len(data)} bytes to a report")
    seconds = float(_parsed(status_pb2.Pace, data, "the answer to a report").figures_ms) / 1000
    return min(PACE_MAX_S, seconds)


def write_forget(position: Position) -> bytes:
    """Serialize the request to forget a node."""
    return status_pb2.ForgetRequest(position=str(position)).SerializeToString()


def read_forget(data: bytes) -> Position:
    """Read the request to forget a node: its identity.

    Raises:
        Refusal: 4999, the bytes are not such a request, or name no single node.
    """
    position = read_position(_parsed(status_pb2.ForgetRequest, data, "a request to forget a node").position)
    if position is None:
        raise Refusal(Code.CLIENT_ERR, "the request names no single node")
    return position.identity


def write_forgotten(state: State | None) -> bytes:
    """Serialize the state of a forgotten node; None: only a route led to it."""
    return status_pb2.Forgotten(state="" if state is None else state.value).SerializeToString()


def read_forgotten(data: bytes) -> State | None:
    """Read the state of a forgotten node; None: only a route led to it.

    Raises:
        Refusal: 4999, the bytes are not such an answer.
    """
    text = _parsed(status_pb2.Forgotten, data, "the answer of a node that has forgotten one").state
    if text and text not in list(State):
        raise Refusal(Code.CLIENT_ERR, f"{shown(text)} is not the state of a node")
    return State(text) if text else None


def write_mesh(root: Position, now: float, expected: str, records: Iterable[Record]) -> bytes:
    """Serialize the state of the mesh, as one node knows it."""
    entries = map(_write_record, records)
    return status_pb2.Mesh(root=str(root), now_ms=_ms(now), expected=expected, entries=entries).SerializeToString()


def read_mesh(data: bytes) -> Mesh:
    """Read the state of the mesh.

    Raises:
        Refusal: 4999, the bytes are not the state of a mesh.
    """
    whole = _parsed(status_pb2.Mesh, data, "the state of a mesh")
    root = read_position(whole.root)
    if root is None:
        raise Refusal(Code.CLIENT_ERR, "the state of a mesh names no single node")
    try:
        if whole.expected:
            Expected.parse(whole.expected)
    except ConfigError as error:
        raise Refusal(Code.CLIENT_ERR, f"the state of a mesh: {error}") from error
    nodes = read_records(Record(entry.position, entry.node) for entry in whole.entries)
    return Mesh(root, whole.now_ms / 1000, whole.expected, nodes)


def read_records(records: Iterable[Record]) -> list[tuple[Position, NodeStatus]]:
    """Read records, each with its position. Unreadable ones are left out: no node on the way has looked into them."""
    read = []
    for record in records:
        position = read_position(record.position)
        if position is not None:
            with contextlib.suppress(Refusal):
                read.append((position, read_node(record.node)))
    return read


def _write_record(record: Record) -> status_pb2.Entry:
    ended = status_pb2.UNKNOWN if record.ended is None else _STATES[record.ended]
    return status_pb2.Entry(position=record.position, node=record.node, away=record.away, ended=ended)


def _read_end(entry: status_pb2.Entry) -> State | None:
    state = _READ_STATES.get(entry.ended)
    # A node that has left is away. Of two reports about one node, the one that it has joined is right.
    return state if entry.away and state is not None and state.ended else None


def read_position(text: str) -> Position | None:
    """Read the position of one node; None for any other text."""
    # A longer text names nobody, and must not be remembered.
    return _read_position(text) if len(text) <= REMEMBERED_CHARS else None


# Records of the same nodes come again and again.
@lru_cache(maxsize=16_384)
def _read_position(text: str) -> Position | None:
    try:
        position = Position.parse(text)
        require_node(position)
    except (ValueError, Refusal):
        return None
    return position


def _parsed(kind: type[_M], data: bytes, what: str) -> _M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.CLIENT_ERR, f"the bytes are not {what}") from error


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _write_flow(flow: Direction) -> status_pb2.Flow:
    return status_pb2.Flow(**to_wire(flow))


def _read_flow(flow: status_pb2.Flow) -> Direction:
    return Direction(**from_wire(Direction, flow))
