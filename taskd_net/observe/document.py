"""The state of the mesh as one JSON document, described in docs/status.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from taskd_net.base.expect import Expected
from taskd_net.base.position import Position, Role
from taskd_net.base.states import State
from taskd_net.observe.fields import document_of, nulls_of
from taskd_net.observe.records import Direction, Mesh, NodeStatus, OwnFigures

Document: TypeAlias = dict[str, Any]

NEVER_SEEN: Final = "never_seen"

ABSENT: Final = (State.LOST, State.GONE, State.CUT_OFF)
"""The states of nodes that are not there. An expected rank in one of them is missing."""

TROUBLE: Final = (State.NOT_ANSWERING, *ABSENT)
"""The states that need attention."""

CAUSES_SHOWN: Final = 12
"""Groups of nodes in trouble that a document names. `summary` has the number of all: a person looks at the first."""

POSITIONS_SHOWN: Final = 16
"""Nodes of one group that it names: twice the ranks of most nodes."""

FOREIGN: Final = {
    "contract": "a foreign node: it knows the four calls alone",
    "original": "a node of the original: it knows the four calls alone",
}
"""The reason for the kind of link of a foreign child."""

_OWN_TROUBLE: Final = (State.NOT_ANSWERING, State.LOST, State.GONE)
_ORDER: Final = {role: order for order, role in enumerate(Role)}


class Standing(NamedTuple):
    """The state of a node in the whole tree.

    Attributes:
        state: the state.
        since: its beginning, in seconds since the epoch; 0.0 where it is unknown.
    """

    state: State
    since: float


def document(mesh: Mesh, expected: Expected | None = None) -> Document:
    """The document of a mesh.

    Args:
        mesh: the state that one node knows.
        expected: the size of the job; None for the size that the node was started with, if any.
    """
    if expected is None and mesh.expected:
        expected = Expected.parse(mesh.expected)
    known = dict(mesh.nodes)
    standings = standings_of(known)
    ordered = sorted(known, key=tree_order)
    nodes = [node_document(position, known[position], standings[position]) for position in ordered]
    missing = missing_of(mesh.root, known, standings, expected) if expected is not None else []
    causes = causes_of(known, standings)
    return {**head(mesh.root, mesh.now, expected, standings, causes, missing, nodes), "nodes": nodes}


def head(
    root: Position,
    now: float,
    expected: Expected | None,
    standings: Mapping[Position, Standing],
    causes: Sequence[Document],
    missing: Sequence[Document],
    nodes: Collection[Document],
) -> Document:
    """The document of a mesh without its nodes.

    Args:
        root: the node that answers.
        now: the time, in seconds since the epoch.
        expected: the size of the job; None where it is unknown.
        standings: the result of `standings_of`.
        causes: the result of `causes_of`.
        missing: the result of `missing_of`.
        nodes: the result of `node_document` for each node.
    """
    counts = Counter(standing.state.value for standing in standings.values())
    return {
        "node": str(root),
        "time": round(now, 3),
        "expected": None if expected is None else {"nodes": expected.nodes, "processes": expected.processes},
        "summary": {
            "nodes": len(nodes),
            **{state.value: counts[state.value] for state in State},
            "missing": len(missing),
            "causes": len(causes),
            "in_flight": sum(node["down"]["in_flight"] + node["up"]["in_flight"] for node in nodes if node["parent"]),
        },
        "causes": causes[:CAUSES_SHOWN],
        "missing": missing,
    }


def causes_of(known: Mapping[Position, NodeStatus], standings: Mapping[Position, Standing]) -> list[Document]:
    """The nodes that are in trouble of their own, with the number of those that each cuts off, the first one first.

    Those of one node of the job in one state are a group: they have one reason. One that cuts off others stands alone.
    """
    cut_off = Counter(_cut_off_by(position, known, standings) for position in known)
    groups: dict[tuple[str, State, bool], list[Position]] = {}
    for position in sorted(known, key=tree_order):
        state = standings[position].state
        if state in _OWN_TROUBLE or cut_off[position]:
            groups.setdefault((position.server_rank, state, position in cut_off), []).append(position)
    causes = [
        {
            "positions": [str(position) for position in positions[:POSITIONS_SHOWN]],
            "count": len(positions),
            "state": state.value,
            "since": _time(min(standings[position].since for position in positions)),
            "cuts_off": sum(cut_off[position] for position in positions),
        }
        for (_, state, _), positions in groups.items()
    ]
    return sorted(causes, key=lambda cause: (cause["since"] is None, cause["since"], -cause["cuts_off"]))


def _cut_off_by(
    position: Position, known: Mapping[Position, NodeStatus], standings: Mapping[Position, Standing]
) -> Position | None:
    """The node that cuts a node off; None where none does."""
    if standings[position].state is not State.CUT_OFF:
        return None
    above: Position | None = position
    passed: set[Position] = set()
    # A ring can stand for a moment.
    while above is not None and above in known and above not in passed and standings[above].state is State.CUT_OFF:
        passed.add(above)
        above = known[above].parent
    return above


def healthy(document: Document) -> bool:
    """True if no rank is missing, no node is in TROUBLE, and each joined node has its inbox open."""
    deaf = any(
        node["state"] == State.JOINED and node["inbox"] and node["inbox"]["closed"] for node in document["nodes"]
    )
    return not document["summary"]["missing"] and not in_trouble(document) and not deaf


def in_trouble(document: Document) -> int:
    """The number of nodes in a state of TROUBLE."""
    return sum(document["summary"][state.value] for state in TROUBLE)


def tree_order(position: Position) -> tuple[int, int, int]:
    """Sort key: role, then rank."""
    return _ORDER[Role(position.role)], int(position.server_rank), int(position.process_rank)


def standings_of(known: Mapping[Position, NodeStatus]) -> dict[Position, Standing]:
    """The state of each node. A node behind another that cannot be reached is cut off since then."""
    standings: dict[Position, Standing] = {}
    for position in known:
        above: list[Position] = []
        at: Position | None = position
        # Reports that cross each other could close a ring for a moment.
        while at is not None and at in known and at not in standings and at not in above:
            above.append(at)
            at = known[at].parent
        over = None if at is None else standings.get(at)
        for node in reversed(above):
            over = _standing(known[node], over)
            standings[node] = over
    return standings


def _standing(status: NodeStatus, over: Standing | None) -> Standing:
    """The state of a node below its parent; None for an unknown parent."""
    if status.state is State.JOINED and over is not None and over.state is not State.JOINED:
        return Standing(State.CUT_OFF, over.since)
    return Standing(status.state, status.since)


def missing_of(
    root: Position, known: Mapping[Position, NodeStatus], standings: Mapping[Position, Standing], expected: Expected
) -> list[Document]:
    """The expected ranks that are neither there nor have left in good order, in order."""
    missing: list[Document] = []
    ranks = [position for position, status in known.items() if not status.service]
    for position in expected.positions(ranks, root):
        standing = standings.get(position)
        if standing is None:
            missing.append({"position": str(position), "why": NEVER_SEEN, "since": None})
        elif standing.state in ABSENT:
            missing.append({"position": str(position), "why": standing.state.value, "since": _time(standing.since)})
    return missing


def node_document(position: Position, status: NodeStatus, standing: Standing) -> Document:
    """The entry of one node."""
    own = status.own
    worker = position.role == Role.WORKER
    return {
        "position": str(position),
        "role": position.role,
        "server_rank": int(position.server_rank),
        "process_rank": int(position.process_rank) if worker else None,
        "state": standing.state.value,
        "since": _time(standing.since),
        **document_of(status),
        "link_reason": _link_reason(status) or None,
        "reconnects": status.reopened if own is None else max(own.reconnects, status.reopened),
        "down": document_of(status.down),
        "up": _up(status.up, own),
        "inbox": None if own is None else _inbox(own),
        **(_NO_OWN if own is None else document_of(own)),
    }


_NO_FLOW: Final = Direction()
_NO_OWN: Final = nulls_of(OwnFigures)


def _link_reason(status: NodeStatus) -> str:
    """The reason for which a link is of no better kind; empty where it is of the best, or where nobody has said it."""
    if not status.link:
        return ""
    if status.own is not None:
        return status.own.link_reason
    return FOREIGN.get(status.peer, "")


def _inbox(own: OwnFigures) -> Document:
    return {"held": own.inbox, "room": own.inbox_room, "line": own.inbox_line, "closed": own.inbox_closed}


def _time(seconds: float) -> float | None:
    return round(seconds, 3) if seconds else None


def _up(counted: Direction, own: OwnFigures | None) -> Document:
    """The link to the parent, which counts messages and bytes; other figures are those of the sender, if it reports."""
    sender = document_of(_NO_FLOW if own is None else own.up)
    return {**sender, "messages": counted.messages, "bytes": counted.bytes}


def by_position(document: Document) -> Mapping[str, Document]:
    """The nodes of a document by their position."""
    return {node["position"]: node for node in document["nodes"]}


def children(document: Document) -> Mapping[str | None, Sequence[Document]]:
    """The nodes of a document by the position of their parent."""
    below: dict[str | None, list[Document]] = {}
    for node in document["nodes"]:
        below.setdefault(node["parent"], []).append(node)
    return below
